//! The settings of `[Service]`.

use super::calendar;
use super::environment::{environment, environment_file};
use super::exec::commands;
use super::keys;
use super::limits::limit;
use super::parse::{UnitSetting, words};
use super::unit::{UnitImport, UnitStep};
use super::values::{duration, truth};
use crate::names::lists;
use fnd_wire::units::print_duration;
use std::time::Duration;
use toml::Value;

/// Protections that the sandbox of every function has, too.
const PROTECTIONS: &str = "\
    DynamicUser KeyringMode LockPersonality MountFlags NoNewPrivileges PrivateDevices PrivateIPC PrivateMounts \
    PrivateTmp PrivateUsers ProcSubset ProtectClock ProtectControlGroups ProtectHome ProtectHostname \
    ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC \
    RestrictNamespaces RestrictRealtime RestrictSUIDSGID";

/// Protections for which the sandbox has no key of its own.
const FILTERS: &str = "\
    CapabilityBoundingSet DeviceAllow DevicePolicy IPAddressAllow IPAddressDeny MemoryDenyWriteExecute \
    RestrictAddressFamilies RestrictFileSystems SystemCallArchitectures SystemCallErrorNumber SystemCallFilter";

/// Settings that change nothing in what runs.
const BOOKKEEPING: &str = "\
    CPUAccounting MemoryAccounting TasksAccounting IOAccounting IPAccounting BlockIOAccounting SyslogIdentifier \
    SyslogFacility SyslogLevel GuessMainPID PIDFile NonBlocking";

/// Takes a setting over.
pub(super) fn item(maker: &mut UnitImport<'_>, item: &UnitSetting) {
    let key = item.key.as_str();
    if exec(maker, item) || limit(maker, item) || sandbox(maker, item) || restart(maker, item) {
        return;
    }
    let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
    let filled = maker.specifiers.fill(value);
    match key {
        "Type" => {} // decided before
        "Environment" => environment(maker, item),
        "EnvironmentFile" => environment_file(maker, item),
        "Group" | "SupplementaryGroups" if maker.users.is_caller() => {
            report.not_here(field, "functions of your own fnd run as you");
        }
        "User" => match filled {
            Ok(user) => maker.users.named(&mut maker.made, report, &user, field),
            Err(why) => report.refused(field, &why),
        },
        "Group" | "SupplementaryGroups" => {
            let groups = match filled {
                Ok(groups) => groups,
                Err(why) => return report.refused(field, &why),
            };
            // The group of root is not taken over, as its user is not, and fnd never gives the id of `nogroup` to a function.
            let left_out = ["root", "nogroup"];
            let others = groups.split_whitespace().filter(|group| !left_out.contains(group));
            let others: Vec<&str> = others.collect();
            if others.is_empty() {
                return report.not_here(
                    field,
                    "the groups `root` and `nogroup` are not taken over: the function has a group of its own",
                );
            }
            maker.groups.extend(others.into_iter().map(Value::from));
            let note = "fnd.toml must allow each group: `allow` in `[users]`";
            let groups = Value::Array(maker.groups.clone());
            maker.made.differs(report, ("sandbox.groups", groups), field, note);
        }
        "WorkingDirectory" => match filled {
            Ok(directory) => {
                // With `-` the unit starts also without the directory, and `~` is the home of its user (systemd.exec(5)).
                let lenient = directory.starts_with('-');
                let directory = directory.trim_start_matches('-');
                let directory = if directory == "~" { "$HOME" } else { directory };
                maker.code.places.add(directory, false);
                maker.directory = Some((directory.to_owned(), lenient));
                report.works(field, "entry");
            }
            Err(why) => report.refused(field, &why),
        },
        "UMask" if value.len() <= 4 && value.bytes().all(|b| (b'0'..=b'7').contains(&b)) && !value.is_empty() => {
            maker.umask = Some(value.to_owned());
            report.works(field, "entry");
        }
        "UMask" => report.refused(field, &format!("`{value}` is no mask such as `0077`")),
        "StandardOutput" | "StandardError" if ["journal", "inherit", "journal+console", "syslog"].contains(&value) => {
            report.works(field, "");
        }
        // The standard input of a run without a payload is empty.
        "StandardInput" if value == "null" => report.works(field, ""),
        "StandardOutput" | "StandardError" | "StandardInput" | "TTYPath" => {
            report.not_here(
                field,
                "fnd keeps the output itself (`fndctl logs`); redirect it in the script if a file needs it",
            );
        }
        "StateDirectory" | "CacheDirectory" => {
            let own = if key == "StateDirectory" {
                "$STATE_DIRECTORY"
            } else {
                "$CACHE_DIRECTORY"
            };
            report.differs(
                field,
                "",
                &format!("{own} is a directory of the function's own: copy the files there"),
            );
        }
        "RuntimeDirectory" | "LogsDirectory" | "ConfigurationDirectory" => {
            report.not_here(
                field,
                "a function has `$STATE_DIRECTORY`, `$CACHE_DIRECTORY` and `$TMPDIR`",
            );
        }
        "LoadCredential"
        | "LoadCredentialEncrypted"
        | "SetCredential"
        | "SetCredentialEncrypted"
        | "ImportCredential" => {
            report.not_here(field, "give fnd the secret (`fndctl secret set`), and name it in `secrets`: the script finds it in `$CREDENTIALS_DIRECTORY`, too");
        }
        "AmbientCapabilities" => report.not_here(field, "a function has no capabilities, and no port below 1024"),
        "RemainAfterExit" => report.not_here(field, "the state of a function is that of its last run"),
        "SuccessExitStatus" | "RestartPreventExitStatus" | "RestartForceExitStatus" => {
            report.not_here(
                field,
                "0 is success; for others, write it in the script, or use `retry.not_on_exit`",
            );
        }
        "WatchdogSec" | "NotifyAccess" | "BusName" | "Sockets" | "FileDescriptorStoreMax" => {
            report.not_here(field, "fnd takes no messages of a service: use `[service] ready`");
        }
        "LogRateLimitIntervalSec" | "LogRateLimitBurst" | "LogLevelMax" => {
            report.not_here(field, "`limits.output` and `[logs]` bound the output");
        }
        "RootDirectory" | "RootImage" => {
            report.refused(
                field,
                "its programs are those of another root: name the program with its path on this machine",
            );
        }
        "PassEnvironment" | "UnsetEnvironment" => report.not_here(field, "a function gets only what its manifest says"),
        _ if lists(BOOKKEEPING, key) => report.works(field, ""),
        _ if keys::is_known("Service", key) => report.not_here(field, "fnd has nothing like it"),
        _ => report.unknown(field, "systemd has no such setting in `[Service]`"),
    }
}

