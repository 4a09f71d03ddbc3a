//! Units as functions.

use super::*;
use crate::tests::testing::{check_refused, row, table};
use crate::text::ImportText;
use crate::users::ImportedUsers;
use fnd_manifest::foreign::FieldVerdict;

fn unit(name: &str, text: &str) -> Unit {
    Unit {
        name: name.to_owned(),
        text: ImportText::new(name, text),
        drop_ins: Vec::new(),
    }
}

fn made(service: &Unit, timer: Option<&Unit>) -> (Option<MadeManifest>, ConversionReport) {
    made_for(service, timer, None)
}

/// `own`: the user whose own fnd gets the function.
fn made_for(service: &Unit, timer: Option<&Unit>, own: Option<&str>) -> (Option<MadeManifest>, ConversionReport) {
    let read = |path: &str| match path {
        "/etc/default/x" => Some(("# c\nPORT=80\nWORDS=\"a b\"\n".to_owned(), true)),
        "/etc/x.secret" => Some(("DB_PASSWORD=s3cret\n".to_owned(), false)),
        _ => None,
    };
    let machine = SystemdMachine {
        script: |path| (path == "/opt/backup.sh").then(|| b"#!/bin/sh\n".to_vec()),
        users: if own.is_some() {
            ImportedUsers::Caller
        } else {
            ImportedUsers::OwnForRoot
        },
        user: own.unwrap_or("root"),
        read: &read,
        home: &|_| Some("/home/x".to_owned()),
    };
    make("x", service, timer, machine)
}

#[test]
fn a_unit_of_a_user_begins_in_the_home_of_the_user() {
    let service = unit("x.service", "[Service]\nType=oneshot\nExecStart=/bin/echo %u %h %E/x\n");
    let code = |own| {
        let (function, report) = made_for(&service, None, own);
        let function = function.unwrap_or_else(|| panic!("{report:?}"));
        String::from_utf8(function.files[0].bytes.clone()).unwrap()
    };
    assert_eq!(
        code(None),
        "#!/usr/bin/env bash\ncd / || exit\nexec /bin/echo root /home/x /etc/x\n"
    );
    assert_eq!(
        code(Some("ann")),
        "#!/usr/bin/env bash\ncd \"$HOME\" || exit\nexec /bin/echo ann /home/x /home/x/.config/x\n"
    );
}

#[test]
fn a_timer_and_its_service_are_a_script_with_a_schedule() {
    let service = unit(
        "backup@db.service",
        "[Unit]\nDescription=Backup of %i\nAfter=network.target\n[Service]\nType=oneshot\nUser=%p\n\
         Environment=\"A=1 2\" B=%p\nEnvironmentFile=/etc/default/x\nEnvironmentFile=-/etc/none\nEnvironmentFile=/etc/x.secret\n\
         ExecStartPre=-/bin/mkdir /srv/out\nExecStart=/opt/backup.sh $WORDS ${A}\nExecStart=/bin/true\nMemoryMax=1G\n\
         CPUQuota=50%\nTimeoutStartSec=30min\nUMask=0077\nReadWritePaths=/srv/out\n",
    );
    let timer = unit(
        "backup@.timer",
        "[Timer]\nOnCalendar=*-*-* 02:30 Europe/Berlin\nOnCalendar=Sun 12:00\nPersistent=true\nRandomizedDelaySec=5min\n\
         AccuracySec=1s\n[Install]\nWantedBy=timers.target\n",
    );
    let (function, report) = made(&service, Some(&timer));
    let function = function.unwrap_or_else(|| panic!("{report:?}"));
    let manifest = table(&function);
    assert_eq!(manifest["description"].as_str(), Some("Backup of db"));
    let schedules = manifest["schedule"].as_array().unwrap();
    assert_eq!(schedules.len(), 2);
    assert_eq!(schedules[0]["cron"].as_str(), Some("30 2 * * *"));
    assert_eq!(schedules[0]["timezone"].as_str(), Some("Europe/Berlin"));
    assert_eq!(
        (schedules[1]["catch_up"].as_str(), schedules[1]["jitter"].as_str()),
        (Some("30d"), Some("5m"))
    );
    assert_eq!(manifest["limits"]["memory"].as_str(), Some("1G"));
    assert_eq!(manifest["limits"]["timeout"].as_str(), Some("30m"));
    assert_eq!(manifest["env"]["WORDS"].as_str(), Some("a b"));
    assert_eq!(
        manifest["secrets"]["DB_PASSWORD"]["secret"].as_str(),
        Some("x-db-password")
    );
    assert_eq!(function.secrets, [("x-db-password".to_owned(), b"s3cret".to_vec())]);
    assert_eq!(manifest["sandbox"]["user"].as_str(), Some("backup"));
    assert_eq!(
        str::from_utf8(&function.files[0].bytes).unwrap(),
        "#!/usr/bin/env bash\ncode=$PWD\nset -f\numask 0077\ncd / || exit\n/bin/mkdir /srv/out || true\n\
         \"$code\"/backup.sh ${WORDS-} \"${A-}\" || exit\nexec /bin/true\n"
    );
    let row = |name: &str| row(&report, name);
    assert_eq!(row("After=").verdict, FieldVerdict::NotHere);
    assert_eq!(
        (row("OnCalendar=").verdict, row("OnCalendar=").line),
        (FieldVerdict::Works, 2)
    );
    let notes = report.rows.iter().filter_map(|row| row.note.as_deref());
    assert_eq!(notes.filter(|note| note.contains("makes up once")).count(), 1);
    assert_eq!(row("Persistent=").becomes.as_deref(), Some("schedule.catch_up"));
}

