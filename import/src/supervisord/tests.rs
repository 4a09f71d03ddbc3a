//! Programs as services.

use super::*;
use crate::tests::testing::{check_absent, check_refused, keys_of, only, row, table};
use fnd_manifest::foreign::FieldVerdict;

fn made(text: &str) -> Imported {
    let machine = SupervisordMachine {
        read: script::LINK,
        users: ImportedUsers::Named,
        here: "/etc/supervisor",
        host: "shop1",
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
    assert_eq!(manifest["service"]["stop_signal"].as_str(), Some("QUIT"));
    assert_eq!(
        str::from_utf8(&function.files[0].bytes).unwrap(),
        "#!/usr/bin/env bash\numask 027\ncd /srv/web || exit\nexec /etc/supervisor/web --name Web 'a b' '$HOME'\n"
    );
    let verdict = |name: &str| row(&imported.report, name).verdict;
    assert_eq!(
        (verdict("stopsignal"), verdict("odd"), verdict("user")),
        (FieldVerdict::Works, FieldVerdict::Unknown, FieldVerdict::Differs)
    );
    assert_eq!(verdict("[eventlistener:x]"), FieldVerdict::NotHere);
}

#[test]
fn processes_with_different_commands_are_functions_of_their_own() {
    let imported = made(
        "[program:web]\ncommand=/bin/web --port=80%(process_num)02d --of=%(numprocs)d\nnumprocs=2\nnumprocs_start=1\n",
    );
    let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
    assert_eq!(names, ["web-1", "web-2"]);
    assert!(
        str::from_utf8(&imported.functions[1].files[0].bytes)
            .unwrap()
            .contains("--port=8002 --of=2")
    );
}

#[test]
fn what_holds_for_all_programs_reaches_them() {
    let imported = made(
        "[supervisord]\nenvironment=A=\"1\",B=\"2\"\numask=027\ndirectory=%(here)s/app\nuser=www\nlogfile=%(ENV_LOG)s\nodd=1\n\
         [program:web]\ncommand=/bin/web --node %(host_node_name)s --group %(group_name)s\nenvironment=B=\"3\"\n\
         [program:job]\ncommand=/bin/job %(group_name)s\ndirectory=/srv\numask=077\nuser=ada\n[group:shop]\nprograms=web, other\n",
    );
    let [web, job] = imported.functions.as_slice() else {
        panic!("{:?}", imported.report);
    };
    let code = |made: &MadeManifest| String::from_utf8(made.files[0].bytes.clone()).unwrap();
    assert_eq!(
        code(web),
        "#!/usr/bin/env bash\numask 027\ncd /etc/supervisor/app || exit\nexec /bin/web --node shop1 --group shop\n"
    );
    assert_eq!(
        code(job),
        "#!/usr/bin/env bash\numask 077\ncd /srv || exit\nexec /bin/job job\n"
    );
    let (web, job) = (table(web), table(job));
    assert_eq!(
        (web["env"]["A"].as_str(), web["env"]["B"].as_str()),
        (Some("1"), Some("3"))
    );
    assert_eq!(job["env"]["B"].as_str(), Some("2"));
    let user = |manifest: &toml::Table| manifest["sandbox"]["user"].as_str().map(str::to_owned);
    assert_eq!(
        (user(&web), user(&job)),
        (Some("www".to_owned()), Some("ada".to_owned()))
    );
    let verdict = |name: &str| row(&imported.report, name).verdict;
    assert_eq!(
        (verdict("environment"), verdict("logfile"), verdict("odd")),
        (FieldVerdict::Works, FieldVerdict::NotHere, FieldVerdict::Unknown)
    );
}

/// Keys without which supervisord does something else.
#[test]
fn what_a_program_does_not_say_is_in_the_report() {
    let imported = made("[program:web]\ncommand=/bin/web\n");
    for key in ["autorestart", "user", "startretries", "directory", "environment"] {
        assert_eq!(row(&imported.report, key).verdict, FieldVerdict::Differs, "{key}");
    }
    assert_eq!(table(only(&imported))["limits"]["grace"].as_str(), Some("10s"));
    let imported = made("[program:web]\ncommand=/bin/web\nuser=root\n");
    check_refused(&imported.report, "what of this needs root?", "");
}

/// Keys that a program may lack without a row, and why.
const WITHOUT: KeyTexts = fnd_manifest::texts! {
    "command": "a program without it is refused",
    "autostart": "both start it",
    "stopsignal stopwaitsecs": "both send SIGTERM, and the importer writes supervisord's time",
    "umask": "it is that of `[supervisord]`, whose default is fnd's",
    "exitcodes startsecs": "the rows of `autorestart` and `startretries` tell of the restarts",
    "stopasgroup killasgroup": "fnd ends every process of a function in any case",
    "stdout_logfile stdout_logfile_maxbytes stdout_logfile_backups stdout_capture_maxbytes stdout_events_enabled stdout_syslog \
     stderr_logfile stderr_logfile_maxbytes stderr_logfile_backups stderr_capture_maxbytes stderr_events_enabled stderr_syslog":
        "fnd keeps the output itself",
    "process_name numprocs numprocs_start redirect_stderr priority serverurl socket socket_backlog socket_owner socket_mode":
        "both have nothing of it",
};

#[test]
fn every_key_has_a_verdict_where_it_is_absent() {
    let keys = OTHERS.split_ascii_whitespace().chain(keys_of(ROWS)).collect();
    check_absent(keys, ABSENT, WITHOUT);
}

#[test]
fn a_misspelt_key_is_recognised() {
    let imported = made("[program:web]\ncommand=/bin/web\nstdout_logfil=/x\n");
    let row = row(&imported.report, "stdout_logfil");
    assert_eq!(row.verdict, FieldVerdict::Unknown);
    assert!(row.note.as_deref().unwrap().contains("`stdout_logfile`"), "{row:?}");
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
        ("[program:x]\ncommand=a\ndirectory=~/app\n", "an absolute path"),
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

#[test]
fn a_program_that_runs_once_is_a_script() {
    for (lines, mode) in [
        ("autorestart=false\nstartsecs=0\nstopsignal=INT\n", None),
        ("autorestart=No\nstartsecs=0\nstartretries=0\n", None),
        ("autorestart=false\n", Some("service")),
        ("autorestart=unexpected\nstartsecs=0\n", Some("service")),
        (
            "autorestart=false\nstartsecs=0\nnumprocs=2\nprocess_name=%(process_num)d\n",
            Some("service"),
        ),
    ] {
        let imported = made(&format!("[program:migrate]\ncommand=/bin/migrate\nuser=www\n{lines}"));
        let manifest = table(only(&imported));
        let found = manifest.get("mode").and_then(toml::Value::as_str);
        assert_eq!(found, mode, "{lines}");
        assert_eq!(manifest.contains_key("service"), lines.contains("numprocs"), "{lines}");
        assert_eq!(
            row(&imported.report, "autorestart").verdict,
            FieldVerdict::Differs,
            "{lines}"
        );
    }
}
