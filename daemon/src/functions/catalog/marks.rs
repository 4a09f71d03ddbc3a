//! Tells when all events of the past have been handled.
//!
//! Inotify reports the events of one instance in the order in which they happened (inotify(7)), but late if the machine
//! is busy. So a question about "now" creates a file in a directory that the same instance watches: when the event of
//! this file arrives, every earlier event has arrived too.

use fnd_core::lifecycle::SourceFiles;
use fnd_wire::ids::FunctionName;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for the event of a mark. The event is lost only if somebody removes the directory.
const WAIT: Duration = Duration::from_secs(10);

/// A question about the files of a function as they are now.
#[derive(Debug)]
pub(super) enum Question {
    /// Whether they are still the same.
    Same(u32, SourceFiles),
    /// Whether they were reported as they are.
    Reported(u32, FunctionName),
}

#[derive(Debug)]
struct WaitingQuestion {
    mark: u64,
    since: Duration,
    question: Question,
}

/// The directory, and the questions that wait for the event of a mark.
#[derive(Debug)]
pub(super) struct Marks {
    directory: PathBuf,
    last: u64,
    /// In the order of their marks.
    waiting: Vec<WaitingQuestion>,
}

impl Marks {
    /// Uses an existing directory. Without it no question waits.
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            last: 0,
            waiting: Vec::new(),
        }
    }

    /// Sets a mark for a question. Gives the question back if that is not possible.
    pub(super) fn ask(&mut self, question: Question, now: Duration) -> Option<Question> {
        self.last += 1;
        // inotify(7) reports events in their order. So the event of this file comes after those of all changes before
        // it.
        let path = self.directory.join(self.last.to_string());
        if File::create(&path).is_err() {
            return Some(question);
        }
        // A file that cannot be removed does no harm: the next fnd writes to it again.
        let _ = fs::remove_file(&path);
        self.waiting.push(WaitingQuestion {
            mark: self.last,
            since: now,
            question,
        });
        None
    }

    /// Returns the questions that an event answers: those of its mark and of earlier marks.
    pub(super) fn arrived(&mut self, mark: u64) -> Vec<Question> {
        let known = self.waiting.partition_point(|waiting| waiting.mark <= mark);
        self.waiting.drain(..known).map(|waiting| waiting.question).collect()
    }

    /// Returns when the first question has waited for too long.
    pub(super) fn due(&self) -> Option<Duration> {
        self.waiting.first().map(|waiting| waiting.since + WAIT)
    }

    /// Returns the mark of the last question that has waited for too long.
    pub(super) fn overdue(&self, now: Duration) -> Option<u64> {
        let late = self.waiting.iter().take_while(|waiting| waiting.since + WAIT <= now);
        late.last().map(|waiting| waiting.mark)
    }
}

/// Returns the mark that a path names.
pub(super) fn mark(path: &Path, directory: &Path) -> Option<u64> {
    path.strip_prefix(directory).ok()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(number: u32) -> Question {
        Question::Reported(number, FunctionName::new("f").unwrap())
    }

    fn number(question: &Question) -> u32 {
        match question {
            Question::Same(number, _) | Question::Reported(number, _) => *number,
        }
    }

    fn numbers(questions: &[Question]) -> Vec<u32> {
        questions.iter().map(number).collect()
    }

    #[test]
    fn a_mark_answers_its_question_and_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let mut marks = Marks::new(dir.path().to_owned());
        let at = Duration::from_secs;
        assert_eq!(marks.due(), None);
        for number in [7, 8, 9] {
            assert!(marks.ask(question(number), at(u64::from(number))).is_none());
        }
        assert_eq!(marks.due(), Some(at(7) + WAIT));
        assert_eq!(numbers(&marks.arrived(2)), [7, 8]);
        // Each mark causes several events.
        assert_eq!(numbers(&marks.arrived(2)), [0; 0]);
        assert_eq!(marks.overdue(at(8) + WAIT), None);
        assert_eq!(marks.overdue(at(9) + WAIT), Some(3));
        assert_eq!(numbers(&marks.arrived(3)), [9]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_its_directory_a_question_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut marks = Marks::new(dir.path().join("marks"));
        assert_eq!(marks.ask(question(7), Duration::ZERO).as_ref().map(number), Some(7));
        assert_eq!(marks.due(), None);
    }

    #[test]
    fn only_a_number_in_the_directory_is_a_mark() {
        let of = |path: &str| mark(Path::new(path), Path::new("/run/marks"));
        assert_eq!(of("/run/marks/12"), Some(12));
        for path in ["/run/marks", "/run/marks/x", "/run/12", "/run/marks/12/12"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
