//! The colours of a program's output: escape sequences become classes, and all else that they say is left out.

use maud::{Markup, html};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Number of a colour, 0 to 15.
    foreground: Option<u8>,
    background: Option<u8>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

/// Text of one look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    style: Style,
    text: String,
}

/// Returns the pieces of a line. The style is that of the end of the line before; afterwards it is that of the end of this one.
/// Of a line with carriage returns the last state is taken, as a terminal shows a bar of progress.
pub(crate) fn pieces(line: &str, style: &mut Style) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = line.trim_end_matches('\r').chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => escape(&mut rest, style),
            '\u{9b}' => control(&mut rest, style),
            '\r' => pieces.clear(),
            c => push(&mut pieces, *style, shown(c)),
        }
    }
    pieces
}

/// Returns the text of a line as a person sees it, for the search.
pub(crate) fn plain(line: &str) -> String {
    let pieces = pieces(line, &mut Style::default()).into_iter();
    pieces.map(|piece| piece.text).collect()
}

/// Returns the elements of a line.
pub(crate) fn colored(line: &str, style: &mut Style) -> Markup {
    html! {
        @for piece in pieces(line, style) {
            @match piece.style.classes() {
                Some(classes) => span class=(classes) { (piece.text) },
                None => (piece.text),
            }
        }
    }
}

fn push(pieces: &mut Vec<Piece>, style: Style, c: char) {
    match pieces.last_mut().filter(|piece| piece.style == style) {
        Some(piece) => piece.text.push(c),
        None => pieces.push(Piece { style, text: c.into() }),
    }
}

/// Returns the picture of a control character, because a browser shows none, and a NUL is an error in HTML. A separator of lines
/// would make another line of one.
fn shown(c: char) -> char {
    match c {
        '\t' => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => '\u{fffd}',
        c => c,
    }
}

/// Reads what follows ESC.
fn escape(rest: &mut std::str::Chars<'_>, style: &mut Style) {
    match rest.next() {
        Some('[') => control(rest, style),
        // A command for the terminal's window: a title, a link. It ends with BEL or ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = rest.next() {
                if c == '\u{7}' || c == '\u{9c}' || (c == '\u{1b}' && rest.next().is_some()) {
                    return;
                }
            }
        }
        Some(' '..='/') => {
            rest.find(|c| !matches!(*c, ' '..='/'));
        }
        // Another sequence has one character only, which is taken already.
        Some(_) | None => {}
    }
}

/// Reads a control sequence after its introducer; those that end with `m` set the style.
fn control(rest: &mut std::str::Chars<'_>, style: &mut Style) {
    let mut parameters = String::new();
    for c in rest.by_ref() {
        match c {
            '0'..='?' => parameters.push(c),
            // Characters of this kind choose no style.
            ' '..='/' => {}
            'm' => return style.select(&parameters),
            // The end of another sequence; a character that has no place in a sequence ends it, too.
            _ => return,
        }
    }
}

impl Style {
    /// Applies the numbers of a sequence.
    fn select(&mut self, parameters: &str) {
        let mut numbers = parameters.split([';', ':']).map(|number| {
            if number.is_empty() {
                0
            } else {
                number.parse().unwrap_or(u16::MAX)
            }
        });
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underline = true,
                7 => self.inverse = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                27 => self.inverse = false,
                38 => self.foreground = color(&mut numbers).or(self.foreground),
                48 => self.background = color(&mut numbers).or(self.background),
                39 => self.foreground = None,
                49 => self.background = None,
                30..=37 => self.foreground = basic(number, 30, 0),
                40..=47 => self.background = basic(number, 40, 0),
                90..=97 => self.foreground = basic(number, 90, 8),
                100..=107 => self.background = basic(number, 100, 8),
                // The page does not show other styles.
                _ => {}
            }
        }
    }

    fn classes(self) -> Option<String> {
        let (front, back) = match self.inverse {
            true => (self.background, self.foreground.or(Some(7))),
            false => (self.foreground, self.background),
        };
        // The style sheet gives a background its own colour of text, so that the text can be read.
        let color = match (front, back) {
            (_, Some(back)) => Some(format!("b{back}")),
            (Some(front), None) => Some(format!("f{front}")),
            (None, None) => None,
        };
        let flags = [
            (self.bold, "bold"),
            // A text on a background has the one colour that can be read there.
            (self.dim && back.is_none(), "dim"),
            (self.italic, "italic"),
            (self.underline, "underline"),
        ];
        let flags = flags
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, class)| class.to_owned());
        let classes: Vec<String> = color.into_iter().chain(flags).collect();
        (!classes.is_empty()).then(|| classes.join(" "))
    }
}

