//! `fnd --find-secret`: YAML files beside a function in, the value of one secret out.
//!
//! A helper of the spawner starts this child for one secret. Like the judge it loses every right before it reads anything, so
//! a file that takes it over gains the values of the files beside it, and nothing else. Descriptor 0 is a stream socket; both
//! messages of [`fnd_wire::kubernetes`] end with the stream.

use crate::modes::confine::{ConfineError, confine};
use fnd_manifest::foreign::find_secret;
use fnd_wire::form::Wire as _;
use fnd_wire::kubernetes::{FILES_MAX, Wanted};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;

/// Largest question in bytes: the files, and their paths.
const QUESTION_MAX: u64 = 2 * FILES_MAX;

/// Why nothing was found; the spawner sees the end of the process.
#[derive(Debug, thiserror::Error)]
pub enum FindSecretError {
    /// It could not give up its rights.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// Reading or writing failed.
    #[error("failed to exchange messages with fnd-spawner")]
    Stream(#[from] io::Error),
    /// The question is not one.
    #[error("the question is invalid")]
    Question,
}

/// Answers the question on descriptor 0. The process ends right afterwards, and the kernel clears its memory.
///
/// # Errors
/// Any [`FindSecretError`].
pub fn run() -> Result<(), FindSecretError> {
    confine()?;
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    serve(&mut &socket, &mut &socket)
}

/// Reads a question up to the end of the stream, and answers it.
///
/// # Errors
/// [`FindSecretError::Stream`] and [`FindSecretError::Question`].
pub fn serve(input: &mut impl Read, output: &mut impl Write) -> Result<(), FindSecretError> {
    let mut question = Vec::new();
    input.take(QUESTION_MAX).read_to_end(&mut question)?;
    let wanted = Wanted::from_wire(&question).map_err(|_| FindSecretError::Question)?;
    Ok(output.write_all(&find_secret(&wanted).to_wire())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::form::Bytes;
    use fnd_wire::kubernetes::Found;

    fn ask(question: &[u8]) -> Result<Found, FindSecretError> {
        let mut output = Vec::new();
        serve(&mut &question[..], &mut output).map(|()| Found::from_wire(&output).unwrap())
    }

    #[test]
    fn a_question_is_answered_once_and_nonsense_is_not_answered() {
        let text = b"apiVersion: v1\nkind: Secret\nmetadata: { name: app }\nstringData: { key: value }\n";
        let wanted = Wanted {
            name: "app.key".to_owned(),
            files: vec![("app.yaml".to_owned(), Bytes(text.to_vec()))],
        };
        let question = wanted.to_wire();
        assert_eq!(ask(&question).unwrap(), Found::Value(Bytes(b"value".to_vec())));
        for bytes in [vec![], vec![1], vec![0xff; 8], [question, vec![0]].concat()] {
            assert!(matches!(ask(&bytes), Err(FindSecretError::Question)));
        }
    }
}
