//! Writes what Kubeless's options mean into the manifest of a function.
//!
//! Triggers of Kubeless have names, and schedules and routes of fnd have none. So a label keeps the names, in the order of
//! `[[schedule]]` or `[[http]]`.

use super::values;
use crate::failure::ImportFailure;
use toml::{Table, Value};

/// The label with the names of the entries of `[[schedule]]`.
pub const CRONJOBS: &str = "kubeless-cronjobs";
/// The label with the names of the entries of `[[http]]`.
pub const ROUTES: &str = "kubeless-http-triggers";
/// The label with the metric of an autoscale and its target, which fnd does not use.
pub const AUTOSCALE: &str = "kubeless-autoscale";

/// Changes of a manifest; what is absent stays as it was.
#[derive(Debug, Clone, Default)]
pub struct ManifestChanges {
    pub runtime: Option<String>,
    pub handler: Option<String>,
    /// All variables of the environment; empty: as before.
    pub env: Vec<String>,
    /// Labels that are added.
    pub labels: Vec<String>,
    /// Secrets that are added.
    pub secrets: Vec<String>,
    pub memory: Option<String>,
    pub cpu: Option<String>,
    pub timeout: Option<String>,
}

impl ManifestChanges {
    /// Puts the changes into a manifest.
    ///
    /// # Errors
    /// A value is wrong, or the manifest has a key of another kind.
    pub fn apply(&self, manifest: &mut Table) -> Result<(), ImportFailure> {
        let text = |value: &str| Value::String(value.to_owned());
        for (key, value) in [("runtime", &self.runtime), ("handler", &self.handler)] {
            if let Some(value) = value {
                manifest.insert(key.to_owned(), text(value));
            }
        }
        // In Kubeless `-e` replaces all variables, while labels and secrets are added.
        if !self.env.is_empty() {
            let pairs = self.env.iter().map(|typed| values::pair(typed));
            let env = pairs.map(|(name, value)| (name, Value::String(value))).collect();
            manifest.insert("env".to_owned(), Value::Table(env));
        }
        for typed in &self.labels {
            let (name, value) = values::pair(typed);
            table(manifest, "labels")?.insert(name, Value::String(value));
        }
        for secret in &self.secrets {
            table(manifest, "secrets")?.insert(values::secret_file(secret), text(secret));
        }
        let limits = [
            ("memory", self.memory.as_deref().map(values::memory)),
            ("cpu", self.cpu.as_deref().map(values::cpu)),
            ("timeout", self.timeout.as_deref().map(values::timeout)),
        ];
        for (key, value) in limits {
            if let Some(value) = value {
                table(manifest, "limits")?.insert(key.to_owned(), Value::String(value?));
            }
        }
        Ok(())
    }
}

/// Returns a table of a manifest; a new one if it has none.
///
/// # Errors
/// The key is no table.
pub fn table<'m>(manifest: &'m mut Table, key: &str) -> Result<&'m mut Table, ImportFailure> {
    let value = manifest.entry(key).or_insert_with(|| Value::Table(Table::new()));
    value.as_table_mut().ok_or_else(|| of_another_kind(key))
}

/// Sets the smallest and the largest size of the pool. fnd does not use the target: a label keeps it for people.
///
/// # Errors
/// A key is no table.
pub fn set_autoscale(manifest: &mut Table, (min, max): (u32, u32), target: &str) -> Result<(), ImportFailure> {
    let pool = table(manifest, "pool")?;
    for (key, number) in [("min", min), ("max", max)] {
        pool.insert(key.to_owned(), i64::from(number).into());
    }
    table(manifest, "labels")?.insert(AUTOSCALE.to_owned(), target.into());
    Ok(())
}

/// Removes the label and the sizes that `set_autoscale` has set. Returns whether the label was there.
///
/// # Errors
/// A key is no table.
pub fn remove_autoscale(manifest: &mut Table) -> Result<bool, ImportFailure> {
    let was_set = table(manifest, "labels")?.remove(AUTOSCALE).is_some();
    // Without the label somebody else has set the sizes, so they stay.
    if was_set {
        let pool = table(manifest, "pool")?;
        let _ = (pool.remove("min"), pool.remove("max"));
    }
    Ok(was_set)
}

