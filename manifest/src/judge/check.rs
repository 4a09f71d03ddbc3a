//! Makes the plan that checks the syntax of a function's code: that of a script of fnd's own, [`CHECK`](fnd_wire::plan::CHECK).
//! The code of handlers is not checked: it is loaded before it serves.
//!
//! The plan is the same for all functions that one command can check, and the code comes as standard input. So one run checks
//! many functions; the spawner puts the owner of the files into the version, so that no run has files of two owners.

use super::build::BuildPlan;
use super::entry::{base_name, path_in};
use super::{Judge, Judged};
use crate::function::BuildNetwork;
use crate::function::{Manifest, Mode};
use crate::runtime::{Runtime, RuntimePhase};
use crate::settings::keys::BuildSettings as Settings;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fnd_wire::plan::{CODE_MAX, INPUTS_MAX, JudgeFunction, JudgedFile, PlannedBuild};
use fnd_wire::units::{print_duration, print_size};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tar::{Builder, Header};

/// Longest time of a check. An interpreter takes some milliseconds, but the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of a check.
const MEMORY: u64 = 256 << 20;
/// Runs the command of the runtime for each function.
const SCRIPT: &str = include_str!("check.sh");
/// In the command of a check: the paths of all files.
const ENTRIES: &str = "{entries}";
/// Most bytes of the files of one function: with them, the answer of the judge must fit into a frame.
const FILES_MAX: usize = 4 << 20;
/// The bytes that end an archive.
const ARCHIVE_END: usize = 1024;

/// The check of a function.
pub(super) struct ToCheck<'a> {
    runtime: &'a Runtime,
    phase: &'a RuntimePhase,
    entry: &'a JudgedFile,
}

impl Judge {
    /// Returns what there is to check of a function; nothing if its code cannot be checked without running it.
    pub(super) fn to_check<'a>(&'a self, function: &'a JudgeFunction, manifest: &Manifest) -> Option<ToCheck<'a>> {
        let mut runtimes = self.runtimes.iter();
        let runtime = runtimes.find(|runtime| runtime.summary.id == manifest.runtime)?;
        let phase = runtime.check.as_ref()?;
        // With a command of its own, another program may read the file.
        let mut commands = manifest.commands().into_iter();
        let has_command = commands.any(|(_, command)| command.is_some_and(|command| !command.is_empty()));
        if !manifest.release.check || manifest.mode == Mode::Handler || has_command {
            return None;
        }
        let mut files = function.files.iter();
        let entry = files.find(|file| path_in(function, file) == manifest.entry)?;
        let bytes = &entry.bytes.0;
        // A larger file is here only in part. A shell reads line by line, so data may follow after `exit`.
        let is_whole = !bytes.is_empty() && bytes.len() < CODE_MAX;
        let has_data = runtime.unix_text && bytes.contains(&0);
        (is_whole && !has_data).then_some(ToCheck { runtime, phase, entry })
    }

    /// Returns the build that checks a function's code; nothing if there is nothing to check.
    pub(super) fn check(&self, function: &JudgeFunction, judged: &Judged) -> Option<PlannedBuild> {
        let (manifest, plan) = judged.verdict.manifest.as_ref().zip(judged.plan.as_ref())?;
        let ToCheck { runtime, phase, entry } = self.to_check(function, manifest)?;
        // Node reads a file by what the nearest `package.json` above it says.
        let lists = &runtime.dependencies.files;
        let is_input = |file: &&JudgedFile| {
            let base = base_name(&file.path);
            let directory = file.path.strip_suffix(base).unwrap_or_default();
            manifest.entry.starts_with(directory) && lists.iter().any(|list| list == base)
        };
        let inputs = function
            .files
            .iter()
            .filter(|_| function.form.is_tree())
            .filter(is_input);
        // The interpreter gets the text that the spawner would install: with carriage returns, the syntax would be
        // another one.
        let code = match runtime.unix_text {
            true => unix_text(&entry.bytes.0),
            false => Cow::Borrowed(&*entry.bytes.0),
        };
        let directory = manifest.entry.strip_suffix(base_name(&manifest.entry));
        let path = directory.unwrap_or_default().to_owned() + &checked_name(&manifest.entry);
        let files = inputs.take(INPUTS_MAX).map(|file| (file.path.as_str(), &*file.bytes.0));
        let files = files.chain([(path.as_str(), &*code)]);
        let task = BuildPlan {
            description: "Checks the syntax of functions",
            made: Vec::new(),
            inputs: Vec::new(),
            phase: &command(phase, &path),
            arguments: Vec::new(),
            secrets: Vec::new(),
            env: BTreeMap::new(),
            network: BuildNetwork::None,
            shown: None,
            fresh_for: None,
            checked: Some(BASE64_STANDARD.encode(archive(&function.name.file_form(), files)?)),
        };
        self.build(task, runtime, Some(plan))
    }
}

