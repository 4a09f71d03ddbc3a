//! The settings of `[Service]`.

use super::environment::{environment, environment_file};
use super::exec::commands;
use super::limits::limit;
use super::parse::{UnitSetting, words};
use super::unit::{UnitImport, UnitStep};
use super::values::{duration, truth};
use super::{calendar, keys};
use crate::names::lists;
use crate::rows::{RESTARTS, reported};
use crate::script::is_mask;
use crate::stop_signal::stop_signal;
use fnd_wire::units::print_duration;
use std::time::Duration;
use toml::Value;

/// Protections that the sandbox of every function has, too.
const PROTECTIONS: &str = "\
    DynamicUser KeyringMode LockPersonality MountFlags NoNewPrivileges PrivateDevices PrivateIPC PrivateMounts \
    PrivateTmp PrivateUsers ProcSubset ProtectClock ProtectControlGroups ProtectHome ProtectHostname \
    ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC \
    RestrictNamespaces RestrictRealtime RestrictSUIDSGID";

/// Writes a setting of the unit as keys of the function.
///
/// # Errors
/// Why it is refused.
pub(super) fn item(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<(), String> {
    let key = item.key.as_str();
    if exec(maker, item)? || limit(maker, item)? || sandbox(maker, item)? || restart(maker, item)? {
        return Ok(());
    }
    let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
    match key {
        "Type" => {} // decided before
        "Environment" => environment(maker, item)?,
        "EnvironmentFile" => environment_file(maker, item)?,
        "Group" | "SupplementaryGroups" if maker.machine.users.is_caller() => {
            report.not_here(field, "functions of your own fnd run as you");
        }
        "User" => {
            let user = maker.specifiers.fill(value)?;
            maker.machine.users.named(&mut maker.made, report, &user, field);
        }
        "Group" | "SupplementaryGroups" => {
            let groups = maker.specifiers.fill(value)?;
            // The group of root is not taken over, as its user is not, and fnd never gives the id of `nogroup` to a function.
            let left_out = ["root", "nogroup"];
            let others = groups.split_whitespace().filter(|group| !left_out.contains(group));
            let others: Vec<&str> = others.collect();
            if others.is_empty() {
                let why = "the groups `root` and `nogroup` are not taken over: the function has a group of its own";
                report.not_here(field, why);
                return Ok(());
            }
            maker.groups.extend(others.into_iter().map(Value::from));
            let note = "fnd.toml must allow each group: `allow` in `[users]`";
            let groups = Value::Array(maker.groups.clone());
            maker.made.differs(report, ("sandbox.groups", groups), field, note);
        }
        "WorkingDirectory" => {
            let directory = maker.specifiers.fill(value)?;
            // With `-` the unit starts also without the directory, and `~` is the home of its user (systemd.exec(5)).
            let lenient = directory.starts_with('-');
            let directory = directory.trim_start_matches('-');
            let directory = if directory == "~" { "$HOME" } else { directory };
            maker.code.places.add(directory, false);
            maker.directory = Some((directory.to_owned(), lenient));
            report.works(field, "entry");
        }
        "UMask" if is_mask(value) => {
            maker.umask = Some(value.to_owned());
            report.works(field, "entry");
        }
        "UMask" => return Err(format!("`{value}` is no mask such as `0077`")),
        "StandardOutput" | "StandardError" if ["journal", "inherit", "journal+console", "syslog"].contains(&value) => {
            report.works(field, "");
        }
        // The standard input of a run without a payload is empty.
        "StandardInput" if value == "null" => report.works(field, ""),
        "IgnoreSIGPIPE" if truth(value) == Ok(false) => report.works(field, ""),
        "ExecStop" if maker.service && is_sigterm(value) => report.works(field, ""),
        "ExecStop" if maker.service => {
            let note = "fnd ends every process with SIGTERM or `service.stop_signal`, and after `limits.grace` with SIGKILL: let the \
                        program clean up when it gets the first one";
            report.differs(field, "", note);
        }
        _ if reported(keys::SERVICE_ROWS, key, report, field) => {}
        _ if keys::is_known("Service", key) => report.not_here(field, "fnd has nothing like it"),
        _ => report.unknown(field, &keys::unknown("Service", key)),
    }
    Ok(())
}

/// `ExecStart=` and its like.
fn exec(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<bool, String> {
    let step = match item.key.as_str() {
        "ExecStart" => UnitStep::Start,
        "ExecStartPre" => UnitStep::Before,
        "ExecCondition" => UnitStep::Condition,
        "ExecStartPost" => UnitStep::After,
        _ => return Ok(false),
    };
    // Behind a service the script would never get to it, since the service does not end.
    if step == UnitStep::After && maker.service {
        return Err("fnd runs nothing beside a service: start it in the script of `ExecStart=`".to_owned());
    }
    let commands = commands(&item.value, &maker.specifiers)?.into_iter();
    maker
        .steps
        .extend(commands.map(|exec| (step, exec, item.field.clone())));
    Ok(true)
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

fn sandbox(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<bool, String> {
    let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
    let key = item.key.as_str();
    match key {
        _ if lists(PROTECTIONS, key) && truth(value) == Ok(false) => {
            let note = "the sandbox has it for every function; `sandbox.profile` loosens it";
            report.differs(field, "", note);
        }
        // A value that is no truth value, such as `ProtectSystem=strict`, asks for the protection as well.
        _ if lists(PROTECTIONS, key) => report.works(field, "sandbox.profile"),
        // The private network of systemd has the loopback device, too (systemd.exec(5)).
        "PrivateNetwork" if truth(value)? => maker.made.works(report, "sandbox.network", "loopback", field),
        "PrivateNetwork" => report.works(field, ""),
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
                    "ReadWritePaths" => maker.code.places.read_write.extend([path]),
                    "InaccessiblePaths" => maker.hide.push(Value::from(path)),
                    _ => maker.code.places.read_only.extend([path]),
                }
            }
            let becomes = match key {
                "ReadWritePaths" => "sandbox.read_write",
                "InaccessiblePaths" => "sandbox.hide",
                _ => "sandbox.read_only",
            };
            report.works(field, becomes);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `Restart=` and its like.
fn restart(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<bool, String> {
    let (report, field, value) = (&mut maker.report, &item.field, item.value.as_str());
    match item.key.as_str() {
        "Restart" if maker.service && value == "always" => report.works(field, "service"),
        "Restart" if maker.service => report.differs(field, "service", RESTARTS),
        "Restart" if value == "no" => report.works(field, ""),
        "Restart" => {
            // As many as `StartLimitBurst=` allows by default.
            let note = "it is tried again five times: `retry.retries` is the number";
            maker.made.differs(report, ("retry.retries", 5), field, note);
        }
        "RestartSec" => {
            let pause = calendar::duration(value)?;
            let pause = pause.ok_or("a pause without an end: fnd would never start it again")?;
            // systemd may start a service again without a pause, and fnd's pause is at least a millisecond.
            let pause = pause.max(Duration::from_millis(1));
            maker.made.works(report, "retry.interval", print_duration(pause), field);
            maker.pause = Some(pause);
        }
        "RestartMaxDelaySec" => match duration(value)?.as_str() {
            "none" => report.works(field, ""),
            most => {
                maker.made.works(report, "retry.max_interval", most, field);
                maker.grows = true;
            }
        },
        "KillMode" if value == "control-group" || value == "mixed" => report.works(field, ""),
        "KillMode" => report.not_here(field, "fnd ends every process of a function"),
        // fnd does this in any case.
        "FinalKillSignal" if ["SIGKILL", "KILL", "9"].contains(&value) => report.works(field, ""),
        "SendSIGKILL" if truth(value)? => report.works(field, ""),
        "SendSIGHUP" if !truth(value)? => report.works(field, ""),
        "KillSignal" => stop_signal(&mut maker.made, report, (field, value), maker.service),
        _ => return Ok(false),
    }
    Ok(true)
}
