//! A function of a template: its properties.

use super::code::BOOTSTRAP;
use super::events;
use super::intrinsics::{intrinsic, not_known, place_of_aws, unresolved};
use super::{SamImport, keys};
use crate::names::{is_settable, lists};
use crate::rows::{absent, reported, table, take};
use crate::text::within;
use crate::tree::NamedValue;
use fnd_manifest::foreign::{Field, FieldVerdict};
use fnd_manifest::runtime::shebang::is_bash_for_sh;
use fnd_manifest::schema::TextKind;

/// The default of `pool.max`.
const WORKERS: i64 = 4;

/// Properties whose parts are judged one by one.
const NESTED: &str = "Environment EventInvokeConfig Events FunctionUrlConfig Tags";

/// How long API Gateway waits for an answer, in seconds: 29 for `Api`, 30 for `HttpApi`.
const API_WAITS: u32 = 29;

impl<'a> SamImport<'a> {
    /// Returns the field of a value under its path below the function.
    pub(super) fn field(&self, item: &NamedValue<'_>, path: &str) -> Field {
        item.named(&format!("{}.{path}", self.id))
    }

    pub(super) fn read(&mut self, resource: &NamedValue<'a>) {
        let whole = resource.field();
        for item in resource.items() {
            let field = self.field(&item, item.key);
            if !reported(keys::ATTRIBUTES, item.key, &mut self.report, &field) {
                self.report.unknown(&field, "a resource has no such attribute");
            }
        }
        let Some(properties) = resource.get("Properties").filter(NamedValue::is_map) else {
            return self
                .report
                .refused(&whole, "expected `Properties` with `CodeUri` and `Runtime`");
        };
        if let Err((field, why)) = self.runs_here(&properties, &whole) {
            self.report.refused(&field, &why);
            return self.unused(&properties, &field.name);
        }
        for item in properties.items() {
            self.property(&item);
        }
        self.without_trigger(&properties);
        self.absent(&properties, &whole);
        self.limit_memory(&whole);
    }

    /// Says whether it is a program with `bootstrap`.
    fn runs_here(&mut self, properties: &NamedValue<'a>, whole: &Field) -> Result<(), (Field, String)> {
        if let Some(item) = properties
            .get("PackageType")
            .filter(|item| item.text().as_deref() == Some("Image"))
        {
            let why = "fnd runs no images: build a zip with a `bootstrap`".to_owned();
            return Err((self.field(&item, "PackageType"), why));
        }
        let Some(item) = properties.get("Runtime") else {
            return Err((whole.clone(), "the function has no `Runtime`".to_owned()));
        };
        let field = self.field(&item, "Runtime");
        if let Some(words) = unresolved(&item) {
            return Err((field, not_known(&words, self.root)));
        }
        let runtime = item.text().unwrap_or_default();
        if lists("provided provided.al2 provided.al2023", &runtime) {
            let note = "the program runs on this machine's system, not on Amazon Linux";
            self.made.differs(&mut self.report, ("runtime", "lambda"), &field, note);
            return Ok(());
        }
        Err((field, keys::advice(&runtime)))
    }

    /// Reports the properties of a function that does not run here, besides the refused one.
    fn unused(&mut self, properties: &NamedValue<'a>, refused: &str) {
        for item in properties.items() {
            let field = self.field(&item, item.key);
            if field.name == refused {
                continue;
            }
            if lists(keys::READ, item.key) {
                let why = "nothing is made of it, because the function is refused";
                self.report.not_here(&field, why);
            } else if !reported(keys::FUNCTION, item.key, &mut self.report, &field) {
                self.report.unknown(&field, &keys::unknown(item.key));
            }
        }
    }

    /// Refuses a function whose events all happen at AWS only: nothing would run it here.
    fn without_trigger(&mut self, properties: &NamedValue<'a>) {
        let Some(events) = properties.get("Events") else { return };
        let items = events.items();
        let of_aws = |event: &NamedValue<'_>| event.text_of("Type").is_some_and(|kind| keys::is_of_aws(&kind));
        if !items.is_empty() && items.iter().all(of_aws) && properties.get("FunctionUrlConfig").is_none() {
            let why = "nothing would run the function, because fnd has none of its events: remove them, import again, and add the \
                       trigger that their rows name to the written `function.toml`";
            let field = self.field(&events, "Events");
            self.report.refused(&field, why);
        }
    }

