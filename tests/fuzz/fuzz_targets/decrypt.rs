//! Any bytes as the encrypted file of a secret, for a fixed key: an answer, never a value without its MAC, and each refusal has
//! words.
//!
//! The seeds are encrypted to the key: armoured, binary, and with a second recipient.
#![no_main]

use fnd_helper::decrypt::decrypt;
use fnd_wire::decrypt::Decrypted;
use fnd_wire::frame::SECRET_MAX;
use libfuzzer_sys::fuzz_target;

/// The key of the test vectors of age (C2SP/CCTV).
const KEY: &[u8] = b"AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";

fuzz_target!(|text: &[u8]| {
    match decrypt(KEY, text) {
        Decrypted::Value(value) => {
            assert!(!value.0.is_empty() && value.0.len() as u64 <= SECRET_MAX);
            assert_eq!(decrypt(b"# no key\n", text), Decrypted::BadKey);
        }
        Decrypted::BadKey => panic!("the key is one"),
        refused => {
            let (message, help) = refused.value("/etc/fnd/age.key").expect_err("it is no value");
            assert!(!message.is_empty() && !help.is_empty());
        }
    }
});