/// Returns the names that a label keeps.
pub fn names(label: &str) -> impl Iterator<Item = &str> {
    label.split(',').filter(|name| !name.is_empty())
}

/// Adds entries with a name to a list of tables, or replaces those of that name. Returns whether there were some.
///
/// # Errors
/// The key is no list.
pub fn set_entries(
    manifest: &mut Table,
    place: (&str, &str),
    name: &str,
    entries: Vec<Table>,
) -> Result<bool, ImportFailure> {
    let mut named = named_entries(manifest, place)?;
    let before = named.iter().position(|(known, _)| known == name);
    named.retain(|(known, _)| known != name);
    // The new entries take the place of the old ones, so that the order of the others stays.
    let at = before.unwrap_or(named.len());
    let new = entries.into_iter().map(|entry| (name.to_owned(), Value::Table(entry)));
    named.splice(at..at, new);
    store(manifest, place, named)?;
    Ok(before.is_some())
}

/// Returns the first entry of a name.
///
/// # Errors
/// The key is no list.
pub fn entry(manifest: &Table, place: (&str, &str), name: &str) -> Result<Option<Table>, ImportFailure> {
    let named = named_entries(manifest, place)?;
    let found = named.into_iter().find(|(known, _)| known == name);
    Ok(found.and_then(|(_, entry)| entry.as_table().cloned()))
}

/// Removes the entries of a name. Returns whether there was one.
///
/// # Errors
/// The key is no list.
pub fn remove_entry(manifest: &mut Table, place: (&str, &str), name: &str) -> Result<bool, ImportFailure> {
    let mut named = named_entries(manifest, place)?;
    let before = named.len();
    named.retain(|(known, _)| known != name);
    let removed = named.len() < before;
    store(manifest, place, named)?;
    Ok(removed)
}

/// Returns the entries of a list with their names; those that a person added have empty ones.
fn named_entries(manifest: &Table, (key, label): (&str, &str)) -> Result<Vec<(String, Value)>, ImportFailure> {
    let entries = match manifest.get(key) {
        None => Vec::new(),
        Some(value) => value.as_array().cloned().ok_or_else(|| of_another_kind(key))?,
    };
    let labels = manifest.get("labels").and_then(Value::as_table);
    let label = labels.and_then(|labels| labels.get(label)).and_then(Value::as_str);
    let known = label.unwrap_or_default().split(',').map(str::to_owned);
    let names = known.chain(std::iter::repeat(String::new()));
    Ok(names.zip(entries).collect())
}

fn store(manifest: &mut Table, (key, label): (&str, &str), named: Vec<(String, Value)>) -> Result<(), ImportFailure> {
    let (names, entries): (Vec<String>, Vec<Value>) = named.into_iter().unzip();
    if entries.is_empty() {
        manifest.remove(key);
        table(manifest, "labels")?.remove(label);
        return Ok(());
    }
    // An entry without a name has an empty one between two commas, so that the others keep their places.
    table(manifest, "labels")?.insert(label.to_owned(), Value::String(names.join(",")));
    manifest.insert(key.to_owned(), Value::Array(entries));
    Ok(())
}

