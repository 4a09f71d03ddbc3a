//! The common parts of functions of all systems: metadata, environment, resources, code.

use super::item::Item;
use super::made::MadeManifest;
use super::objects::{Object, ObjectKind, Objects};
use super::report::ConversionReport;
use crate::schema::TextKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fnd_wire::units::{print_cpu, print_size};

/// The making of one function.
#[derive(Debug)]
pub(super) struct Making<'s, 'd> {
    /// All objects of the set.
    pub objects: &'s Objects<'d>,
    /// The verdict on each field so far.
    pub report: ConversionReport,
    /// The manifest and the files so far.
    pub made: MadeManifest,
}

/// The reasons why fields have no effect, as a table: the paths of the fields, separated by blanks, and the reason; an empty one is
/// not worth a row of the report.
pub(super) type WithoutEffect = &'static [(&'static str, &'static str)];

/// Fields of every object that have no effect.
const EVERYWHERE: WithoutEffect = crate::texts! {
    "apiVersion kind metadata.name metadata.creationTimestamp metadata.generation metadata.resourceVersion metadata.uid \
     metadata.selfLink metadata.managedFields": "",
    "metadata.namespace": "one machine has no namespaces; a directory of the functions directory is a group",
    "metadata.annotations": "annotations are for programs of the cluster",
    "metadata.ownerReferences metadata.finalizers": "the cluster writes it",
    "status": "the cluster writes it; `fndctl status` shows the state",
};

