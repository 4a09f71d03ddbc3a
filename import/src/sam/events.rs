//! The events of a function: routes of APIs, schedules, its URL.

use super::cron::{SamTime, time};
use super::intrinsics::{intrinsic, not_known, unresolved};
use super::{SamImport, keys};
use crate::rows::reported;
use crate::tree::NamedValue;
use fnd_manifest::foreign::Field;
use fnd_manifest::foreign::yaml::{Value as Yaml, YamlNode};
use toml::Value;

/// A key of a table, its value and its origin.
type TableKey = (&'static str, Value, Option<Field>);

/// The methods of a route for every method. GET includes HEAD.
const ANY: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The note on a route that nobody has to prove anything for.
const OPEN: &str = "open to everybody, as there: `http.auth` asks for a credential";

/// The note on a route whose function expects events of an older form.
const FORM: &str = "the event has the form 2.0, that of function URLs, and not 1.0: \
    a program that reads `httpMethod` or `path` must be changed";

/// Reads the events of a function.
pub(super) fn read(import: &mut SamImport<'_>, events: &NamedValue<'_>) {
    for event in events.items() {
        let path = format!("Events.{}", event.key);
        let field = import.field(&event, &path);
        let kind = event.text_of("Type").unwrap_or_default();
        let properties = event.get("Properties");
        let mut nodes = [Some(event), properties].into_iter().flatten();
        if let Some(unknown) = nodes.find(|item| intrinsic(item.node).is_some()) {
            let words = unresolved(&unknown).unwrap_or_default();
            import.report.refused(&field, &not_known(&words, import.root));
            continue;
        }
        let known = ["Type", "Properties"];
        for item in event.items().iter().filter(|item| !known.contains(&item.key)) {
            let field = import.field(item, &format!("{path}.{}", item.key));
            import
                .report
                .unknown(&field, "an event has only `Type` and `Properties`");
        }
        match kind.as_str() {
            "Api" | "HttpApi" => route(import, (&event, properties.as_ref()), &kind, &path),
            "Schedule" | "ScheduleV2" => schedule(import, (&event, properties.as_ref()), &kind, &path),
            kind if reported(keys::EVENTS, kind, &mut import.report, &field) => {}
            _ => import.report.unknown(&field, "SAM has no event of this type"),
        }
    }
}

/// An event and its properties, which may be absent.
type SamEvent<'e, 'a> = (&'e NamedValue<'a>, Option<&'e NamedValue<'a>>);

/// A route of an API.
fn route(import: &mut SamImport<'_>, (event, properties): SamEvent<'_, '_>, kind: &str, path: &str) {
    let whole = import.field(event, path);
    let (mut route_path, mut method) = (None, None);
    for item in properties.iter().flat_map(|properties| properties.items()) {
        let field = import.field(&item, &format!("{path}.{}", item.key));
        let report = &mut import.report;
        match item.key {
            // `restriction` reads it, with that of the API.
            "Auth" => {}
            "Path" | "Method" | "PayloadFormatVersion" => match (unresolved(&item), item.text()) {
                (Some(words), _) => report.refused(&field, &not_known(&words, import.root)),
                (None, None) => report.refused(&field, "expected a text"),
                (None, Some(text)) if item.key == "Path" => route_path = Some((text, field)),
                (None, Some(text)) if item.key == "Method" => method = Some((text, field)),
                (None, Some(text)) if text == "2.0" => report.works(&field, "http.payload"),
                (None, Some(_)) => report.differs(&field, "http.payload", FORM),
            },
            key if reported(keys::ROUTE, key, report, &field) => {}
            _ => report.unknown(&field, "SAM has no such key of this event"),
        }
    }
    if kind == "Api" {
        import.report.differs(&whole, "http.payload", FORM);
    }
    import.has_api = true;
    let auth = auth(import, (event, properties), kind, path);
    let methods = methods(import, method);
    let Some(methods) = methods else { return };
    // `$default` is the name of the route without a path.
    let paths = match route_path.filter(|(text, _)| text != "$default") {
        Some((text, field)) => {
            if kind == "Api" {
                let note = "the path has no stage, such as `/Prod`, before it";
                import.report.differs(&field, "http.path", note);
            } else {
                import.report.works(&field, "http.path");
            }
            vec![(pattern(&text), Some(field))]
        }
        // Without a path an HTTP API sends every request that no other route has.
        None => ["/", "/{*rest}"].map(|path| (path.to_owned(), None)).to_vec(),
    };
    for (path, origin) in paths {
        let origin = origin.or_else(|| Some(whole.clone()));
        let keys = [("path", Value::from(path), origin), methods.clone(), auth.clone()];
        import.made.manifest.push("http", keys);
    }
}

/// Returns a path as fnd writes it: `{proxy+}` is the rest.
fn pattern(path: &str) -> String {
    let segment = |segment: &str| match segment.strip_suffix("+}").and_then(|rest| rest.strip_prefix('{')) {
        Some(name) => format!("{{*{name}}}"),
        None => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Returns the methods of a route; nothing if they are refused.
fn methods(import: &mut SamImport<'_>, method: Option<(String, Field)>) -> Option<TableKey> {
    let (text, origin) = match method {
        Some((text, field)) => (text.to_ascii_uppercase(), Some(field)),
        None => ("ANY".to_owned(), None),
    };
    let list: Vec<Value> = match text.as_str() {
        "ANY" | "X-AMAZON-APIGATEWAY-ANY-METHOD" => ANY.map(Value::from).to_vec(),
        "HEAD" => vec![Value::from("HEAD")],
        one if ANY.contains(&one) => vec![Value::from(one)],
        _ => {
            let field = origin?;
            import.report.refused(&field, "it is no method that a route can have");
            return None;
        }
    };
    if let Some(field) = &origin {
        import.report.works(field, "http.methods");
    }
    Some(("methods", Value::Array(list), origin))
}

/// Returns how callers of a route prove that they may call it, and reports it.
fn auth(import: &mut SamImport<'_>, (event, properties): SamEvent<'_, '_>, kind: &str, path: &str) -> TableKey {
    let own = properties.and_then(|properties| properties.get("Auth"));
    let place = own.unwrap_or(*event);
    let field = import.field(&place, &format!("{path}.Auth"));
    let id = properties.and_then(|properties| properties.get("RestApiId").or_else(|| properties.get("ApiId")));
    match restriction(own, &access_of(import.root, kind, id)) {
        Some(words) => secret(import, field, &format!("instead of {words}")),
        None => {
            import.report.differs(&field, "http.auth", OPEN);
            ("auth", Value::from("none"), Some(field))
        }
    }
}

/// Gives a route a token, for which the operator makes the secret.
fn secret(import: &mut SamImport<'_>, field: Field, instead: &str) -> TableKey {
    let secret = format!("{}-token", import.made.name);
    let note = format!("{instead} a token: `sudo fndctl secret new {secret}` makes it");
    import.report.differs(&field, "http.auth", &note);
    ("auth", Value::from(format!("token:{secret}")), Some(field))
}

/// Returns the words for the restriction of a route: the authorizer of the event, else of its API; a key; a list of
/// callers. Nothing if everybody may call it.
fn restriction(own: Option<NamedValue<'_>>, api: &ApiAccess) -> Option<String> {
    // An intrinsic function that only AWS knows may be any restriction.
    let unknown = own.filter(|own| intrinsic(own.node).is_some());
    let named = unknown.or_else(|| own?.get("Authorizer")).map(|item| words(&item));
    let named = named.or_else(|| api.authorizer.clone()).filter(|name| name != "NONE");
    let named = named.map(|name| format!("`{name}`"));
    let key = || (has_key(own) || api.has_key).then(|| "`ApiKeyRequired`".to_owned());
    let policy = own.and_then(|own| own.get("ResourcePolicy"));
    let policy = || policy.map(|_| "`ResourcePolicy`".to_owned());
    named.or_else(key).or_else(policy).or_else(|| api.other.clone())
}

/// Returns a name, or the words for one that only AWS knows.
fn words(item: &NamedValue<'_>) -> String {
    item.text().or_else(|| unresolved(item)).unwrap_or_default()
}

fn has_key(auth: Option<NamedValue<'_>>) -> bool {
    auth.and_then(|auth| auth.get("ApiKeyRequired"))
        // A value that cannot be read is `true`.
        .is_some_and(|item| item.truth() != Some(false))
}

/// The callers that the routes of an API admit.
#[derive(Debug, Default)]
struct ApiAccess {
    /// The authorizer of routes that name no other one.
    authorizer: Option<String>,
    has_key: bool,
    /// Another restriction, which no route can lift.
    other: Option<String>,
}

/// Returns who may call the routes of an API, by the logical id in its reference: its own settings, else those of `Globals`.
fn access_of(root: NamedValue<'_>, kind: &str, id: Option<NamedValue<'_>>) -> ApiAccess {
    let name = id.and_then(|id| {
        id.text().or_else(|| match &intrinsic(id.node)?.1.value {
            Yaml::Text(name) => Some(name.clone()),
            _ => None,
        })
    });
    let resource = name.and_then(|name| root.get("Resources")?.get(&name));
    let is_sam = |item: &NamedValue<'_>| {
        item.text_of("Type")
            .is_some_and(|kind| kind.starts_with("AWS::Serverless::"))
    };
    let resource = resource.filter(is_sam);
    if id.is_some() && resource.is_none() {
        // Nobody can see here who may call such an API.
        return ApiAccess {
            other: Some("the rules of its API, which is not in the template,".to_owned()),
            ..ApiAccess::default()
        };
    }
    let own = resource.and_then(|resource| resource.get("Properties"));
    let globals = root.get("Globals").and_then(|globals| globals.get(kind));
    let mut access = ApiAccess::default();
    for part in [own, globals].into_iter().flatten() {
        access.add(&part);
    }
    access
}

/// Keys of an OpenAPI document that say who may call, or that bring another document with more keys.
const GUARDS: [&str; 4] = [
    "security",
    "securityDefinitions",
    "x-amazon-apigateway-policy",
    "Fn::Transform",
];

/// Says whether an OpenAPI document may restrict who calls.
fn guards(node: &YamlNode) -> bool {
    match &node.value {
        Yaml::List(items) => items.iter().any(guards),
        Yaml::Map(entries) => entries
            .iter()
            .any(|(key, node)| GUARDS.contains(&key.as_str()) || guards(node)),
        _ => false,
    }
}

impl ApiAccess {
    /// Adds the properties of an API; the first ones win.
    fn add(&mut self, api: &NamedValue<'_>) {
        let auth = api.get("Auth");
        if let Some(unknown) = auth.filter(|auth| intrinsic(auth.node).is_some()) {
            self.other.get_or_insert_with(|| format!("`{}`", words(&unknown)));
        }
        let default = auth.and_then(|auth| auth.get("DefaultAuthorizer"));
        self.authorizer = self.authorizer.take().or_else(|| default.map(|item| words(&item)));
        self.has_key |= has_key(auth);
        if auth.and_then(|auth| auth.get("ResourcePolicy")).is_some() {
            self.other.get_or_insert_with(|| "`ResourcePolicy`".to_owned());
        }
        if let Some(definition) = ["DefinitionUri", "DefinitionBody"].iter().find_map(|key| api.get(key))
            && (definition.key == "DefinitionUri" || guards(definition.node))
        {
            self.other
                .get_or_insert_with(|| format!("the rules of its `{}`", definition.key));
        }
        let endpoint = api.get("EndpointConfiguration");
        let kind = endpoint.map(|item| item.text_of("Type").unwrap_or_else(|| words(&item)));
        if kind.is_some_and(|kind| kind == "PRIVATE") {
            self.other
                .get_or_insert_with(|| "`EndpointConfiguration: PRIVATE`".to_owned());
        }
    }
}

/// The URL of a function: a host of its own at AWS, and a path here.
pub(super) fn url(import: &mut SamImport<'_>, url: &NamedValue<'_>) {
    let mut cors = None;
    let mut auth = None;
    for item in url.items() {
        let field = import.field(&item, &format!("FunctionUrlConfig.{}", item.key));
        match (item.key, item.text().as_deref()) {
            ("AuthType", Some("NONE")) => {
                import.report.differs(&field, "http.auth", OPEN);
                auth = Some(("auth", Value::from("none"), Some(field)));
            }
            ("AuthType", Some("AWS_IAM")) => auth = Some(secret(import, field, "instead of a signature of AWS")),
            ("InvokeMode", Some("BUFFERED" | "RESPONSE_STREAM")) => import.report.works(&field, "http.payload"),
            (key @ ("AuthType" | "InvokeMode"), _) => {
                let expected = match key {
                    "AuthType" => "expected `NONE` or `AWS_IAM`",
                    _ => "expected `BUFFERED` or `RESPONSE_STREAM`",
                };
                let why = unresolved(&item).map(|words| not_known(&words, import.root));
                import.report.refused(&field, why.as_deref().unwrap_or(expected));
            }
            ("Cors", _) => cors = origins(import, &item),
            _ => import.report.unknown(&field, "`FunctionUrlConfig` has no such key"),
        }
    }
    let whole = import.field(url, "FunctionUrlConfig");
    let Some(auth) = auth else {
        return import.report.refused(
            &whole,
            "`AuthType` says whether everybody may call it: write `NONE` or `AWS_IAM`",
        );
    };
    let name = import.made.name.clone();
    let note = format!(
        "the path begins with `/{name}`; `http.host` gives the function a host of its own, with the paths `/` and `/{{*rest}}`"
    );
    import.report.differs(&whole, "http.path", &note);
    for path in [format!("/{name}"), format!("/{name}/"), format!("/{name}/{{*rest}}")] {
        let methods = ("methods", Value::Array(ANY.map(Value::from).to_vec()), None);
        let keys = [("path", Value::from(path), Some(whole.clone())), methods, auth.clone()];
        import.made.manifest.push("http", keys.into_iter().chain(cors.clone()));
    }
}

/// The origins of `Cors`.
fn origins(import: &mut SamImport<'_>, cors: &NamedValue<'_>) -> Option<TableKey> {
    let mut found = None;
    for item in cors.items() {
        let field = import.field(&item, &format!("FunctionUrlConfig.Cors.{}", item.key));
        if item.key != "AllowOrigins" {
            import.report.not_here(&field, cors_note(item.key));
        } else if let Some(texts) = item.texts(&mut import.report, &field) {
            import.report.works(&field, "http.cors");
            let origins = texts.into_iter().map(Value::from).collect();
            found = Some(("cors", Value::Array(origins), Some(field)));
        }
    }
    found
}

/// Returns what fnd does in place of a key of `Cors`.
fn cors_note(key: &str) -> &'static str {
    match key {
        "AllowMethods" => "fnd allows the methods of the route",
        "AllowHeaders" => "fnd allows every header",
        "AllowCredentials" => "fnd never allows pages to send cookies",
        "ExposeHeaders" => "fnd exposes no further headers",
        _ => "fnd has no such setting",
    }
}

/// The key with the time of a schedule.
const TIMES: [&str; 2] = ["Schedule", "ScheduleExpression"];

fn schedule(import: &mut SamImport<'_>, (event, properties): SamEvent<'_, '_>, kind: &str, path: &str) {
    let whole = import.field(event, path);
    // EventBridge has no other zone, but its scheduler has.
    let mut zone = ("timezone", Value::from("UTC"), None);
    let mut keys: Vec<TableKey> = Vec::new();
    let mut is_cron = false;
    let mut enabled = true;
    for item in properties.iter().flat_map(|properties| properties.items()) {
        let field = import.field(&item, &format!("{path}.{}", item.key));
        let report = &mut import.report;
        if reported(keys::SCHEDULE, item.key, report, &field) {
            continue;
        }
        if let Some(words) = unresolved(&item) {
            report.refused(&field, &not_known(&words, import.root));
            continue;
        }
        let text = item.text().unwrap_or_default();
        match item.key {
            key if TIMES.contains(&key) => match time(&text) {
                Ok(SamTime::Every(every)) => {
                    report.works(&field, "schedule.every");
                    keys.push(("every", Value::from(every), Some(field)));
                }
                Ok(SamTime::Cron(line)) => {
                    report.works(&field, "schedule.cron");
                    is_cron = true;
                    keys.push(("cron", Value::from(line), Some(field)));
                }
                Err(why) => report.refused(&field, &why),
            },
            "ScheduleExpressionTimezone" => {
                if ["UTC", "Etc/UTC"].contains(&text.as_str()) {
                    report.works(&field, "schedule.timezone");
                } else {
                    let note = "AWS leaves out a run in the hour that daylight saving skips; fnd runs it at the end of that hour";
                    report.differs(&field, "schedule.timezone", note);
                }
                zone = ("timezone", Value::from(text), Some(field));
            }
            "Input" => match data(&text) {
                Ok(value) => {
                    report.works(&field, "schedule.data");
                    keys.push(("data", value, Some(field)));
                }
                Err(why) => report.refused(&field, &why),
            },
            "Enabled" | "State" => {
                enabled = item.truth().unwrap_or(text != "DISABLED");
                let note = "a schedule that is switched off is not taken over";
                match enabled {
                    true => report.works(&field, "schedule"),
                    false => report.differs(&field, "", note),
                }
            }
            "FlexibleTimeWindow" => keys.extend(window(import, &item, field)),
            _ => report.unknown(&field, "SAM has no such key of this event"),
        }
    }
    if !keys.iter().any(|(name, ..)| ["cron", "every"].contains(name)) {
        if !import.report.is_refused() {
            import.report.refused(&whole, "the schedule has no time");
        }
        return;
    }
    if kind == "ScheduleV2" && !keys.iter().any(|(name, ..)| *name == "data") {
        let note = "the event is that of a rule: its `source` is `aws.events`";
        import.report.differs(&whole, "schedule", note);
    }
    // AWS starts a run also while the last one goes on.
    keys.push(("overlap", Value::from("queue"), None));
    keys.extend(is_cron.then_some(zone));
    if enabled {
        import.made.manifest.push("schedule", keys);
    }
}

/// `{Mode: FLEXIBLE, MaximumWindowInMinutes: 15}`
fn window(import: &mut SamImport<'_>, item: &NamedValue<'_>, field: Field) -> Option<TableKey> {
    let minutes = item.text_of("MaximumWindowInMinutes");
    match (
        item.text_of("Mode").as_deref(),
        minutes.and_then(|text| text.parse::<u32>().ok()),
    ) {
        (Some("FLEXIBLE"), Some(minutes)) if minutes > 0 => {
            import.report.works(&field, "schedule.jitter");
            Some(("jitter", Value::from(format!("{minutes}m")), Some(field)))
        }
        (Some("OFF"), _) => {
            import.report.works(&field, "");
            None
        }
        _ => {
            let why = "expected `Mode: OFF`, or `Mode: FLEXIBLE` with `MaximumWindowInMinutes`";
            import.report.refused(&field, why);
            None
        }
    }
}

/// Returns the payload of a schedule.
fn data(text: &str) -> Result<Value, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    Value::try_from(json).map_err(|_| "a manifest can have no `null`: change it to another value".to_owned())
}
