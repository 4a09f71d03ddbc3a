//! Buttons that change something, each with the line of `fndctl` that does the same.

use maud::{Markup, html};

/// A change that a button makes.
#[derive(Debug, Clone)]
pub(crate) struct Action<'a> {
    /// The address to which the form goes.
    pub(crate) to: String,
    pub(crate) label: &'a str,
    /// The line of `fndctl`.
    pub(crate) command: String,
}

/// Returns a button with its line beside it.
pub(crate) fn action(action: &Action<'_>) -> Markup {
    html! {
        form.action method="post" action=(action.to) {
            button type="submit" { (action.label) }
            (command(&action.command))
        }
    }
}

/// Returns a button for a row of a table; the line of the row is its title, and [`command`] below the table shows the form.
pub(crate) fn small(action: &Action<'_>) -> Markup {
    html! {
        form.action method="post" action=(action.to) {
            button.small type="submit" title=(action.command) { (action.label) }
        }
    }
}

/// Returns a line of `fndctl`.
pub(crate) fn command(line: &str) -> Markup {
    html! { code.command { (line) } }
}

/// Returns the sentence below a page: the line that shows the same.
pub(crate) fn same(line: &str) -> Markup {
    html! { p.same { "The same in a terminal: " (command(line)) } }
}

/// Returns a text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Returns the body of a page that asks before it does what cannot be undone.
pub(crate) fn question(text: &str, action: &Action<'_>, keep: &str) -> Markup {
    html! {
        p { (text) }
        div.actions {
            form.action method="post" action=(action.to) {
                button.danger type="submit" { (action.label) }
                (command(&action.command))
            }
            a.button href=(keep) { "Keep" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_pasted_into_a_shell() {
        for (text, expected) in [
            ("web/a", "web/a"),
            ("", "''"),
            ("it's", r"'it'\''s'"),
            (r#"{"a": $x}"#, r#"'{"a": $x}'"#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn a_button_is_a_form_and_shows_its_line() {
        let cancel = Action {
            to: "/runs/1/cancel".to_owned(),
            label: "Cancel",
            command: "fndctl cancel 1".to_owned(),
        };
        let expected = r#"<form class="action" method="post" action="/runs/1/cancel"><button type="submit">Cancel</button><code class="command">fndctl cancel 1</code></form>"#;
        assert_eq!(action(&cancel).into_string(), expected);
        let asked = question("Sure?", &cancel, "/runs/1").into_string();
        assert!(
            asked.contains(r#"<a class="button" href="/runs/1">Keep</a>"#),
            "{asked}"
        );
    }
}
