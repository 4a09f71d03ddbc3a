//! Documents of the server itself: to sign in, and failures. They need no answer of fnd.

use crate::api::Failure;
use crate::assets;
use crate::parts::text::marked;
use fnd_client::client::encode;
use maud::{DOCTYPE, Markup, html};

/// Returns the document that asks for the token. `next` is the address that follows.
pub(crate) fn sign_in(next: &str, is_wrong: bool) -> Markup {
    let content = html! {
        h1 { "Sign in" }
        @if is_wrong { p role="alert" { "This token is wrong or was used before: a token can be used once." } }
        p { "The command " code { "fndctl web" } " prints a token. Start the command again to get a new one." }
        form id="login" method="post" action="/login" {
            label for="token" { "Token" }
            " "
            input id="token" name="token" type="password" autocomplete="off" required;
            input name="next" type="hidden" value=(next);
            " "
            button { "Sign in" }
        }
        script src=(assets::login()) {}
    };
    document("Sign in", &content)
}

/// Returns the document of a failure; `returns` says whether the browser asks again by itself.
pub(crate) fn failure(failure: &Failure, returns: bool) -> Markup {
    let content = match failure {
        Failure::Refused(problem) => html! {
            h1 { (problem.title) }
            p { (marked(&problem.detail)) }
            @if let Some(reason) = &problem.reason { p { "Reason: " code { (reason) } } }
            @if !problem.diagnostics.is_empty() {
                ul { @for diagnostic in &problem.diagnostics { li { (diagnostic.message) } } }
            }
            p { code { "fndctl explain " (problem.code) } " explains it." }
            // A function that is gone keeps its history.
            @if let Some(function) = &problem.function {
                p { a href={ "/history?function=" (encode(function.as_str())) } { "Runs of " (function.as_str()) } }
            }
        },
        Failure::NotReached { message, help } => html! {
            h1 { "fnd does not answer" }
            p { (marked(message)) }
            @if let Some(help) = help { p { (marked(help)) } }
        },
        Failure::Page { message, .. } => html! {
            h1 { "This did not work" }
            p { (marked(message)) }
        },
    };
    let after = html! {
        @if returns { p { "This page tries again by itself." } }
        p { a href="/" { "Overview" } ", " a href="/functions" { "Functions" } ", " a href="/history" { "History" } }
    };
    document("fnd", &html! { (content) (after) })
}

fn document(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="stylesheet" href=(assets::style());
            }
            body { main { (content) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_message_are_escaped() {
        let hostile = "/\"><script>alert(1)</script>";
        let message = Failure::Page {
            status: 400,
            message: hostile.to_owned(),
        };
        for text in [
            sign_in(hostile, true).into_string(),
            failure(&message, false).into_string(),
        ] {
            assert!(!text.contains("<script>"), "{text}");
            assert!(text.contains("&lt;script&gt;"), "{text}");
        }
    }

    #[test]
    fn a_missing_fnd_is_told_with_what_to_do() {
        let missing = Failure::NotReached {
            message: "there is no control socket `/a`".to_owned(),
            help: Some("is fnd running?".to_owned()),
        };
        assert_eq!(missing.status(), 503);
        let text = failure(&missing, true).into_string();
        assert!(
            text.contains("There is no control socket <code>/a</code>") && text.contains("Is fnd running?"),
            "{text}"
        );
    }
}
