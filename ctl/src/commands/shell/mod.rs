//! `fndctl shell`: a shell, or one command, that sees the machine as a function does.
//!
//! Neither fnd nor fnd-spawner takes a part: fnd only says where the processes of the function are, and records who has asked. fndctl
//! itself, run by root, enters the sandbox.
//!
//! Files:
//! - `enter`: starts a program in the sandbox
//! - `leaf`: the cgroup of a shell
//! - `process`: the process whose sandbox is entered
//! - `terminal`: passes bytes between the person and the program

mod enter;
mod leaf;
mod process;
mod terminal;

use crate::common::{candidates, quoted};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, parse};
use enter::Entry;
use fnd_core::api::ShellTarget;
use fnd_wire::ids::FunctionName;
use leaf::ShellLeaf;
use std::ffi::{CString, OsString};
use std::io::Error;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The shell has what a running process of the function has: user and groups, files, variables with secrets, network, \
    working directory, limits, capabilities. No filter of system calls and no Landlock hold for it. It counts in the limits of the function, \
    and ends about 10 s after the last process of the function, or of its version. Only root can open it; the audit records each. The exit \
    code is that of the command, 128 and the number for a signal.\n\nExamples:\n  \
    sudo fndctl shell hello\n  \
    sudo fndctl shell hello -- ls -la /home\n  \
    sudo fndctl shell hello -- sh -c 'id; env; df -h /tmp'"
)]
pub(crate) struct Args {
    /// Name of the function, of which something must run now.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// A command in place of a shell.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The programs of a shell, in the order in which they are tried.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Where a command is looked up if the function has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// # Errors
/// The daemon refuses the request, nothing of the function runs, or its sandbox cannot be entered.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if context.out.format != Format::Table {
        let message = "`shell` prints what the command prints: it has no `-o` and no `--jq`";
        return Err(CommandFailure::usage(message));
    }
    if context.user {
        let message = "`shell` enters the sandbox of another user, for which fndctl must be root: functions of your own fnd are yours";
        return Err(CommandFailure::usage(message).help("`fndctl run FILE` runs a file at your terminal"));
    }
    let path = format!("{}/shell", function_path(&args.function)?);
    // An fnd that was taken over may not choose another function.
    let function = FunctionName::new(&args.function).expect("function_path has checked it");
    if !rustix::process::geteuid().is_root() {
        let message = "only root can enter the sandbox of a function";
        return Err(CommandFailure::new(Exit::NotAllowed, message).help(with_sudo()));
    }
    let target: ShellTarget = parse(&context.client.post(&path).await?.body)?;
    let ended = enter(&function, target.cgroup.as_deref(), &args.command)?;
    if ended.signal() == Some(libc::SIGKILL) {
        let why = "the shell got SIGKILL, as about 10 s after the last process of the function, when another version serves, at the limit of \
                   memory, and when fnd-spawner ends";
        context.out.aside(why);
    }
    exit_with(ended)
}

/// Returns the command line that was typed, with sudo.
fn with_sudo() -> String {
    let words = std::env::args_os().map(|word| quoted(&word.to_string_lossy()));
    words.fold("sudo".to_owned(), |line, word| format!("{line} {word}"))
}

/// Runs a command, or a shell, beside the processes of a function.
fn enter(function: &FunctionName, group: Option<&str>, command: &[OsString]) -> Result<ExitStatus, CommandFailure> {
    let failed =
        |what: &str, error: &Error| CommandFailure::failed(format!("failed to {what} of `{function}`: {error}"));
    let Some(group) = group else {
        let message = "fnd does not limit memory by cgroups here, and only in its cgroup is a process of the function found for sure";
        return Err(CommandFailure::failed(message).help("`fndctl doctor` says what the machine lacks"));
    };
    // From here on its path has no link, which an fnd that was taken over could exchange.
    let group = process::checked(Path::new(group), function).map_err(|error| failed("find the cgroup", &error))?;
    let process = process::find(&group, function).map_err(|error| failed("find a process", &error))?;
    let Some(process) = process else {
        let message = format!("no process of `{function}` could be entered: it begins or ends just now");
        return Err(CommandFailure::new(Exit::Busy, message).help("try it again"));
    };
    // Its processes are killed after the shell has ended, as after a run.
    let leaf = ShellLeaf::make(&group).map_err(|error| failed("make a cgroup in that", &error))?;
    let groups = leaf.entries(&process.v1);
    let entry = Entry {
        groups: groups.map_err(|error| failed("open the cgroups", &error))?,
        programs: programs(command, process.variable("PATH").unwrap_or(PATH)),
        process,
    };
    terminal::run(entry, command.is_empty()).map_err(|error| failed("enter the sandbox", &error))
}

/// Returns the command lines to try, each with the path of its program first. A command is looked up in these directories, as the function
/// would do it; no file is looked at yet.
fn programs(command: &[OsString], path: &str) -> Vec<Vec<CString>> {
    let text = |bytes: &[u8]| CString::new(bytes).expect("no argument of a process has a null byte");
    let Some((name, rest)) = command.split_first() else {
        return SHELLS.map(|shell| vec![text(shell.as_bytes())]).into();
    };
    let places = match name.as_bytes().contains(&b'/') {
        true => vec![Path::new(name).to_owned()],
        false => path
            .split(':')
            .map(|directory| Path::new(directory).join(name))
            .collect(),
    };
    let line = |program: PathBuf| -> Vec<CString> {
        let words = [program.as_os_str()]
            .into_iter()
            .chain(rest.iter().map(OsString::as_os_str));
        words.map(|word| text(word.as_bytes())).collect()
    };
    places.into_iter().map(line).collect()
}

/// Ends fndctl as the command has ended.
#[expect(
    clippy::disallowed_methods,
    reason = "a command may have any exit code, and nothing is left to be dropped"
)]
fn exit_with(ended: ExitStatus) -> ! {
    let signal = || 128 + ended.signal().unwrap_or(0);
    std::process::exit(ended.code().unwrap_or_else(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_looked_up_as_the_function_would() {
        for (command, expected) in [
            (&[][..], &["/bin/bash", "/bin/sh"][..]),
            (&["ls", "-l", "a b"], &["/a/ls -l a b", "/b c/ls -l a b"]),
            (&["./x"], &["./x"]),
            (&["/bin/ls", "/"], &["/bin/ls /"]),
        ] {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            let found = programs(&command, "/a:/b c").into_iter().map(|line| {
                let words = line.iter().map(|word| word.to_str().unwrap());
                words.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
