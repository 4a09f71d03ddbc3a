//! Recognizes a Python project whose files were copied into a functions directory. Each of its files would be a function
//! of its own, would run by itself, and would not find the others.

use crate::diagnostic::Diagnostic;
use crate::warning::Warning;

/// The file that makes a directory a Python project.
pub const FILE: &str = "pyproject.toml";

const HELP: &str = "if they belong together, move them to a directory with `function.toml`: then they are one function. \
                    Until then a function of this directory runs by itself only with `on_load = true` in its manifest";

/// Returns the warning about a directory with a [`FILE`].
#[must_use]
pub fn by_file(directory: &str) -> Diagnostic {
    let message = format!("`{FILE}` means a Python project, but each file here is a function of its own");
    Diagnostic::warning(Warning::PythonProject, message)
        .in_file(directory)
        .with_help(HELP)
}

/// Returns the warning about a directory in which a file imports another one. `imports` are the modules that the file
/// imports, `is_beside` says whether a file of that name is in the directory.
pub fn by_import(
    directory: &str,
    (file, imports): (&str, &[String]),
    is_beside: impl Fn(&str) -> bool,
) -> Option<Diagnostic> {
    let modules = imports.iter().map(|module| format!("{module}.py"));
    let beside = modules.into_iter().find(|other| other != file && is_beside(other))?;
    let message = format!("`{file}` imports `{beside}`, but each file here is a function of its own");
    Some(
        Diagnostic::warning(Warning::PythonProject, message)
            .in_file(directory)
            .with_help(HELP),
    )
}

/// Says whether a module belongs to Python: a file beside the code does not take its place.
#[must_use]
pub fn is_standard(module: &str) -> bool {
    STANDARD.split(' ').any(|name| name == module)
}

/// The modules of Python's standard library that could have the name of a function.
const STANDARD: &str = "\
abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii bisect \
builtins bz2 calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall concurrent \
configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal \
difflib dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput \
fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq \
hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 \
linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt \
multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib \
pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd \
py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource rlcompleter runpy \
sched secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd \
sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau \
symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit \
tkinter token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing unicodedata \
unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp \
zipfile zipimport zlib zoneinfo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_which_a_file_imports_another_is_a_project() {
        let imports = |file: &str, modules: &[&str]| {
            let modules: Vec<String> = modules.iter().map(ToString::to_string).collect();
            by_import("/f", (file, &modules), |other| ["a.py", "b.py"].contains(&other))
        };
        let warning = imports("a.py", &["requests", "b"]).unwrap();
        assert_eq!((warning.is_error(), warning.file.as_deref()), (false, Some("/f")));
        assert!(warning.message.contains("`a.py` imports `b.py`"), "{}", warning.message);
        assert_eq!(imports("a.py", &["a", "requests"]), None);
    }

    #[test]
    fn modules_of_python_are_known() {
        for (module, expected) in [
            ("json", true),
            ("zoneinfo", true),
            ("abc", true),
            ("requests", false),
            ("", false),
        ] {
            assert_eq!(is_standard(module), expected, "{module}");
        }
    }
}
