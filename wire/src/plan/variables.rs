//! Names of variables: which ones functions have, and which ones fnd may set.

/// Variables that every function has unless its runtime or manifest sets them, as templates.
pub const ALWAYS: [(&str, &str); 15] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "{state}"),
    ("USER", "{user}"),
    ("LOGNAME", "{user}"),
    ("SHELL", "/bin/sh"),
    ("LANG", "C.UTF-8"),
    ("TZ", "{zone}"),
    ("TMPDIR", "{tmp}"),
    ("STATE_DIRECTORY", "{state}"),
    ("CACHE_DIRECTORY", "{cache}"),
    ("CREDENTIALS_DIRECTORY", "{credentials}"),
    ("SERVICE_BINDING_ROOT", "{bindings}"),
    ("FND_RESULT", "{result}"),
    ("SCRIPT", "{entry}"),
    // Python would run what earlier code has left below HOME (`usercustomize.py`) before a program begins.
    ("PYTHONNOUSERSITE", "1"),
];

/// Variables that a handler's worker has in addition, with the names and meanings of Kubeless (`runtimes/PROTOCOL.md`).
pub const HANDLER_VARIABLES: [&str; 6] = [
    "MOD_NAME",
    "FUNC_HANDLER",
    "FUNC_TIMEOUT",
    "FUNC_RUNTIME",
    "FUNC_MEMORY_LIMIT",
    "FUNC_PORT",
];

/// The variable in [`Plan::environment`](super::Plan::environment) that has the rules of the function's watcher
/// (`[[file]]`). Only the watcher gets it ([`Request::Watch`](crate::frame::Request::Watch)), and it gets no other variable.
pub const WATCHED: &str = "FND_WATCHED";

/// The variable with the umask of the function, in octal, where its manifest asks for another one than 022.
pub const UMASK: &str = "FND_UMASK";

/// The variable with the number of the signal that asks a service to end, where its manifest names another one than SIGTERM.
pub const STOP_SIGNAL: &str = "FND_STOP_SIGNAL";

/// The signals that a service may be asked to end with: names, and numbers of Linux (signal(7)). A judge can name no other one,
/// since SIGSTOP would only hold the processes up, and SIGKILL would leave them no time.
pub const STOP_SIGNALS: [(&str, i32); 7] = [
    ("TERM", 15),
    ("INT", 2),
    ("QUIT", 3),
    ("HUP", 1),
    ("USR1", 10),
    ("USR2", 12),
    ("WINCH", 28),
];

/// Returns the number of one of [`STOP_SIGNALS`] by its name, with or without `SIG` in front; absent for another text.
#[must_use]
pub fn stop_signal_number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let found = STOP_SIGNALS.iter().find(|(own, _)| *own == name);
    found.map(|(_, number)| *number)
}

/// Returns the number that a value of [`STOP_SIGNAL`] is; absent if it is none of [`STOP_SIGNALS`].
pub(super) fn known_stop_signal(value: &str) -> Option<i32> {
    let number: i32 = value.parse().ok()?;
    let known = STOP_SIGNALS.iter().any(|(_, known)| *known == number);
    known.then_some(number)
}

/// The variable with the socket at which a function may do what `[access]` of its manifest says. A function whose plan has
/// it gets a directory for that socket ([`Plan::calls`](super::Plan::calls)).
pub const SOCKET: (&str, &str) = ("FND_SOCKET", "{api}/fnd.sock");

/// The variable that tells a build to fetch nothing. It makes no other tree.
pub const OFFLINE: &str = "FND_OFFLINE";

/// The variables of CGI/1.1 (RFC 3875, section 4.1) that describe a request, without those of headers.
pub const CGI: [&str; 14] = [
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "SERVER_PROTOCOL",
    "SERVER_NAME",
    "SERVER_PORT",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "REMOTE_ADDR",
    "HTTPS",
];

/// Returns whether fnd may set a variable of this name: one of those in docs/writing-functions.md that only fnd knows.
/// fnd may never set a variable that controls the loader, a shell or an interpreter, nor one that the spawner sets.
#[must_use]
pub fn may_be_given(name: &str) -> bool {
    let is_upper = |rest: &str, digits: bool| {
        let fits = |b: u8| b.is_ascii_uppercase() || b == b'_' || digits && b.is_ascii_digit();
        !rest.is_empty() && rest.bytes().all(fits)
    };
    let own = name
        .strip_prefix("FND_")
        .is_some_and(|rest| !matches!(rest, "RESULT" | "PREVIOUS" | "STOP_SIGNAL" | "UMASK") && is_upper(rest, false));
    // Of a request: the caller chooses the rest of these names. Programs take `HTTP_PROXY` for their proxy.
    let of_request = ["FND_PARAM_", "HTTP_"]
        .iter()
        .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| is_upper(rest, true)) && name != "HTTP_PROXY");
    let names = [
        "DATA",
        "KEPTN_CONTEXT",
        "CONTEXT",
        "TRACEPARENT",
        "TRACESTATE",
        "B3",
        "RUNTIME",
        "PORT",
    ];
    own || of_request || names.contains(&name) || CGI.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_signal_is_one_of_seven_with_or_without_its_prefix() {
        for (name, number) in STOP_SIGNALS {
            assert_eq!(stop_signal_number(name), Some(number));
            assert_eq!(stop_signal_number(&format!("SIG{name}")), Some(number));
        }
        for name in ["", "SIG", "KILL", "SIGKILL", "STOP", "int", "SIGSIGINT", "2", "RTMIN"] {
            assert_eq!(stop_signal_number(name), None, "{name}");
        }
    }

    /// The spawner sends no other signal, whatever a judge writes.
    #[test]
    fn a_number_that_is_no_stop_signal_counts_as_none() {
        for (name, number) in STOP_SIGNALS {
            assert_eq!(known_stop_signal(&number.to_string()), Some(number), "{name}");
        }
        for value in ["", "0", "9", "19", "-2", "34", "64", "SIGINT", "2 ", "4294967298"] {
            assert_eq!(known_stop_signal(value), None, "{value:?}");
        }
    }
}
