//! The last lines that an attempt printed, for hooks and alerts. Pure: lines in, text out.

/// Most bytes of the text.
const BYTES_MAX: usize = 4 << 10;
/// Most lines of the text.
const LINES_MAX: usize = 20;

/// The end of what was printed, on both streams together.
#[derive(Debug, Default)]
pub(super) struct LastLines {
    /// Whole lines with their line ends; the beginning may be cut.
    bytes: Vec<u8>,
}

impl LastLines {
    /// Takes the next line.
    pub(super) fn see(&mut self, line: &[u8]) {
        let end = line.len().saturating_sub(BYTES_MAX);
        self.bytes.extend_from_slice(line.get(end..).unwrap_or_default());
        self.bytes.push(b'\n');
        // Cut rarely, so that a line is moved at most a few times.
        if self.bytes.len() > 4 * BYTES_MAX {
            let excess = self.bytes.len() - BYTES_MAX;
            self.bytes.drain(..excess);
        }
    }

    /// Returns the lines without the last line end, unprintable bytes replaced. If they are too long, the text begins
    /// with the first line that fits whole, or in the middle of the only one.
    pub(super) fn text(&self) -> String {
        let all = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let cut = all.len().saturating_sub(BYTES_MAX);
        let mut last = all.get(cut..).unwrap_or_default();
        if let Some(end) = last.iter().position(|byte| *byte == b'\n').filter(|_| cut > 0) {
            last = last.get(end + 1..).unwrap_or_default();
        }
        let ends = last.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        if let Some((end, _)) = ends.take(LINES_MAX).nth(LINES_MAX - 1) {
            last = last.get(end + 1..).unwrap_or_default();
        }
        String::from_utf8_lossy(last).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(lines: &[&str]) -> String {
        let mut last = LastLines::default();
        lines.iter().for_each(|line| last.see(line.as_bytes()));
        last.text()
    }

    #[test]
    fn the_last_lines_stay() {
        assert_eq!(text(&[]), "");
        assert_eq!(text(&["a", "", "b"]), "a\n\nb");
        let many: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(text(&many), many[30..].join("\n"));
        let long = "x".repeat(3000);
        assert_eq!(text(&["first", &long, &long]), long);
        assert_eq!(text(&[&"y".repeat(10_000)]).len(), BYTES_MAX);
    }

    proptest! {
        /// Against all lines at once.
        #[test]
        fn the_text_is_the_end_of_the_output(lines in proptest::collection::vec("[a-z]{0,300}", 0..60)) {
            let mut last = LastLines::default();
            lines.iter().for_each(|line| last.see(line.as_bytes()));
            let text = last.text();
            let mut expected: Vec<&str> = Vec::new();
            let mut size = 0;
            for line in lines.iter().rev() {
                size += line.len() + usize::from(!expected.is_empty());
                if size > BYTES_MAX || expected.len() == LINES_MAX {
                    break;
                }
                expected.push(line);
            }
            expected.reverse();
            prop_assert_eq!(text, expected.join("\n"));
        }
    }
}
