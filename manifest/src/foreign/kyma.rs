//! Kyma's `Function` (`serverless.kyma-project.io/v1alpha1` and `v1alpha2`).

use super::common::{Making, WithoutEffect, base64, bytes_of, milli_of, quantity};
use super::item::Item;
use super::kyma_triggers::sink;
use super::objects::{Object, ObjectKind};
use super::report::ConversionReport;
use super::yaml::Value;

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
const KNOWN: WithoutEffect = crate::texts! {
    "spec.runtimeImageOverride": "fnd runs no images",
    "spec.template": "there is no Pod of a cluster",
    "spec.annotations": "annotations are for programs of the cluster",
    "spec.podSecurityContext spec.containerSecurityContext": "each function is a user of its own in a sandbox",
    "spec.resourceConfiguration.build spec.buildResources": "builds have limits of fnd's own",
    "spec.customRuntimeConfiguration": "a runtime of one's own is a directory: docs/new-runtime.md",
};

impl<'d> Making<'_, 'd> {
    /// Makes a function, its subscriptions and its routes.
    pub(super) fn kyma(&mut self, object: &Object<'d>) {
        self.metadata(&object.root);
        let Some(spec) = self.required_of(object, "spec") else {
            return;
        };
        let runtime = self.kyma_runtime(&spec);
        self.default("mode", "handler");
        self.kyma_source(&spec, runtime);
        for (name, label) in spec.entries_at("labels") {
            if let Some(value) = label.scalar(&mut self.report) {
                self.works_in(("labels", name), value, &label);
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
                // It is of another kind, or of another function.
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
        let version = word.strip_prefix(name).and_then(|version| version.parse().ok());
        let version: u32 = version.unwrap_or(0);
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
        let found = spec.get("source.inline.source").or_else(|| spec.get("function"));
        let source = spec.get("source");
        let is_code = |source: &&Item<'d>| matches!(source.value(), Value::Text(_));
        let Some(item) = found.or_else(|| source.as_ref().filter(is_code).cloned()) else {
            return self.refuse(source.as_ref().unwrap_or(spec), "Use GitRepository or Inline source");
        };
        let Some(text) = item.text(&mut self.report) else {
            return;
        };
        let mut code = text.as_bytes().to_vec();
        if let Some(kind) = spec.get("functionContentType") {
            match kind.text(&mut self.report) {
                Some("plaintext") => self.report.works(&kind.field(), "entry"),
                Some("base64") => match base64(text) {
                    Ok(bytes) => {
                        self.report.works(&kind.field(), "entry");
                        code = bytes;
                    }
                    Err(why) => self.refuse(&item, &why),
                },
                Some(other) => {
                    let why = format!("functionContentType should be one of [plaintext base64] (got \"{other}\")");
                    self.refuse(&kind, &why);
                }
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
        let deps = spec.get("source.inline.dependencies").or_else(|| spec.get("deps"));
        let Some(deps) = deps else { return };
        let Some(text) = deps.text(&mut self.report) else {
            return;
        };
        let trimmed = text.trim();
        let is_object = trimmed.starts_with('{') && trimmed.ends_with('}');
        if trimmed.is_empty() {
            self.report.works(&deps.field(), "");
        } else if runtime == "node" && !is_object {
            self.refuse(&deps, "deps should start with '{' and end with '}'");
        } else {
            let file = if runtime == "node" {
                "package.json"
            } else {
                "requirements.txt"
            };
            self.works("dependencies", file, &deps);
            self.made.file(file, text);
        }
    }

    /// Takes a repository: of the function itself (v1alpha2), or one that it names (v1alpha1).
    fn kyma_git(&mut self, spec: &Item<'d>, runtime: &str) {
        let (place, repository) = match spec.get("source.gitRepository") {
            Some(git) => (git.clone(), git),
            None => {
                let Some(source) = self.required(spec, "spec.source") else {
                    return;
                };
                if let Some(kind) = spec.get("sourceType") {
                    self.report.works(&kind.field(), "source.git");
                }
                let name = source.text(&mut self.report).unwrap_or_default();
                let found = self.objects.find(ObjectKind::GitRepository, name);
                let Some(found) = found.and_then(|found| found.root.get("spec")) else {
                    let why =
                        format!("there is no GitRepository `{name}` among these files; put its file beside this one");
                    return self.refuse(&source, &why);
                };
                self.report.works(&source.field(), "source.git");
                (spec.clone(), found)
            }
        };
        for (item, to) in [
            (self.required(&repository, "url"), "source.git"),
            (place.get("reference"), "source.ref"),
            (place.get("baseDir"), "source.dir"),
        ] {
            let Some(item) = item else { continue };
            let mut text = item.text(&mut self.report).unwrap_or_default();
            if to == "source.dir" {
                // Kyma's `baseDir` begins with the `/` of the repository; `dir` is relative to it.
                text = text.trim_matches('/');
            }
            if text.is_empty() || text == "." {
                self.report.works(&item.field(), to);
            } else {
                self.works(to, text, &item);
            }
        }
        if let Some(secret) = repository.get("auth.secretName")
            && let Some(name) = secret.text(&mut self.report)
        {
            let note = format!("the secret is a private key, or `USER:PASSWORD`: `fndctl secret set {name}`");
            self.differs(("source.key", name), &secret, &note);
            if let Some(kind) = repository.get("auth.type") {
                self.report.works(&kind.field(), "source.key");
            }
        }
        // Kyma asks every five minutes.
        self.default("source.every", "5m");
        let is_python = runtime == "python";
        self.default("entry", if is_python { "handler.py" } else { "handler.js" });
        self.default("handler", "handler.main");
    }

    fn kyma_env(&mut self, spec: &Item<'d>) {
        let Some(env) = spec.get("env") else { return };
        for name in env.items().iter().filter_map(|item| item.get("name")) {
            if let Value::Text(text) = name.value()
                && RESERVED.contains(&text.as_str())
            {
                self.refuse(&name, &format!("env.name {text} is reserved for the serverless domain"));
            }
        }
        self.env(&env);
    }

    fn kyma_mounts(&mut self, spec: &Item<'d>) {
        let mut names: Vec<&str> = Vec::new();
        for mount in spec.items_at("secretMounts") {
            let mut part = |part: &str| mount.get(part)?.text(&mut self.report);
            let (secret, path) = (
                part("secretName").unwrap_or_default(),
                part("mountPath").unwrap_or_default(),
            );
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
        let first = |paths: &[&str]| paths.iter().find_map(|path| spec.get(path));
        let profile = first(&["resourceConfiguration.function.profile", "profile", "size"]);
        let resources = first(&["resourceConfiguration.function.resources", "resources"]);
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
            // `number` reads the same field and reports a wrong type, so the report of this reading is dropped.
            match item.whole(&mut ConversionReport::default()) {
                // In Kyma, 0 replicas stop a function.
                Some(0) if from == "replicas" => self.works("enabled", false, &item),
                _ => self.number(to, Some(&item)),
            }
        }
    }

    /// Checks the bounds of Kyma: at least 10m and 16Mi, and no limit below its request.
    fn kyma_minimum(&mut self, resources: &Item<'d>) {
        for (name, least, shown) in [("cpu", 0.01, "10m"), ("memory", 16.0 * 1_048_576.0, "16Mi")] {
            let read = |part: &str| {
                let item = resources.get(part)?.get(name)?;
                // `resources` reads the same fields and reports a wrong type, so the report of this reading is dropped.
                let text = item.scalar(&mut ConversionReport::default())?;
                Some((quantity(&text)?, item))
            };
            let (limit, request) = (read("limits"), read("requests"));
            let say: fn(f64) -> String = if name == "cpu" { milli_of } else { bytes_of };
            let Some((limit, item)) = limit else { continue };
            let higher = if limit < least {
                format!("minimal value ({shown})")
            } else if let Some((request, _)) = request.filter(|(request, _)| limit < *request) {
                format!("requests {name}({})", say(request))
            } else {
                continue;
            };
            let why = format!("Function limits {name}({}) should be higher than {higher}", say(limit));
            self.refuse(&item, &why);
        }
    }
}

/// Says whether code of JavaScript is an ES module: a line begins with `export` or `import`.
fn is_module(code: &[u8]) -> bool {
    let text = String::from_utf8_lossy(code);
    let begins = |line: &str| line.starts_with("export ") || line.starts_with("import ") || line.starts_with("export{");
    text.lines().any(begins)
}