fn of_another_kind(key: &str) -> ImportFailure {
    ImportFailure::invalid(format!(
        "`{key}` of the function's manifest is of another kind than fnd expects"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn parsed(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn options_become_keys() {
        let mut manifest = Table::new();
        let changes = ManifestChanges {
            runtime: Some("python".to_owned()),
            handler: Some("helloget.foo".to_owned()),
            env: texts(&["foo:bar", "bar=foo", "empty"]),
            labels: texts(&["foo:bar", "bar=foo", "foobar"]),
            secrets: texts(&["test-secret"]),
            memory: Some("128Mi".to_owned()),
            cpu: Some("0.5".to_owned()),
            timeout: Some("3".to_owned()),
        };
        changes.apply(&mut manifest).unwrap();
        let expected = parsed(
            "runtime = \"python\"\nhandler = \"helloget.foo\"\nenv = { foo = \"bar\", bar = \"foo\", empty = \"\" }\n\
             labels = { foo = \"bar\", bar = \"foo\", foobar = \"\" }\nsecrets = { test_secret = \"test-secret\" }\n\
             limits = { memory = \"128M\", cpu = \"500m\", timeout = \"3s\" }",
        );
        assert_eq!(manifest, expected);
    }

    /// The environment is replaced as a whole, labels and secrets are added, all other keys stay.
    #[test]
    fn an_update_keeps_what_is_not_named() {
        let before = "runtime = \"python\"\nenv = { a = \"1\" }\nlabels = { x = \"1\", y = \"2\" }\n\
                      secrets = { s = \"s\" }\nlimits = { memory = \"64M\", timeout = \"3s\" }\n[[schedule]]\ncron = \"* * * * *\"";
        let mut manifest = parsed(before);
        ManifestChanges::default().apply(&mut manifest).unwrap();
        assert_eq!(manifest, parsed(before));
        let changes = ManifestChanges {
            env: texts(&["b=2"]),
            labels: texts(&["y=3"]),
            secrets: texts(&["t"]),
            cpu: Some("1".to_owned()),
            ..ManifestChanges::default()
        };
        changes.apply(&mut manifest).unwrap();
        let expected = "runtime = \"python\"\nenv = { b = \"2\" }\nlabels = { x = \"1\", y = \"3\" }\n\
                        secrets = { s = \"s\", t = \"t\" }\nlimits = { memory = \"64M\", timeout = \"3s\", cpu = \"1\" }\n\
                        [[schedule]]\ncron = \"* * * * *\"";
        assert_eq!(manifest, parsed(expected));
        let wrong = ManifestChanges {
            memory: Some("much".to_owned()),
            ..ManifestChanges::default()
        };
        assert_eq!(wrong.apply(&mut manifest).unwrap_err().kind, FailureKind::Usage);
        assert_eq!(
            changes.apply(&mut parsed("labels = 1")).unwrap_err().kind,
            FailureKind::InvalidManifest
        );
    }

    #[test]
    fn an_autoscale_is_a_pool_with_a_label() {
        let before = "pool = { idle = \"1m\" }\nlabels = { a = \"b\" }";
        let mut manifest = parsed(before);
        assert!(!remove_autoscale(&mut manifest).unwrap());
        set_autoscale(&mut manifest, (1, 3), "cpu:").unwrap();
        let expected =
            "pool = { idle = \"1m\", min = 1, max = 3 }\nlabels = { a = \"b\", kubeless-autoscale = \"cpu:\" }";
        assert_eq!(manifest, parsed(expected));
        assert!(remove_autoscale(&mut manifest).unwrap());
        assert_eq!(manifest, parsed(before));
    }

    #[test]
    fn triggers_are_entries_whose_names_a_label_keeps() {
        let place = ("schedule", CRONJOBS);
        let mut manifest = parsed("[[schedule]]\nevery = \"1h\"");
        let cron = |line: &str| Table::from_iter([("cron".to_owned(), Value::String(line.to_owned()))]);
        assert!(!set_entries(&mut manifest, place, "a", vec![cron("1 * * * *")]).unwrap());
        assert!(!set_entries(&mut manifest, place, "b", vec![cron("2 * * * *")]).unwrap());
        assert!(set_entries(&mut manifest, place, "a", vec![cron("3 * * * *")]).unwrap());
        let expected = "labels = { kubeless-cronjobs = \",a,b\" }\n[[schedule]]\nevery = \"1h\"\n[[schedule]]\n\
                        cron = \"3 * * * *\"\n[[schedule]]\ncron = \"2 * * * *\"";
        assert_eq!(manifest, parsed(expected));
        let two = vec![cron("2 * * * *"), cron("4 * * * *")];
        assert!(set_entries(&mut manifest, place, "b", two).unwrap());
        assert_eq!(manifest["labels"][CRONJOBS].as_str(), Some(",a,b,b"));
        assert_eq!(names(",a,b").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(entry(&manifest, place, "b").unwrap(), Some(cron("2 * * * *")));
        assert_eq!(entry(&manifest, place, "c").unwrap(), None);
        assert!(remove_entry(&mut manifest, place, "a").unwrap());
        assert!(!remove_entry(&mut manifest, place, "a").unwrap());
        assert!(remove_entry(&mut manifest, place, "b").unwrap());
        assert_eq!(
            manifest,
            parsed("labels = { kubeless-cronjobs = \"\" }\n[[schedule]]\nevery = \"1h\"")
        );
        assert!(set_entries(&mut parsed("schedule = 1"), place, "a", vec![cron("")]).is_err());
    }
}
