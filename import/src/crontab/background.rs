//! Programs that a command of cron leaves in the background. fnd ends them when the shell has ended.

use crate::names::lists;

/// Returns a command without the `&` at its end, and whether there was one.
pub(super) fn foreground(command: &str) -> (&str, bool) {
    match command.trim_end().strip_suffix('&') {
        Some(rest) if !rest.ends_with(['&', '\\']) => (rest.trim_end(), true),
        _ => (command, false),
    }
}

/// Returns what a note says about programs in the background, or an empty text.
pub(super) fn note(command: &str) -> &'static str {
    match foreground(command) {
        (_, true) => {
            "; the `&` at the end was left out: fnd ends what a run leaves behind, so the run lasts as long as the program"
        }
        (rest, false) if detaches(rest) => {
            "; it leaves its program in the background, and fnd ends that with the run: start the program itself, as a service"
        }
        (rest, false) if leaves_behind(rest) => {
            "; what `&` starts ends with the run: put `wait` at the end of the line, or the `&` of a URL into quotes"
        }
        _ => "",
    }
}

/// Programs that start another one and end before it.
const DETACHING: &str = "daemonize screen start-stop-daemon systemd-run tmux";

/// Says whether a command starts one of these programs.
fn detaches(command: &str) -> bool {
    let words = command.split([' ', ';', '&', '|', '(']);
    words
        .filter_map(|word| word.rsplit('/').next())
        .any(|name| lists(DETACHING, name))
}

/// Says whether a command starts a program in the background and does not wait for it: by a `&` outside of quotes that is no
/// part of `&&`, `>&1`, `&>` or `|&`.
fn leaves_behind(command: &str) -> bool {
    let mut quote = None;
    let mut before = ' ';
    let mut found = false;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                // To the shell, the next character is only text.
                let _ = chars.next();
            }
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('&', None) => found |= !"&<>|".contains(before) && !matches!(chars.peek(), Some('&' | '>')),
            _ => {}
        }
        before = c;
    }
    found && !command.split([' ', ';']).any(|word| word == "wait")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_at_the_end_runs_in_the_foreground() {
        for (command, expected) in [
            ("/opt/serve &", ("/opt/serve", true)),
            ("nohup x >/dev/null 2>&1&", ("nohup x >/dev/null 2>&1", true)),
            ("a && b", ("a && b", false)),
            ("a &&", ("a &&", false)),
            ("echo \\&", ("echo \\&", false)),
            ("echo 'a &'", ("echo 'a &'", false)),
        ] {
            assert_eq!(foreground(command), expected, "{command}");
        }
    }

    #[test]
    fn other_programs_in_the_background_are_in_the_note() {
        for (command, expected) in [
            ("curl http://x/?a=1&b=2 | logger", true),
            ("a & b", true),
            ("a & b & wait", false),
            ("a && b || c", false),
            ("a &>>x 2>&1 |& b", false),
            ("curl 'http://x/?a=1&b=2' \"c&d\" e\\&f", false),
        ] {
            assert_eq!(note(command).starts_with("; what `&`"), expected, "{command}");
        }
        assert!(note("a & b &").starts_with("; the `&` at the end"));
        assert!(note("cd /x && /usr/bin/screen -dmS mc java").starts_with("; it leaves its program"));
    }
}
