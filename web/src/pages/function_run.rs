//! The form "Run" of a function: what it has, and what becomes of it.

use super::{function_page, function_path};
use crate::api::{Api, Failure};
use crate::parts::actions::command as line;
use crate::parts::fields::{Mistake, Sent, command, inputs};
use fnd_core::api::{FunctionDetail, Problem, Queued};
use fnd_core::input::{Field, fields};
use fnd_wire::ids::FunctionName;
use hyper::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

/// A function with the fields of its input.
pub(super) struct Known {
    pub(super) detail: FunctionDetail,
    pub(super) fields: Vec<Field>,
}

/// Returns whether a form that was refused is shown again: not to those who may not see or run the function.
pub(super) fn is_kept(status: u16) -> bool {
    !matches!(status, 401 | 403 | 404)
}

/// Returns a function.
///
/// # Errors
/// There is no such function, or fnd does not answer.
pub(super) async fn known(api: &Api, name: &FunctionName) -> Result<Known, Failure> {
    /// The part that has the schema of the input.
    #[derive(Deserialize)]
    struct WithInput {
        #[serde(default)]
        input: Option<Value>,
    }
    let document: Box<serde_json::value::RawValue> = api.get(&function_path(name)).await?;
    let unreadable = |error: serde_json::Error| Failure::NotReached {
        message: format!("fnd answered with an unknown document about `{name}`: {error}"),
        help: Some("fnd-web and fnd are of different versions: restart `fndctl web`".to_owned()),
    };
    let detail: FunctionDetail = serde_json::from_str(document.get()).map_err(unreadable)?;
    let with_input: WithInput = serde_json::from_str(document.get()).map_err(unreadable)?;
    Ok(Known {
        detail,
        fields: with_input.input.as_ref().map(fields).unwrap_or_default(),
    })
}

pub(super) async fn queue(
    api: &Api,
    name: &FunctionName,
    (media, payload): (&str, Vec<u8>),
) -> Result<Queued, Failure> {
    let path = format!("{}/invocations", function_path(name));
    let headers = [("content-type".to_owned(), media.to_owned())];
    // Without a payload the function gets its own `data`.
    let headers = if payload.is_empty() { &[][..] } else { &headers };
    let reply = api.send(Method::POST, &path, headers, payload.into()).await?;
    serde_json::from_slice(&reply.body).map_err(|error| Failure::NotReached {
        message: format!("the run was queued, but fnd's answer cannot be read: {error}"),
        help: Some("its id is in “History”".to_owned()),
    })
}

/// Returns the mistakes that fnd found in a payload.
pub(super) fn mistakes(problem: &Problem) -> Vec<Mistake> {
    let document = serde_json::to_value(problem).unwrap_or_default();
    let found = document["input"].as_array().into_iter().flatten().map(|one| Mistake {
        pointer: one["pointer"].as_str().unwrap_or_default().to_owned(),
        text: one["expected"].as_str().unwrap_or_default().to_owned(),
    });
    let found: Vec<_> = found.collect();
    if !found.is_empty() {
        return found;
    }
    vec![Mistake {
        pointer: String::new(),
        text: problem.detail.clone(),
    }]
}

/// Returns the form "Run". Script does not read it again, so that nothing typed is lost.
pub(super) fn form(known: &Known, sent: &Sent) -> Markup {
    let name = &known.detail.status.function;
    html! {
        section #run aria-labelledby="run-heading" {
            h2 #run-heading { "Run" }
            form.run method="post" action={ (function_page(name)) "/run" } aria-label="Run" {
                (inputs(&known.fields, sent))
                div.actions { button type="submit" { "Run" } (line(&command(name.as_str(), &known.fields))) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_without_places_is_one_mistake() {
        let problem = |more: Value| -> Problem {
            let mut document = json!({"type": "about:blank", "title": "", "status": 422, "code": "input", "detail": "wrong",
                "reason": null});
            document
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            serde_json::from_value(document).unwrap()
        };
        let whole = mistakes(&problem(json!({})));
        assert_eq!((whole[0].pointer.as_str(), whole[0].text.as_str()), ("", "wrong"));
        assert!([413, 422, 429, 503].into_iter().all(is_kept) && !is_kept(403));
    }
}