#[test]
fn a_service_is_kept_running() {
    let service = unit(
        "web.service",
        "[Service]\nExecStart=/usr/bin/python3 -m http.server ${PORT}\nWorkingDirectory=/srv/www\nRestart=always\nRestartSec=10min\n\
         PrivateNetwork=yes\nProtectHome=yes\nTasksMax=20\nLimitNOFILE=1024:4096\nTimeoutStopSec=20\nNice=5\n\
         ExecReload=/bin/kill -HUP $MAINPID\nExecStop=/bin/kill -s SIGTERM $MAINPID\nExecStop=/usr/bin/web stop\n[Install]\nWantedBy=multi-user.target\n",
    );
    let (function, report) = made(&service, None);
    let function = function.unwrap_or_else(|| panic!("{report:?}"));
    let manifest = table(&function);
    assert_eq!(manifest["mode"].as_str(), Some("service"));
    assert_eq!(manifest["retry"]["interval"].as_str(), Some("10m"));
    assert_eq!(manifest["retry"]["max_interval"].as_str(), Some("10m"));
    assert_eq!(manifest["retry"]["backoff"].as_str(), Some("fixed"));
    let limits = manifest["limits"].as_table().unwrap();
    assert_eq!(
        (limits["pids"].as_integer(), limits["open_files"].as_integer()),
        (Some(20), Some(4096))
    );
    assert_eq!(
        (limits["grace"].as_str(), limits["cpu_weight"].as_integer()),
        (Some("20s"), Some(33))
    );
    assert_eq!(manifest["sandbox"]["network"].as_str(), Some("loopback"));
    assert_eq!(manifest["sandbox"]["read_only"][0].as_str(), Some("/srv/www"));
    assert!(
        str::from_utf8(&function.files[0].bytes)
            .unwrap()
            .ends_with("cd /srv/www || exit\nexec /usr/bin/python3 -m http.server \"${PORT-}\"\n")
    );
}

