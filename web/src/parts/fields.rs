//! The form "Run": a field for each field of the input's schema, else one text area for the payload.

use super::actions::quoted;
use fnd_core::input::{Assignment, Field, FieldKind, payload, shown};
use maud::{Markup, html};

/// The mistakes of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The place in the payload, as a JSON pointer; empty: the whole.
    pub(crate) pointer: String,
    pub(crate) text: String,
}

/// A form as it was sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    pub(crate) values: Vec<(String, String)>,
    pub(crate) mistakes: Vec<Mistake>,
    /// The status of the answer to a form with mistakes.
    pub(crate) status: u16,
}

/// Before the name of each field of the input, so that a field of any name is none of the form's own.
const PREFIX: &str = "in.";
/// The one field of an input without a schema.
const PAYLOAD: &str = "payload";

/// Returns the inside of the form "Run".
pub(crate) fn inputs(fields: &[Field], sent: &Sent) -> Markup {
    html! {
        @for mistake in sent.mistakes.iter().filter(|mistake| of(fields, mistake).is_none()) {
            p.mistake role="alert" { (mistake.text) }
        }
        @if fields.is_empty() {
            label { span { "Payload" } textarea name=(PAYLOAD) rows="2" spellcheck="false" { (sent.value(PAYLOAD).unwrap_or_default()) } }
            p.hint { "JSON is sent as JSON, all else as text. Leave it empty to send nothing." }
        }
        @for (place, field) in fields.iter().enumerate() {
            div.field { (input(place, field, fields, sent)) }
        }
    }
}

fn input(place: usize, field: &Field, fields: &[Field], sent: &Sent) -> Markup {
    let (id, hint) = (format!("in-{place}"), format!("in-{place}-hint"));
    let mistakes = sent
        .mistakes
        .iter()
        .filter(|mistake| of(fields, mistake) == Some(field));
    let mistakes: Vec<_> = mistakes.collect();
    html! {
        label for=(id) { (field.title.as_deref().unwrap_or(&field.name)) @if field.required { " " span.hint { "(required)" } } }
        (control(field, (&id, &hint), sent, !mistakes.is_empty()))
        div.hint #(hint) {
            @if field.title.is_some() { code { (field.name) } @if field.description.is_some() { ": " } }
            @if let Some(text) = &field.description { (text) }
            @if let Some(value) = &field.default { (stop(field)) "Without a value: " code { (shown(value)) } "." }
            @for mistake in mistakes { p.mistake role="alert" { (mistake.text) } }
        }
    }
}

/// Returns the end of the sentence before the default.
fn stop(field: &Field) -> &'static str {
    match field.description.as_deref() {
        Some(text) if text.ends_with(['.', '!', '?']) => " ",
        None if field.title.is_none() => "",
        Some(_) | None => ". ",
    }
}

/// Returns the element for the values of a field.
fn control(field: &Field, (id, hint): (&str, &str), sent: &Sent, wrong: bool) -> Markup {
    let name = format!("{PREFIX}{}", field.name);
    let value = sent.value(&name).unwrap_or_default();
    let required = field.required;
    let invalid = wrong.then_some("true");
    if !field.choices.is_empty() {
        return html! {
            select id=(id) name=(name) required[required] aria-describedby=(hint) aria-invalid=[invalid] {
                option value="" { "–" }
                @for choice in field.choices.iter().map(shown) { option value=(choice) selected[choice == value] { (choice) } }
            }
        };
    }
    match field.kind {
        FieldKind::Boolean => html! {
            input id=(id) name=(name) type="checkbox" value="true" checked[sent.is_checked(field)] aria-describedby=(hint) aria-invalid=[invalid];
        },
        FieldKind::Array | FieldKind::Object | FieldKind::Any => html! {
            textarea id=(id) name=(name) rows="3" spellcheck="false" required[required] aria-describedby=(hint) aria-invalid=[invalid] { (value) }
        },
        FieldKind::String | FieldKind::Integer | FieldKind::Number => html! {
            input id=(id) name=(name) type=(kind(field)) step=[(field.kind == FieldKind::Number).then_some("any")]
                value=(value) required[required] autocomplete="off" aria-describedby=(hint) aria-invalid=[invalid];
        },
    }
}

