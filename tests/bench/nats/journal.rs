//! The journal of a function, in which each handled message is a line: the nanoseconds from its publication to its beginning. Each look
//! reads only the lines that are new, so that the looks take no time from the messages that they count.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct Journal {
    path: PathBuf,
    /// The bytes before the first line that was not read.
    read: u64,
    times: Vec<Duration>,
}

impl Journal {
    /// Returns a journal whose present lines do not count. No message is handled meanwhile.
    pub(super) fn from_now(path: PathBuf) -> Self {
        let read = fs::metadata(&path).map_or(0, |file| file.len());
        let times = Vec::new();
        Self { path, read, times }
    }

    /// Reads what is new; returns how many messages are handled since the beginning.
    pub(super) fn count(&mut self) -> usize {
        // A handler makes the file when it is loaded.
        if let Ok(file) = File::open(&self.path) {
            self.read_lines(file);
        }
        self.times.len()
    }

    fn read_lines(&mut self, mut file: File) {
        let mut text = String::new();
        let read = file.seek(SeekFrom::Start(self.read));
        read.and_then(|_| file.read_to_string(&mut text))
            .expect("a journal is a text");
        // The last line may not be whole yet.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            self.read += u64::try_from(line.len()).expect("a line is short");
            let ns: u64 = line.trim_end().parse().expect("a handler writes numbers");
            self.times.push(Duration::from_nanos(ns));
        }
    }

    /// Returns the times of the messages that were counted.
    pub(super) fn into_times(self) -> Vec<Duration> {
        self.times
    }
}
