//! The remedy for the message of a failed run, where the words of an interpreter or of the system do not name it: what is hidden, which key of
//! the manifest helps.
//!
//! The message itself stays as the program wrote it, because people search for its words.

use crate::records::outcome::Reason;

/// Words of messages, and the remedy of each. The first row counts.
const REMEDIES: &[(&str, &str)] = fnd_manifest::texts! {
    "Failed to connect to bus":
        "the sandbox hides systemd's sockets: a script that starts or stops units stays a unit or a cron job of root",
    "not been booted with systemd":
        "the sandbox hides systemd's sockets: a script that starts or stops units stays a unit or a cron job of root",
    "connect to the Docker daemon":
        "the sandbox hides docker's socket, because whoever reaches it is root: this script stays a unit or a cron job of root",
    "docker.sock":
        "the sandbox hides docker's socket, because whoever reaches it is root: this script stays a unit or a cron job of root",
    "/etc/fnd/secrets":
        "no function sees this directory: `secrets = { TOKEN = \"NAME\" }` in the manifest is the file `$CREDENTIALS_DIRECTORY/TOKEN`",
    "Read-only file system":
        "code is read-only: write to `$STATE_DIRECTORY`, which is kept, or to `$TMPDIR`; `read_write` in `[sandbox]` shows another directory",
    "Permission denied":
        "a function has a user of its own: write to `$STATE_DIRECTORY` or `$TMPDIR`; `read_only` and `read_write` in `[sandbox]` show \
         directories, and that user needs the right to read or write there",
    "'NoneType' object is not subscriptable":
        "the run may have had no payload: send one with `-d`, or write `data` into the manifest",
    "byte indices must be integers": "the payload was not JSON: send it with the header `Content-Type: application/json`",
    "is not JSON serializable": "return text, bytes, or a value of dicts, lists, texts and numbers: `list(...)` makes a list of a set",
    "Address already in use":
        "another process has the port: with `[http_server]` listen on `$PORT`, which fnd has chosen; replicas of a service share no port",
    "EADDRINUSE":
        "another process has the port: with `[http_server]` listen on `$PORT`, which fnd has chosen; replicas of a service share no port",
    "Resource temporarily unavailable": "`limits.pids` bounds the processes of a function",
    "Cannot allocate memory": "`limits.memory` bounds the memory of a function",
    "No space left on device": "`limits.tmp` bounds `/tmp` and `$TMPDIR`; `$STATE_DIRECTORY` has room up to `limits.home`",
    "Too many open files": "`limits.open_files` bounds the files that a function has open",
    "File too large": "`limits.file_size` bounds a file that a function writes",
    "name resolution": "`network` in `[sandbox]` may be `none` or `loopback`; `getent hosts NAME` on the machine tries the name",
    "Network is unreachable": "`network` in `[sandbox]` may be `none` or `loopback`: `host` is the network of the machine",
    "`#!` line names does not exist": "install the interpreter, or correct the line, such as `#!/usr/bin/env python3`",
    "command not found": "install the program, or write its path: the function has a `PATH` of its own, which `[env]` can set",
    "Illegal option -o pipefail":
        "`sh` of Debian and Ubuntu is not bash: write `#!/bin/bash` as the first line",
    "Exec format error": "the file is no program of this machine: write a `#!` line, or build it for this processor",
};

/// Directories that the profile `strict` hides.
const HIDDEN: [&str; 7] = [
    "/srv/",
    "/root/",
    "/home/",
    "/mnt/",
    "/media/",
    "/run/lock/",
    "/var/log/",
];

/// Returns what to do about the message of a run that failed; nothing if the message says it, or is not known here.
#[must_use]
pub fn remedy(reason: Reason, message: &str) -> Option<String> {
    if reason == Reason::Exit(99) {
        return Some("exit code 99 means \"again later\" only with `[poll]` in the manifest".to_owned());
    }
    let known = || REMEDIES.iter().find(|(words, _)| message.contains(words));
    missing_package(message)
        .or_else(|| missing_key(message).filter(|_| reason == Reason::Error))
        .or_else(|| hidden(message))
        .or_else(|| privileged_port(message).map(str::to_owned))
        .or_else(|| known().map(|(_, remedy)| (*remedy).to_owned()))
        .or_else(|| of_shell(reason).map(str::to_owned))
}

