//! Kyma's `Function` (`serverless.kyma-project.io/v1alpha1` and `v1alpha2`), its `Subscription` and its `APIRule`.

use super::common::{Making, bytes_of, milli_of, quantity};
use super::item::Item;
use super::objects::{Object, ObjectKind};
use super::yaml::Value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The sizes of `v1alpha2`: name, memory and CPU.
const PROFILES: [(&str, &str, &str); 5] = [
    ("XS", "256M", "150m"),
    ("S", "256M", "200m"),
    ("M", "512M", "400m"),
    ("L", "1G", "800m"),
    ("XL", "2G", "1600m"),
];

/// The fields of a function below `spec` (`v1alpha1`, `v1alpha2`, and the version before them).
const FIELDS: [&str; 37] = [
    "spec.runtime",
    "spec.runtimeImageOverride",
    "spec.function",
    "spec.functionContentType",
    "spec.size",
    "spec.timeout",
    "spec.source",
    "spec.source.inline.source",
    "spec.source.inline.dependencies",
    "spec.source.gitRepository.url",
    "spec.source.gitRepository.reference",
    "spec.source.gitRepository.baseDir",
    "spec.source.gitRepository.auth.type",
    "spec.source.gitRepository.auth.secretName",
    "spec.sourceType",
    "spec.type",
    "spec.reference",
    "spec.baseDir",
    "spec.deps",
    "spec.env.*",
    "spec.labels.*",
    "spec.annotations.*",
    "spec.replicas",
    "spec.minReplicas",
    "spec.maxReplicas",
    "spec.scaleConfig.minReplicas",
    "spec.scaleConfig.maxReplicas",
    "spec.profile",
    "spec.buildProfile",
    "spec.resources.*",
    "spec.buildResources.*",
    "spec.resourceConfiguration.*",
    "spec.secretMounts.*",
    "spec.template.*",
    "spec.podSecurityContext.*",
    "spec.containerSecurityContext.*",
    "spec.customRuntimeConfiguration.*",
];

/// Variables that Kyma sets itself.
const RESERVED: [&str; 8] = [
    "FUNC_RUNTIME",
    "FUNC_HANDLER",
    "FUNC_PORT",
    "FUNC_HANDLER_SOURCE",
    "FUNC_HANDLER_DEPENDENCIES",
    "MOD_NAME",
    "NODE_PATH",
    "PYTHONPATH",
];

/// Fields of Kyma that have no effect here, each with the reason.
const KNOWN: &[(&str, &str)] = crate::texts! {
    "spec.runtimeImageOverride": "fnd runs no images",
    "spec.template": "there is no Pod of a cluster",
    "spec.annotations": "annotations are for programs of the cluster",
    "spec.podSecurityContext": "each function is a user of its own in a sandbox",
    "spec.containerSecurityContext": "each function is a user of its own in a sandbox",
    "spec.resourceConfiguration.build": "builds have limits of fnd's own",
    "spec.buildResources": "builds have limits of fnd's own",
    "spec.customRuntimeConfiguration": "a runtime of one's own is a directory: docs/new-runtime.md",
};

/// Fields of subscriptions and rules without effect.
const TRIGGER_KNOWN: &[(&str, &str)] = crate::texts! {
    "spec.id": "the cluster writes it",
    "spec.protocol": "events come to `/v1/events`",
    "spec.protocolsettings": "events come to `/v1/events`",
    "spec.config": "a function's `[pool]` and `[queue]` say how many events it takes at once",
    "spec.gateway": "there is no gateway: the public listener has the routes",
    "spec.corsPolicy": "`[[http]] cors` names origins",
    "spec.timeout": "`limits.timeout` is the function's",
};

