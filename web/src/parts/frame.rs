//! The document around a page: head, navigation, and what all pages know of the caller.

use crate::api::{Api, Failure};
use crate::assets;
use crate::http::{Request, Response};
use fnd_core::access::Permissions;
use fnd_core::api::CallerView;
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

/// The entries of the navigation: address and name.
const ENTRIES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/functions", "Functions"),
    ("/history", "History"),
    ("/dead-letters", "Dead letters"),
    ("/schedules", "Schedules"),
    ("/node", "Node"),
];

/// The caller, and the moment of the request.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) now: Timestamp,
    /// Host name of the node.
    pub(crate) node: String,
    access: Permissions,
    read_only: bool,
}

impl Visit {
    /// Asks fnd for the caller.
    ///
    /// # Errors
    /// fnd refuses or does not answer.
    pub(crate) async fn of(request: &Request, api: &Api) -> Result<Self, Failure> {
        let caller: CallerView = api.get("/v1/access").await?;
        Ok(Self::new(&caller, request.read_only, Timestamp::now()))
    }

    pub(crate) fn new(caller: &CallerView, read_only: bool, now: Timestamp) -> Self {
        Self {
            now,
            node: caller.node.clone(),
            access: caller.permissions(),
            read_only,
        }
    }

    /// Returns whether the page offers what an operator of a function may do. fnd decides again at each request.
    pub(crate) fn operates(&self, function: &FunctionName) -> bool {
        !self.read_only && self.access.operates(function)
    }

    /// Returns whether the caller may read what only operators read, such as files of releases.
    pub(crate) fn reads_files(&self, function: &FunctionName) -> bool {
        self.access.operates(function)
    }

    /// Returns the role for the node.
    pub(crate) fn node_role(&self) -> Option<Role> {
        self.access.node()
    }
}

/// A page inside its frame.
pub(crate) struct Page<'a> {
    /// The heading, and the beginning of the title.
    pub(crate) title: &'a str,
    /// The address of its entry in the navigation.
    pub(crate) entry: &'a str,
    /// The address of events after which script reads the page again; none for pages that do not change by themselves.
    pub(crate) stream: Option<String>,
    /// The address that script reads then, if the address of the page has filters of a part that does not change.
    pub(crate) again: Option<String>,
    pub(crate) body: Markup,
}

impl<'a> Page<'a> {
    /// Returns a page that does not change by itself.
    pub(crate) fn new(title: &'a str, entry: &'a str, body: Markup) -> Self {
        Self {
            title,
            entry,
            stream: None,
            again: None,
            body,
        }
    }

    /// Returns a page that script reads again after an event of any function.
    pub(crate) fn live(title: &'a str, entry: &'a str, body: Markup) -> Self {
        Self {
            stream: Some(stream_address(None)),
            ..Self::new(title, entry, body)
        }
    }
}

/// Returns the answer with a page.
pub(crate) fn page(visit: &Visit, page: &Page<'_>) -> Response {
    with_status(visit, 200, page)
}

/// Returns the answer with a page that has another status: a form with mistakes.
pub(crate) fn with_status(visit: &Visit, status: u16, page: &Page<'_>) -> Response {
    Response::Page {
        status,
        markup: document(visit, page),
    }
}

fn document(visit: &Visit, page: &Page<'_>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " · fnd on " (visit.node) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(assets::style());
                script src=(assets::script()) defer {}
            }
            body data-stream=[page.stream.as_deref()] data-again=[page.again.as_deref()] {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { strong { "fnd" } " " span { (visit.node) } }
                    nav aria-label="Pages" {
                        ul { @for (address, name) in ENTRIES { li { (entry(address, name, page.entry)) } } }
                    }
                }
                main #main tabindex="-1" {
                    h1 { (page.title) }
                    @if visit.read_only { p.note { "This page was started with " code { "--read-only" } ": it offers no changes." } }
                    (page.body)
                }
                footer { p #live role="status" {} noscript { p { "Without script the page does not change by itself: reload it." } } }
            }
        }
    }
}

fn entry(address: &str, name: &str, current: &str) -> Markup {
    let is_current = (address == current).then_some("page");
    html! { a href=(address) aria-current=[is_current] { (name) } }
}

/// Returns the address of a stream of events, of one function or of all, that are no requests.
pub(crate) fn stream_address(function: Option<&FunctionName>) -> String {
    let kinds =
        "loaded,refused,removed,state,accepted,started,ended,retried,polled,gave-up,dropped,problem,solved,missed";
    let function = function.map(|name| format!("&function={}", fnd_client::client::encode(name.as_str())));
    format!("/stream?since=now&kind={kinds}{}", function.unwrap_or_default())
}

/// Returns a part of a page that has a heading, and that script reads again when something happens.
pub(crate) fn section(id: &str, heading: &str, body: &Markup) -> Markup {
    html! {
        section #(id) aria-labelledby={ (id) "-heading" } data-live {
            h2 #{ (id) "-heading" } { (heading) }
            (body)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fnd_core::api::RoleOfFunctions;

    /// Returns a visit of a caller with a role for the node, on 21 November 2026 at 08:00.
    pub(crate) fn visit(role: Option<Role>) -> Visit {
        let caller = CallerView {
            node: "vm1".to_owned(),
            uid: 1000,
            role,
            functions: vec![RoleOfFunctions {
                role: Role::Operator,
                functions: vec!["web/*".to_owned()],
            }],
        };
        Visit::new(&caller, false, "2026-11-21T08:00:00Z".parse().unwrap())
    }

    /// Returns the text of a page that was answered.
    pub(crate) fn text(response: Response) -> String {
        match response {
            Response::Page { markup, .. } => markup.into_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_page_has_landmarks_and_marks_its_entry() {
        let body = html! { p { "<x>" } };
        let shown = text(page(
            &visit(Some(Role::Viewer)),
            &Page::new("Functions", "/functions", body),
        ));
        for expected in [
            "<title>Functions · fnd on vm1</title>",
            "<html lang=\"en\">",
            "<nav aria-label=\"Pages\">",
            "<a href=\"/functions\" aria-current=\"page\">Functions</a>",
            "<main id=\"main\" tabindex=\"-1\"><h1>Functions</h1>",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert_eq!(shown.matches("aria-current").count(), 1);
        assert!(!shown.contains("style=") && !shown.contains("data-stream"));
    }

    #[test]
    fn only_operators_are_offered_changes() {
        let function = |name: &str| FunctionName::new(name).unwrap();
        let viewer = visit(Some(Role::Viewer));
        assert!(viewer.operates(&function("web/a")) && !viewer.operates(&function("mail")));
        let read_only = Visit {
            read_only: true,
            ..visit(Some(Role::Admin))
        };
        assert!(!read_only.operates(&function("web/a")) && read_only.reads_files(&function("web/a")));
    }
}
