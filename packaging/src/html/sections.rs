//! The headings of a document, and the text below each.

use super::OPTIONS;
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};

/// A heading and the text below it, up to the next heading.
pub(super) struct Section {
    pub(super) level: HeadingLevel,
    pub(super) heading: String,
    /// The name by which links refer to the heading: the one that the forges give it.
    pub(super) anchor: String,
    text: String,
}

impl Section {
    /// Returns each word of the text once. `assets/search.js` splits a question in the same way.
    pub(super) fn words(&self) -> String {
        let text = self.text.to_lowercase();
        let is_between = |character: char| !(character.is_alphanumeric() || "_-.".contains(character));
        let words: BTreeSet<&str> = text
            .split(is_between)
            .map(|word| word.trim_matches(['.', '-', '_']))
            .filter(|word| !word.is_empty())
            .collect();
        words.into_iter().collect::<Vec<_>>().join(" ")
    }
}

/// Returns the sections of a document. It begins with its title; text before a heading is in none.
pub(super) fn of(document: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut is_heading = false;
    for event in Parser::new_ext(document, OPTIONS) {
        if let Event::Start(Tag::Heading { level, .. }) = event {
            is_heading = true;
            sections.push(empty(level));
        }
        let Some(section) = sections.last_mut() else {
            continue;
        };
        let text = if is_heading {
            &mut section.heading
        } else {
            &mut section.text
        };
        match event {
            Event::Text(part) | Event::Code(part) | Event::Html(part) | Event::InlineHtml(part) => *text += &part,
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            // The last word of a cell and the first of the next one are two words.
            Event::SoftBreak | Event::HardBreak | Event::End(_) if !is_heading => text.push(' '),
            _ => {}
        }
    }
    name(&mut sections);
    sections
}

fn empty(level: HeadingLevel) -> Section {
    Section {
        level,
        heading: String::new(),
        anchor: String::new(),
        text: String::new(),
    }
}

/// Gives each heading its anchor; a heading that is there already gets a number behind it.
fn name(sections: &mut [Section]) {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for section in sections {
        let anchor = anchor(&section.heading);
        let before = uses.entry(anchor.clone()).or_default();
        section.anchor = match *before {
            0 => anchor,
            number => format!("{anchor}-{number}"),
        };
        *before += 1;
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_has_an_anchor_and_its_words() {
        let sections = of(
            "# A `b`\nOne\n**two**, _one_.\n\n## [x]\n|a|b|\n|-|-|\n|`limits.cpu`|d|\n\n## x\n```sh\nls --all\n```\n",
        );
        let found: Vec<_> = sections
            .iter()
            .map(|section| (section.heading.as_str(), section.anchor.as_str(), section.words()))
            .collect();
        let row = |heading, anchor, words: &str| (heading, anchor, words.to_owned());
        let expected = [
            row("A b", "a-b", "one two"),
            row("[x]", "x", "a b d limits.cpu"),
            row("x", "x-1", "all ls"),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            anchor("What `handler(event)` receives, and why"),
            "what-handlerevent-receives-and-why"
        );
    }
}
