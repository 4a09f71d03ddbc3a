//! `fndctl bundle`: gathers the files for a bug report in one archive that can be read before it is sent.
//!
//! The archive never contains secrets, nor payloads, output and results of functions: values of `[env]` and messages of
//! runs are removed.

use crate::common::failed;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::{self, ChosenPlaces, program};
use fnd_core::json::visit_members;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// At most this many lines of fnd's own log are included.
const LINES: &str = "2000";
/// Members of a document that hold payloads, output or results of functions, or values that only the function and root
/// should know.
const HIDDEN: [&str; 6] = ["env", "data", "context", "message", "result", "args"];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The archive has versions, findings of doctor, status, configuration, the last events, metrics, fnd's own log, and facts about the machine. \
    It has no secrets, no values of [env], and no payloads, results, output or messages of runs; it does have the names of functions. Read it before \
    you send it: `tar -xOf FILE | less`.\n\nExamples:\n  \
    sudo fndctl bundle\n  \
    sudo fndctl bundle /tmp/report.tar"
)]
pub(crate) struct Args {
    /// The archive to write: a file that does not exist yet [default: fnd-bundle-TIME.tar].
    file: Option<PathBuf>,
}

/// # Errors
/// The file exists already, or cannot be written. A part that cannot be read is left out and reported.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let path = args.file.unwrap_or_else(|| {
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        PathBuf::from(format!("fnd-bundle-{now}.tar"))
    });
    // The mode is strict, since the archive has the configuration and the names of functions.
    // The file is made first: a name that exists is refused before anything is gathered.
    let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| failed("create", &path, &error).help("name another file"))?;
    let (parts, left_out) = gather(context).await;
    let mut archive = tar::Builder::new(file);
    for (name, bytes) in &parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0));
        let added = archive.append_data(&mut header, format!("fnd-bundle/{name}"), bytes.as_slice());
        added.map_err(|error| failed("write", &path, &error))?;
    }
    let written = archive.into_inner().and_then(|file| file.sync_all());
    written.map_err(|error| failed("write", &path, &error))?;
    let file = path.display().to_string();
    let files: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    let made = json!({"file": file, "files": files, "left_out": left_out});
    context.made(&made, |out| {
        let left_out = left_out.iter();
        left_out.for_each(|what| out.aside(&format!("left out: {what}")));
        out.line(&format!("{file}: {}", files.join(", ")))
    })
}

/// Returns the parts by name, and those that could not be read.
async fn gather(context: &Context) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let (mut parts, mut left_out) = (Vec::new(), Vec::new());
    let mut take = |name: &str, part: Result<Vec<u8>, String>| match part {
        Ok(bytes) => parts.push((name.to_owned(), bytes)),
        Err(why) => left_out.push(format!("{name}: {why}")),
    };
    take("fndctl-version.txt", Ok(env!("CARGO_PKG_VERSION").into()));
    for (name, path) in [
        ("status.json", "/v1/status"),
        ("config.json", "/v1/config"),
        ("runtimes.json", "/v1/runtimes"),
        ("events.ndjson", "/v1/stream?follow=0"),
        ("metrics.txt", "/metrics"),
    ] {
        context.out.progress(&format!("{name} ..."));
        take(name, all(context, path).await.map_err(|failure| failure.message));
    }
    context.out.progress("doctor.json ...");
    let findings = health::findings(context, ChosenPlaces::default()).await;
    let findings = findings.map_err(|failure| failure.message);
    let text = |findings| serde_json::to_vec_pretty(&findings).map_err(|error| error.to_string());
    take("doctor.json", findings.and_then(text));
    context.out.progress("log.txt ...");
    let units = ["-u", "fnd.service", "-u", "fnd-spawner.service"];
    // Only JSON has the fields by which output of functions is recognized.
    let form = ["--no-pager", "-n", LINES, "-o", "json"];
    let journal = program::output("journalctl", &[&units[..], &form[..]].concat()).await;
    take("log.txt", journal.map(|lines| own_lines(&lines).into_bytes()));
    let machine = program::output("uname", &["-a"]).await;
    take("machine.txt", machine.map(String::into_bytes));
    let system = std::fs::read("/etc/os-release");
    take("os-release.txt", system.map_err(|error| error.to_string()));
    (parts, left_out)
}

