//! Keptn's `KeptnTaskDefinition` and `KeptnTask` (Keptn Lifecycle Toolkit, `lifecycle.keptn.sh/v1`, and the fields of KEP 90).

use super::common::{Making, WithoutEffect, missing_config};
use super::item::Item;
use super::objects::{Object, ObjectKind};
use fnd_wire::units::{parse_duration, print_duration};
use std::time::Duration;

const BAD_TIMEOUT: &str =
    r"Invalid value: spec.timeout in body should match '^0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$'";

/// Keptn's own default: attempts after the first.
const RETRIES: i64 = 10;

/// Most definitions that name each other; more is a loop.
const CHAIN_MAX: usize = 16;

/// The kinds of code that a definition may have; `function` is that of `v1alpha2`.
const RUNNERS: [&str; 4] = ["deno", "python", "function", "container"];

const NO_RUNNER: &str = "Forbidden! Either Container, Python, or Deno field must be defined";
const TWO_RUNNERS: &str = "Forbidden! Only one of Container, Python, or Deno field can be defined";

/// Fields of Keptn that have no effect here, each with the reason.
const KNOWN: WithoutEffect = crate::texts! {
    "spec.imagePullSecrets": "no image is pulled",
    "spec.serviceAccount":
        "there is no cluster to be somebody in; each function is a user of its own (`[sandbox] user`)",
    "spec.automountServiceAccountToken": "there is no cluster, so no token of one",
    "spec.checkType": "fnd runs the task as soon as its file is there; hooks (`[hooks]`) order functions",
    "spec.app spec.appVersion spec.workload spec.workloadVersion": "there is no application of a cluster",
    "spec.type": "fnd runs the task as soon as its file is there",
};

/// The fields of both kinds below `spec` (`lifecycle.keptn.sh` from v1alpha1 to v1, and KEP 90).
const FIELDS: [&str; 36] = [
    "spec.function.name",
    "spec.function.functionRef.name",
    "spec.function.inline.code",
    "spec.function.httpRef.url",
    "spec.function.configMapRef.name",
    "spec.function.parameters.map.*",
    "spec.function.secureParameters.secret",
    "spec.function.cmdParameters",
    "spec.python.functionRef.name",
    "spec.python.inline.code",
    "spec.python.httpRef.url",
    "spec.python.configMapRef.name",
    "spec.python.parameters.map.*",
    "spec.python.secureParameters.secret",
    "spec.python.cmdParameters",
    "spec.deno.functionRef.name",
    "spec.deno.inline.code",
    "spec.deno.httpRef.url",
    "spec.deno.configMapRef.name",
    "spec.deno.parameters.map.*",
    "spec.deno.secureParameters.secret",
    "spec.deno.cmdParameters",
    "spec.container.*",
    "spec.runtime",
    "spec.retries",
    "spec.retryInterval",
    "spec.RetryInterval",
    "spec.timeout",
    "spec.ttlSecondsAfterFinished",
    "spec.serviceAccount.name",
    "spec.automountServiceAccountToken.type",
    "spec.imagePullSecrets.*",
    "spec.taskDefinition",
    "spec.context.*",
    "spec.parameters.map.*",
    "spec.secureParameters.secret",
];

/// Fields of a task alone.
const TASK_FIELDS: [&str; 6] = [
    "spec.checkType",
    "spec.type",
    "spec.app",
    "spec.appVersion",
    "spec.workload",
    "spec.workloadVersion",
];

/// The fields of a context, in the order in which Keptn writes them. It writes those without a value, too, but for the last.
const CONTEXT: [&str; 7] = [
    "workloadName",
    "appName",
    "appVersion",
    "workloadVersion",
    "taskType",
    "objectType",
    "metadata",
];

