//! Any bytes as messages to or from the root program and watchers of files; a message that decodes is encoded to the same
//! bytes.
#![no_main]

use fnd_core::triggers::file::message::{FromWatcher, Messages, ToWatcher};
use fnd_wire::form::Wire as _;
use fnd_wire::frame::{Reply, Request, decode, encode};
use fnd_wire::plan::{JudgeReply, JudgeRequest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((number, request)) = decode::<Request>(bytes) {
        assert_eq!(encode(number, &request), bytes);
    }
    if let Ok((number, reply)) = decode::<Reply>(bytes) {
        assert_eq!(encode(number, &reply), bytes);
    }
    if let Ok(request) = JudgeRequest::from_wire(bytes) {
        assert_eq!(request.to_wire(), bytes);
    }
    if let Ok(reply) = JudgeReply::from_wire(bytes) {
        assert_eq!(reply.to_wire(), bytes);
    }
    if let Ok(said) = FromWatcher::from_wire(bytes) {
        assert_eq!(said.to_wire(), bytes);
    }
    if let Ok(told) = ToWatcher::from_wire(bytes) {
        assert_eq!(told.to_wire(), bytes);
    }
    let mut messages = Messages::default();
    messages.add(bytes);
    while let Ok(Some(_)) = messages.take::<FromWatcher>() {}
});
