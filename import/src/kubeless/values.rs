//! Reads values of Kubeless's options: pairs, amounts of Kubernetes, names of handlers.

use crate::failure::ImportFailure;
use crate::text::within;
use fnd_wire::units::{parse_cpu, print_cpu, print_size};

/// Splits a pair at its first `=` or `:`. A text without one is a name with an empty value.
pub fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once(['=', ':']).unwrap_or((text, ""));
    (name.to_owned(), value.to_owned())
}

/// Suffixes of Kubernetes's amounts, and how much each one means.
const UNITS: [(&str, u128); 13] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("", 1),
];

/// Returns an amount of memory of Kubernetes as fnd writes it. `128Mi` is `128M` here, where units are powers of 1024;
/// `128M` of Kubernetes, a power of 1000, is 125000K here.
///
/// # Errors
/// It is no such amount.
pub fn memory(text: &str) -> Result<String, ImportFailure> {
    let wrong = || {
        ImportFailure::usage(format!("wrong format of the memory value: `{text}`"))
            .help("a number with a suffix, such as `128Mi`, `1.5Gi` or `512M`")
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == suffix).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 6 {
        return Err(wrong());
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let bytes = digits.checked_mul(*unit).ok_or_else(wrong)? / scale;
    let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    Ok(print_size(bytes.ok_or_else(wrong)?))
}

/// Returns a number of cores as fnd writes it.
///
/// # Errors
/// It is no such number.
pub fn cpu(text: &str) -> Result<String, ImportFailure> {
    // Shares such as `50%` are fnd's own form, which Kubernetes does not have.
    let milli = parse_cpu(text).ok().filter(|_| !text.ends_with('%'));
    milli.map(print_cpu).ok_or_else(|| {
        ImportFailure::usage(format!("wrong format of the cpu value: `{text}`"))
            .help("cores, such as `500m`, `0.5` or `2`")
    })
}

/// Returns a timeout, which Kubeless has in seconds, as fnd writes it.
///
/// # Errors
/// It is no number of seconds above 0.
pub fn timeout(text: &str) -> Result<String, ImportFailure> {
    let seconds = within(text, 1..=u32::MAX);
    seconds.map(|seconds| format!("{seconds}s")).ok_or_else(|| {
        ImportFailure::usage(format!(
            "`--timeout {text}`: expected a number of seconds above 0, such as 180"
        ))
    })
}

/// Returns the module and the function of a handler.
///
/// # Errors
/// There is not exactly one dot in it; in Kubeless's words.
pub fn handler(text: &str) -> Result<(&str, &str), ImportFailure> {
    text.split_once('.')
        .filter(|(module, name)| !module.is_empty() && !name.is_empty() && !name.contains('.'))
        .ok_or_else(|| {
            let message = "failed: incorrect handler format. It should be module_name.handler_name";
            ImportFailure::usage(message).help(format!(
                "`--handler {text}` has to have one dot, such as `helloget.foo`"
            ))
        })
}

/// Returns the name of the file in which a function finds a secret: fnd has names of variables there.
pub fn secret_file(secret: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = secret.chars().map(letter).collect();
    // The name of a variable cannot begin with a digit.
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{name}")
    } else {
        name
    }
}

/// Checks the name of a trigger, several of which are kept in one label.
///
/// # Errors
/// It has other characters than names of Kubernetes and of functions.
pub fn trigger(name: &str) -> Result<&str, ImportFailure> {
    // `deploy --schedule` names a trigger after its function, whose name may have a slash.
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._/".contains(c);
    if !name.is_empty() && name.chars().all(allowed) {
        return Ok(name);
    }
    let message = format!("`{name}` cannot be the name of a trigger");
    Err(ImportFailure::usage(message).help("use `a-z`, `0-9`, `-`, `_` and `.`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_split_at_the_first_sign() {
        for (text, name, value) in [
            ("foo=bar", "foo", "bar"),
            ("foo:bar", "foo", "bar"),
            ("url=http://x", "url", "http://x"),
            ("url:a=b", "url", "a=b"),
            ("foobar", "foobar", ""),
            ("foo=", "foo", ""),
        ] {
            assert_eq!(pair(text), (name.to_owned(), value.to_owned()), "{text}");
        }
    }

    #[test]
    fn amounts_of_kubernetes() {
        for (text, expected) in [
            ("128Mi", "128M"),
            ("1.5Gi", "1536M"),
            ("1Gi", "1G"),
            ("512M", "500000K"),
            ("1024Ki", "1M"),
            ("134217728", "128M"),
        ] {
            assert_eq!(memory(text).unwrap(), expected, "{text}");
        }
        for text in ["", "Mi", "128MB", "-1", "0", "12e3", "1.2.3Gi", ".5Gi", "128 Mi"] {
            assert!(memory(text).is_err(), "{text}");
        }
        for (text, expected) in [("500m", "500m"), ("0.5", "500m"), ("2", "2")] {
            assert_eq!(cpu(text).unwrap(), expected, "{text}");
        }
        assert!(cpu("50%").is_err() && cpu("").is_err() && cpu("x").is_err());
        assert_eq!(timeout("180").unwrap(), "180s");
        assert!(timeout("0").is_err() && timeout("3m").is_err() && timeout("").is_err());
    }

    #[test]
    fn a_handler_has_one_dot() {
        assert_eq!(handler("helloget.foo").unwrap(), ("helloget", "foo"));
        for text in ["foo", "a.b.c", ".foo", "foo.", ""] {
            let failure = handler(text).unwrap_err();
            assert!(
                failure
                    .message
                    .contains("incorrect handler format. It should be module_name.handler_name")
            );
        }
    }

    #[test]
    fn secrets_are_files_with_names_of_variables() {
        for (secret, file) in [("db", "db"), ("test-secret", "test_secret"), ("1.key", "_1_key")] {
            assert_eq!(secret_file(secret), file);
        }
    }

    #[test]
    fn names_of_triggers() {
        assert_eq!(trigger("get-python.1").unwrap(), "get-python.1");
        assert!(trigger("a,b").is_err() && trigger("").is_err() && trigger("A").is_err());
    }
}
