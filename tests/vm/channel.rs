//! The messages of the agent in the machine: answers to commands, and reports of boots.

use fnd_tests::Run;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Both directions, and the received messages that the test has not read yet.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) reader: BufReader<UnixStream>,
    line: Vec<u8>,
    /// Results of commands that ended, until they are read.
    pub(crate) answers: HashMap<u64, Run>,
    /// Ids of boots since the last check.
    pub(crate) boots: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Boot {
        boot: String,
    },
    Answer {
        id: u64,
        code: i32,
        stdout: String,
        stderr: String,
    },
}

impl Channel {
    /// Returns the channel over a connected socket.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            reader: BufReader::new(stream),
            line: Vec::new(),
            answers: HashMap::new(),
            boots: Vec::new(),
        }
    }

    /// Takes the next message, if one comes within `patience`.
    pub(crate) fn receive(&mut self, patience: Duration) {
        self.reader
            .get_ref()
            .set_read_timeout(Some(patience))
            .expect("a timeout can be set");
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(0) => panic!("the machine is gone"),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => panic!("failed to read from the machine: {error}"),
        }
        let line = std::mem::take(&mut self.line);
        // If the power was cut within a line, that half line and the first line of the next boot come as one, which is
        // no message.
        match serde_json::from_slice(&line) {
            Ok(Message::Boot { boot }) => self.boots.push(boot),
            Ok(Message::Answer {
                id,
                code,
                stdout,
                stderr,
            }) => {
                let run = Run {
                    code,
                    stdout: stdout.into_bytes(),
                    stderr,
                };
                self.answers.insert(id, run);
            }
            Err(_) => {}
        }
    }
}