    fn property(&mut self, item: &NamedValue<'a>) {
        let key = item.key;
        let field = self.field(item, key);
        if !lists(keys::READ, key) {
            if !reported(keys::FUNCTION, key, &mut self.report, &field) {
                self.report.unknown(&field, &keys::unknown(key));
            }
            return;
        }
        if key == "FunctionName" {
            return self.function_name(item, &field);
        }
        if (!lists(NESTED, key) || intrinsic(item.node).is_some())
            && let Some(words) = unresolved(item)
        {
            return self.report.refused(&field, &not_known(&words, self.root));
        }
        if lists(keys::SCALARS, key) {
            if item.is_scalar(&mut self.report, &field) {
                self.scalar(key, &item.text().unwrap_or_default(), &field);
            }
            return;
        }
        match key {
            "Architectures" => self.architectures(item, &field),
            "CodeUri" => self.code(item, &field),
            "Environment" => self.environment(item),
            "EphemeralStorage" => self.storage(item, &field),
            "EventInvokeConfig" => self.asynchronous(item),
            "Events" => events::read(self, item),
            "FunctionUrlConfig" => events::url(self, item),
            "ProvisionedConcurrencyConfig" => self.provisioned(item, &field),
            _ => self.tags(item),
        }
    }

    /// `prepare` has taken the name, as far as it is known.
    fn function_name(&mut self, item: &NamedValue<'_>, field: &Field) {
        let name = &self.made.name;
        if item.text().as_deref() == Some(name.as_str()) {
            self.report.works(field, "");
        } else {
            self.report
                .differs(field, "", &format!("it is the function `{name}` here"));
        }
    }

    fn scalar(&mut self, key: &str, text: &str, field: &Field) {
        let (made, report) = (&mut self.made, &mut self.report);
        match key {
            "Description" => made.works(report, "description", text, field),
            "Handler" => made.works(report, "handler", text, field),
            "MemorySize" => match within(text, 128..=32_768_i64) {
                Some(size) => self.memory = Some((size, field.clone())),
                None => report.refused(field, "expected a number of MB from 128 to 32768"),
            },
            "Timeout" => {
                let seconds = within(text, 1..=900_u32).map(|seconds| format!("{seconds}s"));
                let seconds = seconds.ok_or("expected a number of seconds from 1 to 900");
                take(made, report, "limits.timeout", seconds, field);
            }
            "ReservedConcurrentExecutions" => match within(text, 0..=10_000_i64) {
                Some(0) => made.differs(
                    report,
                    ("enabled", false),
                    field,
                    "no call is accepted: `fndctl enable F`",
                ),
                Some(most) => made.differs(
                    report,
                    ("pool.max", most),
                    field,
                    "further calls wait, and are not refused",
                ),
                None => report.refused(field, "expected a number from 0 to 10000"),
            },
            // `runs_here` has read `Runtime`, and refused every other `PackageType` but `Zip`.
            "PackageType" => report.works(field, ""),
            _ => {}
        }
    }

    fn architectures(&mut self, item: &NamedValue<'_>, field: &Field) {
        let Some(texts) = item.texts(&mut self.report, field) else {
            return;
        };
        let here = self.machine.architecture;
        let named = |text: &String| {
            if text == "arm64" {
                "aarch64".to_owned()
            } else {
                text.clone()
            }
        };
        if texts.iter().map(named).any(|text| text == here) {
            self.report.works(field, "");
        } else {
            let why = format!("this machine is {here}: build `bootstrap` for it, and change this key");
            self.report.refused(field, &why);
        }
    }

    fn code(&mut self, item: &NamedValue<'_>, field: &Field) {
        let refusal = match item.text() {
            Some(uri) if uri.contains("://") => {
                "fnd fetches nothing from S3: download it, and name the file beside the template".to_owned()
            }
            Some(uri) => match self.files(&uri) {
                Ok(()) => {
                    self.made.differs(
                        &mut self.report,
                        ("entry", BOOTSTRAP),
                        field,
                        "the code was copied; it runs in the sandbox, as a user of its own",
                    );
                    return self.interpreter(item);
                }
                Err(why) => why,
            },
            None => "expected a path: fnd fetches nothing from S3".to_owned(),
        };
        self.report.refused(field, &refusal);
    }

    /// Notes a `bootstrap` of bash that names `sh`: `sh` of Amazon Linux is bash.
    fn interpreter(&mut self, item: &NamedValue<'_>) {
        let bootstrap = self.made.files.iter().find(|file| file.path == BOOTSTRAP);
        if bootstrap.is_some_and(|file| is_bash_for_sh(&file.bytes)) {
            let note = "it is a script of bash, and `sh` of Debian and Ubuntu is not bash: begin it with `#!/bin/bash`";
            let field = self.field(item, "CodeUri.bootstrap");
            self.report.differs(&field, "", note);
        }
    }

