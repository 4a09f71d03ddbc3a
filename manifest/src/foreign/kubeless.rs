//! Kubeless's `Function` and its triggers (`kubeless.io/v1beta1`).

use super::common::{Making, WithoutEffect, base64, bytes_of};
use super::item::Item;
use super::objects::{Object, ObjectKind};
use super::packed;
use sha2::{Digest as _, Sha256};

/// A runtime of Kubeless: the id there, the id here, the end of the files, and the file of dependencies.
type KubelessRuntime = (&'static str, &'static str, &'static str, &'static str);

const RUNTIMES: &[KubelessRuntime] = &[
    ("python", "python", ".py", "requirements.txt"),
    ("nodejs", "node", ".js", "package.json"),
    ("nodejsCE", "node", ".js", "package.json"),
    ("nodejs_distroless", "node", ".js", "package.json"),
    ("ruby", "ruby", ".rb", "Gemfile"),
    ("php", "php", ".php", "composer.json"),
    ("go", "go", ".go", "go.mod"),
    ("java", "java", ".java", "pom.xml"),
    ("jvm", "java", ".java", "pom.xml"),
];

/// Fields of Kubeless that have no effect here, each with the reason.
const KNOWN: WithoutEffect = crate::texts! {
    "spec.service": "there is no Service: `fndctl invoke`, a route (`[[http]]`) and the socket reach the function",
    "spec.type": "each function can be called; a schedule and a topic are triggers of their own",
    "spec.topic": "a topic is `[[event]]`, or `[[nats]]` for JetStream",
    "spec.schedule": "write it as `cron` of `[[schedule]]`",
    "spec.deployment.metadata": "there is no Deployment of a cluster",
    "spec.horizontalPodAutoscaler.spec.metrics": "workers are started when calls wait, up to `pool.max`",
    "spec.deployment.apiVersion spec.deployment.kind spec.deployment.status spec.horizontalPodAutoscaler.apiVersion \
     spec.horizontalPodAutoscaler.kind spec.horizontalPodAutoscaler.metadata spec.horizontalPodAutoscaler.status \
     spec.horizontalPodAutoscaler.spec.scaleTargetRef": "",
};

/// The fields of a function below `spec` (`k8s.io/v1` and `kubeless.io/v1beta1`).
const FIELDS: [&str; 13] = [
    "spec.handler",
    "spec.runtime",
    "spec.function",
    "spec.function-content-type",
    "spec.checksum",
    "spec.deps",
    "spec.timeout",
    "spec.type",
    "spec.topic",
    "spec.schedule",
    "spec.deployment.*",
    "spec.service.*",
    "spec.horizontalPodAutoscaler.*",
];

/// Fields of triggers without effect.
const TRIGGER_KNOWN: WithoutEffect = crate::texts! {
    "spec.ingress-enabled": "the public listener (`[http] listen`) has the routes",
    "spec.tls spec.tls-secret-name spec.tls-acme": "certificates are `[http] tls` of fnd.toml",
    "spec.gateway": "there is no ingress controller",
};

