//! Rafay's `Driver` of type `function` (`eaas.envmgmt.io/v1`).

use super::common::{Making, WithoutEffect};
use super::item::Item;
use super::kubeless::mebibytes;
use super::objects::Object;

/// Fields of Rafay that have no effect here, each with the reason.
const KNOWN: WithoutEffect = crate::texts! {
    "metadata.project": "there are no projects; a directory of the functions directory is a group",
    "metadata.displayName": "",
    "spec.config.successCondition": "an answer is a success, an exception is none",
    "spec.config.function.image": "fnd runs no images",
    "spec.config.function.skipBuild": "fnd builds when dependencies or code change",
    "spec.config.function.languageVersion": "the version that is installed runs: `fndctl runtimes` shows it",
    "spec.config.function.statusRepositoryOptions": "fnd stores results itself: `fndctl result`",
    "spec.config.function.targetPlatforms": "the function runs on this machine",
    "spec.config.function.imageUploadCredentials": "no image is made",
    "spec.config.function.kubeConfigOptions spec.config.function.kubeOptions": "there is no cluster",
    "spec.outputs": "the result of the function has them all: `fndctl result`",
    "spec.sharing": "there are no projects",
    "spec.version": "releases have the hash of their content",
    "spec.secret": "fnd keeps secrets itself: `fndctl secret set NAME`, and `[secrets]` of the manifest",
};

impl<'d> Making<'_, 'd> {
    /// Makes a function of a driver; a driver of another form is refused in the report.
    pub(super) fn rafay(&mut self, object: &Object<'d>) {
        self.metadata(&object.root);
        let Some(config) = self.required_of(object, "spec.config") else {
            return;
        };
        if let Some(kind) = config.get("type") {
            let word = kind.text(&mut self.report).unwrap_or("function");
            if word != "function" {
                let why = format!(
                    "a driver of type `{word}` runs an image or calls a server; fnd runs those of type `function`"
                );
                return self.refuse(&kind, &why);
            }
            self.report.works(&kind.field(), "mode");
        }
        let Some(function) = self.required(&config, "spec.config.function") else {
            return;
        };
        self.default("mode", "handler");
        self.rafay_code(&function);
        self.rafay_limits(&config, &function);
        self.rafay_inputs(&object.root);
        self.leftover(&object.root, KNOWN);
    }

    fn rafay_code(&mut self, function: &Item<'d>) {
        let Some(language) = self.required(function, "language") else {
            return;
        };
        // Rafay's SDK calls a function of this name.
        let (runtime, file, handler) = match language.text(&mut self.report) {
            Some("python") => ("python", "handler.py", "handler.handle"),
            Some("go") => ("go", "handler.go", "handler.Handle"),
            Some(other) => {
                return self.refuse(&language, &format!("language should be python or go (got \"{other}\")"));
            }
            // `text` has reported the value.
            None => return,
        };
        self.works("runtime", runtime, &language);
        let Some(source) = function.get("source") else {
            return self.refuse(function, "there is no `source`, and fnd runs no images");
        };
        let Some(text) = source.text(&mut self.report) else {
            return;
        };
        self.code(file, text, &source);
        self.made.manifest.set("handler", handler, Some(&source.field()));
        let Some(list) = function.get("sourceDependencies") else {
            return;
        };
        let items = list.items();
        let lines = items.iter().filter_map(|item| item.scalar(&mut self.report));
        if runtime == "python" {
            let packages: Vec<toml::Value> = lines.map(Into::into).collect();
            self.works("dependencies", packages, &list);
        } else {
            let modules: String = lines.map(|line| format!("require {line}\n")).collect();
            self.works("dependencies", "go.mod", &list);
            let module = format!("module handler\n\ngo 1.21\n\n{modules}");
            self.made.file("go.mod", module);
        }
    }

    fn rafay_limits(&mut self, config: &Item<'d>, function: &Item<'d>) {
        let whole = |item: Option<Item<'d>>, making: &mut Self| {
            let item = item?;
            Some((item.whole(&mut making.report)?, item))
        };
        // Rafay has this default.
        self.timeout(config.get("timeoutSeconds").as_ref(), "300s");
        if let Some(item) = config.get("maxRetryCount") {
            self.number("retry.retries", Some(&item));
            // Only TransientException is tried again.
            let transient = toml::Value::Array(vec!["transient".into()]);
            self.made.manifest.set("retry.on", transient, Some(&item.field()));
        }
        for (from, to) in [
            ("pollingConfig.repeat", "poll.repeat"),
            ("pollingConfig.until", "poll.until"),
        ] {
            if let Some(item) = config.get(from)
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
        if let Some(item) = function.get("maxConcurrency") {
            self.number("pool.concurrency", Some(&item));
            // A call beyond it gets 429 there.
            self.made.manifest.set("queue.overlap", "reject", Some(&item.field()));
        }
        if let Some((count, item)) = whole(function.get("numReplicas"), self) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.works("pool.max", count.max(1), &item);
            self.made.manifest.set("pool.min", count, Some(&item.field()));
        }
    }

    /// Takes the variables of `inputs` as the payload of calls that bring none.
    fn rafay_inputs(&mut self, root: &Item<'d>) {
        let inputs = root.items_at("spec.inputs");
        for variable in inputs.iter().flat_map(|input| input.items_at("data.variables")) {
            let name = variable.get("name").and_then(|name| name.text(&mut self.report));
            let Some(name) = name else { continue };
            if variable.is_true("options.sensitive") {
                let why = "a secret value does not belong into a manifest: `fndctl secret set`, and `[secrets]`";
                self.not_here(&variable, why);
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