#[test]
fn what_would_not_work_is_refused() {
    for (text, timer, why) in [
        ("[Service]\nType=oneshot\n", "", "no `ExecStart=`"),
        ("", "", "no `ExecStart=`"),
        ("hello\n", "", "expected `KEY=VALUE`"),
        ("[Service]\nType=forking\nExecStart=/bin/a\n", "", "foreground"),
        ("[Service]\nExecStart=+/bin/a\n", "", "rights of root"),
        ("[Service]\nExecStart=/bin/a\nExecStart=/bin/b\n", "", "several"),
        (
            "[Service]\nExecStart=/bin/a\nMemoryMax=10%\n",
            "",
            "shares of the machine",
        ),
        (
            "[Service]\nExecStart=/bin/a\nEnvironmentFile=/none\n",
            "",
            "cannot be read",
        ),
        (
            "[Service]\nExecStart=/bin/a\n",
            "[Timer]\nOnCalendar=2027-01-01\n",
            "no year",
        ),
        ("[Service]\nExecStart=/bin/a\n", "[Timer]\nPersistent=yes\n", "no time"),
        ("[Service]\nExecStart=/bin/a\n", "[Unit]\n", "no time"),
        (
            "[Service]\nExecStart=/bin/a\n",
            "[Timer]\nOnUnitActiveSec=1min\nRandomizedDelaySec=60\n",
            "reaches the next run",
        ),
    ] {
        let timer = (!timer.is_empty()).then(|| unit("x.timer", timer));
        let (function, report) = made(&unit("x.service", text), timer.as_ref());
        assert!(function.is_none(), "{text}");
        check_refused(&report, why, text);
    }
}

/// Settings without which systemd does something else.
#[test]
fn what_a_unit_does_not_say_is_in_the_report() {
    let report = |text: &str, timer: Option<&Unit>| made(&unit("x.service", text), timer);
    let (function, rows) = report("[Service]\nExecStart=/bin/a\n", None);
    for key in ["User=", "Restart=", "PATH=", "IgnoreSIGPIPE="] {
        assert_eq!(row(&rows, key).verdict, FieldVerdict::Differs, "{key}");
    }
    assert!(rows.rows.iter().all(|row| row.field != "RestartSec="));
    assert_eq!(table(&function.unwrap())["limits"]["grace"].as_str(), Some("90s"));
    let (_, rows) = report("[Service]\nUser=ada\nRestart=always\nExecStart=/bin/a\n", None);
    for key in ["RestartSec=", "StartLimitBurst="] {
        assert_eq!(row(&rows, key).verdict, FieldVerdict::Differs, "{key}");
    }
    let (_, rows) = report("[Service]\nDynamicUser=yes\nExecStart=/bin/a\n", None);
    assert!(rows.rows.iter().all(|row| row.field != "User="));
    let (_, rows) = report("[Service]\nEnvironment=PATH=/opt/bin\nExecStart=/bin/a\n", None);
    assert!(rows.rows.iter().all(|row| row.field != "PATH="));
    let (_, rows) = report("[Service]\nIgnoreSIGPIPE=no\nExecStart=/bin/a\n", None);
    assert_eq!(row(&rows, "IgnoreSIGPIPE=").verdict, FieldVerdict::Works);
    // Without `--own-user` a unit of root is refused.
    let root = "[Service]\nExecStart=/bin/a\n";
    let machine = SystemdMachine {
        script: crate::script::LINK,
        users: ImportedUsers::Named,
        user: "root",
        read: &|_| None,
        home: &|_| None,
    };
    let (function, rows) = make("x", &unit("x.service", root), None, machine);
    assert!(function.is_none());
    check_refused(&rows, "what of this needs root?", root);
}

#[test]
fn what_starts_at_the_boot_has_a_schedule_for_it() {
    let oneshot = "[Service]\nType=oneshot\nUser=ada\nExecStart=/bin/a\n";
    let manifest = |text: &str, timer: Option<&str>| {
        let timer = timer.map(|text| unit("x.timer", text));
        let (function, report) = made(&unit("x.service", text), timer.as_ref());
        table(&function.unwrap_or_else(|| panic!("{report:?}")))
    };
    let installed = manifest(&format!("{oneshot}[Install]\nWantedBy=multi-user.target\n"), None);
    assert_eq!(installed["schedule"][0]["at"].as_str(), Some("boot"));
    assert!(!installed.contains_key("on_load"));
    let text = format!("{oneshot}[Install]\nWantedBy=suspend.target\n");
    let (function, report) = made(&unit("x.service", &text), None);
    assert!(function.is_none());
    check_refused(&report, "another unit", &text);
    let alone = manifest(oneshot, None);
    assert_eq!(alone["on_load"].as_bool(), Some(false));
    let timer = "[Timer]\nOnBootSec=5min\nOnStartupSec=1\nOnUnitActiveSec=1h\nPersistent=yes\nRandomizedDelaySec=5\n";
    let timed = manifest(oneshot, Some(timer));
    let schedules = timed["schedule"].as_array().unwrap();
    assert_eq!(schedules.len(), 2);
    assert_eq!(schedules[0]["every"].as_str(), Some("1h"));
    let boot = schedules[1].as_table().unwrap();
    assert_eq!(
        (boot["at"].as_str(), boot["jitter"].as_str()),
        (Some("boot"), Some("5s"))
    );
    assert!(!boot.contains_key("catch_up"));
    assert_eq!(
        manifest(oneshot, Some("[Timer]\nOnBootSec=5min\n"))["schedule"][0]["at"].as_str(),
        Some("boot")
    );
}