fn kind(field: &Field) -> &'static str {
    match (field.kind, field.format.as_deref()) {
        (FieldKind::Integer | FieldKind::Number, _) => "number",
        (_, Some("date")) => "date",
        (_, Some("email")) => "email",
        (_, Some("uri")) => "url",
        _ => "text",
    }
}

/// Returns the field that a mistake is about: the longest one whose place is the place of the mistake, or lies above it.
fn of<'a>(fields: &'a [Field], mistake: &Mistake) -> Option<&'a Field> {
    let is_about = |field: &&Field| {
        let below = mistake.pointer.strip_prefix(&pointer(field));
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    fields.iter().filter(is_about).max_by_key(|field| field.path.len())
}

fn pointer(field: &Field) -> String {
    let step = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    field.path.iter().map(step).collect()
}

impl Sent {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.values.iter().filter(|(key, _)| key == name);
        values.next().map(|(_, value)| value.as_str())
    }

    /// Returns the text of a field; nothing for one that is empty. A box without a mark is `false` only where the field must be
    /// there, or would be `true` without a value: a browser sends nothing for it.
    fn filled(&self, field: &Field) -> Option<String> {
        let value = self
            .value(&format!("{PREFIX}{}", field.name))
            .filter(|value| !value.is_empty())
            .map(lines);
        let is_needed = field.required || field.default == Some(true.into());
        match field.kind {
            FieldKind::Boolean => value.or_else(|| is_needed.then(|| "false".to_owned())),
            _ => value,
        }
    }

    /// Returns whether the box of a field has a mark; at first it shows the default.
    fn is_checked(&self, field: &Field) -> bool {
        // A form that was sent without a mark has no value of the box, perhaps none at all.
        let is_default = self.values.is_empty() && self.mistakes.is_empty() && field.default == Some(true.into());
        is_default || self.value(&format!("{PREFIX}{}", field.name)) == Some("true")
    }

    /// Returns the payload that the form makes, with its media type; no bytes for a form without a value.
    ///
    /// # Errors
    /// A value is none of its field's type.
    pub(crate) fn payload(&self, fields: &[Field]) -> Result<(&'static str, Vec<u8>), Vec<Mistake>> {
        if fields.is_empty() {
            let text = lines(self.value(PAYLOAD).unwrap_or_default());
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            let media = if is_json {
                "application/json"
            } else {
                "text/plain; charset=utf-8"
            };
            return Ok((media, text.into_bytes()));
        }
        let filled: Vec<_> = fields
            .iter()
            .filter_map(|field| Some((field, self.filled(field)?)))
            .collect();
        let mistakes = filled.iter().filter_map(|(field, value)| {
            let text = field.value(value).err()?;
            let pointer = pointer(field);
            Some(Mistake { pointer, text })
        });
        let mistakes: Vec<_> = mistakes.collect();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let assignments = filled
            .iter()
            .map(|(field, value)| Assignment::of_text(&field.name, value));
        let whole = |text| {
            vec![Mistake {
                pointer: String::new(),
                text,
            }]
        };
        let value = payload(fields, &assignments.collect::<Vec<_>>()).map_err(whole)?;
        Ok(("application/json", value.to_string().into_bytes()))
    }
}