    /// Takes the files of a directory or an archive over.
    fn files(&mut self, uri: &str) -> Result<(), String> {
        let files = (self.machine.read)(&self.machine.base.join(uri))?;
        match files.iter().find(|file| file.path == BOOTSTRAP) {
            None => {
                return Err(format!(
                    "there is no `bootstrap` in `{uri}`: run `sam build`, and import `.aws-sam/build/template.yaml`"
                ));
            }
            Some(file) if !file.executable => {
                return Err(format!(
                    "`bootstrap` in `{uri}` is not executable: `chmod +x` it, as AWS wants it, too"
                ));
            }
            Some(_) => {}
        }
        for file in files {
            self.made.add(file);
        }
        Ok(())
    }

    fn environment(&mut self, item: &NamedValue<'a>) {
        for part in item.items().iter().filter(|part| part.key != "Variables") {
            let field = self.field(part, &format!("Environment.{}", part.key));
            self.report.unknown(&field, "`Environment` has only `Variables`");
        }
        for variable in item.get("Variables").iter().flat_map(NamedValue::items) {
            let field = self.field(&variable, &format!("Environment.{}", variable.key));
            let words = unresolved(&variable);
            let parameter = words.as_deref().and_then(|words| words.strip_prefix("!Ref "));
            let parameter = parameter.filter(|name| is_settable(variable.key) && self.template.is_secret(name));
            if let Some(parameter) = parameter {
                // Its value need not be given here: every user can see a command line.
                self.secret(variable.key, parameter, None, &field);
                continue;
            }
            let value = match (words, variable.text()) {
                (Some(words), _) => Err(not_known(&words, self.root)),
                (None, Some(_)) if !is_settable(variable.key) => {
                    Err("it is no name that a variable can have here".to_owned())
                }
                (None, text) => text.ok_or_else(|| "expected a text or a number".to_owned()),
            };
            match value {
                Ok(text) => self.variable(variable.key, text, &field),
                Err(why) => self.report.refused(&field, &why),
            }
        }
    }

    /// Sets a variable. It is a secret if a parameter with `NoEcho` is a part of it: everybody may read a manifest.
    fn variable(&mut self, name: &str, text: String, field: &Field) {
        let sources = self.template.sources(self.id, name);
        if let Some(parameter) = self.template.secret_of(&sources).filter(|_| !text.is_empty()) {
            return self.secret(name, parameter, Some(text), field);
        }
        let key = format!("env.{name}");
        let place = place_of_aws(&text).map(str::to_owned);
        match self.template.local_of(&sources).or(place) {
            Some(note) => self.made.differs(&mut self.report, (key.as_str(), text), field, &note),
            None => self.made.works(&mut self.report, &key, text, field),
        }
    }

    /// Makes a variable a secret, with its value if that is known.
    fn secret(&mut self, name: &str, parameter: &str, value: Option<String>, field: &Field) {
        let secret = format!("{}-{}", self.made.name, name.to_ascii_lowercase().replace('_', "-"));
        let entry = table([("secret", secret.as_str()), ("as", "env")]);
        self.made.manifest.set_in("secrets", name, entry, Some(field));
        let note = format!("`{parameter}` has `NoEcho`, so `{name}` is a secret: `fndctl secret set {secret}`");
        self.report.differs(field, &format!("secrets.{name}"), &note);
        let value = value.map(|value| (secret, value.into_bytes()));
        self.made.secrets.extend(value);
    }

    fn storage(&mut self, item: &NamedValue<'_>, field: &Field) {
        let size = item.text_of("Size").and_then(|text| within(&text, 512..=10_240_u32));
        match size {
            Some(size) => {
                let note = "it is memory here, and counts as that of the function";
                let key = ("limits.tmp", format!("{size}M"));
                self.made.differs(&mut self.report, key, field, note);
            }
            None => self
                .report
                .refused(field, "expected `Size`, a number of MB from 512 to 10240"),
        }
    }

    fn asynchronous(&mut self, item: &NamedValue<'a>) {
        for part in item.items() {
            let field = self.field(&part, &format!("EventInvokeConfig.{}", part.key));
            if let Some(words) = unresolved(&part).filter(|_| part.key != "DestinationConfig") {
                self.report.refused(&field, &not_known(&words, self.root));
                continue;
            }
            let text = part.text().unwrap_or_default();
            let (made, report) = (&mut self.made, &mut self.report);
            match part.key {
                "MaximumRetryAttempts" => match within(&text, 0..=2_i64) {
                    Some(0) => made.works(report, "retry.retries", 0_i64, &field),
                    Some(retries) => {
                        made.differs(
                            report,
                            ("retry.retries", retries),
                            &field,
                            "fnd repeats every failed call",
                        );
                        // AWS waits so long before its first try anew.
                        made.manifest.set("retry.interval", "1m", Some(&field));
                    }
                    None => report.refused(&field, "expected a number from 0 to 2"),
                },
                "MaximumEventAgeInSeconds" => match within(&text, 60..=21_600_u32) {
                    Some(age) => {
                        let note = "it holds for every call, and for its last attempt as well";
                        made.differs(report, ("limits.deadline", format!("{age}s")), &field, note);
                    }
                    None => report.refused(&field, "expected a number of seconds from 60 to 21600"),
                },
                "DestinationConfig" => {
                    report.not_here(&field, "`[hooks]` calls a function of fnd after success or failure");
                }
                _ => report.unknown(&field, "`EventInvokeConfig` has no such key"),
            }
        }
        let place = |key: &str| item.named(&format!("{}.EventInvokeConfig.{key}", self.id));
        absent(keys::ABSENT_ASYNCHRONOUS, &mut self.report, |key| {
            item.get(key).is_none().then(|| place(key))
        });
    }

