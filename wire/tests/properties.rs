//! Every value decodes to itself, and every value has exactly one encoding. No bytes make decoding panic.

use fnd_wire::form::{Bytes, Wire};
use fnd_wire::frame::{FRAME_MAX, Partial, Reply, Request, packets};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::{JudgeReply, JudgeRequest, Plan, may_be_given};
use fnd_wire::{naming, units};
use proptest::prelude::*;
use std::time::Duration;

/// Decodes bytes as a type; if that succeeds, encoding the value gives the same bytes.
fn has_one_form<T: Wire>(bytes: &[u8]) {
    if let Ok(value) = T::from_wire(bytes) {
        assert_eq!(value.to_wire(), bytes);
    }
}

/// Bytes that are often almost a message: small numbers and counts.
fn nearly_a_message() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0..4_u8, 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..400)
}

#[test]
fn fnd_sets_only_variables_of_its_own_and_of_a_request() {
    for name in [
        "FND_FUNCTION",
        "DATA",
        "PORT",
        "REQUEST_METHOD",
        "HTTPS",
        "HTTP_X_2",
        "HTTP_HOST",
        "FND_PARAM_ID2",
    ] {
        assert!(may_be_given(name), "{name}");
    }
    for name in [
        "FND_RESULT",
        "FND_PREVIOUS",
        "FND_STOP_SIGNAL",
        "FND_UMASK",
        "FND_A2",
        "FND_",
        "FND_PARAM_a",
        "HTTP_PROXY",
        "HTTP_",
        "HTTP_a",
        "HTTP_A=B",
        "HTTP_A\0",
        "HTTP_Ä",
        "http_proxy",
        "HTTPS_PROXY",
        "PATH_TRANSLATED",
        "PATH",
        "LD_PRELOAD",
        "BASH_ENV",
        "",
    ] {
        assert!(!may_be_given(name), "{name:?}");
    }
}

proptest! {
    #[test]
    fn values_are_read_back(
        number in any::<u64>(), text in ".*", bytes in any::<Vec<u8>>(), list in any::<Vec<(u16, bool)>>(), some in any::<Option<u32>>()
    ) {
        let value = ((number, text), (Bytes(bytes), (list, some)));
        let form = value.to_wire();
        prop_assert_eq!(Wire::from_wire(&form), Ok(value));
    }

    #[test]
    fn whatever_is_cut_off_is_missed(text in ".+", list in any::<Vec<u32>>(), cut in any::<prop::sample::Index>()) {
        let form = (text, list).to_wire();
        let cut = cut.index(form.len());
        prop_assert!(<(String, Vec<u32>)>::from_wire(&form[..cut]).is_err());
    }

    #[test]
    fn any_bytes_are_a_message_of_one_form_or_an_error(bytes in nearly_a_message()) {
        has_one_form::<Request>(&bytes);
        has_one_form::<Reply>(&bytes);
        has_one_form::<Plan>(&bytes);
        has_one_form::<JudgeRequest>(&bytes);
        has_one_form::<JudgeReply>(&bytes);
    }

    #[test]
    fn a_frame_comes_together_from_its_packets(length in 1..200_000_usize, step in any::<u8>()) {
        let frame: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0].wrapping_mul(step)).collect();
        let mut partial = Partial::default();
        let mut whole = None;
        for packet in packets(&frame) {
            prop_assert!(whole.is_none(), "nothing follows the last packet");
            whole = partial.add(&packet).unwrap();
        }
        prop_assert_eq!(whole, Some(frame));
    }

    #[test]
    fn packets_of_anybody_never_gather_more_than_a_frame(sent in proptest::collection::vec(nearly_a_message(), 0..6)) {
        let mut partial = Partial::default();
        for packet in sent {
            if let Ok(Some(frame)) = partial.add(&packet) {
                prop_assert!(frame.len() <= FRAME_MAX);
            }
        }
    }

    #[test]
    fn quantities_are_read_back(ms in 1..u64::from(u32::MAX), bytes in any::<u32>(), milli in 1..1_000_000_u32, mode in 0..0o7777_u32) {
        let duration = Duration::from_millis(ms);
        prop_assert_eq!(units::parse_duration(&units::print_duration(duration)), Ok(duration));
        prop_assert_eq!(units::parse_size(&units::print_size(bytes.into())), Ok(bytes.into()));
        prop_assert_eq!(units::parse_cpu(&units::print_cpu(milli)), Ok(milli));
        prop_assert_eq!(units::parse_mode(&units::print_mode(mode)), Ok(mode));
        prop_assert_eq!(units::parse_micros(&units::print_micros(mode)), Ok(mode));
    }

    #[test]
    fn ids_are_read_back(id in any::<u128>(), hash in any::<[u8; 32]>()) {
        prop_assert_eq!(InvocationId::parse(&InvocationId(id).to_string()), Some(InvocationId(id)));
        prop_assert_eq!(Version::parse(&Version(hash).to_string()), Some(Version(hash)));
    }

    /// Names must be safe as file names: the spawner makes directories with these names.
    #[test]
    fn no_name_of_a_function_leads_out_of_a_directory(text in "[a-z0-9./_-]{0,70}") {
        if let Ok(name) = FunctionName::new(&text) {
            prop_assert_eq!(name.as_str(), &text);
            prop_assert!(text.split('/').count() <= 2);
            prop_assert!(text.split('/').all(|part| !part.is_empty() && !part.starts_with('.')));
        }
    }

    #[test]
    fn a_path_stands_for_a_function_with_its_own_stem(source in "[a-zA-Z0-9./_~#-]{0,40}", directory in any::<bool>()) {
        if let Some((name, manifest)) = naming::function_of(&source, directory) {
            prop_assert!(source.starts_with(name.as_str()));
            prop_assert_eq!(manifest.is_some_and(|path| path.ends_with("/function.toml")), directory);
        }
    }
}
