//! Refuses messages that hyper accepts although two programs can see their beginning or end in different places. With a
//! proxy before fnd, such a message can smuggle a request past the proxy (RFC 9112, sections 2.2, 6.3 and 11.2).
//!
//! This module follows the bytes of a connection from message to message and changes nothing: hyper reads the same
//! bytes.

/// Longest line of a head that is kept: the lines that matter are three headers with a length or a list of codings. Of
/// a longer line only the end is searched for.
const LINE_MAX: usize = 128;

/// The fault of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum WrongFraming {
    /// A line ends without a carriage return.
    #[error("a line of the request ends without a carriage return (RFC 9112, section 2.2)")]
    LineEnd,
    /// The header `Host` is missing.
    #[error("the header `Host` is missing (RFC 9112, section 3.2)")]
    NoHost,
    /// The header `Host` occurs more than once.
    #[error("the header `Host` appears more than once (RFC 9112, section 3.2)")]
    Hosts,
    /// `Content-Length` and `Transfer-Encoding` both occur, or one of them twice.
    #[error(
        "the request has more than one `Content-Length` or `Transfer-Encoding`: send one of them (RFC 9112, section 6.3)"
    )]
    TwoLengths,
    /// `Transfer-Encoding` is not just `chunked`.
    #[error("the only known `Transfer-Encoding` is `chunked` (RFC 9112, section 6.1)")]
    Coding,
    /// `Content-Length` or the size of a chunk is too long to be followed.
    #[error(
        "the line of `Content-Length` or of a chunk's size is longer than 128 bytes: send the number without zeros and spaces before it"
    )]
    Digits,
    /// The target and the header `Host` name different hosts.
    #[error("the target and the header `Host` name different hosts (RFC 9112, section 3.2.2)")]
    OtherHost,
}

/// Follows the messages of a connection.
#[derive(Debug)]
pub(super) struct Framing {
    at: FramingState,
    line: [u8; LINE_MAX],
    /// Number of bytes of the line so far, including those that were not kept.
    length: usize,
    /// The last of these bytes, in case the line feed comes alone in the next read.
    last: u8,
    head: MessageHead,
    /// Number of heads that have ended.
    pub(super) heads: u64,
    /// The first faulty message, counted from 1.
    wrong: Option<(u64, WrongFraming)>,
}

/// The headers seen in a head.
#[derive(Debug, Default)]
struct MessageHead {
    hosts: u32,
    content_length: Option<u64>,
    is_chunked: bool,
    /// How often either of the two occurs.
    lengths: u32,
    is_strange: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FramingState {
    /// Before the first line; empty lines are skipped.
    Start,
    Head,
    /// In a body of which this many bytes are left.
    Body(u64),
    ChunkSize,
    /// In a chunk of which this many bytes are left, including its line end.
    Chunk(u64),
    Trailers,
    /// hyper refuses the message and closes the connection, or it was refused here. No message may come to here that hyper
    /// accepts: nothing of the connection is checked after it.
    Over,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self {
            at: FramingState::Start,
            line: [0; LINE_MAX],
            length: 0,
            last: 0,
            head: MessageHead::default(),
            heads: 0,
            wrong: None,
        }
    }

    /// Returns the fault of the message with this number, counted from 1: its own, or that of one before it.
    pub(super) fn wrong_with(&self, number: u64) -> Option<WrongFraming> {
        self.wrong.filter(|(at, _)| *at <= number).map(|(_, wrong)| wrong)
    }

    /// Returns whether a head has begun and not ended.
    pub(super) fn is_in_head(&self) -> bool {
        self.at == FramingState::Head || (self.at == FramingState::Start && self.length > 0)
    }

    /// Follows no further bytes: they are not HTTP/1.1.
    pub(super) fn stop(&mut self) {
        self.at = FramingState::Over;
    }