    fn provisioned(&mut self, item: &NamedValue<'_>, field: &Field) {
        let count = item.text_of("ProvisionedConcurrentExecutions");
        let count = count.and_then(|text| within(&text, 1..=10_000_i64));
        let count = count.ok_or("expected `ProvisionedConcurrentExecutions`, a number from 1 to 10000");
        take(&mut self.made, &mut self.report, "pool.min", count, field);
    }

    fn tags(&mut self, item: &NamedValue<'a>) {
        for tag in item.items() {
            let field = self.field(&tag, &format!("Tags.{}", tag.key));
            match tag.text().filter(|_| TextKind::Name.holds(tag.key)) {
                Some(text) => {
                    self.report.works(&field, "labels");
                    self.made.manifest.set_in("labels", tag.key, text, Some(&field));
                }
                None => self.report.not_here(
                    &field,
                    "a label of fnd has a name of letters, digits, `.`, `_`, `-`, `/` and a text",
                ),
            }
        }
    }

    /// Reports properties that the function does not have, and sets the defaults of AWS.
    fn absent(&mut self, properties: &NamedValue<'_>, whole: &Field) {
        let missing = |key: &str| properties.get(key).is_none();
        let place = |key: &str| Field {
            name: format!("{}.{key}", self.id),
            ..whole.clone()
        };
        if missing("Timeout") {
            let note = "3s, the default of AWS";
            let report = &mut self.report;
            report.add(
                &place("Timeout"),
                FieldVerdict::Works,
                Some("limits.timeout"),
                Some(note),
            );
            self.made.manifest.set("limits.timeout", "3s", None);
        }
        absent(keys::ABSENT, &mut self.report, |key| missing(key).then(|| place(key)));
        if missing("Architectures") && self.machine.architecture != "x86_64" {
            let here = self.machine.architecture;
            let note = format!("the default of AWS is x86_64, and this machine is {here}: build `bootstrap` for it");
            self.report.differs(&place("Architectures"), "", &note);
        }
        if self.has_api && self.timeout() > API_WAITS {
            let note = "API Gateway answers 504 after 29 s (`Api`) or 30 s (`HttpApi`); here a caller waits for the whole `Timeout`";
            self.report.differs(&place("Events"), "limits.timeout", note);
        }
        if let Some(region) = &self.template.region {
            self.made.manifest.set("env.AWS_REGION", region.as_str(), None);
        }
        if missing("CodeUri") {
            self.report
                .refused(&place("CodeUri"), "the function has no code: name its directory or zip");
        }
    }

    /// Returns `limits.timeout` in seconds.
    fn timeout(&self) -> u32 {
        let text = self.made.manifest.get("limits.timeout").and_then(toml::Value::as_str);
        let seconds = text.and_then(|text| text.strip_suffix('s')?.parse().ok());
        seconds.unwrap_or_default()
    }

    /// Sets the limit of memory: at AWS each worker has its own, here all of them have one together.
    fn limit_memory(&mut self, whole: &Field) {
        let (size, field) = self.memory.take().unwrap_or_else(|| {
            let name = format!("{}.MemorySize", self.id);
            // 128 MB is the default of AWS.
            (128, Field { name, ..whole.clone() })
        });
        let number = |key: &str| self.made.manifest.get(key).and_then(toml::Value::as_integer);
        let (least, most) = (number("pool.min").unwrap_or_default(), number("pool.max"));
        let workers = most.unwrap_or(WORKERS.max(least));
        if most.is_none() && least > WORKERS {
            // More workers that wait than workers that may be would be refused.
            self.made.manifest.set("pool.max", least, None);
        }
        let note = format!("{size} MB for each of {workers} workers, with their `/tmp`; it gives no share of the CPU");
        let limit = ("limits.memory", format!("{}M", size * workers));
        self.made.differs(&mut self.report, limit, &field, &note);
        // The function is told what it would be told there.
        self.made
            .manifest
            .set("env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE", size.to_string(), None);
    }
}