impl<'d> Making<'_, 'd> {
    /// Makes the function of a definition.
    pub(super) fn keptn_definition(&mut self, object: &Object<'d>) {
        self.metadata(&object.root);
        let spec = object.root.get("spec");
        self.keptn_code(object, CHAIN_MAX);
        self.keptn_limits(spec.as_ref());
        let names = |other: &&Object<'d>| {
            let named = match other.kind {
                ObjectKind::KeptnTask => other.root.text_at("spec.taskDefinition"),
                _ => RUNNERS
                    .iter()
                    .find_map(|runner| other.root.text_at(&format!("spec.{runner}.functionRef.name"))),
            };
            named == Some(object.name)
        };
        if let Some(other) = self.objects.functions().find(names) {
            let note = format!("it does not run by itself, since `{}` uses it", other.name);
            if let Some(name) = object.root.get("metadata.name") {
                self.differs(("on_load", false), &name, &note);
            }
        }
        self.leftover(&object.root, KNOWN);
        self.misspelt(&object.root, &FIELDS);
    }

    /// Makes the function of a task: that of its definition, with what the task says.
    pub(super) fn keptn_task(&mut self, object: &Object<'d>) {
        let Some(named) = self.required_of(object, "spec.taskDefinition") else {
            return;
        };
        let Some(name) = named.text(&mut self.report) else {
            return;
        };
        let Some(definition) = self.keptn_find(name, &named) else {
            return;
        };
        self.report.works(&named.field(), "entry");
        self.keptn_code(&definition, CHAIN_MAX);
        self.keptn_limits(definition.root.get("spec").as_ref());
        self.metadata(&object.root);
        // The second call: values of the task replace those of its definition.
        self.keptn_limits(object.root.get("spec").as_ref());
        // The task's own parameters only fill what the definition leaves open.
        self.keptn_parameters(&object.root, "spec.parameters.map");
        self.keptn_secret(object.root.get("spec.secureParameters.secret").as_ref(), true);
        if let Some(context) = object.root.get("spec.context") {
            self.keptn_context(&context);
        }
        self.leftover(&object.root, KNOWN);
        let fields: Vec<&str> = FIELDS.into_iter().chain(TASK_FIELDS).collect();
        self.misspelt(&object.root, &fields);
    }

    /// Returns the definition that a field names.
    fn keptn_find(&mut self, name: &str, item: &Item<'d>) -> Option<Object<'d>> {
        let found = self.objects.find(ObjectKind::KeptnTaskDefinition, name).cloned();
        if found.is_none() {
            let why = format!(
                "KeptnTaskDefinition.lifecycle.keptn.sh \"{name}\" not found among these files; put its file beside this one"
            );
            self.refuse(item, &why);
        }
        found
    }

    /// Takes the context, as Keptn writes it into the variable.
    fn keptn_context(&mut self, context: &Item<'d>) {
        self.report.works(&context.field(), "context");
        for name in CONTEXT {
            match context.get(name) {
                Some(item) => {
                    let field = item.field();
                    self.made.manifest.set_in("context", name, item.toml(), Some(&field));
                }
                None if name == "metadata" => {}
                None => self.made.manifest.set_in("context", name, "", None),
            }
        }
        for (_, item) in context.entries().iter().filter(|(name, _)| !CONTEXT.contains(name)) {
            self.report.unknown(&item.field(), "Keptn's context has no such field");
        }
    }

    /// Takes the code of a definition, or of the one that it names.
    fn keptn_code(&mut self, object: &Object<'d>, chain: usize) {
        let spec = object.root.get("spec");
        let found: Vec<(&str, Item<'d>)> = RUNNERS
            .iter()
            .filter_map(|runner| Some((*runner, spec.as_ref()?.get(runner)?)))
            .collect();
        let (runner, item) = match found.as_slice() {
            [] => return self.refuse(&spec.unwrap_or_else(|| object.place()), NO_RUNNER),
            [one] => one.clone(),
            [_, second, ..] => return self.refuse(&second.1, TWO_RUNNERS),
        };
        if runner == "container" {
            return self.keptn_container(&item);
        }
        // A child's parameters win over its parent's, so they come first.
        self.keptn_parameters(&item, "parameters.map");
        self.keptn_secret(item.get("secureParameters.secret").as_ref(), false);
        if let Some(reference) = item.get("functionRef.name") {
            let Some(name) = reference.text(&mut self.report) else {
                return;
            };
            self.report.works(&reference.field(), "entry");
            if chain == 0 || name == object.name {
                self.refuse(&reference, "the definitions name each other in a loop");
            } else if let Some(parent) = self.keptn_find(name, &reference) {
                self.keptn_code(&parent, chain - 1);
            }
            return;
        }
        let runtime = self.keptn_runtime(runner, spec.as_ref(), &item);
        // Keptn runs the whole file, also if fnd would find a handler in it.
        self.default("mode", "script");
        self.keptn_source(&item, runtime);
        if let Some(arguments) = item.get("cmdParameters") {
            // Keptn's runner expands `$CMD_ARGS` without quotes, so its shell splits the text at blanks and knows no
            // quotes in it.
            let text = arguments.text(&mut self.report).unwrap_or_default();
            let words: Vec<toml::Value> = text.split_whitespace().map(Into::into).collect();
            match runtime {
                "python" => self.works("interpreter_args", words, &arguments),
                _ => self.not_here(&arguments, "Keptn's deno runner does not use it either"),
            }
        }
    }

    /// Sets the runtime, and what its runner of Keptn grants.
    fn keptn_runtime(&mut self, runner: &str, spec: Option<&Item<'d>>, item: &Item<'d>) -> &'static str {
        let word = spec.and_then(|spec| spec.get("runtime"));
        let runtime = match (runner, word.as_ref().and_then(|word| word.text(&mut self.report))) {
            ("python", _) | ("function", Some("python")) => "python",
            ("function", Some("bash")) => "bash",
            (_, None | Some("deno")) => "deno",
            // The function is refused. With any runtime, its other fields can still be checked.
            (_, Some(other)) => {
                if let Some(word) = &word {
                    self.refuse(word, &format!("RUNTIME `{other}` is not one of deno, bash, python"));
                }
                "deno"
            }
        };
        match &word {
            Some(word) => self.works("runtime", runtime, word),
            None => self.made.manifest.set("runtime", runtime, Some(&item.field())),
        }
        if runtime == "deno" {
            // Keptn's own runner starts deno with these permissions.
            self.default("permissions", toml::Value::Array(vec!["keptn".into()]));
        }
        runtime
    }

    /// Takes the code: inline, of a ConfigMap, or of a web server; in this order.
    fn keptn_source(&mut self, item: &Item<'d>, runtime: &str) {
        let file = match runtime {
            "python" => "function.py",
            "bash" => "function.sh",
            _ => "function.ts",
        };
        // A definition may have code in several places. Keptn prefers code in the cluster to code of a web server.
        if let Some(code) = item.get("inline.code") {
            if let Some(text) = code.text(&mut self.report) {
                self.code(file, text, &code);
            }
        } else if let Some(map) = item.get("configMapRef.name") {
            let Some(name) = map.text(&mut self.report) else { return };
            match self.config(name, "code") {
                Some(text) => self.code(file, text, &map),
                None => self.refuse(&map, &missing_config(name, "code")),
            }
        } else if let Some(url) = item.get("httpRef.url") {
            let Some(text) = url.text(&mut self.report) else { return };
            let note = "it is fetched when the function is installed, and an answer other than 2xx is an error; Keptn fetches it at each run";
            self.differs(("source.url", text), &url, note);
        } else {
            let why = "no function specified: one of inline, httpRef, functionRef, configMapRef";
            self.refuse(item, why);
        }
    }

    /// Takes parameters. Those that are there already win.
    fn keptn_parameters(&mut self, holder: &Item<'d>, path: &str) {
        for (name, item) in holder.entries_at(path) {
            let Some(value) = item.scalar(&mut self.report) else {
                continue;
            };
            if self.made.manifest.keys("data").any(|key| key == name) {
                let note = "the definition that comes first has this parameter";
                self.report.differs(&item.field(), "", note);
            } else {
                self.works_in(("data", name), value, &item);
            }
        }
    }

    fn keptn_secret(&mut self, secret: Option<&Item<'d>>, wins: bool) {
        let Some(item) = secret else { return };
        let Some(name) = item.text(&mut self.report) else {
            return;
        };
        if self.made.manifest.keys("secrets").any(|key| key == "SECURE_DATA") && !wins {
            let note = "the definition that comes first has a secret";
            return self.report.differs(&item.field(), "", note);
        }
        self.secret("SECURE_DATA", name, item);
    }

    /// Takes retries and the time that a task may last.
    fn keptn_limits(&mut self, spec: Option<&Item<'d>>) {
        let get = |path: &str| spec.and_then(|spec| spec.get(path));
        self.number("retry.retries", get("retries").as_ref());
        self.default("retry.retries", RETRIES);
        // KEP 90 writes the name with a capital letter, unlike other fields of Keptn.
        match get("retryInterval").or_else(|| get("RetryInterval")) {
            Some(item) => {
                if let Some(seconds) = item.whole(&mut self.report) {
                    self.works("retry.interval", print_duration(Duration::from_secs(seconds)), &item);
                    self.made.manifest.set("retry.backoff", "fixed", Some(&item.field()));
                }
            }
            None => {
                // As the kubelet restarts a container.
                self.default("retry.interval", "10s");
                self.default("retry.max_interval", "5m");
            }
        }
        // The pauses of Keptn and of the kubelet have no random part.
        self.default("retry.jitter", "none");
        if let Some(item) = get("timeout")
            && let Some(text) = item.text(&mut self.report)
        {
            match duration(text) {
                Some(lasts) => self.works("limits.deadline", print_duration(lasts), &item),
                None => self.refuse(&item, BAD_TIMEOUT),
            }
        }
        self.default("limits.deadline", "5m");
        // The timeout of Keptn is for a task with all of its attempts, so a single attempt has none.
        self.default("limits.timeout", "none");
        if let Some(item) = get("ttlSecondsAfterFinished")
            && let Some(seconds) = item.whole(&mut self.report)
        {
            // With 0 Keptn removes a task at once. `keep_for` has no such value.
            let keep_for = print_duration(Duration::from_secs(seconds.max(1)));
            self.works("history.keep_for", keep_for, &item);
        }
    }

    /// Takes the command of a container. Its image is not run.
    fn keptn_container(&mut self, container: &Item<'d>) {
        let words = container
            .items_at("command")
            .into_iter()
            .chain(container.items_at("args"));
        let words = words.filter_map(|word| word.scalar(&mut self.report));
        let quoted: Vec<String> = words.map(|word| quoted(&word)).collect();
        if let Some(image) = container.get("image") {
            let why = "fnd runs no images: the command runs with the programs of this machine";
            self.not_here(&image, why);
        }
        let Some(command) = container.get("command") else {
            let why = "fnd runs no images, and there is no `command` that could run without one";
            return self.refuse(container, why);
        };
        self.default("runtime", "bash");
        self.default("mode", "script");
        // `exec` leaves no shell between fnd and the command, so the command gets the signals itself.
        self.code("function.sh", format!("exec {}\n", quoted.join(" ")), &command);
        if let Some(arguments) = container.get("args") {
            self.report.works(&arguments.field(), "entry");
        }
        self.container(container);
        for item in ["name", "imagePullPolicy"]
            .iter()
            .filter_map(|name| container.get(name))
        {
            self.not_here(&item, "there is no container");
        }
        if let Some(mounts) = container.get("volumeMounts") {
            let note = "use `$TMPDIR`: it lasts for all attempts of the run";
            self.report.differs(&mounts.field(), "limits.tmp", note);
        }
    }
}

/// Reads a duration as Go writes it: `5m0s`, `1.5h`, `0`. Absent if it is none, or zero.
fn duration(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let seconds = match unit {
            "ns" => 1e-9,
            // Go accepts two letters that look alike: the micro sign and the Greek mu.
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?)?;
        rest = tail;
    }
    // fnd counts milliseconds; Keptn cuts to seconds.
    let sum = Duration::from_millis(u64::try_from(sum.as_millis()).ok()?);
    (!sum.is_zero() && parse_duration(&print_duration(sum)).is_ok()).then_some(sum)
}

/// Returns a word as a shell reads it again.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, millis) in [
            ("5m0s", 300_000),
            ("1.5h", 5_400_000),
            ("10ms", 10),
            ("1h1m1s1ms", 3_661_001),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "0", "5", "5x", "m", "1..5s", "999999999999h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
