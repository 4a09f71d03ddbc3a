//! Triggers of functions of Kyma: `Subscription` and `APIRule`.

use super::common::{Making, WithoutEffect};
use super::item::Item;
use super::objects::Object;

/// Fields of subscriptions and rules without effect.
const TRIGGER_KNOWN: WithoutEffect = crate::texts! {
    "spec.id": "the cluster writes it",
    "spec.protocol spec.protocolsettings": "events come to `/v1/events`",
    "spec.config": "a function's `[pool]` and `[queue]` say how many events it takes at once",
    "spec.gateway": "there is no gateway: the public listener has the routes",
    "spec.corsPolicy": "`[[http]] cors` names origins",
    "spec.timeout": "`limits.timeout` is the function's",
};

impl<'d> Making<'_, 'd> {
    /// Takes a subscription; its two versions.
    pub(super) fn subscription(&mut self, object: &Object<'d>) {
        let Some(spec) = object.root.get("spec") else { return };
        if let Some(sink) = spec.get("sink") {
            self.report.works(&sink.field(), "event");
        }
        for filter in spec.items_at("filter.filters") {
            let Some(kind) = filter.get("eventType.value") else {
                continue;
            };
            self.event(&kind, filter.get("eventSource.value").as_ref());
            self.report.works(&filter.field(), "event");
        }
        if let Some(filter) = spec.get("filter") {
            self.report.works(&filter.field(), "event");
        }
        let source = spec.get("source");
        for kind in spec.items_at("types") {
            self.event(&kind, source.as_ref());
        }
        if let Some(matching) = spec.get("typeMatching") {
            self.report.works(&matching.field(), "event.type");
        }
        self.leftover(&object.root, TRIGGER_KNOWN);
    }

    fn event(&mut self, kind: &Item<'d>, source: Option<&Item<'d>>) {
        let Some(name) = kind.text(&mut self.report) else {
            return;
        };
        self.report.works(&kind.field(), "event.type");
        let mut keys = vec![("type", name.into(), Some(kind.field()))];
        if let Some(source) = source
            && let Some(text) = source.text(&mut self.report)
        {
            if !text.is_empty() {
                keys.push(("source", text.into(), Some(source.field())));
            }
            self.report.works(&source.field(), "event.source");
        }
        self.made.manifest.push("event", keys);
    }

    /// Takes the routes of a rule. One that asks for a token of an issuer becomes no route: it would be open.
    pub(super) fn api_rule(&mut self, object: &Object<'d>) {
        let Some(spec) = object.root.get("spec") else { return };
        let hosts = spec.items_at("hosts").into_iter().next();
        let hosts = hosts.or_else(|| spec.get("host")).or_else(|| spec.get("service.host"));
        let host = hosts.as_ref().and_then(|host| host.text(&mut self.report));
        let host = host.filter(|host| host.contains('.'));
        if let Some(item) = &hosts {
            match host {
                Some(_) => self.report.works(&item.field(), "http.host"),
                None => self.not_here(item, "the name has no domain, so the routes are for every host"),
            }
        }
        if let Some(service) = spec.get("service") {
            self.report.works(&service.field(), "http");
        }
        for rule in spec.items_at("rules") {
            self.rule(&rule, host.zip(hosts.as_ref()));
        }
        self.leftover(&object.root, TRIGGER_KNOWN);
    }

    fn rule(&mut self, rule: &Item<'d>, host: Option<(&str, &Item<'d>)>) {
        let handlers = rule.items_at("accessStrategies");
        let named = handlers.iter().filter_map(|strategy| strategy.get("handler"));
        let words: Vec<&str> = named.filter_map(|handler| handler.text(&mut self.report)).collect();
        let is_open = |word: &&str| ["noop", "allow", "no_auth"].contains(word);
        if !rule.is_true("noAuth") && (words.is_empty() || !words.iter().all(is_open)) {
            return self.not_here(rule, "it asks for a token that fnd cannot check, so there is no route; `[[http]] auth` has the forms that fnd checks");
        }
        let Some(path) = self.required(rule, "path") else {
            return;
        };
        let Some(text) = path.text(&mut self.report) else {
            return;
        };
        let Some(route) = route(text) else {
            let why = "a regular expression is no path of a route; write `[[http]] path` yourself";
            return self.not_here(&path, why);
        };
        self.report.works(&rule.field(), "http");
        let mut keys = vec![("path", route.into(), Some(path.field()))];
        keys.extend(host.map(|(host, item)| ("host", host.into(), Some(item.field()))));
        let methods = rule.get("methods");
        keys.extend(methods.map(|methods| ("methods", methods.toml(), Some(methods.field()))));
        keys.push(("auth", "none".into(), None));
        // As there, where the function may check a token itself.
        keys.push(("authorization", true.into(), None));
        self.made.manifest.push("http", keys);
    }
}

/// Returns a path of a rule as fnd writes it; absent for other regular expressions.
fn route(path: &str) -> Option<String> {
    let above = ["/.*", "/*", "/{**}"].iter().find_map(|end| path.strip_suffix(end));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let is_path = |path: &str| path.starts_with('/') && path.chars().all(is_plain);
    match above {
        // For all paths, nothing stands before the end.
        Some(above) => (above.is_empty() || is_path(above)).then(|| format!("{above}/{{*rest}}")),
        None => is_path(path).then(|| path.to_owned()),
    }
}

/// Returns the function that a subscription's `sink` names: the host before its first dot.
pub(super) fn sink<'d>(object: &Object<'d>) -> Option<&'d str> {
    let sink = object.root.text_at("spec.sink")?;
    let host = sink.split_once("://").map_or(sink, |(_, host)| host);
    host.split(['.', '/', ':']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_rules_become_routes() {
        for (path, expected) in [
            ("/.*", Some("/{*rest}")),
            ("/*", Some("/{*rest}")),
            ("/orders", Some("/orders")),
            ("/orders/.*", Some("/orders/{*rest}")),
            ("/(a|b)", None),
            ("orders", None),
        ] {
            assert_eq!(route(path).as_deref(), expected, "{path}");
        }
    }
}
