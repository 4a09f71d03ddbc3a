//! A function that runs on files, and somebody who drops files into its directory all the time: each content is handled
//! once, whatever was killed. Some files get another name before or after their run.

use super::check::pages;
use super::findings::{Findings, short};
use super::functions::Journal;
use fastrand::Rng;
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Trigger;
use fnd_tests::wait::{PATIENCE, pause};
use fnd_tests::{Fnd, wait_until};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(crate) const NAME: &str = "takes";

/// Its code. Its queue is small, so files wait in their directory. A busy machine may hold up somebody who writes a file in
/// parts for longer than any short `settle`.
const CODE: &str = "# /// fnd
# [[file]]
# path = \"GATE/in\"
# debounce = \"30ms\"
# settle = \"5s\"
# [queue]
# max = 20
# [history]
# keep = 1000000
# ///
name=${FND_FILE##*/}
echo \"$FND_INVOCATION $DATA\" >>GATE/told
echo \"begin takes $FND_INVOCATION $FND_ATTEMPT ${name%-moved}\" >>GATE/takes
";

pub(crate) fn file() -> (&'static str, String) {
    ("takes.sh", CODE.to_owned())
}

/// Somebody who drops files.
pub(crate) struct Drops {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Drops {
    /// Begins to drop files into a directory below `gate`.
    pub(crate) fn begin(gate: &Path, mut rng: Rng) -> Self {
        let directory = gate.join("in");
        fs::create_dir_all(&directory).expect("a directory is made");
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).expect("it is ours");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                drop_one(&directory, count, &mut rng);
                count += 1;
                (0..rng.u32(1..6)).for_each(|_| pause());
            }
            count
        });
        Self { stop, thread }
    }

    /// Ends it, and waits until each file has its invocation. Returns the number of files.
    pub(crate) fn end(self, fnd: &Fnd) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.thread.join().expect("nothing fails there");
        wait_until("an invocation for each file", PATIENCE, || {
            (runs(fnd).len() >= count).then_some(())
        });
        count
    }
}

/// Drops the file of a number: written in place, in parts, or moved in; and gives an earlier one another name.
fn drop_one(directory: &Path, number: usize, rng: &mut Rng) {
    let path = |name: String| -> PathBuf { directory.join(name) };
    let write = |path: &Path| fs::write(path, format!("content {number}")).expect("a file is written");
    match rng.u32(..3) {
        0 => write(&path(number.to_string())),
        1 => {
            let hidden = path(format!(".{number}"));
            write(&hidden);
            fs::rename(hidden, path(number.to_string())).expect("it is there");
        }
        _ => {
            let file = fs::File::create(path(number.to_string())).expect("a file is made");
            pause();
            std::io::Write::write_all(&mut &file, b"in parts").expect("it is written");
        }
    }
    if number > 0 && rng.u32(..4) == 0 {
        let earlier = rng.usize(..number);
        // It may have its other name already.
        let _ = fs::rename(path(earlier.to_string()), path(format!("{earlier}-moved")));
    }
}

fn runs(fnd: &Fnd) -> Vec<InvocationView> {
    let path = format!("/v1/invocations?function={NAME}&trigger=file");
    pages(fnd, &path, |page: InvocationList| (page.invocations, page.next))
}

/// Compares the invocations with the number of files. `whole`: everything could be stored, so that none is missing.
pub(crate) fn check(fnd: &Fnd, gate: &Path, files: usize, whole: bool, found: &mut Findings) {
    let mut by_file: BTreeMap<usize, Vec<InvocationView>> = BTreeMap::new();
    for view in runs(fnd) {
        let cause = fnd.invocation(view.id).cause;
        let name = match &cause {
            Some(Cause::File(file)) => file
                .path
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .trim_end_matches("-moved"),
            _ => "",
        };
        match name.parse() {
            Ok(number) if view.trigger == Trigger::File => by_file.entry(number).or_default().push(view),
            _ => found
                .wrong
                .push(format!("it is of no file: {cause:?} {}", short(&view))),
        }
    }
    for number in 0..files {
        match by_file.get(&number).map(Vec::as_slice) {
            Some([_]) => {}
            Some(several) => found.doubled.push(format!(
                "file {number}: {:?}",
                several.iter().map(short).collect::<Vec<_>>()
            )),
            None if whole => found.lost.push(format!("file {number}")),
            None => {}
        }
    }
    let journal = Journal::read(gate, [NAME].into_iter());
    for ((id, attempt), count) in journal.begun.iter().filter(|(_, count)| **count > 1) {
        found
            .doubled
            .push(format!("attempt {attempt} of {id} ran {count} times"));
    }
    let told = fs::read_to_string(gate.join("told")).unwrap_or_default();
    for (file, ids) in journal.by_tag.iter().filter(|(_, ids)| ids.len() > 1) {
        let told = told
            .lines()
            .filter(|line| ids.iter().any(|id| line.starts_with(&id.to_string())));
        let told: Vec<_> = told.collect();
        found
            .doubled
            .push(format!("file {file} was given to {ids:?}: {told:#?}"));
    }
}