/// `ExecStart=` and its like.
fn exec(maker: &mut UnitImport<'_>, item: &UnitSetting) -> bool {
    let step = match item.key.as_str() {
        "ExecStart" => UnitStep::Start,
        "ExecStartPre" => UnitStep::Before,
        "ExecCondition" => UnitStep::Condition,
        "ExecStartPost" => UnitStep::After,
        "ExecStop" if maker.service && is_sigterm(&item.value) => {
            maker.report.works(&item.field, "");
            return true;
        }
        "ExecStop" if maker.service => {
            let note = "fnd ends every process with SIGTERM, and after `limits.grace` with SIGKILL: let the program clean up when \
                        it gets SIGTERM";
            maker.report.differs(&item.field, "", note);
            return true;
        }
        "ExecStop" | "ExecStopPost" => {
            let why = "fnd runs nothing after the end: write it into the script, behind the command or in a `trap`";
            maker.report.not_here(&item.field, why);
            return true;
        }
        "ExecReload" => {
            let why = "fnd sends no signal for a reload: a saved function is started anew";
            maker.report.not_here(&item.field, why);
            return true;
        }
        _ => return false,
    };
    // Behind a service the script would never get to it, since the service does not end.
    if step == UnitStep::After && maker.service {
        maker.report.refused(
            &item.field,
            "fnd runs nothing beside a service: start it in the script of `ExecStart=`",
        );
        return true;
    }
    match commands(&item.value, &maker.specifiers) {
        Ok(commands) => maker
            .steps
            .extend(commands.into_iter().map(|exec| (step, exec, item.field.clone()))),
        Err(why) => maker.report.refused(&item.field, &why),
    }
    true
}

/// Says whether a command only sends SIGTERM to the service, as fnd does.
fn is_sigterm(command: &str) -> bool {
    let words = words(command).unwrap_or_default();
    let [program, arguments @ ..] = words.as_slice() else {
        return false;
    };
    let (targets, signal): (Vec<&str>, Vec<&str>) = arguments
        .iter()
        .map(String::as_str)
        .partition(|word| ["$MAINPID", "${MAINPID}"].contains(word));
    // kill(1) takes `-TERM`, `-SIGTERM` and `-s TERM`; the last one is joined to `-STERM`.
    let signal = signal.concat().to_ascii_uppercase().replace("SIG", "");
    // These characters before a program are systemd's own (systemd.service(5)).
    program.trim_start_matches(['-', '@', ':', '+', '!']).rsplit('/').next() == Some("kill")
        && targets.len() == 1
        && ["", "-TERM", "-15", "-STERM", "-S15"].contains(&signal.as_str())
}

