//! The fields of a function's input, as a table.

use crate::common::tables::table;
use crate::exit::CommandFailure;
use crate::output::Output;
use fnd_core::input::{Field, fields, shown};
use serde_json::Value;

/// Prints the fields of a schema; nothing for a function that takes any payload.
pub(super) fn print(out: &Output, schema: Option<&Value>) -> Result<(), CommandFailure> {
    let Some(schema) = schema else { return Ok(()) };
    let fields = fields(schema);
    if fields.is_empty() {
        return out.line("\ninput: each payload must match the JSON Schema that `-o json` shows in `input`");
    }
    out.line("\ninput (`fndctl invoke F --set FIELD=VALUE`, or `--ask`):")?;
    let heads = ["FIELD", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"];
    out.table(&table(heads, &fields, row))
}

fn row(field: &Field) -> [String; 5] {
    let about = field.description.clone().or_else(|| field.title.clone());
    let choices: Vec<String> = field.choices.iter().map(shown).collect();
    let choices = (!choices.is_empty()).then(|| format!("one of {}", choices.join(", ")));
    let about: Vec<String> = about.into_iter().chain(choices).collect();
    [
        field.name.clone(),
        field.kind.as_str().to_owned(),
        if field.required { "yes" } else { "no" }.to_owned(),
        field.default.as_ref().map(shown).unwrap_or_default(),
        about.join("; "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_has_what_people_need_to_set_the_field() {
        let schema = json!({"required": ["size"], "properties": {
            "n": {"type": "integer", "default": 1},
            "size": {"enum": ["s", "m"], "description": "How large"}}});
        let rows: Vec<_> = fields(&schema).iter().map(row).collect();
        assert_eq!(rows[0], ["size", "string", "yes", "", "How large; one of s, m"]);
        assert_eq!(rows[1], ["n", "integer", "no", "1", ""]);
    }
}