/// `cannot bind to port 81: Permission denied`.
fn privileged_port(message: &str) -> Option<&'static str> {
    let lower = message.to_ascii_lowercase();
    let is_denied = ["permission denied", "eacces"]
        .iter()
        .any(|words| lower.contains(words));
    let is_port = ["bind to ", "bind(", "bind: ", "bind error", "listen eacces"]
        .iter()
        .any(|words| lower.contains(words));
    (is_denied && is_port).then_some(
        "ports below 1024 are closed to functions: use a higher one, or name the capability `net_bind_service` in `[sandbox]`, which \
         root allows in `[users]`",
    )
}

/// The codes of a shell about a command, whose message may have gone to another file.
fn of_shell(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::Exit(126) => Some(
            "126 is a shell's code for a file that it may not start: `chmod +x`, and a right of the function's user",
        ),
        Reason::Exit(127) => Some(
            "127 is a shell's code for a command that it does not find: install it, or write its path, which the sandbox may hide",
        ),
        _ => None,
    }
}

/// `No module named 'x'` of Python, `Cannot find module 'x'` of node.
fn missing_package(message: &str) -> Option<String> {
    let words = ["No module named ", "Cannot find module ", "Cannot find package "];
    let after = words.iter().find_map(|words| message.split_once(words))?.1;
    let name = quoted(after)?;
    let package = name.split('.').next().unwrap_or(name);
    // A path is a file of the function's own.
    if name.starts_with(['.', '/']) || package.is_empty() {
        return Some("files that belong together lie in a directory with `function.toml`".to_owned());
    }
    Some(format!(
        "`dependencies = [\"{package}\"]` in the manifest installs a package; files of yours lie in one directory with `function.toml`"
    ))
}

/// `KeyError: 'name'` of a handler in Python, by people who expect the payload itself, as in other systems. In a script the key is as
/// a rule one of the environment.
fn missing_key(message: &str) -> Option<String> {
    let key = quoted(message.split_once("KeyError: ")?.1)?;
    Some(format!(
        "a value of the payload is `event[\"data\"][\"{key}\"]` in a handler"
    ))
}

/// `/srv/app/x: No such file or directory`, where the sandbox hides the directory.
fn hidden(message: &str) -> Option<String> {
    let is_missing = ["No such file or directory", "ENOENT", "not found"];
    if !is_missing.iter().any(|words| message.contains(words)) {
        return None;
    }
    // A path begins here: `https://example.com/home/x` and `/var/home/x` have the name further on.
    let begins = |(at, _): &(usize, &str)| {
        !message[..*at].ends_with(|last: char| last.is_alphanumeric() || "/._-".contains(last))
    };
    let (start, _) = HIDDEN
        .iter()
        .find_map(|place| message.match_indices(place).find(begins))?;
    let path = message.get(start..)?;
    let end = path.find(['\'', '"', ':', ' ', ',', ')']).unwrap_or(path.len());
    let path = path.get(..end)?;
    let directory = path.rsplit_once('/').map_or(path, |(directory, _)| directory);
    Some(format!(
        "the sandbox may hide `{path}`: `read_only = [\"{directory}\"]` in `[sandbox]` shows its directory"
    ))
}

/// Returns the text in the quotes with which a message goes on.
fn quoted(text: &str) -> Option<&str> {
    let inner = text.strip_prefix(['\'', '"'])?;
    let end = inner.find(['\'', '"'])?;
    // A quote of the manifest's own would end the text of the remedy.
    inner.get(..end).filter(|name| !name.contains(['\\', '\n']))
}

#[cfg(test)]
mod tests {
    use super::remedy;
    use crate::records::outcome::Reason;