impl<'d> Making<'_, 'd> {
    /// Makes a function, and its triggers.
    pub(super) fn kubeless(&mut self, object: &Object<'d>) {
        self.metadata(&object.root);
        let Some(spec) = self.required_of(object, "spec") else {
            return;
        };
        // `zip` reads both, so that a mistake in one does not hide a mistake in the other.
        if let Some((runtime, module)) = self.kubeless_runtime(&spec).zip(self.kubeless_handler(&spec)) {
            let (_, id, suffix, dependencies) = *runtime;
            self.kubeless_code(&spec, module, suffix);
            self.kubeless_dependencies(&spec, id, dependencies);
        }
        // Kubeless has this default.
        self.timeout(spec.get("timeout").as_ref(), "180s");
        self.number(
            "pool.min",
            spec.get("horizontalPodAutoscaler.spec.minReplicas").as_ref(),
        );
        self.number(
            "pool.max",
            spec.get("horizontalPodAutoscaler.spec.maxReplicas").as_ref(),
        );
        self.kubeless_deployment(&spec);
        self.triggers_of(object.name);
        self.leftover(&object.root, KNOWN);
        self.misspelt(&object.root, &FIELDS);
    }

    fn kubeless_dependencies(&mut self, spec: &Item<'d>, id: &str, file: &str) {
        let Some(deps) = spec.get("deps") else { return };
        let Some(text) = deps.text(&mut self.report) else {
            return;
        };
        let is_fetched = self.made.manifest.get("source.url").is_some();
        if text.trim().is_empty() {
            self.report.works(&deps.field(), "");
        } else if id == "java" {
            let why = "fnd does not read a pom.xml; put the jars in `lib/` of the function's directory";
            self.refuse(&deps, why);
        // The code is not here yet, so the list cannot be a file beside it. The lines of `requirements.txt` fit into the
        // manifest, other lists do not.
        } else if is_fetched && id == "python" {
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            let packages: Vec<toml::Value> = lines.map(Into::into).collect();
            self.works("dependencies", packages, &deps);
        } else if is_fetched {
            let why = format!("the code is fetched: put `{file}` beside it, in an archive");
            self.refuse(&deps, &why);
        } else {
            self.works("dependencies", file, &deps);
            self.made.file(file, text);
        }
    }

    fn kubeless_runtime(&mut self, spec: &Item<'d>) -> Option<&'static KubelessRuntime> {
        let item = self.required(spec, "spec.runtime")?;
        let word = item.text(&mut self.report)?;
        // Kubeless names a runtime by an id and a version, such as `python3.7`.
        let id = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let Some(runtime) = RUNTIMES.iter().find(|(known, ..)| *known == id) else {
            let known: Vec<&str> = RUNTIMES.iter().map(|(id, ..)| *id).collect();
            let why = format!("Invalid runtime: {word}. Supported runtimes are: {}", known.join(", "));
            self.refuse(&item, &why);
            return None;
        };
        if id == word {
            self.works("runtime", runtime.1, &item);
        } else {
            let note = format!("`{word}` becomes the version that is installed: `fndctl runtimes` shows it");
            self.differs(("runtime", runtime.1), &item, &note);
        }
        Some(runtime)
    }

    /// Returns the module of `MODULE.FUNCTION`.
    fn kubeless_handler(&mut self, spec: &Item<'d>) -> Option<&'d str> {
        const FORMAT: &str = "failed: incorrect handler format. It should be module_name.handler_name";
        let Some(item) = spec.get("handler") else {
            self.refuse(spec, FORMAT);
            return None;
        };
        let text = item.text(&mut self.report)?;
        match text.split_once('.') {
            Some((module, function)) if is_name(module) && is_name(function) => {
                self.works("handler", text, &item);
                self.default("mode", "handler");
                Some(module)
            }
            _ => {
                self.refuse(&item, FORMAT);
                None
            }
        }
    }

    /// Takes the code: text, base64 or an address, each also as an archive.
    fn kubeless_code(&mut self, spec: &Item<'d>, module: &str, suffix: &str) {
        let kind = spec.get("function-content-type");
        let word = kind.as_ref().and_then(|kind| kind.text(&mut self.report));
        let word = word.unwrap_or("text");
        if let Some(kind) = &kind {
            self.report.works(&kind.field(), "entry");
        }
        let Some(item) = self.required(spec, "spec.function") else {
            return;
        };
        let Some(text) = item.text(&mut self.report) else {
            return;
        };
        let (base, packed) = word.split_once('+').map_or((word, ""), |(base, packed)| (base, packed));
        if base == "url" {
            return self.kubeless_url(spec, &item, text, packed.is_empty());
        }
        let bytes = match base {
            "text" => text.as_bytes().to_vec(),
            "base64" => match base64(text) {
                Ok(bytes) => bytes,
                Err(why) => return self.refuse(&item, &why),
            },
            _ => {
                let why = "it is none of text, base64, url, each also with +zip or +compressedtar";
                return self.refuse(&kind.unwrap_or(item), why);
            }
        };
        // Before the bytes are unpacked, because the sum is that of the archive.
        self.checksum(spec, &bytes);
        // Kubeless stores a single file under the name of the handler's module, whatever its own name was.
        let path = format!("{module}{suffix}");
        if packed.is_empty() {
            return self.code(&path, bytes, &item);
        }
        match packed::files(packed, bytes) {
            Ok(files) => {
                self.works("entry", path, &item);
                files.into_iter().for_each(|file| self.made.add(file));
            }
            Err(why) => self.refuse(&item, &why),
        }
    }

    /// Takes code that is fetched. A single file keeps the name that it has there, where Kubeless gives it the module's.
    fn kubeless_url(&mut self, spec: &Item<'d>, item: &Item<'d>, url: &str, is_single: bool) {
        self.works("source.url", url, item);
        if let Some((item, digest)) = self.kubeless_digest(spec) {
            self.works("source.sha256", digest, &item);
        }
        let file = url.split(['?', '#']).next().and_then(|path| path.rsplit('/').next());
        let stem = file.and_then(|file| file.rsplit_once('.')).map_or("", |(stem, _)| stem);
        let handler = self.made.manifest.get("handler").and_then(toml::Value::as_str);
        if let Some((module, function)) = handler.unwrap_or_default().split_once('.')
            && is_single
            && module != stem
            && is_name(stem)
        {
            let handler = format!("{stem}.{function}");
            let note = "the file keeps its own name, so the module has that name";
            self.differs(("handler", handler), item, note);
        }
    }

    /// Checks the bytes of the code.
    fn checksum(&mut self, spec: &Item<'d>, bytes: &[u8]) {
        let Some((item, expected)) = self.kubeless_digest(spec) else {
            return;
        };
        let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if expected.eq_ignore_ascii_case(&sum) {
            self.report.works(&item.field(), "");
        } else {
            self.refuse(&item, &format!("the content has the checksum sha256:{sum}"));
        }
    }

    /// Returns the digits of the checksum; nothing if there is none, or if it has another form.
    fn kubeless_digest(&mut self, spec: &Item<'d>) -> Option<(Item<'d>, &'d str)> {
        let item = spec.get("checksum")?;
        let text = item.text(&mut self.report)?;
        match text.strip_prefix("sha256:") {
            Some(digest) => return Some((item, digest)),
            // Kubeless writes all fields of a function, and a checksum that nobody gave is an empty text.
            None if text.is_empty() => self.report.works(&item.field(), ""),
            None => self.refuse(&item, "a checksum has the form sha256:DIGITS"),
        }
        None
    }

    fn kubeless_deployment(&mut self, spec: &Item<'d>) {
        let Some(deployment) = spec.get("deployment.spec") else {
            return;
        };
        // All replicas of a Deployment run all the time.
        self.number("pool.min", deployment.get("replicas").as_ref());
        for (index, container) in deployment.items_at("template.spec.containers").iter().enumerate() {
            if index > 0 {
                self.not_here(container, "a function has no further containers");
                continue;
            }
            self.container(container);
            for (name, item) in container.entries() {
                match name {
                    "env" | "resources" => {}
                    "image" => self.not_here(&item, "fnd runs no images"),
                    "name" => self.report.works(&item.field(), ""),
                    _ => self.not_here(&item, "a function is no container"),
                }
            }
        }
        let (no_pod, no_deployment) = ("there is no Pod of a cluster", "there is no Deployment of a cluster");
        for (name, item) in deployment.entries_at("template.spec") {
            match name {
                "containers" => {}
                "securityContext" => self.not_here(&item, "each function is a user of its own (`[sandbox] user`)"),
                _ => self.not_here(&item, no_pod),
            }
        }
        for (name, item) in deployment.entries_at("template") {
            match name {
                "spec" => {}
                "metadata" => self.not_here(&item, no_pod),
                _ => self.not_here(&item, no_deployment),
            }
        }
        for (name, item) in deployment.entries() {
            if !matches!(name, "replicas" | "template") {
                self.not_here(&item, no_deployment);
            }
        }
    }

    /// Takes the triggers of a function.
    fn triggers_of(&mut self, function: &str) {
        let objects = self.objects;
        for object in &objects.0 {
            let is_its = object.root.text_at("spec.function-name") == Some(function);
            match object.kind {
                ObjectKind::CronJobTrigger if is_its => self.cron_trigger(object),
                ObjectKind::HttpTrigger if is_its => self.http_trigger(object),
                // The label is the one that Kubeless gives each function.
                ObjectKind::QueueTrigger
                    if object.root.text_at("spec.functionSelector.matchLabels.function") == Some(function) =>
                {
                    self.queue_trigger(object);
                }
                _ => {}
            }
        }
    }

    fn queue_trigger(&mut self, object: &Object<'d>) {
        let word = object.word;
        let why = match word {
            "NATSTrigger" => {
                "`[[nats]]` takes its messages: write it with the topic as `subject`, and a stream".to_owned()
            }
            _ => format!("fnd does not read the queue of a {word}; `fndctl emit` and `[[event]]` bring events"),
        };
        if let Some(spec) = object.root.get("spec") {
            self.not_here(&spec, &why);
        }
    }

    fn cron_trigger(&mut self, object: &Object<'d>) {
        let Some(spec) = object.root.get("spec") else { return };
        let get = |path: &str| spec.get(path);
        let Some(item) = self.required(&spec, "spec.schedule") else {
            return;
        };
        let Some(cron) = item.text(&mut self.report) else {
            return;
        };
        let mut keys = vec![("cron", cron.into(), Some(item.field()))];
        self.report.works(&item.field(), "schedule.cron");
        keys.extend(get("payload").map(|payload| {
            self.report.works(&payload.field(), "schedule.data");
            ("data", payload.toml(), Some(payload.field()))
        }));
        // A CronJob runs beside the run before.
        keys.push(("overlap", "queue".into(), None));
        self.made.manifest.push("schedule", keys);
        let named = get("function-name").unwrap_or(item);
        self.report.works(&named.field(), "schedule");
        self.leftover(&object.root, TRIGGER_KNOWN);
    }

    fn http_trigger(&mut self, object: &Object<'d>) {
        let get = |path: &str| object.root.get("spec").and_then(|spec| spec.get(path));
        let Some(named) = get("function-name") else { return };
        self.report.works(&named.field(), "http");
        let path = get("path");
        let text = path.as_ref().and_then(|path| path.text(&mut self.report));
        let origin = path.as_ref().map(Item::field);
        if let Some(field) = &origin {
            let note = "the paths below it match, too; the function sees the whole path, which an ingress of Kubeless rewrites to `/`";
            self.report.differs(field, "http.path", note);
        }
        let methods = INGRESS_METHODS.map(toml::Value::from).to_vec();
        let mut keys = vec![("methods", toml::Value::Array(methods), None)];
        if let Some(host) = get("host-name")
            && let Some(name) = host.text(&mut self.report)
            && !name.is_empty()
        {
            self.report.works(&host.field(), "http.host");
            keys.push(("host", name.into(), Some(host.field())));
        }
        match get("basic-auth-secret") {
            Some(item) => {
                let name = item.text(&mut self.report).unwrap_or_default();
                if name.is_empty() {
                    keys.push(("auth", "none".into(), None));
                } else {
                    let note = format!("the secret has lines `USER:HASH`: `fndctl secret set {name}`");
                    self.report.differs(&item.field(), "http.auth", &note);
                    keys.push(("auth", format!("basic:{name}").into(), Some(item.field())));
                }
            }
            // As there, where the function may check a token itself.
            None => keys.extend([("auth", "none".into(), None), ("authorization", true.into(), None)]),
        }
        if let Some(cors) = get("cors-enable")
            && cors.boolean(&mut self.report) == Some(true)
        {
            self.report.works(&cors.field(), "http.cors");
            keys.push(("cors", toml::Value::Array(vec!["*".into()]), Some(cors.field())));
        }
        for route in ingress_paths(text.unwrap_or("/")) {
            let path = ("path", route.into(), origin.clone());
            let keys = std::iter::once(path).chain(keys.iter().cloned());
            self.made.manifest.push("http", keys);
        }
        self.leftover(&object.root, TRIGGER_KNOWN);
    }
}

/// The methods that functions of Kubeless are asked with; fnd itself answers HEAD and OPTIONS.
pub const INGRESS_METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Returns the paths of routes that match what an ingress of Kubeless matches: the path of a trigger, with or without `/` at
/// its beginning, and all paths below it. A pattern, such as `a/{id}`, matches itself alone.
#[must_use]
pub fn ingress_paths(path: &str) -> Vec<String> {
    let path = path.trim_start_matches('/');
    if path.contains('{') {
        return vec![format!("/{path}")];
    }
    match path.trim_end_matches('/') {
        "" => vec!["/".to_owned(), "/{*rest}".to_owned()],
        base => vec![format!("/{base}"), format!("/{base}/"), format!("/{base}/{{*rest}}")],
    }
}

/// Says whether a text can be a module or a function: it becomes the name of a file.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-$".contains(&b))
}

/// Returns a number of Mi as fnd writes it.
#[must_use]
pub(super) fn mebibytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 Mi")]
    bytes_of(count as f64 * 1_048_576.0)
}
