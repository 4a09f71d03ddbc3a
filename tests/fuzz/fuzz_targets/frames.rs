//! Any bytes as messages to or from the root program; a message that decodes is encoded to the same bytes.
#![no_main]

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
});
