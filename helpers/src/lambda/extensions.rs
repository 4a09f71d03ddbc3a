//! The extensions that have registered, and the events that wait for each of them.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;

/// Most extensions of a function, as in Lambda.
pub(super) const EXTENSIONS_MAX: usize = 10;
/// Most events that wait for an extension. If it takes none of them, the oldest ones go: calls do not wait for extensions.
const EVENTS_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Extensions {
    registered: Vec<Extension>,
    /// The names of those that were started and have not registered.
    awaited: Vec<String>,
}

#[derive(Debug)]
struct Extension {
    id: String,
    name: String,
    asks: Vec<ExtensionEvent>,
    events: VecDeque<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum ExtensionEvent {
    Invoke,
    Shutdown,
}

#[derive(Deserialize)]
struct RegisterBody {
    #[serde(default)]
    events: Vec<ExtensionEvent>,
}

/// Why an extension is refused: type and message, in Lambda's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExtensionRefusal(pub(super) &'static str, pub(super) String);

impl ExtensionRefusal {
    /// The status of all these refusals.
    pub(super) const STATUS: StatusCode = StatusCode::FORBIDDEN;
}

impl Extensions {
    /// Notes the names of the extensions that were started: each registers with the name of its file.
    pub(super) fn await_all(&mut self, names: Vec<String>) {
        self.awaited = names;
    }

    pub(super) fn have_registered(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Returns the names of those that are waited for, and waits for them no longer.
    pub(super) fn give_up(&mut self) -> Vec<String> {
        std::mem::take(&mut self.awaited)
    }

    /// Registers an extension, and returns the identifier that it sends from then on.
    ///
    /// # Errors
    /// It has no name, its name is taken, it asks for unknown events, or there are too many.
    pub(super) fn register(&mut self, name: &str, body: &[u8]) -> Result<String, ExtensionRefusal> {
        let refuse = |kind, message: &str| Err(ExtensionRefusal(kind, message.to_owned()));
        if name.is_empty() {
            return refuse("Extension.InvalidExtensionName", "Empty extension name");
        }
        let body: RegisterBody = match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(error) => return refuse("InvalidRequestFormat", &error.to_string()),
        };
        if self.registered.iter().any(|extension| extension.name == name) {
            let message = "Extension with this name already registered";
            return refuse("Extension.InvalidExtensionState", message);
        }
        if self.registered.len() == EXTENSIONS_MAX {
            let message = format!("Extension limit ({EXTENSIONS_MAX}) reached");
            return refuse("Extension.TooManyExtensions", &message);
        }
        // Its form is that of a UUID, because Lambda's is one. It is no secret: all processes here have the same user.
        let id = format!("00000000-0000-4000-8000-{:012}", self.registered.len() + 1);
        self.awaited.retain(|awaited| awaited != name);
        self.registered.push(Extension {
            id: id.clone(),
            name: name.to_owned(),
            asks: body.events,
            events: VecDeque::new(),
        });
        Ok(id)
    }

    /// Returns the name of an extension.
    ///
    /// # Errors
    /// The identifier is missing or unknown.
    pub(super) fn name(&self, id: Option<&str>) -> Result<&str, ExtensionRefusal> {
        let Some(id) = id else {
            let message = "Missing Lambda-Extension-Identifier header".to_owned();
            return Err(ExtensionRefusal("Extension.MissingExtensionIdentifier", message));
        };
        let mut all = self.registered.iter();
        let found = all.find(|extension| extension.id == id);
        found.map(|extension| &*extension.name).ok_or_else(|| {
            let message = format!("Unknown extension {id}");
            ExtensionRefusal("Extension.UnknownExtensionIdentifier", message)
        })
    }

    /// Returns the next event of an extension, if one waits.
    pub(super) fn next(&mut self, id: &str) -> Option<Value> {
        let mut all = self.registered.iter_mut();
        all.find(|extension| extension.id == id)?.events.pop_front()
    }

    /// Puts an event into the queue of every extension that asked for it, and says whether there is one.
    pub(super) fn add(&mut self, kind: ExtensionEvent, event: &Value) -> bool {
        let mut is_asked = false;
        for extension in &mut self.registered {
            if extension.asks.contains(&kind) {
                if extension.events.len() == EVENTS_MAX {
                    extension.events.pop_front();
                }
                extension.events.push_back(event.clone());
                is_asked = true;
            }
        }
        is_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_extension_gets_the_events_that_it_asked_for() {
        let mut all = Extensions::default();
        let both = all.register("both", br#"{"events":["INVOKE","SHUTDOWN"]}"#).unwrap();
        let none = all.register("none", br#"{"events":[]}"#).unwrap();
        assert_eq!((both.len(), all.name(Some(&none))), (36, Ok("none")));
        assert!(all.add(ExtensionEvent::Invoke, &json!(1)));
        assert!(all.add(ExtensionEvent::Shutdown, &json!(2)));
        let events: Vec<Value> = std::iter::from_fn(|| all.next(&both)).collect();
        assert_eq!(events, [json!(1), json!(2)]);
        assert_eq!((all.next(&none), all.next("x")), (None, None));
        assert!(!Extensions::default().add(ExtensionEvent::Shutdown, &json!(2)));
    }

    #[test]
    fn extensions_are_waited_for_by_their_names() {
        let mut all = Extensions::default();
        assert!(all.have_registered());
        all.await_all(vec!["a".to_owned(), "b".to_owned()]);
        for (name, body) in [("of bootstrap", "{}"), ("a", "no JSON"), ("b", "{}")] {
            let _ = all.register(name, body.as_bytes());
            assert!(!all.have_registered(), "{name}");
        }
        all.register("a", b"{}").unwrap();
        assert!(all.have_registered());
        all.await_all(vec!["c".to_owned()]);
        assert_eq!(all.give_up(), ["c"]);
        assert!(all.have_registered());
    }

    #[test]
    fn events_that_nobody_takes_are_bounded() {
        let mut all = Extensions::default();
        let id = all.register("slow", br#"{"events":["INVOKE"]}"#).unwrap();
        for number in 0..=EVENTS_MAX {
            all.add(ExtensionEvent::Invoke, &json!(number));
        }
        let first = all.next(&id);
        assert_eq!(first, Some(json!(1)), "the oldest one is gone");
        assert_eq!(std::iter::from_fn(|| all.next(&id)).count(), EVENTS_MAX - 1);
    }

    #[test]
    fn invalid_requests_are_refused_with_lambdas_types() {
        let mut all = Extensions::default();
        all.register("a", b"{}").unwrap();
        for (name, body, expected) in [
            ("", &b"{}"[..], "Extension.InvalidExtensionName"),
            ("a", b"{}", "Extension.InvalidExtensionState"),
            ("b", b"", "InvalidRequestFormat"),
            ("b", br#"{"events":["START"]}"#, "InvalidRequestFormat"),
        ] {
            let refused = all.register(name, body).unwrap_err();
            assert_eq!(refused.0, expected, "{name}: {}", refused.1);
        }
        for (id, expected) in [
            (None, "Extension.MissingExtensionIdentifier"),
            (Some("x"), "Extension.UnknownExtensionIdentifier"),
        ] {
            assert_eq!(all.name(id).unwrap_err().0, expected);
        }
        for number in 1..EXTENSIONS_MAX {
            all.register(&number.to_string(), b"{}").unwrap();
        }
        let refused = all.register("b", b"{}").unwrap_err();
        assert_eq!(refused.0, "Extension.TooManyExtensions");
    }
}