/// Returns an answer with the secret members hidden. It is read line by line, so that events and whole documents pass through
/// the same `hide`.
async fn all(context: &Context, path: &str) -> Result<Vec<u8>, CommandFailure> {
    let mut lines = context.client.stream(path).await?;
    let mut bytes = Vec::new();
    while let Some(line) = lines.line().await? {
        match serde_json::from_slice::<Value>(&line) {
            Ok(mut document) => {
                hide(&mut document);
                bytes.extend(document.to_string().into_bytes());
            }
            // The lines of the metrics are not JSON. They have names and numbers only.
            Err(_) => bytes.extend(line),
        }
        bytes.push(b'\n');
    }
    Ok(bytes)
}

fn hide(value: &mut Value) {
    visit_members(value, &mut |key, member| {
        let is_hidden = HIDDEN.contains(&key);
        match member {
            // The names of the variables help; their values are private.
            Value::Object(variables) if key == "env" => {
                variables.values_mut().for_each(|value| *value = "(hidden)".into());
            }
            other if is_hidden && !other.is_null() => *other = "(hidden)".into(),
            _ => {}
        }
        is_hidden
    });
}

/// Returns the journal's lines of fnd itself: lines of functions' output and of ended runs have an invocation.
fn own_lines(journal: &str) -> String {
    let mut text = String::new();
    for line in journal.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let field = |name: &str| entry.get(name).and_then(Value::as_str);
        if field("FND_STREAM").is_some() || field("FND_INVOCATION").is_some() {
            continue;
        }
        let time = field("__REALTIME_TIMESTAMP").and_then(|micros| micros.parse().ok());
        let time = time.and_then(|micros: i64| jiff::Timestamp::from_microsecond(micros).ok());
        let time = time.map(|time| time.to_string()).unwrap_or_default();
        let who = field("SYSLOG_IDENTIFIER").unwrap_or("-");
        text += &format!("{time} {who} {}\n", field("MESSAGE").unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_output_and_results_are_hidden() {
        let mut document = json!({
            "problems": ["the disk is full"],
            "functions": [{"function": "f", "message": "token=1", "result": {"token": 2}, "state": "ready"}],
            "defaults": {"env": {"TOKEN": "3"}, "data": {"token": 4}, "args": ["--token=5"], "limits": {"memory": "64M"}},
            "message": null
        });
        hide(&mut document);
        let text = document.to_string();
        for token in ["token=1", "\"token\":2", "\"3\"", "\"token\":4", "--token=5"] {
            assert!(!text.contains(token), "{token} is in {text}");
        }
        for kept in ["the disk is full", "TOKEN", "64M", "ready", "\"message\":null"] {
            assert!(text.contains(kept), "{kept} is not in {text}");
        }
    }

    #[test]
    fn only_fnds_own_lines_of_the_journal_are_included() {
        let journal = [
            json!({"__REALTIME_TIMESTAMP": "1795248000000000", "SYSLOG_IDENTIFIER": "fnd", "MESSAGE": "ready"}),
            json!({"MESSAGE": "f  | secret", "FND_STREAM": "stdout", "FND_FUNCTION": "f"}),
            json!({"MESSAGE": "f  attempt 1 ended: secret", "FND_INVOCATION": "x"}),
        ];
        let lines: Vec<String> = journal.iter().map(Value::to_string).collect();
        assert_eq!(
            own_lines(&(lines.join("\n") + "\nnot json")),
            "2026-11-21T08:00:00Z fnd ready\n"
        );
    }
}
