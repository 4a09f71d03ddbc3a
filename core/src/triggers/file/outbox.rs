//! Messages to fnd in their order, in pieces. The order matters: an inode that is gone may be used by another file at once.

use super::message::{FILES_MAX, FromWatcher};
use crate::records::SeenFile;
use std::collections::VecDeque;

/// Bytes of the paths of one message: far below `MESSAGE_MAX`, with room for the other fields.
pub(super) const PATHS_MAX: usize = 512 << 10;

/// The messages that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<FromWatcher>,
    /// Bytes of the paths of the last message.
    bytes: usize,
}

impl Outbox {
    pub(super) fn say(&mut self, message: FromWatcher) {
        self.messages.push_back(message);
        self.bytes = 0;
    }

    pub(super) fn seen(&mut self, file: SeenFile) {
        self.bytes += file.path.0.len();
        match self.messages.back_mut() {
            Some(FromWatcher::Seen(files)) if files.len() < FILES_MAX && self.bytes <= PATHS_MAX => files.push(file),
            _ => {
                let bytes = file.path.0.len();
                self.say(FromWatcher::Seen(vec![file]));
                self.bytes = bytes;
            }
        }
    }

    pub(super) fn gone(&mut self, directory: u16, inode: u64) {
        match self.messages.back_mut() {
            Some(FromWatcher::Gone(files)) if files.len() < FILES_MAX => files.push((directory, inode)),
            _ => self.say(FromWatcher::Gone(vec![(directory, inode)])),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = FromWatcher> {
        self.messages.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triggers::file::message::{MESSAGE_MAX, PATH_MAX};
    use fnd_wire::form::{Bytes, Wire as _};

    #[test]
    fn every_message_fits_and_the_order_stays() {
        let mut outbox = Outbox::default();
        let file = |inode| SeenFile {
            directory: 0,
            path: Bytes(vec![b'a'; PATH_MAX]),
            inode,
            device: 0,
            size: 0,
            modified_ns: 0,
            changed_ns: 0,
            hash: Some(1),
        };
        (0..3000).for_each(|inode| outbox.seen(file(inode)));
        (0..3000).for_each(|inode| outbox.gone(0, inode));
        outbox.seen(file(7));
        let messages: Vec<_> = outbox.drain().collect();
        assert!(messages.iter().all(|message| message.to_wire().len() < MESSAGE_MAX));
        let mut inodes = Vec::new();
        for message in &messages {
            match message {
                FromWatcher::Seen(files) => inodes.extend(files.iter().map(|file| file.inode)),
                FromWatcher::Gone(files) => inodes.extend(files.iter().map(|file| file.1)),
                other => panic!("{other:?}"),
            }
        }
        assert!(inodes.into_iter().eq((0..3000).chain(0..3000).chain([7])));
    }
}