#[test]
fn every_setting_about_the_end_is_in_the_report() {
    for (service, setting, verdict, becomes) in [
        ("simple", "ExecStop=/bin/kill $MAINPID", FieldVerdict::Works, None),
        (
            "simple",
            "ExecStop=-/bin/kill -15 ${MAINPID}",
            FieldVerdict::Works,
            None,
        ),
        ("simple", "ExecStop=/bin/kill -TERM $MAINPID", FieldVerdict::Works, None),
        (
            "simple",
            "ExecStop=/bin/kill -INT $MAINPID",
            FieldVerdict::Differs,
            None,
        ),
        ("simple", "ExecStop=/bin/kill", FieldVerdict::Differs, None),
        ("simple", "ExecStop=/usr/bin/web stop", FieldVerdict::Differs, None),
        ("oneshot", "ExecStop=/usr/bin/web stop", FieldVerdict::NotHere, None),
        ("simple", "ExecStopPost=/bin/rm x", FieldVerdict::NotHere, None),
        (
            "simple",
            "ExecReload=/bin/kill -HUP $MAINPID",
            FieldVerdict::NotHere,
            None,
        ),
        ("simple", "KillSignal=SIGTERM", FieldVerdict::Works, None),
        (
            "simple",
            "KillSignal=SIGINT",
            FieldVerdict::Works,
            Some("service.stop_signal"),
        ),
        ("oneshot", "KillSignal=SIGINT", FieldVerdict::Differs, None),
        (
            "simple",
            "KillSignal=SIGKILL",
            FieldVerdict::Differs,
            Some("limits.grace"),
        ),
        ("simple", "FinalKillSignal=SIGKILL", FieldVerdict::Works, None),
        ("simple", "FinalKillSignal=SIGABRT", FieldVerdict::NotHere, None),
        ("simple", "SendSIGKILL=no", FieldVerdict::NotHere, None),
        ("simple", "TimeoutStopSec=7", FieldVerdict::Works, Some("limits.grace")),
        ("simple", "TimeoutStopSec=infinity", FieldVerdict::NotHere, None),
        ("oneshot", "TimeoutSec=7", FieldVerdict::Works, Some("limits.timeout")),
        ("simple", "NoSuchSetting=1", FieldVerdict::Unknown, None),
        ("simple", "Personality=x86", FieldVerdict::NotHere, None),
    ] {
        let text = format!("[Service]\nType={service}\nExecStart=/bin/a\n{setting}\n");
        let (function, report) = made(&unit("x.service", &text), None);
        assert!(function.is_some(), "{setting}: {report:?}");
        let row = report.rows.iter().find(|row| row.line == 4).unwrap();
        assert_eq!((row.verdict, row.becomes.as_deref()), (verdict, becomes), "{setting}");
    }
}

#[test]
fn sigkill_leaves_no_grace_in_any_order() {
    let settings = ["KillSignal=SIGKILL", "TimeoutStopSec=120"];
    for [first, second] in [settings, [settings[1], settings[0]]] {
        let text = format!("[Service]\nExecStart=/bin/a\nRestart=always\n{first}\n{second}\n");
        let (function, report) = made(&unit("x.service", &text), None);
        let function = function.unwrap_or_else(|| panic!("{report:?}"));
        let grace = function.manifest.get("limits.grace").and_then(toml::Value::as_str);
        assert_eq!(grace, Some("0"), "{first}, {second}");
    }
}