/// Returns a text with the line ends that a person typed: a browser sends each as CR LF.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Returns the line of `fndctl` for a form with these fields. The author of the function chose their names.
pub(crate) fn command(function: &str, fields: &[Field]) -> String {
    let assigned = |field: &Field| match field.kind {
        FieldKind::String => format!(" --set {}=…", quoted(&field.name)),
        _ => format!(" --set {}:=…", quoted(&field.name)),
    };
    let options: String = match fields {
        [] => " -d @FILE".to_owned(),
        fields => fields.iter().filter(|field| field.required).map(assigned).collect(),
    };
    format!("fndctl invoke {function} --async{options}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::input::fields;
    use serde_json::json;

    fn schema() -> Vec<Field> {
        fields(&json!({"required": ["name"], "properties": {
            "name": {"type": "string", "title": "Name of the person"},
            "count": {"type": "integer", "description": "How many."},
            "size": {"enum": ["small", "large"]},
            "tags": {"type": "array"},
            "note": {},
            "loud": {"type": "boolean", "default": true},
        }}))
    }

    fn sent(values: &[(&str, &str)]) -> Sent {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Sent {
            values: values.collect(),
            ..Sent::default()
        }
    }

    fn text(sent: &Sent, fields: &[Field]) -> Result<String, Vec<Mistake>> {
        let (_, bytes) = sent.payload(fields)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_form_makes_the_payload_of_its_filled_fields() {
        let form = sent(&[
            ("in.name", "Ada"),
            ("in.count", "3"),
            ("in.size", ""),
            ("in.tags", "[1]"),
            ("in.note", "a\r\nb"),
            ("other", "x"),
        ]);
        let value: serde_json::Value = serde_json::from_str(&text(&form, &schema()).unwrap()).unwrap();
        assert_eq!(
            value,
            json!({"name": "Ada", "count": 3, "tags": [1], "note": "a\nb", "loud": false})
        );
        let mistakes = text(&sent(&[("in.count", "x")]), &schema()).unwrap_err();
        assert_eq!(mistakes[0].pointer, "/count");
        let plain = |value| sent(&[("payload", value)]).payload(&[]).unwrap();
        assert_eq!(plain("{\"a\": 1}").0, "application/json");
        assert_eq!(plain("a\r\nb"), ("text/plain; charset=utf-8", b"a\nb".to_vec()));
    }

    #[test]
    fn a_box_without_a_mark_stays_so_when_the_form_is_shown_again() {
        let is_checked = |sent: &Sent| inputs(&schema(), sent).into_string().contains(" checked");
        let mistake = Mistake {
            pointer: String::new(),
            text: "wrong".to_owned(),
        };
        let refused = Sent {
            mistakes: vec![mistake],
            ..Sent::default()
        };
        assert!(is_checked(&Sent::default()) && !is_checked(&refused));
    }

    #[test]
    fn the_name_of_a_field_is_one_word_of_the_line() {
        let hostile = fields(&json!({"required": ["$(id)"], "properties": {"$(id)": {"type": "string"}}}));
        assert_eq!(
            command("hello", &hostile),
            "fndctl invoke hello --async --set '$(id)'=…"
        );
    }

    #[test]
    fn a_mistake_stands_at_its_field() {
        let mistake = |pointer: &str, text: &str| Mistake {
            pointer: pointer.to_owned(),
            text: text.to_owned(),
        };
        let form = Sent {
            mistakes: vec![mistake("/tags/0", "expected a text"), mistake("/other", "not known")],
            ..sent(&[("in.name", "A&B")])
        };
        let html = inputs(&schema(), &form).into_string();
        let whole = html.find("not known").unwrap();
        let first = html.find("<div class=\"field\">").unwrap();
        let tags = html.find("name=\"in.tags\"").unwrap();
        let of_tags = html.find("expected a text").unwrap();
        assert!(whole < first && tags < of_tags, "{html}");
        assert!(
            html.contains("value=\"A&amp;B\"") && html.contains("Name of the person"),
            "{html}"
        );
        assert_eq!(html.matches("aria-invalid").count(), 1, "{html}");
    }

    #[test]
    fn a_hint_has_sentences() {
        let all = fields(&json!({"properties": {
            "a": {"type": "integer", "title": "A", "description": "How many", "default": 1},
            "b": {"type": "integer", "title": "B", "default": 2},
            "c": {"type": "integer", "description": "How far.", "default": 3},
            "d": {"type": "integer", "default": 4},
        }}));
        let html = inputs(&all, &sent(&[])).into_string();
        for expected in [
            "<code>a</code>: How many. Without a value: <code>1</code>.",
            "<code>b</code>. Without a value: <code>2</code>.",
            ">How far. Without a value: <code>3</code>.",
            ">Without a value: <code>4</code>.",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn without_a_schema_there_is_one_text_area() {
        let html = inputs(&[], &sent(&[("payload", "</textarea>")])).into_string();
        assert!(html.contains("&lt;/textarea&gt;</textarea>"), "{html}");
        assert_eq!(command("hello", &[]), "fndctl invoke hello --async -d @FILE");
        assert_eq!(command("hello", &schema()), "fndctl invoke hello --async --set name=…");
    }
}
