//! Functions that fail.

use super::{Files, Mistake, Words};

/// A function that is called and fails.
const fn called(what: &'static str, files: Files, fix: Words) -> Mistake {
    Mistake::new(what, files, &["reload", "invoke job"], fix)
}

pub(super) const ALL: &[Mistake] = &[
    called(
        "a program that is not installed",
        &[(
            "job.sh",
            "# /// fnd\n# on_load = false\n# ///\nset -e\nrsnyc a b\n",
            0o644,
        )],
        &["job.sh: line 5: rsnyc: command not found", "`PATH`"],
    ),
    called(
        "an exit without a word",
        &[("job.sh", "# /// fnd\n# on_load = false\n# ///\nexit 3\n", 0o644)],
        &["exit code 3", "fndctl logs"],
    ),
    called(
        "a module that is not there",
        &[(
            "job.py",
            "import reqeusts\n\ndef handler(event, context):\n    return 1\n",
            0o644,
        )],
        &[
            "No module named 'reqeusts'",
            "dependencies = [\"reqeusts\"]",
            "fndctl logs",
        ],
    ),
    called(
        "a mistake in Python's syntax",
        &[("job.py", "def handler(event, context):\n    return {\n", 0o644)],
        &["'{' was never closed", "job.py", "line 2"],
    ),
    called(
        "a key of the payload that is missing",
        &[(
            "job.py",
            "def handler(event, context):\n    return event[\"data\"][\"name\"]\n",
            0o644,
        )],
        &["object is not subscriptable", "`-d`"],
    ),
    called(
        "an answer that is no JSON",
        &[("job.py", "def handler(event, context):\n    return {1, 2}\n", 0o644)],
        &["set", "`list(...)`"],
    ),
    called(
        "a file beside the code that is written",
        &[(
            "job.py",
            "# /// fnd\n# on_load = false\n# ///\nopen('out.txt', 'w')\n",
            0o644,
        )],
        &["Permission denied: 'out.txt'", "`$STATE_DIRECTORY`"],
    ),
    called(
        "the network without a permission, in deno",
        &[(
            "job.ts",
            "// /// fnd\n// on_load = false\n// ///\nawait fetch('https://example.com');\n",
            0o644,
        )],
        &["permissions = [\"net=example.com\"]"],
    ),
    called(
        "a run that takes too long",
        &[(
            "job.sh",
            "# /// fnd\n# on_load = false\n# [limits]\n# timeout = \"200ms\"\n# ///\nsleep 1000\n",
            0o644,
        )],
        &["200ms", "limits.timeout"],
    ),
    called(
        "a run that takes too much memory",
        &[(
            "job.py",
            "# /// fnd\n# on_load = false\n# [limits]\n# memory = \"32M\"\n# ///\nx = bytearray(200_000_000)\n",
            0o644,
        )],
        &["32 MiB", "limits.memory"],
    ),
    called(
        "a result that is too large",
        &[(
            "job.sh",
            "# /// fnd\n# on_load = false\n# [limits]\n# result = \"1K\"\n# ///\nhead -c 4000 /dev/zero > $FND_RESULT\n",
            0o644,
        )],
        &["limits.result"],
    ),
    called(
        "a program that does not listen on $PORT",
        &[(
            "job.sh",
            "# /// fnd\n# [http_server]\n# start_timeout = \"1s\"\n# ///\nexec sleep 1000\n",
            0o644,
        )],
        &["PORT"],
    ),
    called(
        "a handler that is not in the file",
        &[
            ("job.py", "def work(event, context):\n    return 1\n", 0o644),
            ("job.toml", "handler = \"job.wrok\"\n", 0o644),
        ],
        &["wrok"],
    ),
    called(
        "an exit 99 without `[poll]`",
        &[("job.sh", "# /// fnd\n# on_load = false\n# ///\nexit 99\n", 0o644)],
        &["exit code 99", "`[poll]`"],
    ),
    called(
        "a file that the sandbox hides",
        &[(
            "job.sh",
            "# /// fnd\n# on_load = false\n# ///\nset -e\ncat /srv/app/data.csv\n",
            0o644,
        )],
        &["No such file or directory", "read_only = [\"/srv/app\"]"],
    ),
    called(
        "a key of the payload as in other systems",
        &[(
            "job.py",
            "def handler(event, context):\n    return event[\"name\"]\n",
            0o644,
        )],
        &["KeyError: 'name'", "event[\"data\"][\"name\"]"],
    ),
    Mistake::new(
        "a function for another machine",
        &[
            ("job.sh", "echo hello\n", 0o644),
            ("job.toml", "nodes = [\"other-host\"]\non_load = false\n", 0o644),
        ],
        &["reload", "enable job"],
        &["`nodes` name other machines"],
    ),
    called(
        "an interpreter that is misspelt",
        &[
            ("job", "#!/usr/bin/pyhton3\nprint(1)\n", 0o755),
            ("job.toml", "on_load = false\n", 0o644),
        ],
        &["`#!` line"],
    ),
];
