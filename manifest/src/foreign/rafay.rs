//! Rafay's `Driver` of type `function` (`eaas.envmgmt.io/v1`).

use super::common::Making;
use super::item::Item;
use super::kubeless::mebibytes;
use super::objects::Object;
use super::yaml::Value;

/// Fields of Rafay that have no effect here, each with the reason.
const KNOWN: &[(&str, &str)] = crate::texts! {
    "metadata.project": "there are no projects; a directory of the functions directory is a group",
    "metadata.displayName": "",
    "spec.config.successCondition": "an answer is a success, an exception is none",
    "spec.config.function.image": "fnd runs no images",
    "spec.config.function.skipBuild": "fnd builds when dependencies or code change",
    "spec.config.function.languageVersion": "the version that is installed runs: `fndctl runtimes` shows it",
    "spec.config.function.statusRepositoryOptions": "fnd stores results itself: `fndctl result`",
    "spec.config.function.targetPlatforms": "the function runs on this machine",
    "spec.config.function.imageUploadCredentials": "no image is made",
    "spec.config.function.kubeConfigOptions": "there is no cluster",
    "spec.config.function.kubeOptions": "there is no cluster",
    "spec.outputs": "the result of the function has them all: `fndctl result`",
    "spec.sharing": "there are no projects",
    "spec.version": "releases have the hash of their content",
    "spec.secret": "fnd keeps secrets itself: `fndctl secret set NAME`, and `[secrets]` of the manifest",
};

