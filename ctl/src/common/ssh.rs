//! The command line of ssh, which runs fndctl on another machine.

/// Returns the arguments of ssh for a command on a host. The shell of that host reads the words of the command, so they are quoted.
pub(crate) fn arguments(options: &[&str], host: &str, command: &[String]) -> Vec<String> {
    let own = ["-T"].iter().chain(options);
    let mut arguments: Vec<String> = own.map(|word| (*word).to_owned()).collect();
    arguments.extend(["--".to_owned(), host.to_owned()]);
    arguments.extend(command.iter().map(|text| word(text)));
    arguments
}

/// Returns a text as one word for the login shell of any machine. Other shells than those of POSIX read a backslash (fish) or `!` (csh)
/// also within quotes, so these stand outside, each behind a backslash.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,".contains(c);
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = "'".to_owned();
    for c in text.chars() {
        match c {
            '\'' | '\\' | '!' => quoted.extend(['\'', '\\', c, '\'']),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// Reads a host from the command line: `vm1`, `ada@vm1`, or a name of `~/.ssh/config`.
///
/// # Errors
/// It is none.
pub(crate) fn host(typed: &str) -> Result<String, String> {
    // ssh would take a word with a hyphen for an option, and some of its options run programs.
    if typed.is_empty() || typed.starts_with('-') {
        return Err("expected a host as ssh knows it, such as `vm1` or `ada@vm1`".to_owned());
    }
    if typed.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("the name of a host has no blanks".to_owned());
    }
    Ok(typed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_of_the_host_gets_each_word_as_it_was_typed() {
        for (word, expected) in [
            ("status", "status"),
            ("--since=1h", "--since=1h"),
            ("web/*", "'web/*'"),
            ("--text=no such host", "'--text=no such host'"),
            ("--text=it's; $(reboot)", r"'--text=it'\''s; $(reboot)'"),
            // A shell that reads a backslash within quotes would run the command otherwise.
            (r"--text=\'; reboot", r"'--text='\\''\''; reboot'"),
            ("a!b", r"'a'\!'b'"),
            ("", "''"),
        ] {
            let arguments = arguments(
                &["-o", "BatchMode=yes"],
                "ada@vm1",
                &["fndctl".to_owned(), word.to_owned()],
            );
            assert_eq!(
                arguments,
                ["-T", "-o", "BatchMode=yes", "--", "ada@vm1", "fndctl", expected]
            );
        }
    }

    #[test]
    fn no_host_is_an_option_of_ssh() {
        for (typed, is_host) in [
            ("vm1", true),
            ("ada@192.0.2.7", true),
            ("[2001:db8::1]", true),
            ("", false),
            ("-oProxyCommand=reboot", false),
            ("vm1 reboot", false),
            ("vm1\nvm2", false),
        ] {
            assert_eq!(host(typed).is_ok(), is_host, "{typed:?}");
        }
    }
}
