//! The payload of `invoke`, made of values for the fields of the function's input: from `--set`, and asked for at a terminal.

use super::candidates;
use crate::client::request;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::FunctionDetail;
use fnd_core::data::Data;
use fnd_core::input::{AssignedValue, Assignment, Field, InputSchema, fields, payload, shown};
use fnd_core::records::Payload;
use fnd_manifest::function::payload_schema::words;
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;
use std::io::{self, IsTerminal as _, Write as _};

/// The options that make a payload of fields.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgument {
    /// Set a field of the payload: `name=Ada`, `n:=3` (JSON), `to.city=Ulm` (an object in it); may be repeated.
    ///
    /// With `=` the text becomes a value of the field's type: an integer, a number, a boolean. `fndctl show` lists the fields.
    #[arg(long = "set", value_name = "NAME=TEXT|NAME:=JSON", conflicts_with_all = ["data", "text"], add = candidates::fields())]
    set: Vec<String>,

    /// Ask at the terminal for each field of the function's input that no `--set` names.
    #[arg(long, conflicts_with_all = ["data", "text"])]
    ask: bool,
}

impl InputArgument {
    /// Returns the JSON that the options make; nothing if there are none.
    ///
    /// # Errors
    /// A value is none of its field's type, the payload does not match the schema, nobody can be asked, or fnd does not answer.
    pub(crate) async fn read(&self, context: &Context, function: &str) -> Result<Option<Vec<u8>>, CommandFailure> {
        if self.set.is_empty() && !self.ask {
            return Ok(None);
        }
        let assignments: Result<Vec<_>, _> = self.set.iter().map(|text| Assignment::parse(text)).collect();
        let mut assignments = assignments.map_err(|why| CommandFailure::usage(format!("--set {why}")))?;
        let schema = self.schema(context, function).await?;
        let fields = schema.as_ref().map(fields).unwrap_or_default();
        if self.ask {
            check_askable(function, &fields)?;
            let missing = fields.iter().filter(|field| is_missing(field, &assignments));
            let asked: Vec<_> = missing.map(ask).collect::<Result<_, _>>()?;
            assignments.extend(asked.into_iter().flatten());
        }
        let payload = payload(&fields, &assignments).map_err(|why| wrong(function, &why))?;
        let bytes = payload.to_string().into_bytes();
        check(schema.as_ref(), &bytes).map_err(|mistakes| wrong(function, &mistakes))?;
        Ok(Some(bytes))
    }