fn sandbox(maker: &mut UnitImport<'_>, item: &UnitSetting) -> bool {
    let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
    let key = item.key.as_str();
    match key {
        _ if lists(PROTECTIONS, key) => match truth(value) {
            Ok(false) => report.differs(
                field,
                "",
                "the sandbox has it for every function; `sandbox.profile` loosens it",
            ),
            // A value that is no truth value, such as `ProtectSystem=strict`, asks for the protection as well.
            _ => report.works(field, "sandbox.profile"),
        },
        _ if lists(FILTERS, key) => {
            report.differs(
                field,
                "",
                "the sandbox has a list of its own for every function (docs/sandbox.md)",
            );
        }
        "PrivateNetwork" => match truth(value) {
            // The private network of systemd has the loopback device, too (systemd.exec(5)).
            Ok(true) => maker.made.works(report, "sandbox.network", "loopback", field),
            Ok(false) => report.works(field, ""),
            Err(why) => report.refused(field, &why),
        },
        "ReadWritePaths" | "ReadOnlyPaths" | "BindReadOnlyPaths" | "InaccessiblePaths" => {
            for path in value.split_whitespace() {
                // `-` allows that the path is missing, `+` is about `RootDirectory=` (systemd.exec(5)).
                let path = path.trim_start_matches(['-', '+']).trim_end_matches('/').to_owned();
                let valid =
                    // A `:` separates two places and a `%` begins a specifier: a place in a manifest has neither.
                    path.starts_with('/') && !path.split('/').any(|part| part == "..") && !path.contains([':', '%']);
                if !valid {
                    report.refused(field, &format!("`{path}` is no absolute path that a manifest can name"));
                    continue;
                }
                match key {
                    "ReadWritePaths" => maker.code.places.read_write.insert(path),
                    "InaccessiblePaths" => {
                        maker.hide.push(Value::from(path));
                        continue;
                    }
                    _ => maker.code.places.read_only.insert(path),
                };
            }
            let becomes = match key {
                "ReadWritePaths" => "sandbox.read_write",
                "InaccessiblePaths" => "sandbox.hide",
                _ => "sandbox.read_only",
            };
            report.works(field, becomes);
        }
        _ => return false,
    }
    true
}

/// `Restart=` and its like.
fn restart(maker: &mut UnitImport<'_>, item: &UnitSetting) -> bool {
    let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
    match item.key.as_str() {
        "Restart" if maker.service && value == "always" => report.works(field, "service"),
        "Restart" if maker.service => report.differs(
            field,
            "service",
            "a service is always started again, whatever its end was",
        ),
        "Restart" if value == "no" => report.works(field, ""),
        "Restart" => {
            // As many as `StartLimitBurst=` allows by default.
            let note = "it is tried again five times: `retry.retries` is the number";
            maker.made.differs(report, ("retry.retries", 5), field, note);
        }
        "RestartSec" => match calendar::duration(value) {
            Ok(Some(pause)) => {
                // systemd may start a service again without a pause, and fnd's pause is at least a millisecond.
                let pause = pause.max(Duration::from_millis(1));
                maker.made.works(report, "retry.interval", print_duration(pause), field);
                maker.pause = Some(pause);
            }
            Ok(None) => report.refused(field, "a pause without an end: fnd would never start it again"),
            Err(why) => report.refused(field, &why),
        },
        "RestartMaxDelaySec" => match duration(value) {
            Ok(most) if most != "none" => {
                maker.made.works(report, "retry.max_interval", most, field);
                maker.grows = true;
            }
            Ok(_) => report.works(field, ""),
            Err(why) => report.refused(field, &why),
        },
        "RestartSteps" => report.differs(field, "", "the pause doubles up to `retry.max_interval`"),
        "KillMode" if value == "control-group" || value == "mixed" => report.works(field, ""),
        "KillMode" => report.not_here(field, "fnd ends every process of a function"),
        "KillSignal" if value == "SIGTERM" || value == "15" => report.works(field, ""),
        "KillSignal" if ["SIGKILL", "9"].contains(&value) => {
            let note = "SIGTERM comes first, and SIGKILL at once behind it";
            maker.made.differs(report, ("limits.grace", "0"), field, note);
        }
        "KillSignal" => report.differs(
            field,
            "",
            "fnd sends SIGTERM to every process: let the program end by it as by the other signal",
        ),
        "SendSIGKILL" | "FinalKillSignal" | "SendSIGHUP" => {
            report.not_here(field, "after `limits.grace` fnd sends SIGKILL");
        }
        _ => return false,
    }
    true
}
