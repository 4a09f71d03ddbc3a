//! The payload of `invoke`: where its bytes come from, and their media type.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use std::io::Read as _;

/// The options that say what the payload is.
#[derive(Debug, clap::Args)]
pub(crate) struct PayloadArgument {
    /// The payload: sent as JSON if it parses, else as text; `@FILE` reads a file, `-` reads standard input
    ///
    /// Without this option, standard input is the payload if it is a pipe or a file. Nothing (`-d ''`, an empty file) is no
    /// payload, so the function gets the `data` of its manifest.
    #[arg(short, long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    data: Option<String>,

    /// Send the payload as text, even if it is or begins like JSON.
    #[arg(long)]
    text: bool,
}

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// How long a pipe may be silent if `-d -` did not ask for it: a program that starts fndctl may have left its own
/// standard input open, and then no payload ever comes.
const SILENT_SECONDS: i64 = 10;

impl PayloadArgument {
    /// Says whether the command line names a payload.
    pub(crate) fn is_given(&self) -> bool {
        self.data.is_some()
    }

    /// Returns the payload and its media type; nothing if there is none. The media type is checked unless the caller has
    /// named one.
    ///
    /// # Errors
    /// It cannot be read, or it begins like JSON and is none.
    pub(crate) fn read(
        &self,
        context: &Context,
        named: bool,
    ) -> Result<Option<(Vec<u8>, &'static str)>, CommandFailure> {
        let bytes = self.data.as_deref().map_or_else(|| piped(context), bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let media_type = if self.text || named {
            text_or_bytes(&bytes)
        } else {
            media_type(&bytes)?
        };
        Ok(Some((bytes, media_type)))
    }
}

/// Returns the bytes that an option names: `@FILE`, `-` for standard input, or the text itself.
pub(crate) fn bytes(data: &str) -> Result<Vec<u8>, CommandFailure> {
    match data.strip_prefix('@') {
        _ if data == "-" => standard_input(),
        Some(file) => {
            std::fs::read(file).map_err(|error| CommandFailure::usage(format!("failed to read `{file}`: {error}")))
        }
        None => Ok(data.as_bytes().to_vec()),
    }
}

/// Returns what was piped in. A terminal, /dev/null and a closed standard input, as under cron and systemd, are empty.
fn piped(context: &Context) -> Result<Vec<u8>, CommandFailure> {
    let input = std::io::stdin();
    let about = rustix::fs::fstat(&input).map(|about| FileType::from_raw_mode(about.st_mode));
    match about {
        Ok(FileType::RegularFile) => return standard_input(),
        Ok(FileType::Fifo | FileType::Socket) => context.out.progress("reading the payload from standard input ..."),
        _ => return Ok(Vec::new()),
    }
    let mut wanted = [PollFd::new(&input, PollFlags::IN)];
    let silent = Timespec {
        tv_sec: SILENT_SECONDS,
        tv_nsec: 0,
    };
    // If poll fails, the read below fails, too.
    // This fails before anything runs: to wait on could hang, and to go on would leave out what a slow program sends.
    if let Ok(0) = rustix::io::retry_on_intr(|| poll(&mut wanted, Some(&silent))) {
        let message = format!("standard input is an open pipe, but nothing came for {SILENT_SECONDS} s");
        return Err(CommandFailure::new(Exit::Usage, message)
            .help("`-d ''` or `</dev/null` sends no payload; `-d -` waits for standard input as long as it takes"));
    }
    standard_input()
}

fn standard_input() -> Result<Vec<u8>, CommandFailure> {
    let mut bytes = Vec::new();
    match std::io::stdin().lock().read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(CommandFailure::usage(format!("failed to read standard input: {error}"))),
    }
}

/// Returns the media type of bytes. Broken JSON is refused: sent as text, it would fail in the function, or be ignored.
pub(crate) fn media_type(bytes: &[u8]) -> Result<&'static str, CommandFailure> {
    let begins_like_json = matches!(bytes.trim_ascii_start(), [b'{' | b'[', ..]);
    // Only the validity matters, so no value is built of the document.
    match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        Ok(_) => Ok(JSON),
        Err(error) if begins_like_json && std::str::from_utf8(bytes).is_ok() => {
            let message = format!("the payload begins like JSON, but is not JSON: {error}");
            let help =
                "in a shell, JSON needs quotes around it: -d '{\"name\": \"Ada\"}'; `--text` sends the payload as text";
            Err(CommandFailure::usage(message).help(help))
        }
        Err(_) => Ok(text_or_bytes(bytes)),
    }
}

fn text_or_bytes(bytes: &[u8]) -> &'static str {
    if std::str::from_utf8(bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

#[cfg(test)]
mod tests {
    use crate::common::payload::media_type;

    #[test]
    fn data_is_json_if_it_parses() {
        for (data, expected) in [
            (&b"{\"a\": 1}"[..], "application/json"),
            (b"42", "application/json"),
            (b"hello", "text/plain; charset=utf-8"),
            (b"", "text/plain; charset=utf-8"),
            (b"\xff\xfe", "application/octet-stream"),
            (b"[\xff\xfe", "application/octet-stream"),
        ] {
            assert_eq!(media_type(data).unwrap(), expected);
        }
    }

    #[test]
    fn broken_json_is_refused_with_its_place() {
        for (data, place) in [
            ("{\"a\": ", "line 1 column 6"),
            (" [1,\n2", "line 2 column 1"),
            ("{name: Ada}", "line 1 column 2"),
        ] {
            let message = media_type(data.as_bytes()).unwrap_err().message;
            assert!(message.ends_with(place), "{message}");
        }
    }
}