    /// Returns the schema of the function's input, if it has one.
    async fn schema(&self, context: &Context, function: &str) -> Result<Option<Value>, CommandFailure> {
        // A person who calls by hand has perhaps just saved the file.
        let saved = [("Fnd-Saved".to_owned(), "1".to_owned())];
        let get = request(Method::GET, &function_path(function)?, &saved, Bytes::new())?;
        match context.client.send(get).await.map_err(CommandFailure::from) {
            Ok(reply) => Ok(crate::output::parse::<FunctionDetail>(&reply.body)?.more.input),
            // A function may call others and cannot read what they are. fnd checks the payload in any case.
            Err(failure) if failure.exit == Exit::NotAllowed && !self.ask => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn wrong(function: &str, why: &str) -> CommandFailure {
    let message = format!("the payload does not match the input of `{function}`: {why}");
    CommandFailure::usage(message).help(format!("`fndctl show {function}` lists the fields of its input"))
}

/// Returns the mistakes of a payload before it is sent.
fn check(schema: Option<&Value>, bytes: &[u8]) -> Result<(), String> {
    let payload = Payload {
        data: Some(Data::from(bytes)),
        content_type: Some("application/json".into()),
        ..Payload::default()
    };
    match schema.map(|schema| InputSchema::new(schema).mistakes(&payload)) {
        Some(mistakes) if !mistakes.is_empty() => Err(words(&mistakes)),
        _ => Ok(()),
    }
}

fn check_askable(function: &str, fields: &[Field]) -> Result<(), CommandFailure> {
    if fields.is_empty() {
        let message =
            format!("--ask: `{function}` has no fields: its manifest has no `[input] schema` with properties");
        return Err(CommandFailure::usage(message).help("`-d JSON` sends any payload"));
    }
    if !io::stdin().is_terminal() {
        let message = "--ask: standard input is no terminal, so nobody can be asked";
        return Err(CommandFailure::usage(message).help("`--set NAME=TEXT` sets a field, `-d JSON` sends a payload"));
    }
    Ok(())
}

/// Returns whether no assignment sets a field, an object that contains it, or a part of it.
fn is_missing(field: &Field, assignments: &[Assignment]) -> bool {
    let contains = |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    assignments.iter().all(|Assignment { name, .. }| {
        *name != field.name && !contains(name, &field.name) && !contains(&field.name, name)
    })
}

/// Asks for a field until the answer is a value of its type; nothing for a field that may be left out.
fn ask(field: &Field) -> Result<Option<Assignment>, CommandFailure> {
    loop {
        let typed = typed(field)
            .map_err(|error| CommandFailure::failed(format!("failed to ask for `{}`: {error}", field.name)))?;
        let Some(typed) = typed else {
            return Err(CommandFailure::usage(
                "the input ended before all fields had a value; nothing was sent",
            ));
        };
        match answer(field, &typed) {
            Ok(assignment) => return Ok(assignment),
            Err(why) => say(&format!("{why}\n")).map_err(|error| CommandFailure::usage(error.to_string()))?,
        }
    }
}

/// Returns the line that somebody types for a field; nothing at the end of the input.
fn typed(field: &Field) -> io::Result<Option<String>> {
    say(&question(field))?;
    let mut line = String::new();
    let is_there = io::stdin().read_line(&mut line)? > 0;
    Ok(is_there.then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Writes to the terminal. Standard output is for the result, and may be a pipe.
fn say(text: &str) -> io::Result<()> {
    let mut terminal = io::stderr();
    write!(terminal, "{text}")?;
    terminal.flush()
}

/// Returns the question for a field: what it is, the values it may have as a list, and what an empty answer means.
fn question(field: &Field) -> String {
    let escaped = |text: &str| crate::output::escape(text, false);
    let about = field.description.as_deref().or(field.title.as_deref());
    let mut text = about.map(|about| format!("{}\n", escaped(about))).unwrap_or_default();
    for (place, choice) in field.choices.iter().enumerate() {
        text.push_str(&format!("  {}) {}\n", place + 1, escaped(&shown(choice))));
    }
    let empty = match &field.default {
        Some(default) => format!(") [{}]", escaped(&shown(default))),
        None if field.required => ", required)".to_owned(),
        None => ") [none]".to_owned(),
    };
    text + &format!("{} ({}{empty}: ", escaped(&field.name), field.kind.as_str())
}

/// Returns the value for a field that somebody typed; nothing for one that is left out.
fn answer(field: &Field, typed: &str) -> Result<Option<Assignment>, String> {
    let chosen = typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let is_choice = field.choices.iter().any(|choice| shown(choice) == typed);
    let chosen = chosen.and_then(|place| field.choices.get(place)).filter(|_| !is_choice);
    let value = match (typed, chosen, &field.default) {
        // The function takes its default by itself.
        ("", _, _) if !field.required => return Ok(None),
        ("", _, Some(default)) => default.clone(),
        // An empty text is more often a slip than what somebody wants to send: `--set NAME=` sends one.
        ("", _, None) => return Err(format!("`{}` needs a value", field.name)),
        (_, Some(choice), _) => choice.clone(),
        (typed, None, _) => field.value(typed)?,
    };
    Ok(Some(Assignment {
        name: field.name.clone(),
        value: AssignedValue::Json(value),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all() -> Vec<Field> {
        fields(&json!({"required": ["name", "n"], "properties": {
            "name": {"type": "string", "description": "Whom to greet"},
            "n": {"type": "integer", "default": 1},
            "size": {"enum": ["s", "m"]},
            "to": {"properties": {"city": {"type": "string"}}},
        }}))
    }

    fn field(name: &str) -> Field {
        all().into_iter().find(|field| field.name == name).unwrap()
    }

    #[test]
    fn a_question_says_what_is_asked_for() {
        assert_eq!(question(&field("name")), "Whom to greet\nname (string, required): ");
        assert_eq!(question(&field("n")), "n (integer) [1]: ");
        assert_eq!(question(&field("size")), "  1) s\n  2) m\nsize (string) [none]: ");
    }

    #[test]
    fn an_answer_is_a_value_a_number_of_the_list_or_nothing() {
        let value = |name: &str, typed: &str| {
            answer(&field(name), typed).map(|assignment| {
                assignment.map(|assignment| match assignment.value {
                    AssignedValue::Json(value) => value,
                    AssignedValue::Text(text) => panic!("{text}"),
                })
            })
        };
        for (name, typed, expected) in [
            ("name", "Ada", Some(json!("Ada"))),
            ("n", "", Some(json!(1))),
            ("n", "7", Some(json!(7))),
            ("size", "2", Some(json!("m"))),
            ("size", "s", Some(json!("s"))),
            ("size", "", None),
            ("to.city", "", None),
        ] {
            assert_eq!(value(name, typed), Ok(expected), "{name} {typed}");
        }
        assert!(value("n", "x").unwrap_err().contains("is not an integer"));
        assert_eq!(value("name", ""), Err("`name` needs a value".to_owned()));
    }

    #[test]
    fn only_fields_without_a_value_are_asked_for() {
        let missing = |set: &[&str]| {
            let assignments: Vec<_> = set.iter().map(|text| Assignment::parse(text).unwrap()).collect();
            let fields = all().into_iter().filter(|field| is_missing(field, &assignments));
            fields.map(|field| field.name).collect::<Vec<_>>()
        };
        assert_eq!(missing(&["name=Ada"]), ["n", "size", "to.city"]);
        assert_eq!(missing(&["to:={}", "n=1"]), ["name", "size"]);
    }

    #[test]
    fn a_payload_is_checked_before_it_is_sent() {
        let schema = json!({"required": ["n"]});
        assert_eq!(check(Some(&schema), b"{\"n\": 1}"), Ok(()));
        assert_eq!(check(None, b"[]"), Ok(()));
        let why = check(Some(&schema), b"{}").unwrap_err();
        assert!(why.contains("\"n\" is a required property"), "{why}");
    }
}
