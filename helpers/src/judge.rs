//! `fnd-helper --judge`: manifest bytes in, plan or diagnostics out.
//!
//! The judge is a child of the spawner without files, network or privileges, behind a `SOCK_SEQPACKET` socket on descriptor 0.
//! Requests and answers are messages of the wire form, in [`packets`]; they are answered in order. The judge lives until the
//! other side closes, and keeps nothing but its settings, so an attacker gains nothing by breaking into it.

use fnd_manifest::judge::Judge;
use fnd_wire::form::{Wire as _, WireError};
use fnd_wire::frame::{PACKET_MAX, PROTOCOL_0_1, Partial, packets};
use fnd_wire::plan::{ANSWER_MAX, JudgeRequest};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;

#[cfg(any(test, fuzzing))]
pub mod packets;

/// Answers on descriptor 0 until it is closed, in the form of the spawner's protocol.
///
/// # Errors
/// The judge stopped before the other side closed; the spawner then starts another one.
pub fn run(protocol: u16) -> io::Result<()> {
    // This comes before the rights are given up, because it reads files.
    let judge = on_this_machine();
    crate::confine::confine()?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let input = File::from(socket);
    let mut output = input.try_clone()?;
    serve(judge, protocol, &mut &input, &mut output)
}

/// Returns a judge that knows how many CPUs this process may use, and where this program is.
fn on_this_machine() -> Judge {
    // If nobody knows the number of CPUs, it is no reason to refuse a configuration.
    let cpus = std::thread::available_parallelism().map_or(usize::MAX, std::num::NonZero::get);
    let judge = Judge::new().with_cpus(cpus);
    let own = std::env::current_exe().unwrap_or_default().display().to_string();
    // After an upgrade Linux adds this to the path of the program that was replaced, and the new one is there.
    match own.trim_end_matches(" (deleted)") {
        "" => judge,
        path => judge.with_helper(path.to_owned()),
    }
}

/// Has `judge` answer messages from `input` on `output` until `input` ends. Each read takes a packet, each write sends one.
///
/// # Errors
/// Reading or writing failed; a message is not valid, or an answer is longer than [`ANSWER_MAX`] (`InvalidData`).
pub fn serve(mut judge: Judge, protocol: u16, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let invalid = |_: WireError| io::ErrorKind::InvalidData;
    let mut partial = Partial::default();
    let mut packet = vec![0; PACKET_MAX];
    loop {
        let bytes = match input.read(&mut packet) {
            // The other side closes the socket to end the judge.
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let whole = partial.add(packet.get(..bytes).unwrap_or_default());
        let Some(message) = whole.map_err(invalid)? else {
            continue;
        };
        let request = JudgeRequest::from_wire(&message).map_err(invalid)?;
        let answer = judge.answer(&request);
        let answer = if protocol > PROTOCOL_0_1 {
            answer
        } else {
            answer.for_0_1()
        }
        .to_wire();
        if answer.len() > ANSWER_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for packet in packets(&answer) {
            output.write_all(&packet)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::packets::Packets;
    use super::*;
    use fnd_wire::form::Bytes;
    use fnd_wire::ids::FunctionName;
    use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgeReply, JudgeSettings, JudgedFile};
    use std::collections::VecDeque;

    fn file(path: &str, text: &str) -> JudgedFile {
        JudgedFile {
            path: path.into(),
            bytes: Bytes(text.into()),
            mode: 0o644,
            trusted: true,
        }
    }

    /// Returns the answers to settings with TLS and a function with two routes, in the form of a protocol.
    fn answers(protocol: u16) -> Vec<JudgeReply> {
        let runtime = include_str!("../../runtimes/bash/runtime.toml");
        let tls = "[http]\nlisten = \"127.0.0.1:8443\"\ntls = { certificate = \"/c.pem\", key = \"/k.pem\" }\n\
            events = { path = \"/events\", auth = \"token:events-token\" }\n[secrets]\nage_key = \"/k.key\"\n";
        let settings = JudgeSettings {
            files: vec![file("/fnd.toml", tls)],
            runtimes: vec![file("runtime.toml", runtime)],
        };
        let long = "#\n".repeat(PACKET_MAX);
        let function = JudgeFunction {
            name: FunctionName::new("x").unwrap(),
            files: vec![file("/f/x.sh", &long)],
            manifest: Some(file("/f/x.toml", ROUTES)),
            form: CodeLayout::File,
        };
        let requests = [JudgeRequest::Settings(settings), JudgeRequest::Function(function)];
        let mut input = Packets(
            requests
                .iter()
                .flat_map(|request| packets(&request.to_wire()))
                .collect(),
        );
        let mut output = Packets::default();
        serve(Judge::new(), protocol, &mut input, &mut output).unwrap();
        let mut partial = Partial::default();
        let whole = output.0.iter().filter_map(|packet| partial.add(packet).unwrap());
        whole.map(|bytes| JudgeReply::from_wire(&bytes).unwrap()).collect()
    }

    /// Two routes that name secrets, one of them twice.
    const ROUTES: &str =
        "[[http]]\npath = \"/a\"\nauth = [\"token:z\", \"github:b\"]\n[[http]]\npath = \"/b\"\nauth = \"token:z\"\n";

    #[test]
    fn requests_are_answered_in_order_until_the_end() {
        let replies = answers(PROTOCOL_0_1 + 1);
        let [JudgeReply::Settings(settings), JudgeReply::Function(function)] = replies.as_slice() else {
            panic!("it answers in order: {replies:?}");
        };
        assert!(function.sandbox.is_some() && function.credentials.is_empty() && function.build.is_none());
        assert_eq!(settings.age_key.as_deref(), Some("/k.key"));
        assert!(settings.verdict.policy.is_some());
        assert_eq!(settings.tls, Some(("/c.pem".to_owned(), "/k.pem".to_owned())));
        assert_eq!(settings.secrets, ["events-token"]);
        assert_eq!(function.verdict.plan.as_ref().unwrap().runtime, "bash");
        assert_eq!(function.secrets, ["b", "z"]);
    }

    /// After an upgrade the old spawner starts the judge of the new fnd, and refuses what it cannot read.
    #[test]
    fn an_older_spawner_gets_answers_that_it_can_read() {
        let replies = answers(PROTOCOL_0_1);
        let [JudgeReply::OldSettings(settings), JudgeReply::OldFunction(function)] = replies.as_slice() else {
            panic!("it answers in the old form: {replies:?}");
        };
        assert!(settings.policy.is_some() && function.plan.is_some());
        assert_eq!(replies[0].to_wire().first(), Some(&1));
        assert_eq!(replies[1].to_wire().first(), Some(&2));
    }

    #[test]
    fn what_is_no_message_ends_it() {
        let end = |packet: &[u8]| {
            serve(
                Judge::new(),
                4,
                &mut Packets(VecDeque::from([packet.to_vec()])),
                &mut Packets::default(),
            )
        };
        assert!(end(&[]).is_ok());
        for packet in [[0_u8, 9], [7, 1]] {
            assert_eq!(end(&packet).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
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
        let checked = fnd_manifest::check::check(&judge, &fnd_manifest::check::Disk, root);
        let lines: Vec<String> = checked.all().map(fnd_manifest::diagnostic::Diagnostic::line).collect();
        assert_eq!(
            lines,
            [format!(
                "error: {root}/a.toml:1:11: `enabled`: expected `true` or `false`, found a whole number"
            )]
        );
    }
}