/// Returns the name under which a file is checked, without its directory. Only the suffix may decide how an interpreter reads
/// it, so the name is the same for all.
#[must_use]
pub fn checked_name(entry: &str) -> String {
    let base = base_name(entry);
    let suffix = base.rfind('.').and_then(|at| base.get(at..)).unwrap_or_default();
    format!("fnd-checked{suffix}")
}

/// Returns the phase that checks the files of several functions.
fn command(phase: &RuntimePhase, path: &str) -> RuntimePhase {
    // An interpreter would take a path that begins with `-` for an option.
    let path = &*if path.starts_with('-') {
        format!("./{path}")
    } else {
        path.to_owned()
    };
    let many = phase.command.last().is_some_and(|last| last == ENTRIES);
    let words = ["/bin/sh", "-c", SCRIPT, "sh", path, if many { "1" } else { "" }].map(str::to_owned);
    let own = phase.command.iter().filter(|item| *item != ENTRIES);
    let own = own.map(|item| item.replace("{entry}", path));
    let env = phase.env.iter();
    let env = env.map(|(name, value)| (name.clone(), value.replace("{entry}", path)));
    RuntimePhase {
        command: words.into_iter().chain(own).collect(),
        env: env.collect(),
        ..phase.clone()
    }
}

/// Returns entries of an archive, without its end. Nothing: a path cannot be one of an archive, or the files are too large.
fn archive<'a>(function: &str, files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        builder
            .append_data(&mut header, format!("f/{function}/{path}"), bytes)
            .ok()?;
    }
    let mut archive = builder.into_inner().ok()?;
    // One run gets the archives of several functions one behind the other: the end of the first would hide the others.
    archive.truncate(archive.len().saturating_sub(ARCHIVE_END));
    (archive.len() <= FILES_MAX).then_some(archive)
}

/// Returns the text as the spawner installs it: without byte-order mark and carriage returns before line feeds.
fn unix_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if !bytes.contains(&b'\r') {
        return bytes.into();
    }
    let stays = |(index, byte): &(usize, &u8)| **byte != b'\r' || bytes.get(index + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(stays).map(|(_, byte)| *byte).collect()
}

/// Returns the manifest of a check whose file has this name.
pub(super) fn manifest(description: &str, made: &str, runtime: &Runtime, settings: &Settings) -> String {
    format!(
        "description = \"{description}\"\nruntime = \"{}\"\nmode = \"script\"\non_load = false\nentry = \"{made}\"\n\
         [limits]\ntimeout = \"{}\"\nmemory = \"{}\"\nhome = \"none\"\ncache = \"none\"\n\
         [retry]\nretries = 0\n[pool]\nmax = 1\n[sandbox]\nprofile = \"strict\"\n",
        runtime.summary.id,
        print_duration(settings.timeout.min(TIMEOUT)),
        // With less memory than the floor of the runtime, the manifest would be refused.
        print_size(settings.memory.min(MEMORY).max(runtime.memory_floor)),
    )
}
