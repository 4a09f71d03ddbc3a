//! Secrets and service bindings of functions.

use super::*;
use fnd_wire::plan::{Credentials, JudgeReply, JudgeRequest, Mapped};

/// Answers as the daemon does; returns what the function gets, and the problems.
fn answer(manifest: &str, trusted: bool) -> (Credentials, Vec<String>) {
    let mut judge = judge("");
    let mut function = single(file("/f/x.ts", b""), Some(manifest));
    function.files.iter_mut().for_each(|file| file.trusted = trusted);
    let problems = reported(&judge.function(&function).verdict.diagnostics);
    let JudgeReply::Function(reply) = judge.answer(&JudgeRequest::Function(function)) else {
        panic!("another answer");
    };
    (reply.credentials, problems)
}

fn mapped(name: &str, secret: &str, variable: bool) -> Mapped {
    Mapped {
        name: name.to_owned(),
        secret: secret.to_owned(),
        variable,
    }
}

#[test]
fn secrets_are_files_and_variables_only_on_request() {
    let manifest = "bindings = [\"b\", \"a\", \"b\"]\n[secrets]\nDB = \"db-password\"\nTOKEN = { secret = \"token\", as = \
                    \"env\" }\nSECURE_DATA = \"keptn\"\nOTHER = { secret = \"x\" }\n";
    let (found, problems) = answer(manifest, true);
    assert_eq!(problems, [""; 0]);
    let expected = [
        mapped("DB", "db-password", false),
        mapped("OTHER", "x", false),
        mapped("SECURE_DATA", "keptn", true),
        mapped("TOKEN", "token", true),
    ];
    assert_eq!(found.secrets, expected);
    assert_eq!(found.bindings, ["a", "b"]);
    assert_eq!(found.flaw(), None);
    assert!(answer("", true).0.is_empty());
}

#[test]
fn deno_may_read_the_variables_of_its_secrets() {
    let manifest = "secrets = { TOKEN = { secret = \"token\", as = \"env\" }, FILE = \"token\" }";
    let judged = judge("").function(&single(file("/f/x.ts", b""), Some(manifest)));
    let flags = argv(&judged);
    let env = flags.iter().find(|flag| flag.starts_with("--allow-env=")).unwrap();
    assert!(env.ends_with(",TOKEN") && !env.contains(",FILE"), "{env}");
}

#[test]
fn what_cannot_be_is_refused() {
    let many: String = (0..65).map(|number| format!("A{number} = \"x\"\n")).collect();
    for (manifest, expected) in [
        ("secrets = { DB = \"../fnd.toml\" }", "can't be the name of a secret"),
        ("secrets = { DB = \".hidden\" }", "can't be the name of a secret"),
        ("bindings = [\"a/b\"]", "can't be the name of a service binding"),
        (
            "secrets = { A = \"x\" }\n[env]\nA = \"y\"",
            "both in `[env]` and in `secrets`",
        ),
        (
            "secrets = { FND_A = { secret = \"x\", as = \"env\" } }",
            "set by fnd itself",
        ),
        (
            "secrets = { DATA = { secret = \"x\", as = \"env\" } }",
            "set by fnd itself",
        ),
        ("secrets = { A = { as = \"env\" } }", "secret"),
        ("secrets = { A = { secret = \"x\", as = \"argument\" } }", "argument"),
        ("secrets = { \"A-B\" = \"x\" }", "A-B"),
        (&format!("[secrets]\n{many}"), "at most 64"),
    ] {
        let (found, problems) = answer(manifest, true);
        assert!(found.is_empty(), "{manifest}");
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{manifest}: {problems:?}"
        );
    }
    for manifest in ["secrets = { DB = \"db\" }", "bindings = [\"db\"]"] {
        let (found, problems) = answer(manifest, false);
        assert!(
            found.is_empty() && problems[0].contains("belong to root"),
            "{problems:?}"
        );
    }
}
