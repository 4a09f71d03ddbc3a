//! `fnd-helper --find-secret`: YAML files beside a function in, the value of one secret out ([`fnd_wire::kubernetes`]).
//!
//! A file that takes this child over gains the values of the files beside it, and nothing else.

use crate::answer;
use fnd_manifest::foreign::find_secret;
use fnd_wire::form::Wire as _;
use fnd_wire::kubernetes::{FILES_MAX, SecretWanted};
use std::io;
use zeroize::Zeroizing;

/// Largest question in bytes: the files, and their paths.
const QUESTION_MAX: u64 = 2 * FILES_MAX;

/// Answers the question on descriptor 0.
///
/// # Errors
/// As for [`answer::run`].
pub fn run() -> io::Result<()> {
    answer::run(QUESTION_MAX, answer_to)
}

fn answer_to(wanted: &mut SecretWanted) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(find_secret(wanted).to_wire())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::form::Bytes;
    use fnd_wire::kubernetes::SecretSearchAnswer;

    fn ask(question: &[u8]) -> io::Result<SecretSearchAnswer> {
        let mut output = Vec::new();
        let streams = (&mut &question[..], &mut output);
        answer::serve(QUESTION_MAX, streams, answer_to).map(|()| SecretSearchAnswer::from_wire(&output).unwrap())
    }

    #[test]
    fn a_question_is_answered_once_and_nonsense_is_not_answered() {
        let text = b"apiVersion: v1\nkind: Secret\nmetadata: { name: app }\nstringData: { key: value }\n";
        let wanted = SecretWanted {
            name: "app.key".to_owned(),
            files: vec![("app.yaml".to_owned(), Bytes(text.to_vec()))],
        };
        let question = wanted.to_wire();
        assert_eq!(
            ask(&question).unwrap(),
            SecretSearchAnswer::Value(Bytes(b"value".to_vec()))
        );
        for bytes in [vec![], vec![1], vec![0xff; 8], [question, vec![0]].concat()] {
            assert_eq!(ask(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
