//! `fnd --judge`: manifest bytes in, plan or diagnostics out.
//!
//! The judge is a child of the spawner without user, files, network or privileges, behind a stream socket on descriptor 0:
//! messages of core's wire form behind a `u32` length, little-endian, answered in order. It lives until the other side
//! closes, keeps nothing but the settings it was given, and is worth nothing to whoever breaks into it.

use fnd_core::judge::Judge;
use fnd_core::plan::JudgeRequest;
use fnd_core::wire::Wire as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;

/// Largest message either way: the spawner's limit.
const MESSAGE_MAX: usize = 16 << 20;

/// Why the judge stopped before the other side closed.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// Descriptor 0 cannot be used.
    #[error("failed to use descriptor 0 as the judge's socket")]
    Socket(#[source] io::Error),
    /// Reading or writing failed, or the stream ended inside a message.
    #[error("failed to talk to whoever asks")]
    Stream(#[source] io::Error),
    /// A message is longer than [`MESSAGE_MAX`].
    #[error("a message of {0} bytes is too large")]
    TooLarge(usize),
    /// A message is none.
    #[error("a message is not one of ours")]
    Message(#[source] fnd_core::wire::WireError),
}

/// Answers on descriptor 0 until it is closed.
///
/// # Errors
/// Any [`JudgeError`]; whoever started the judge starts another.
pub fn run() -> Result<(), JudgeError> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(JudgeError::Socket)?;
    let input = File::from(socket);
    let mut output = input.try_clone().map_err(JudgeError::Socket)?;
    serve(&mut &input, &mut output)
}

/// Answers messages from `input` on `output` until its end.
///
/// # Errors
/// Any [`JudgeError`].
pub fn serve(input: &mut impl Read, output: &mut impl Write) -> Result<(), JudgeError> {
    let mut judge = Judge::new();
    loop {
        let mut length = [0; 4];
        let (first, rest) = length.split_at_mut(1);
        // The end between two messages is how the judge is told to go.
        if read_some(input, first).map_err(JudgeError::Stream)? == 0 {
            return Ok(());
        }
        input.read_exact(rest).map_err(JudgeError::Stream)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MESSAGE_MAX {
            return Err(JudgeError::TooLarge(length));
        }
        let mut message = vec![0; length];
        input.read_exact(&mut message).map_err(JudgeError::Stream)?;
        let request = JudgeRequest::from_wire(&message).map_err(JudgeError::Message)?;
        let answer = judge.answer(&request).to_wire();
        let length = u32::try_from(answer.len()).ok().filter(|_| answer.len() <= MESSAGE_MAX);
        let length = length.ok_or(JudgeError::TooLarge(answer.len()))?;
        output.write_all(&length.to_le_bytes()).map_err(JudgeError::Stream)?;
        output.write_all(&answer).map_err(JudgeError::Stream)?;
        output.flush().map_err(JudgeError::Stream)?;
    }
}

fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::ids::FunctionName;
    use fnd_core::plan::{JudgeFunction, JudgeReply, JudgeSettings, JudgedFile};
    use fnd_core::wire::Bytes;

    fn message(request: &JudgeRequest) -> Vec<u8> {
        let body = request.to_wire();
        [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat()
    }

    fn file(path: &str, text: &str) -> JudgedFile {
        JudgedFile {
            path: path.into(),
            bytes: Bytes(text.into()),
            mode: 0o644,
            trusted: true,
        }
    }

    fn replies(mut bytes: &[u8]) -> Vec<JudgeReply> {
        let mut result = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            let (body, rest) = rest.split_at(usize::try_from(u32::from_le_bytes(*length)).unwrap());
            result.push(JudgeReply::from_wire(body).unwrap());
            bytes = rest;
        }
        result
    }

    #[test]
    fn requests_are_answered_in_order_until_the_end() {
        let runtime = include_str!("../../runtimes/bash/runtime.toml");
        let settings = JudgeSettings {
            files: vec![],
            runtimes: vec![file("runtime.toml", runtime)],
        };
        let function = JudgeFunction {
            name: FunctionName::new("x").unwrap(),
            files: vec![file("/f/x.sh", "echo\n")],
            manifest: None,
            directory: false,
        };
        let input = [
            message(&JudgeRequest::Settings(settings)),
            message(&JudgeRequest::Function(function)),
        ]
        .concat();
        let mut output = Vec::new();
        serve(&mut input.as_slice(), &mut output).unwrap();
        let replies = replies(&output);
        assert!(
            matches!(replies.as_slice(), [JudgeReply::Settings(settings), JudgeReply::Function(function)]
            if settings.policy.is_some() && function.plan.as_ref().is_some_and(|plan| plan.runtime == "bash"))
        );
    }

    #[test]
    fn what_is_no_message_ends_it() {
        let end = |bytes: &[u8]| serve(&mut &*bytes, &mut Vec::new());
        assert!(end(&[]).is_ok());
        assert!(matches!(end(&[1, 0]), Err(JudgeError::Stream(_))));
        assert!(matches!(end(&[1, 0, 0, 0]), Err(JudgeError::Stream(_))));
        assert!(matches!(end(&[1, 0, 0, 0, 9]), Err(JudgeError::Message(_))));
        assert!(matches!(end(&[0, 0, 0, 2]), Err(JudgeError::TooLarge(_))));
    }

    #[test]
    fn files_on_disk_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_str().unwrap();
        std::fs::write(directory.path().join("a.sh"), "echo\n").unwrap();
        std::fs::write(directory.path().join("a.toml"), "enabled = 1\n").unwrap();
        let mut judge = Judge::new();
        let runtime = include_str!("../../runtimes/bash/runtime.toml");
        judge.settings(&JudgeSettings {
            files: vec![],
            runtimes: vec![file("runtime.toml", runtime)],
        });
        let checked = fnd_core::check::check(&judge, &fnd_files::Disk, root);
        let lines: Vec<String> = checked.all().map(fnd_core::diagnostic::Diagnostic::line).collect();
        assert_eq!(
            lines,
            [format!(
                "error: {root}/a.toml:1:11: `enabled`: expected `true` or `false`, found a whole number"
            )]
        );
    }
}
