use super::*;
use bytes::Bytes;

fn write(replaces: Option<u64>) -> KeyWrite {
    KeyWrite {
        number: 4,
        key: "claims.a".into(),
        value: Bytes::from_static(b"{}"),
        replaces,
    }
}

fn written(step: WriteStep) -> Result<u64, WriteRefused> {
    match step {
        WriteStep::Fact(NatsFact::Answer(4, NatsAnswer::Written(result))) => result,
        WriteStep::Fact(fact) => panic!("{fact:?}"),
        WriteStep::Ask(question) => panic!("{question:?}"),
    }
}

fn asked(step: WriteStep) -> Question {
    match step {
        WriteStep::Ask(question) => question,
        WriteStep::Fact(fact) => panic!("{fact:?}"),
    }
}

const STORED: &[u8] = br#"{"stream":"KV_b","seq":9}"#;
const CONFLICT: &[u8] =
    br#"{"stream":"KV_b","error":{"code":400,"err_code":10071,"description":"wrong last sequence: 8"}}"#;
const NOTHING: &[u8] = br#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;

/// Returns the answer that has the last message of a key.
fn message(seq: u64, headers: &str) -> Vec<u8> {
    // The tests of the answers read base64 with headers; here the text is made by hand for the two that are needed.
    let headers = match headers {
        "deleted" => "TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==",
        "renewed" => "TkFUUy8xLjANCk5hdHMtRXhwZWN0ZWQtTGFzdC1TdWJqZWN0LVNlcXVlbmNlOiA3DQoNCg==",
        _ => "",
    };
    format!(r#"{{"message":{{"subject":"x","seq":{seq},"hdrs":"{headers}","data":"e30="}}}}"#).into_bytes()
}

#[test]
fn a_write_names_the_revision_that_it_replaces() {
    let message = write_message("b", &write(Some(7)));
    assert_eq!(&*message.subject, "$KV.b.claims.a");
    assert_eq!(message.headers, [(EXPECTED.to_owned(), "7".to_owned())]);
    let message = write_message("b", &write(None));
    assert_eq!(message.headers, [(EXPECTED.to_owned(), "0".to_owned())]);
    assert_eq!(written(write_answer(write(Some(7)), STORED)), Ok(9));
    assert_eq!(
        written(write_answer(write(Some(7)), CONFLICT)),
        Err(WriteRefused::Conflict)
    );
    let full = br#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}"#;
    assert!(matches!(
        written(write_answer(write(None), full)),
        Err(WriteRefused::Refused(_))
    ));
}

#[test]
fn a_deleted_key_is_made_again_in_place_of_its_mark() {
    assert_eq!(
        asked(write_answer(write(None), CONFLICT)),
        Question::Deleted(write(None))
    );
    assert_eq!(
        asked(deleted_answer(write(None), &message(8, "deleted"))),
        Question::Write(write(Some(8)))
    );
    // The key is there, or it was removed meanwhile: whoever wanted to make it decides anew.
    for answer in [message(8, ""), NOTHING.to_vec()] {
        assert_eq!(
            written(deleted_answer(write(None), &answer)),
            Err(WriteRefused::Conflict)
        );
    }
}

#[test]
fn a_key_is_read_with_its_revision_and_its_stamp() {
    let read = |answer: &[u8]| match read_answer(1, answer) {
        NatsFact::Answer(1, NatsAnswer::Key(result)) => result.map_err(drop),
        fact => panic!("{fact:?}"),
    };
    let found = |stamp| {
        Ok(Some(FoundKey {
            value: Bytes::from_static(b"{}"),
            revision: 9,
            stamp,
        }))
    };
    assert_eq!(read(&message(9, "renewed")), found(8));
    assert_eq!(read(&message(9, "")), found(9));
    assert_eq!((read(&message(9, "deleted")), read(NOTHING)), (Ok(None), Ok(None)));
    assert_eq!(read(b"{}"), Err(()));
}

#[test]
fn a_renewal_is_heard_of_once_and_a_refused_one_never() {
    let mut heard = HeardRenewals::default();
    let mut hears = |subject: &str, replaces: Option<u64>| {
        let headers = headers::map(&write_message("b", &write(replaces)).headers);
        let message = Message {
            subject: subject.into(),
            reply: None,
            payload: Bytes::new(),
            headers: Some(headers),
            status: None,
            description: None,
            length: 0,
        };
        heard.heard("b", &message).map(|fact| match fact {
            NatsFact::Renewed { node, stamp } => (node.to_string(), stamp),
            fact => panic!("{fact:?}"),
        })
    };
    let first = |stamp| Some(("vm1.example.com".to_owned(), stamp));
    assert_eq!(hears("$KV.b.nodes.vm1.example.com", None), first(1));
    assert_eq!(hears("$KV.b.nodes.vm1.example.com", Some(4)), first(5));
    assert_eq!(hears("$KV.b.nodes.vm1.example.com", Some(4)), None);
    assert_eq!(hears("$KV.b.nodes.vm1.example.com", None), None);
    assert_eq!(hears("$KV.b.nodes.vm2", Some(2)), Some(("vm2".to_owned(), 3)));
    assert_eq!(hears("$KV.other.nodes.vm2", Some(9)), None);
    assert_eq!(HeardRenewals::subject("b"), "$KV.b.nodes.>");
}