fn basic(number: u16, first: u16, plus: u8) -> Option<u8> {
    u8::try_from(number - first).ok().map(|number| number + plus)
}

/// Reads a colour of 256 or of all, and returns the nearest of the 16.
fn color(numbers: &mut impl Iterator<Item = u16>) -> Option<u8> {
    match numbers.next()? {
        5 => match numbers.next()? {
            number @ 0..=15 => u8::try_from(number).ok(),
            // A cube of six steps for each of red, green and blue; then 24 greys.
            number @ 16..=231 => {
                let of = |step: u16| (number - 16) / step % 6 * 51;
                Some(nearest([of(36), of(6), of(1)]))
            }
            number @ 232..=255 => Some(nearest([(number - 232) * 10 + 8; 3])),
            _ => None,
        },
        2 => Some(nearest([numbers.next()?, numbers.next()?, numbers.next()?])),
        _ => None,
    }
}

/// Returns the number of the basic colour that is nearest: a bit for each of red, green and blue, and one for bright.
fn nearest(rgb: [u16; 3]) -> u8 {
    let most = rgb.into_iter().max().unwrap_or(0);
    if most < 64 {
        return 0;
    }
    let bit = |value: u16, bit: u8| if value.saturating_mul(2) > most { bit } else { 0 };
    let [red, green, blue] = rgb;
    bit(red, 1) | bit(green, 2) | bit(blue, 4) | if most > 200 { 8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown_as(lines: &[&str]) -> String {
        let mut style = Style::default();
        let each = lines.iter().map(|line| colored(line, &mut style).into_string());
        each.collect::<Vec<_>>().join("|")
    }

    #[test]
    fn sequences_become_classes_and_nothing_else() {
        for (lines, expected) in [
            (&["plain <b>"][..], "plain &lt;b&gt;"),
            (&["\x1b[31mred\x1b[0m."], r#"<span class="f1">red</span>."#),
            (
                &["\x1b[1;93mx", "y\x1b[mz"],
                r#"<span class="f11 bold">x</span>|<span class="f11 bold">y</span>z"#,
            ),
            (&["\x1b[31;42mx"], r#"<span class="b2">x</span>"#),
            (&["\x1b[7mx"], r#"<span class="b7">x</span>"#),
            (
                &["\x1b[38;5;196mx\x1b[38;2;0;0;120my"],
                r#"<span class="f9">x</span><span class="f4">y</span>"#,
            ),
            (&["\x1b[38:5:250mx"], r#"<span class="f7">x</span>"#),
            (&["\x1b[99999mx\x1b[38;5mx"], "xx"),
            (&["a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c"], "abc"),
            (&["\x1b[2K\x1b[1Ax\x1b(By"], "xy"),
            (&["10%\r20%\r100%\r"], "100%"),
            (&["\x1b[32m1\r2\r"], r#"<span class="f2">2</span>"#),
            (&["\x1b[", "\x1b", "\x1b]0;"], "||"),
            (&["a\u{2028}b"], "a\u{fffd}b"),
            (&["a\0b\x08\tc"], "a\u{2400}b\u{2408}\tc"),
        ] {
            assert_eq!(shown_as(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn every_color_has_a_style() {
        let style = include_str!("../../assets/app.css");
        for class in (0..16).flat_map(|number| [format!(".f{number} {{"), format!(".b{number} {{")]) {
            assert!(style.contains(&class), "{class}");
        }
    }

    /// Removes the sequences in another way: by looking for their ends.
    fn without_colors(text: &str) -> String {
        let mut parts = text.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| {
            all + part.split_once('m').map_or("", |(_, after)| after)
        })
    }

    proptest! {
        /// No output of a program causes a panic or becomes markup.
        #[test]
        fn any_text_can_be_shown(line in "(\\PC|[\x00-\x1f\u{80}-\u{9f}]|\x1b\\[[0-9;:]{0,12}m?)*") {
            let html = shown_as(&[&line]);
            let without = html.replace("<span class=\"", "").replace("</span>", "");
            prop_assert!(!without.contains('<'), "{html}");
            prop_assert!(!plain(&line).contains('\x1b'));
        }

        #[test]
        fn the_text_is_the_input_without_its_sequences(line in "([a-zäß<&\" ]|\x1b\\[[0-9;]{0,9}m)*") {
            prop_assert_eq!(plain(&line), without_colors(&line));
        }
    }
}