impl<'d> Making<'_, 'd> {
    /// Makes a function, its subscriptions and its routes.
    pub(super) fn kyma(&mut self, object: &Object<'d>) {
        self.metadata(&object.root);
        let Some(spec) = object.root.get("spec") else {
            return self.refuse(
                &object.root.get("metadata").unwrap_or_else(|| object.root.clone()),
                "Required value: spec",
            );
        };
        let runtime = self.kyma_runtime(&spec);
        self.default("mode", "handler");
        self.kyma_source(&spec, runtime);
        for (name, label) in spec.get("labels").iter().flat_map(Item::entries) {
            if let Some(value) = label.scalar(&mut self.report) {
                self.report.works(&label.field(), &format!("labels.{name}"));
                self.made.manifest.set_in("labels", name, value, Some(&label.field()));
            }
        }
        self.kyma_env(&spec);
        self.kyma_mounts(&spec);
        self.kyma_limits(&spec);
        let objects = self.objects;
        for other in &objects.0 {
            match other.kind {
                ObjectKind::Subscription if sink(other) == Some(object.name) => self.subscription(other),
                ObjectKind::ApiRule if other.root.text_at("spec.service.name") == Some(object.name) => {
                    self.api_rule(other);
                }
                _ => {}
            }
        }
        self.leftover(&object.root, KNOWN);
        self.misspelt(&object.root, &FIELDS);
    }

    fn kyma_runtime(&mut self, spec: &Item<'d>) -> &'static str {
        let Some(item) = spec.get("runtime") else {
            // The default of both versions of the API.
            self.default("runtime", "node");
            return "node";
        };
        let word = item.text(&mut self.report).unwrap_or_default();
        let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let version: u32 = word
            .strip_prefix(name)
            .and_then(|version| version.parse().ok())
            .unwrap_or(0);
        let runtime = match name {
            // Kyma has had the even versions from 6 on, those with long support.
            "nodejs" if version >= 6 && version.is_multiple_of(2) => "node",
            // `python312` is 3.12.
            "python" if version.to_string().starts_with('3') && version > 30 => "python",
            _ => {
                // The function is refused. With any runtime, its other fields can still be checked.
                self.refuse(&item, &format!("runtime should be one of [nodejs python] with a version, such as nodejs22 or python312 (got \"{word}\")"));
                return "node";
            }
        };
        let note = format!("`{word}` becomes the version that is installed: `fndctl runtimes` shows it");
        self.differs(("runtime", runtime), &item, &note);
        runtime
    }

    fn kyma_source(&mut self, spec: &Item<'d>, runtime: &str) {
        if spec.get("sourceType").is_some() || spec.get("source.gitRepository").is_some() {
            return self.kyma_git(spec, runtime);
        }
        // `source.inline.source` of v1alpha2, `source` of v1alpha1, `function` of the first version.
        let inline = spec.get("source.inline");
        let found = inline.as_ref().and_then(|inline| inline.get("source"));
        let found = found.or_else(|| spec.get("function"));
        let found = found.or_else(|| {
            spec.get("source")
                .filter(|source| matches!(source.value(), Value::Text(_)))
        });
        let Some(item) = found else {
            return self.refuse(
                &spec.get("source").unwrap_or_else(|| spec.clone()),
                "Use GitRepository or Inline source",
            );
        };
        let Some(text) = item.text(&mut self.report) else {
            return;
        };
        let mut code = text.as_bytes().to_vec();
        if let Some(kind) = spec.get("functionContentType") {
            match kind.text(&mut self.report) {
                Some("plaintext") => self.report.works(&kind.field(), "entry"),
                Some("base64") => match STANDARD.decode(text.split_whitespace().collect::<String>()) {
                    Ok(bytes) => {
                        self.report.works(&kind.field(), "entry");
                        code = bytes;
                    }
                    Err(error) => self.refuse(&item, &format!("illegal base64 data: {error}")),
                },
                Some(other) => self.refuse(
                    &kind,
                    &format!("functionContentType should be one of [plaintext base64] (got \"{other}\")"),
                ),
                None => {}
            }
        }
        let file = match runtime {
            "python" => "handler.py",
            // The suffix tells node that the file is an ES module.
            _ if is_module(&code) => "handler.mjs",
            _ => "handler.js",
        };
        self.code(file, code, &item);
        // Kyma calls the function `main` of the module `handler`, whatever else the code has.
        self.made.manifest.set("handler", "handler.main", Some(&item.field()));
        let deps = inline
            .and_then(|inline| inline.get("dependencies"))
            .or_else(|| spec.get("deps"));
        let Some(deps) = deps else { return };
        let Some(text) = deps.text(&mut self.report) else {
            return;
        };
        let trimmed = text.trim();
        match runtime {
            _ if trimmed.is_empty() => self.report.works(&deps.field(), ""),
            "node" if !(trimmed.starts_with('{') && trimmed.ends_with('}')) => {
                self.refuse(&deps, "deps should start with '{' and end with '}'");
            }
            "node" => {
                self.works("dependencies", "package.json", &deps);
                self.made.file("package.json", text);
            }
            _ => {
                self.works("dependencies", "requirements.txt", &deps);
                self.made.file("requirements.txt", text);
            }
        }
    }

    /// Takes a repository: of the function itself (v1alpha2), or one that it names (v1alpha1).
    fn kyma_git(&mut self, spec: &Item<'d>, runtime: &str) {
        let (place, repository) = match spec.get("source.gitRepository") {
            Some(git) => (git.clone(), git),
            None => {
                let Some(source) = spec.get("source") else {
                    return self.refuse(spec, "Required value: spec.source");
                };
                if let Some(kind) = spec.get("sourceType") {
                    self.report.works(&kind.field(), "source.git");
                }
                let name = source.text(&mut self.report).unwrap_or_default();
                let found = self
                    .objects
                    .find(ObjectKind::GitRepository, name)
                    .and_then(|found| found.root.get("spec"));
                let Some(found) = found else {
                    return self.refuse(
                        &source,
                        &format!("there is no GitRepository `{name}` among these files; put its file beside this one"),
                    );
                };
                self.report.works(&source.field(), "source.git");
                (spec.clone(), found)
            }
        };
        for (from, to) in [
            ("url", "source.git"),
            ("reference", "source.ref"),
            ("baseDir", "source.dir"),
        ] {
            let holder = if from == "url" { &repository } else { &place };
            let Some(item) = holder.get(from) else {
                if from == "url" {
                    self.refuse(holder, "Required value: url");
                }
                continue;
            };
            let text = item
                .text(&mut self.report)
                .unwrap_or_default()
                // Kyma's `baseDir` begins with the `/` of the repository; `dir` is relative to it.
                .trim_matches(if from == "baseDir" { '/' } else { '\0' });
            if text.is_empty() || text == "." {
                self.report.works(&item.field(), to);
            } else {
                self.works(to, text, &item);
            }
        }
        if let Some(auth) = repository.get("auth")
            && let Some(secret) = auth.get("secretName")
            && let Some(name) = secret.text(&mut self.report)
        {
            let note = format!("the secret is a private key, or `USER:PASSWORD`: `fndctl secret set {name}`");
            self.differs(("source.key", name), &secret, &note);
            if let Some(kind) = auth.get("type") {
                self.report.works(&kind.field(), "source.key");
            }
        }
        // Kyma asks every five minutes.
        self.default("source.every", "5m");
        self.default(
            "entry",
            if runtime == "python" {
                "handler.py"
            } else {
                "handler.js"
            },
        );
        self.default("handler", "handler.main");
    }

    fn kyma_env(&mut self, spec: &Item<'d>) {
        let Some(env) = spec.get("env") else { return };
        for item in env.items() {
            let name = item.get("name");
            let text = name.as_ref().map(Item::value);
            if let (Some(Value::Text(text)), Some(name)) = (text, &name)
                && RESERVED.contains(&text.as_str())
            {
                self.refuse(name, &format!("env.name {text} is reserved for the serverless domain"));
            }
        }
        self.env(&env);
    }

    fn kyma_mounts(&mut self, spec: &Item<'d>) {
        let mut names: Vec<&str> = Vec::new();
        for mount in spec
            .get("secretMounts")
            .map(|mounts| mounts.items())
            .unwrap_or_default()
        {
            let part = |part: &str, making: &mut Self| {
                mount
                    .get(part)
                    .and_then(|item| item.text(&mut making.report))
                    .unwrap_or_default()
            };
            let (secret, path) = (part("secretName", self), part("mountPath", self));
            if secret.is_empty() || path.is_empty() {
                self.refuse(&mount, "secretMounts: secretName and mountPath must not be empty");
            } else if names.contains(&secret) {
                self.refuse(&mount, "secretNames should be unique");
            } else {
                names.push(secret);
                let note = format!(
                    "fnd mounts no secret at `{path}`; map each of its keys: `[secrets] NAME = \"{secret}.KEY\"`, a file in `$CREDENTIALS_DIRECTORY`"
                );
                self.not_here(&mount, &note);
            }
        }
    }

    fn kyma_limits(&mut self, spec: &Item<'d>) {
        let new = spec.get("resourceConfiguration.function");
        let profile = new
            .as_ref()
            .and_then(|new| new.get("profile"))
            .or_else(|| spec.get("profile"))
            .or_else(|| spec.get("size"));
        let resources = new
            .as_ref()
            .and_then(|new| new.get("resources"))
            .or_else(|| spec.get("resources"));
        match (&profile, &resources) {
            (Some(profile), Some(_)) => self.refuse(profile, "Use profile or resources"),
            (Some(item), None) => {
                let word = item.text(&mut self.report).unwrap_or_default();
                match PROFILES.iter().find(|(name, ..)| *name == word) {
                    Some((_, memory, cpu)) => {
                        self.works("limits.memory", *memory, item);
                        // The field becomes two keys, but has one row in the report.
                        self.made.manifest.set("limits.cpu", *cpu, Some(&item.field()));
                    }
                    None if spec.get("size").is_some() => {
                        self.refuse(item, &format!("size should be one of [S M L XL] (got \"{word}\")"));
                    }
                    None => self.refuse(item, "Invalid profile, please use one of: ['XS','S','M','L','XL']"),
                }
            }
            (None, Some(item)) => {
                self.kyma_minimum(item);
                self.resources(item);
            }
            (None, None) => {
                // Kyma's default is the size L.
                self.default("limits.memory", "1G");
                self.default("limits.cpu", "800m");
            }
        }
        if let Some(item) = spec.get("timeout")
            && let Some(seconds) = item.whole(&mut self.report)
        {
            self.works("limits.timeout", format!("{}s", seconds.max(1)), &item);
        }
        self.default("limits.timeout", "180s");
        for (from, to) in [
            ("replicas", "pool.min"),
            ("scaleConfig.minReplicas", "pool.min"),
            ("scaleConfig.maxReplicas", "pool.max"),
            ("minReplicas", "pool.min"),
            ("maxReplicas", "pool.max"),
        ] {
            let Some(item) = spec.get(from) else { continue };
            let Some(count) = item.whole(&mut self.report) else {
                continue;
            };
            // In Kyma, 0 replicas stop a function.
            if from == "replicas" && count == 0 {
                self.works("enabled", false, &item);
            } else {
                self.works(to, i64::try_from(count).unwrap_or(i64::MAX), &item);
            }
        }
    }

    /// Checks the bounds of Kyma: at least 10m and 16Mi, and no limit below its request.
    fn kyma_minimum(&mut self, resources: &Item<'d>) {
        for (name, least, shown) in [("cpu", 0.01, "10m"), ("memory", 16.0 * 1_048_576.0, "16Mi")] {
            let read = |part: &str| {
                let item = resources.get(part)?.get(name)?;
                // `resources` reads the same fields and reports a wrong type, so the report of this reading is dropped.
                let text = item.scalar(&mut super::ConversionReport::default())?;
                Some((quantity(&text)?, item))
            };
            let (limit, request) = (read("limits"), read("requests"));
            let say = |value: f64| {
                if name == "cpu" {
                    milli_of(value)
                } else {
                    bytes_of(value)
                }
            };
            if let Some((value, item)) = limit.clone().filter(|(value, _)| *value < least) {
                self.refuse(
                    &item,
                    &format!(
                        "Function limits {name}({}) should be higher than minimal value ({shown})",
                        say(value)
                    ),
                );
            } else if let (Some((limit, item)), Some((request, _))) = (limit, request)
                && limit < request
            {
                let why = format!(
                    "Function limits {name}({}) should be higher than requests {name}({})",
                    say(limit),
                    say(request)
                );
                self.refuse(&item, &why);
            }
        }
    }

    /// Takes a subscription; its two versions.
    fn subscription(&mut self, object: &Object<'d>) {
        let Some(spec) = object.root.get("spec") else { return };
        if let Some(sink) = spec.get("sink") {
            self.report.works(&sink.field(), "event");
        }
        for filter in spec
            .get("filter.filters")
            .map(|filters| filters.items())
            .unwrap_or_default()
        {
            let value = |path: &str| filter.get(path).and_then(|part| part.get("value"));
            let (Some(kind), source) = (value("eventType"), value("eventSource")) else {
                continue;
            };
            self.event(&kind, source.as_ref());
            self.report.works(&filter.field(), "event");
        }
        if let Some(filter) = spec.get("filter") {
            self.report.works(&filter.field(), "event");
        }
        let source = spec.get("source");
        for kind in spec.get("types").map(|types| types.items()).unwrap_or_default() {
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
    fn api_rule(&mut self, object: &Object<'d>) {
        let Some(spec) = object.root.get("spec") else { return };
        let hosts = spec
            .get("hosts")
            .and_then(|hosts| hosts.items().into_iter().next())
            .or_else(|| spec.get("host"));
        let hosts = hosts.or_else(|| spec.get("service.host"));
        let host = hosts
            .as_ref()
            .and_then(|host| host.text(&mut self.report))
            .filter(|host| host.contains('.'));
        if let Some(item) = &hosts {
            match host {
                Some(_) => self.report.works(&item.field(), "http.host"),
                None => self.not_here(item, "the name has no domain, so the routes are for every host"),
            }
        }
        if let Some(service) = spec.get("service") {
            self.report.works(&service.field(), "http");
        }
        for rule in spec.get("rules").map(|rules| rules.items()).unwrap_or_default() {
            self.rule(&rule, host.zip(hosts.as_ref()));
        }
        self.leftover(&object.root, TRIGGER_KNOWN);
    }

    fn rule(&mut self, rule: &Item<'d>, host: Option<(&str, &Item<'d>)>) {
        let handlers = rule
            .get("accessStrategies")
            .map(|strategies| strategies.items())
            .unwrap_or_default();
        let named = handlers.iter().filter_map(|strategy| strategy.get("handler"));
        let words: Vec<&str> = named.filter_map(|handler| handler.text(&mut self.report)).collect();
        let no_auth = matches!(rule.get("noAuth").as_ref().map(Item::value), Some(Value::Bool(true)));
        let is_open =
            no_auth || (!words.is_empty() && words.iter().all(|word| ["noop", "allow", "no_auth"].contains(word)));
        if !is_open {
            return self.not_here(rule, "it asks for a token that fnd cannot check, so there is no route; `[[http]] auth` has the forms that fnd checks");
        }
        let Some(path) = rule.get("path") else {
            return self.refuse(rule, "Required value: path");
        };
        let Some(text) = path.text(&mut self.report) else {
            return;
        };
        let Some(route) = route(text) else {
            return self.not_here(
                &path,
                "a regular expression is no path of a route; write `[[http]] path` yourself",
            );
        };
        self.report.works(&rule.field(), "http");
        let mut keys = vec![("path", route.into(), Some(path.field()))];
        keys.extend(host.map(|(host, item)| ("host", host.into(), Some(item.field()))));
        keys.extend(
            rule.get("methods")
                .map(|methods| ("methods", methods.toml(), Some(methods.field()))),
        );
        keys.push(("auth", "none".into(), None));
        // As there, where the function may check a token itself.
        keys.push(("authorization", true.into(), None));
        self.made.manifest.push("http", keys);
    }
}

/// Returns a path of a rule as fnd writes it; absent for other regular expressions.
fn route(path: &str) -> Option<String> {
    match path {
        "/.*" | "/*" | "/{**}" => return Some("/{*rest}".to_owned()),
        _ => {}
    }
    let rest = ["/.*", "/*", "/{**}"].iter().find_map(|end| path.strip_suffix(end));
    let plain = rest.unwrap_or(path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !plain.starts_with('/') || !plain.chars().all(is_plain) {
        return None;
    }
    Some(if rest.is_some() {
        format!("{plain}/{{*rest}}")
    } else {
        plain.to_owned()
    })
}

/// Returns the function that a subscription's `sink` names: the host before its first dot.
fn sink<'d>(object: &Object<'d>) -> Option<&'d str> {
    let sink = object.root.text_at("spec.sink")?;
    let host = sink.split_once("://").map_or(sink, |(_, host)| host);
    host.split(['.', '/', ':']).next()
}

/// Says whether code of JavaScript is an ES module: a line begins with `export` or `import`.
fn is_module(code: &[u8]) -> bool {
    let text = String::from_utf8_lossy(code);
    let begins = |line: &str| line.starts_with("export ") || line.starts_with("import ") || line.starts_with("export{");
    text.lines().any(begins)
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