impl<'d> Making<'_, 'd> {
    /// Makes a function of a driver; a driver of another form is refused in the report.
    pub(super) fn rafay(&mut self, object: &Object<'d>) {
        self.metadata(&object.root);
        let whole = || object.root.get("metadata").unwrap_or_else(|| object.root.clone());
        let Some(config) = object.root.get("spec.config") else {
            return self.refuse(&whole(), "Required value: spec.config");
        };
        let kind = config.get("type");
        let word = kind
            .as_ref()
            .and_then(|kind| kind.text(&mut self.report))
            .unwrap_or("function");
        if let Some(kind) = kind.as_ref().filter(|_| word != "function") {
            return self.refuse(
                kind,
                &format!(
                    "a driver of type `{word}` runs an image or calls a server; fnd runs those of type `function`"
                ),
            );
        }
        if let Some(kind) = &kind {
            self.report.works(&kind.field(), "mode");
        }
        let Some(function) = config.get("function") else {
            return self.refuse(&config, "Required value: spec.config.function");
        };
        self.default("mode", "handler");
        self.rafay_code(&function);
        self.rafay_limits(&config, &function);
        self.rafay_inputs(&object.root);
        self.leftover(&object.root, KNOWN);
    }

    fn rafay_code(&mut self, function: &Item<'d>) {
        let Some(language) = function.get("language") else {
            return self.refuse(function, "Required value: language");
        };
        let (file, dependencies) = match language.text(&mut self.report) {
            Some("python") => ("handler.py", "requirements.txt"),
            Some("go") => ("handler.go", "go.mod"),
            Some(other) => {
                return self.refuse(&language, &format!("language should be python or go (got \"{other}\")"));
            }
            None => return,
        };
        let runtime = if file == "handler.py" { "python" } else { "go" };
        self.works("runtime", runtime, &language);
        let Some(source) = function.get("source") else {
            return self.refuse(function, "there is no `source`, and fnd runs no images");
        };
        let Some(text) = source.text(&mut self.report) else {
            return;
        };
        self.code(file, text, &source);
        // Rafay's SDK calls a function of this name.
        self.made.manifest.set(
            "handler",
            if runtime == "python" {
                "handler.handle"
            } else {
                "handler.Handle"
            },
            Some(&source.field()),
        );
        let Some(list) = function.get("sourceDependencies") else {
            return;
        };
        let lines: Vec<String> = list
            .items()
            .iter()
            .filter_map(|item| item.scalar(&mut self.report))
            .collect();
        if runtime == "python" {
            let packages: Vec<toml::Value> = lines.into_iter().map(Into::into).collect();
            self.works("dependencies", packages, &list);
        } else {
            let modules: String = lines.iter().map(|line| format!("require {line}\n")).collect();
            self.works("dependencies", dependencies, &list);
            self.made
                .file(dependencies, format!("module handler\n\ngo 1.21\n\n{modules}"));
        }
    }

    fn rafay_limits(&mut self, config: &Item<'d>, function: &Item<'d>) {
        let whole = |item: Option<Item<'d>>, making: &mut Self| {
            let item = item?;
            Some((item.whole(&mut making.report)?, item))
        };
        match whole(config.get("timeoutSeconds"), self) {
            Some((0, item)) => self.refuse(&item, "a timeout of 0 would end every call"),
            Some((seconds, item)) => self.works("limits.timeout", format!("{seconds}s"), &item),
            // Rafay has this default.
            None => self.default("limits.timeout", "300s"),
        }
        if let Some((count, item)) = whole(config.get("maxRetryCount"), self) {
            self.works("retry.retries", i64::try_from(count).unwrap_or(i64::MAX), &item);
            // Only TransientException is tried again.
            self.made.manifest.set(
                "retry.on",
                toml::Value::Array(vec!["transient".into()]),
                Some(&item.field()),
            );
        }
        for (from, to) in [("repeat", "poll.repeat"), ("until", "poll.until")] {
            if let Some(item) = config.get("pollingConfig").and_then(|polling| polling.get(from))
                && let Some(text) = item.text(&mut self.report)
            {
                self.works(to, text, &item);
            }
        }
        if let Some((count, item)) = whole(function.get("cpuLimitMilli"), self) {
            self.works("limits.cpu", format!("{count}m"), &item);
        }
        if let Some((count, item)) = whole(function.get("memoryLimitMi"), self) {
            self.works("limits.memory", mebibytes(count), &item);
        }
        let replicas = whole(function.get("numReplicas"), self);
        if let Some((count, item)) = whole(function.get("maxConcurrency"), self) {
            self.works("pool.concurrency", i64::try_from(count).unwrap_or(i64::MAX), &item);
            // A call beyond it gets 429 there.
            self.made.manifest.set("queue.overlap", "reject", Some(&item.field()));
        }
        if let Some((count, item)) = replicas {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.works("pool.max", count.max(1), &item);
            self.made.manifest.set("pool.min", count, Some(&item.field()));
        }
    }

    /// Takes the variables of `inputs` as the payload of calls that bring none.
    fn rafay_inputs(&mut self, root: &Item<'d>) {
        let inputs = root.get("spec.inputs").map(|inputs| inputs.items()).unwrap_or_default();
        for variable in inputs
            .iter()
            .filter_map(|input| input.get("data.variables"))
            .flat_map(|list| list.items())
        {
            let name = variable.get("name").and_then(|name| name.text(&mut self.report));
            let Some(name) = name else { continue };
            let is_sensitive = matches!(
                variable.get("options.sensitive").as_ref().map(Item::value),
                Some(Value::Bool(true))
            );
            if is_sensitive {
                self.not_here(
                    &variable,
                    "a secret value does not belong into a manifest: `fndctl secret set`, and `[secrets]`",
                );
            } else if let Some(value) = variable.get("value") {
                self.report.works(&variable.field(), &format!("data.{name}"));
                self.made
                    .manifest
                    .set_in("data", name, value.toml(), Some(&value.field()));
            } else {
                self.not_here(&variable, "it has no value: the caller gives it");
            }
        }
        for input in inputs {
            for (name, item) in input.entries() {
                match name {
                    "data" => {}
                    "name" => self.report.works(&item.field(), ""),
                    _ => self.not_here(&item, "inputs are the payload of a call"),
                }
            }
        }
    }
}