    #[test]
    fn each_mistake_has_its_remedy() {
        for (reason, message, expected) in [
            (Reason::Exit(99), "exit code 99", "`[poll]`"),
            (
                Reason::Load,
                "No module named 'reqeusts'",
                "`dependencies = [\"reqeusts\"]`",
            ),
            (
                Reason::Exit(1),
                "ModuleNotFoundError: No module named 'yaml.loader'",
                "[\"yaml\"]",
            ),
            (
                Reason::Exit(1),
                "Error: Cannot find module 'left-pad'",
                "[\"left-pad\"]",
            ),
            (
                Reason::Exit(1),
                "Error: Cannot find module './helper'",
                "`function.toml`",
            ),
            (Reason::Error, "KeyError: 'name'", "`event[\"data\"][\"name\"]`"),
            (Reason::Error, "'NoneType' object is not subscriptable", "`-d`"),
            (
                Reason::Error,
                "byte indices must be integers or slices, not str",
                "Content-Type",
            ),
            (
                Reason::BadAnswer,
                "the handler returned a value that is not text, bytes or JSON: Object of type set is not JSON serializable",
                "`list(...)`",
            ),
            (
                Reason::Exit(1),
                "cat: /srv/app/data.csv: No such file or directory",
                "`read_only = [\"/srv/app\"]`",
            ),
            (
                Reason::Exit(1),
                "FileNotFoundError: [Errno 2] No such file or directory: '/root/.netrc'",
                "`read_only = [\"/root\"]`",
            ),
            (
                Reason::Exit(1),
                "https://example.com/srv/x not found in /srv/list/x",
                "`read_only = [\"/srv/list\"]`",
            ),
            (
                Reason::Exit(1),
                "cat: /etc/fnd/secrets/token: Permission denied",
                "`secrets = { TOKEN = \"NAME\" }`",
            ),
            (Reason::Exit(1), "Failed to connect to bus: Host is down", "systemd"),
            (
                Reason::Exit(1),
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock",
                "docker",
            ),
            (
                Reason::Exit(1),
                "touch: cannot touch 'x': Read-only file system",
                "`$STATE_DIRECTORY`",
            ),
            (
                Reason::Exit(1),
                "PermissionError: [Errno 13] Permission denied: 'out.txt'",
                "`$STATE_DIRECTORY`",
            ),
            (Reason::Exit(1), "OSError: [Errno 98] Address already in use", "`$PORT`"),
            (
                Reason::Exit(1),
                "Error: listen EADDRINUSE: address already in use :::80",
                "replicas of a service",
            ),
            (
                Reason::Exit(66),
                "flock: cannot open lock file /run/lock/dump: No such file or directory",
                "[\"/run/lock\"]",
            ),
            (
                Reason::Exit(254),
                "fork: retry: Resource temporarily unavailable",
                "`limits.pids`",
            ),
            (Reason::Exit(1), "write error: No space left on device", "`limits.tmp`"),
            (
                Reason::Exit(1),
                "curl: (6) Could not resolve host: Temporary failure in name resolution",
                "`network`",
            ),
            (Reason::Exit(127), "job.sh: line 5: rsnyc: command not found", "`PATH`"),
            (
                Reason::Exit(1),
                "cannot bind to port 81: Permission denied",
                "`net_bind_service`",
            ),
            (
                Reason::Exit(1),
                "Error: listen EACCES: permission denied 0.0.0.0:80",
                "`net_bind_service`",
            ),
            (Reason::Exit(127), "exit code 127", "does not find"),
            (
                Reason::Exit(2),
                "/code/bootstrap: 2: set: Illegal option -o pipefail",
                "`#!/bin/bash`",
            ),
            (Reason::Exit(126), "exit code 126", "`chmod +x`"),
            (
                Reason::Exit(1),
                "failed to execute the program: No such file or directory (os error 2): the interpreter that its `#!` line names does not exist",
                "`#!/usr/bin/env python3`",
            ),
            (
                Reason::Exit(126),
                "./tool: cannot execute binary file: Exec format error",
                "`#!` line",
            ),
        ] {
            let found = remedy(reason, message).unwrap_or_default();
            assert!(found.contains(expected), "{message}: {found}");
        }
    }

    #[test]
    fn other_messages_need_none() {
        for message in [
            "",
            "exit code 3",
            "no such host",
            "ls: x: No such file or directory",
            "KeyError: 3",
            "KeyError: 'API_KEY'",
            "404 not found: https://example.com/home/x",
            "cat: /var/home/x: No such file or directory",
        ] {
            assert_eq!(remedy(Reason::Exit(1), message), None, "{message}");
        }
    }
}
