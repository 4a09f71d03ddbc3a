//! Programs as services.

use super::*;
use crate::testing::{check_refused, only, row, table};
use fnd_manifest::foreign::FieldVerdict;

fn made(text: &str) -> Imported {
    let scripts = Scripts {
        link: false,
        read: |_| None,
    };
    let machine = SupervisordMachine {
        scripts,
        own: false,
        here: "/etc/supervisor",
    };
    programs(&ImportText::new("web.conf", text), machine)
}

#[test]
fn a_program_is_a_service() {
    let imported = made(
        "[supervisord]\nlogfile=/x\n[program:Web]\ncommand=%(here)s/web --name %(program_name)s 'a b' $HOME ; c\nnumprocs=3\n\
         process_name=%(program_name)s_%(process_num)02d\ndirectory=/srv/web\nenvironment=A=\"1,2\",B=x\nuser=www\nautorestart=true\n\
         stopwaitsecs=20\nstopsignal=QUIT\nstdout_logfile=/var/log/x\nredirect_stderr=true\numask=027\nodd=1\n[eventlistener:x]\ncommand=y\n",
    );
    let function = only(&imported);
    assert_eq!(function.name, "web");
    let manifest = table(function);
    assert_eq!(
        (manifest["mode"].as_str(), manifest["service"]["replicas"].as_integer()),
        (Some("service"), Some(3))
    );
    assert_eq!(
        (manifest["env"]["A"].as_str(), manifest["limits"]["grace"].as_str()),
        (Some("1,2"), Some("20s"))
    );
    assert_eq!(
        str::from_utf8(&function.files[0].bytes).unwrap(),
        "#!/usr/bin/env bash\numask 027\ncd /srv/web || exit\nexec /etc/supervisor/web --name Web 'a b' '$HOME'\n"
    );
    let verdict = |name: &str| row(&imported.report, name).verdict;
    assert_eq!(
        (verdict("stopsignal"), verdict("odd"), verdict("user")),
        (FieldVerdict::NotHere, FieldVerdict::Unknown, FieldVerdict::Differs)
    );
    assert_eq!(verdict("[eventlistener:x]"), FieldVerdict::NotHere);
}

#[test]
fn processes_with_different_commands_are_functions_of_their_own() {
    let imported = made("[program:web]\ncommand=/bin/web --port=80%(process_num)02d\nnumprocs=2\nnumprocs_start=1\n");
    let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
    assert_eq!(names, ["web-1", "web-2"]);
    assert!(
        str::from_utf8(&imported.functions[1].files[0].bytes)
            .unwrap()
            .contains("--port=8002")
    );
}

#[test]
fn what_is_no_program_is_refused() {
    for (text, why) in [
        ("", "there is no program"),
        ("[supervisord]\n", "there is no program"),
        ("[program:x]\n", "no `command`"),
        ("[program:x]\ncommand=\n", "there is no command"),
        ("[program:x]\ncommand='a\n", "quote"),
        ("[program:x]\ncommand=a %(ENV_HOME)s\n", "not known here"),
        ("[program:x]\ncommand=a\nnumprocs=100000\n", "`numprocs`"),
        ("[program:x]\ncommand=a\nenvironment=A\n", "separated by commas"),
        ("hello\n", "expected `key=value`"),
        ("[program:x]\ncommand=a\nautorestart=maybe\n", "`unexpected`"),
        ("[program:x]\ncommand=a\nautostart=maybe\n", "neither `true`"),
        ("[program:x\ncommand=a\n", "expected `key=value`"),
    ] {
        let imported = made(text);
        assert!(imported.functions.is_empty(), "{text}");
        check_refused(&imported.report, why, text);
    }
}