    /// Processes bytes that were read.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.at {
                FramingState::Over => return,
                FramingState::Body(left) | FramingState::Chunk(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = bytes.get(count..).unwrap_or_default();
                    let left = left - count as u64;
                    self.at = match (self.at, left) {
                        (FramingState::Chunk(_), 0) => FramingState::ChunkSize,
                        (FramingState::Chunk(_), left) => FramingState::Chunk(left),
                        (_, 0) => FramingState::Start,
                        (_, left) => FramingState::Body(left),
                    };
                }
                FramingState::Start | FramingState::Head | FramingState::ChunkSize | FramingState::Trailers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (piece, rest) = match end {
                        Some(end) => bytes.split_at(end + 1),
                        None => (bytes, &[][..]),
                    };
                    self.keep(piece);
                    bytes = rest;
                    if end.is_some() {
                        let before = piece.len().checked_sub(2).and_then(|at| piece.get(at));
                        self.line_ended(before.copied().unwrap_or(self.last));
                        (self.length, self.last) = (0, 0);
                    } else {
                        self.last = piece.last().copied().unwrap_or(self.last);
                    }
                }
            }
        }
    }

    /// Keeps a piece of a line, as far as it fits.
    fn keep(&mut self, piece: &[u8]) {
        let from = self.length.min(LINE_MAX);
        let count = piece.len().min(LINE_MAX - from);
        if let (Some(to), Some(piece)) = (self.line.get_mut(from..from + count), piece.get(..count)) {
            to.copy_from_slice(piece);
        }
        self.length = self.length.saturating_add(piece.len());
    }

    /// Processes the end of a line; `before` is the byte before its line feed.
    fn line_ended(&mut self, before: u8) {
        // hyper takes a bare line feed for the end of a line. A proxy that does not would see one longer line, and so
        // another request than fnd.
        if before != b'\r' {
            return self.refuse(WrongFraming::LineEnd);
        }
        let line: &[u8] = self.line.get(..self.length.min(LINE_MAX)).unwrap_or_default();
        let line = line.strip_suffix(b"\r\n").unwrap_or(line);
        match self.at {
            // A server should ignore empty lines before a request (RFC 9112, section 2.2), and hyper does.
            FramingState::Start if line.is_empty() => {}
            FramingState::Start => {
                self.head = MessageHead::default();
                self.at = FramingState::Head;
            }
            FramingState::Head if line.is_empty() => self.head_ended(),
            FramingState::Head => self.header(self.length <= LINE_MAX),
            FramingState::ChunkSize => {
                // An extension may follow the digits. hyper skips it as well, and refuses anything else.
                let digits: Vec<u8> = line.iter().copied().take_while(u8::is_ascii_hexdigit).collect();
                if digits.len() == LINE_MAX {
                    return self.refuse(WrongFraming::Digits); // hyper accepts any number of zeros
                }
                let size = str::from_utf8(&digits)
                    .ok()
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok());
                self.at = match size {
                    Some(0) => FramingState::Trailers,
                    Some(size) => FramingState::Chunk(size.saturating_add(2)),
                    None => FramingState::Over,
                };
            }
            FramingState::Trailers if line.is_empty() => self.at = FramingState::Start,
            // A trailer does not change the framing. The other states are not read by lines.
            FramingState::Trailers | FramingState::Body(_) | FramingState::Chunk(_) | FramingState::Over => {}
        }
    }

    fn header(&mut self, is_all: bool) {
        let line = self.line.get(..self.length.min(LINE_MAX)).unwrap_or_default();
        // hyper refuses a line without a colon.
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"host") {
            self.head.hosts += 1;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.head.is_chunked = true;
            self.head.lengths += 1;
            self.head.is_strange |= !is_all || !value.trim_ascii().eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"content-length") {
            self.head.lengths += 1;
            if !is_all {
                return self.refuse(WrongFraming::Digits); // hyper accepts any number of spaces and zeros
            }
            let text = str::from_utf8(value).ok();
            self.head.content_length = text.and_then(|text| text.trim().parse().ok());
        }
    }

    fn head_ended(&mut self) {
        if self.head.hosts > 1 {
            return self.refuse(WrongFraming::Hosts);
        }
        if self.head.lengths > 1 {
            return self.refuse(WrongFraming::TwoLengths);
        }
        if self.head.is_strange {
            return self.refuse(WrongFraming::Coding);
        }
        if self.head.lengths == 1 && !self.head.is_chunked && self.head.content_length.is_none() {
            return self.stop(); // hyper refuses a length that is no number
        }
        self.heads += 1;
        self.at = match self.head.content_length {
            _ if self.head.is_chunked => FramingState::ChunkSize,
            Some(length) if length > 0 => FramingState::Body(length),
            _ => FramingState::Start,
        };
    }

    /// Marks the present message as faulty; the bytes after it cannot be trusted.
    fn refuse(&mut self, wrong: WrongFraming) {
        // The line of a chunk belongs to the message whose head has ended.
        let number = match self.at {
            FramingState::ChunkSize | FramingState::Trailers => self.heads,
            FramingState::Start
            | FramingState::Head
            | FramingState::Body(_)
            | FramingState::Chunk(_)
            | FramingState::Over => self.heads + 1,
        };
        self.wrong = Some((number, wrong));
        self.at = FramingState::Over;
    }
}

#[cfg(test)]
mod tests;