impl<'d> Making<'_, 'd> {
    /// Sets a key to a value that a field says.
    pub(super) fn works(&mut self, key: &str, value: impl Into<toml::Value>, item: &Item<'_>) {
        self.made.works(&mut self.report, key, value, &item.field());
    }

    /// Sets a key to what comes close to a field.
    pub(super) fn differs(&mut self, (key, value): (&str, impl Into<toml::Value>), item: &Item<'_>, note: &str) {
        self.made.differs(&mut self.report, (key, value), &item.field(), note);
    }

    /// Sets a key of a table to a value that a field says; the key may contain a dot.
    pub(super) fn works_in(&mut self, (table, name): (&str, &str), value: impl Into<toml::Value>, item: &Item<'_>) {
        let field = item.field();
        self.report.works(&field, &format!("{table}.{name}"));
        self.made.manifest.set_in(table, name, value, Some(&field));
    }

    /// Sets a key to the whole number of a field, if there is one.
    pub(super) fn number(&mut self, key: &str, item: Option<&Item<'_>>) {
        if let Some(item) = item
            && let Some(number) = item.whole(&mut self.report)
        {
            self.works(key, i64::try_from(number).unwrap_or(i64::MAX), item);
        }
    }

    /// Sets the timeout of a call to the seconds of a field, else to the default of the other system.
    pub(super) fn timeout(&mut self, item: Option<&Item<'_>>, default: &str) {
        let Some(item) = item else {
            return self.default("limits.timeout", default);
        };
        match item.whole(&mut self.report) {
            Some(0) => self.refuse(item, "a timeout of 0 would end every call"),
            Some(seconds) => self.works("limits.timeout", format!("{seconds}s"), item),
            // `whole` has reported the value.
            None => {}
        }
    }

    /// Says that a field has no effect, and why.
    pub(super) fn not_here(&mut self, item: &Item<'_>, why: &str) {
        self.report.not_here(&item.field(), why);
    }

    /// Says that a field is wrong.
    pub(super) fn refuse(&mut self, item: &Item<'_>, why: &str) {
        self.report.refused(&item.field(), why);
    }

    /// Returns the field that `holder` must have; `name` is its name in the report.
    pub(super) fn required(&mut self, holder: &Item<'d>, name: &str) -> Option<Item<'d>> {
        let found = holder.get(name.rsplit('.').next().unwrap_or(name));
        if found.is_none() {
            self.refuse(holder, &format!("Required value: {name}"));
        }
        found
    }

    /// Returns the field at a path that an object must have.
    pub(super) fn required_of(&mut self, object: &Object<'d>, path: &str) -> Option<Item<'d>> {
        let found = object.root.get(path);
        if found.is_none() {
            self.refuse(&object.place(), &format!("Required value: {path}"));
        }
        found
    }

    /// Sets a key without an origin: a default of the other system.
    pub(super) fn default(&mut self, key: &str, value: impl Into<toml::Value>) {
        if self.made.manifest.get(key).is_none() {
            self.made.manifest.set(key, value, None);
        }
    }

    /// Takes over the labels whose names fnd allows, and refuses the others.
    pub(super) fn metadata(&mut self, root: &Item<'d>) {
        for (name, label) in root.entries_at("metadata.labels") {
            match label.scalar(&mut self.report) {
                Some(value) if TextKind::Name.holds(name) => self.works_in(("labels", name), value, &label),
                Some(_) => self.refuse(&label, "the name of a label has letters, digits, `.`, `_`, `-` and `/`"),
                // `scalar` has reported the value.
                None => {}
            }
        }
    }

    /// Reports the fields of an object that have no row yet; `known` are further fields without effect.
    pub(super) fn leftover(&mut self, root: &Item<'d>, known: WithoutEffect) {
        root.leftover(&mut self.report, &|path| {
            let mut rows = EVERYWHERE.iter().chain(known);
            let (_, why) = rows.find(|(paths, _)| paths.split(' ').any(|one| one == path))?;
            Some(*why)
        });
    }

    /// Reports the fields below `spec` that the schema of an object does not have, and that no row names.
    pub(super) fn misspelt(&mut self, root: &Item<'d>, fields: &[&str]) {
        if let Some(spec) = root.get("spec") {
            spec.misspelt(&mut self.report, fields);
        }
    }

    /// Takes a list of variables, as containers have them.
    pub(super) fn env(&mut self, list: &Item<'d>) {
        for item in list.items() {
            let Some(name) = item.get("name").and_then(|name| name.text(&mut self.report)) else {
                self.refuse(&item, "Required value: name");
                continue;
            };
            // Kubernetes also allows `.` and `-` in the name, so the file is not wrong.
            if !TextKind::Variable.holds(name) {
                self.not_here(
                    &item,
                    "the name has characters that no shell knows in the name of a variable",
                );
            } else if let Some(from) = item.get("valueFrom") {
                self.env_from(name, &item, &from);
            } else {
                // In Kubernetes a variable without a value is empty.
                let value = item.get("value").and_then(|value| value.scalar(&mut self.report));
                self.works_in(("env", name), value.unwrap_or_default(), &item);
            }
        }
    }

    fn env_from(&mut self, name: &str, item: &Item<'d>, from: &Item<'d>) {
        let secret = from.get("secretKeyRef");
        let Some(reference) = secret.clone().or_else(|| from.get("configMapKeyRef")) else {
            return self.not_here(item, "its value comes from the cluster");
        };
        let mut part = |part: &str| reference.get(part)?.text(&mut self.report);
        let Some((holder, key)) = part("name").and_then(|name| Some((name, part("key")?))) else {
            return self.refuse(&reference, "Required value: name and key");
        };
        if secret.is_some() {
            // A secret of fnd has no keys, so the key becomes a part of its name.
            return self.secret(name, &format!("{holder}.{key}"), item);
        }
        match self.config(holder, key) {
            Some(value) => self.works_in(("env", name), value, item),
            None if reference.is_true("optional") => {
                let note = "the ConfigMap is not among these files: the variable is absent";
                self.report.differs(&item.field(), "", note);
            }
            None => self.refuse(&reference, &missing_config(holder, key)),
        }
    }

    /// Gives the function a secret of fnd, as variable.
    pub(super) fn secret(&mut self, variable: &str, secret: &str, item: &Item<'d>) {
        let mut value = toml::Table::new();
        value.insert("secret".to_owned(), secret.into());
        value.insert("as".to_owned(), "env".into());
        let note = format!("fnd's secret `{secret}`, or without one the Secret in a YAML file beside the function");
        self.report
            .differs(&item.field(), &format!("secrets.{variable}"), &note);
        self.made
            .manifest
            .set_in("secrets", variable, value, Some(&item.field()));
    }

    /// Returns a value of a ConfigMap of the set.
    pub(super) fn config(&mut self, map: &str, key: &str) -> Option<String> {
        let data = self.objects.find(ObjectKind::ConfigMap, map)?.root.get("data")?;
        let value = data.entries().into_iter().find(|(name, _)| *name == key)?.1;
        value.scalar(&mut self.report)
    }

    /// Takes limits as containers have them: `{limits: {memory, cpu}, requests: {...}}`.
    pub(super) fn resources(&mut self, resources: &Item<'d>) {
        for (part, sets) in [("requests", false), ("limits", true)] {
            for (name, item) in resources.entries_at(part) {
                let Some(text) = item.scalar(&mut self.report) else {
                    continue;
                };
                match (name, quantity(&text)) {
                    (_, None) => self.refuse(
                        &item,
                        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                    ),
                    ("memory" | "cpu", _) if !sets => {
                        self.not_here(&item, "nothing is reserved: limits hold, and all share what is free");
                    }
                    ("memory", Some(bytes)) => self.works("limits.memory", bytes_of(bytes), &item),
                    ("cpu", Some(cores)) => self.works("limits.cpu", milli_of(cores), &item),
                    _ => self.not_here(&item, "fnd does not limit this resource so"),
                }
            }
        }
    }

    /// Takes variables and limits of a container.
    pub(super) fn container(&mut self, container: &Item<'d>) {
        if let Some(env) = container.get("env") {
            self.env(&env);
        }
        if let Some(resources) = container.get("resources") {
            self.resources(&resources);
        }
    }

    /// Puts code beside the manifest and makes it the entry.
    pub(super) fn code(&mut self, path: &str, code: impl Into<Vec<u8>>, item: &Item<'d>) {
        self.works("entry", path, item);
        self.made.file(path, code);
    }
}

/// Returns the bytes of a text in base64.
///
/// # Errors
/// Why it is none, for people.
pub(super) fn base64(text: &str) -> Result<Vec<u8>, String> {
    // YAML breaks long texts into lines, and base64 has no blanks.
    let decoded = STANDARD.decode(text.split_whitespace().collect::<String>());
    decoded.map_err(|error| format!("illegal base64 data: {error}"))
}

/// Says that a ConfigMap is not there.
#[must_use]
pub(super) fn missing_config(map: &str, key: &str) -> String {
    format!("there is no ConfigMap `{map}` with the key `{key}` among these files; put its file beside this one")
}

/// Reads a quantity of Kubernetes: `128Mi`, `0.5`, `100m`, `1e3`. Absent if it is none.
#[must_use]
pub(super) fn quantity(text: &str) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        // Without an `i`, units of Kubernetes are powers of 1000, unlike those of fnd.
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        exponent => {
            let exponent = exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            10_f64.powi(exponent)
        }
    };
    let value = number * factor;
    // 1e18 is below the largest size that a manifest can have (`ANY_SIZE`).
    (value.is_finite() && (0.0..1e18).contains(&value)).then_some(value)
}

/// Returns a quantity of bytes as fnd writes it.
#[must_use]
pub(super) fn bytes_of(quantity: f64) -> String {
    // Rounded up: a part of a byte must not become a limit of 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 1e18"
    )]
    print_size(quantity.ceil() as u64)
}

/// Returns a quantity of cores as fnd writes it.
#[must_use]
pub(super) fn milli_of(cores: f64) -> String {
    // Rounded up, too: no limit is 0 cores.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers out of range saturate"
    )]
    print_cpu((cores * 1000.0).ceil() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (text, bytes) in [
            ("128Mi", "128M"),
            ("1Gi", "1G"),
            ("128974848", "123M"),
            ("1e3", "1000"),
            ("64M", "62500K"),
        ] {
            assert_eq!(bytes_of(quantity(text).unwrap()), bytes, "{text}");
        }
        for (text, cpu) in [("100m", "100m"), ("1", "1"), ("0.5", "500m"), ("1.5", "1500m")] {
            assert_eq!(milli_of(quantity(text).unwrap()), cpu, "{text}");
        }
        for bad in ["", "Mi", "1Xi", "-1", "1e", "1e99", "1 Mi", "0x10"] {
            assert_eq!(quantity(bad), None, "{bad}");
        }
    }
}
