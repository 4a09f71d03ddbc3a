//! Puts the options of the command line into a manifest. An option wins over the same key.

use crate::exit::{CommandFailure, Exit};
use fnd_manifest::function::inline;
use toml::{Table, Value};

/// The options that become keys of the manifest.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ManifestOptions {
    /// Runtime, such as `python` or `python3.11`.
    #[arg(long, value_name = "RUNTIME")]
    runtime: Option<String>,

    /// The handler that is called, such as `main.handler`.
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,

    /// Set an environment variable; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Size, a preset of limits (`fndctl sizes`).
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,

    /// Run it at the times of this line of cron; may be repeated. Replaces the schedules of the manifest.
    #[arg(long, value_name = "CRON")]
    schedule: Vec<String>,

    /// Set any key of the manifest, such as `limits.timeout=30s`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ManifestOptions {
    /// Returns whether no option is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.values().is_ok_and(|values| values.is_empty())
    }

    /// Returns the option that says what a foreign file says itself, if one is given.
    pub(crate) fn of_the_code(&self) -> Option<&'static str> {
        let given = [("--runtime", &self.runtime), ("--handler", &self.handler)];
        given
            .into_iter()
            .find(|(_, value)| value.is_some())
            .map(|(option, _)| option)
    }

    /// Returns the keys, each with the parts of its path, and their values.
    fn values(&self) -> Result<Vec<(Vec<String>, Value)>, CommandFailure> {
        let mut values = Vec::new();
        let texts = [
            ("runtime", &self.runtime),
            ("handler", &self.handler),
            ("size", &self.size),
        ];
        for (key, value) in texts {
            values.extend(value.clone().map(|value| (vec![key.to_owned()], Value::String(value))));
        }
        for pair in &self.env {
            let (name, value) = pair
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| CommandFailure::usage(format!("`--env {pair}`: expected NAME=VALUE")))?;
            values.push((vec!["env".to_owned(), name.to_owned()], Value::String(value.to_owned())));
        }
        if !self.schedule.is_empty() {
            let entry =
                |cron: &String| Value::Table(Table::from_iter([("cron".to_owned(), Value::String(cron.clone()))]));
            values.push((
                vec!["schedule".to_owned()],
                Value::Array(self.schedule.iter().map(entry).collect()),
            ));
        }
        for pair in &self.set {
            let (key, text) = pair
                .split_once('=')
                .filter(|(key, _)| key.split('.').all(|part| !part.is_empty()))
                .ok_or_else(|| {
                    CommandFailure::usage(format!(
                        "`--set {pair}`: expected KEY=VALUE, such as `limits.timeout=30s`"
                    ))
                })?;
            // The value is written as in TOML. A text may also have no quotes.
            let parsed = format!("value = {text}").parse::<Table>().ok();
            let value = parsed
                // A line end in the text could bring further keys.
                .filter(|table| table.len() == 1)
                .and_then(|mut table| table.remove("value"));
            let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
            values.push((key.split('.').map(str::to_owned).collect(), value));
        }
        Ok(values)
    }

    /// Returns a manifest with the options in it, and a remark for each key that an option has replaced. `shown` is the
    /// manifest for people.
    pub(crate) fn merged(&self, text: &str, shown: &str) -> Result<(String, Vec<String>), CommandFailure> {
        let mut manifest: Table = text.parse().map_err(|error: toml::de::Error| {
            let message = format!("`{shown}` is no TOML: {}", error.message());
            CommandFailure::new(Exit::InvalidManifest, message).help(format!("fndctl validate {shown}"))
        })?;
        let mut remarks = Vec::new();
        for (path, value) in self.values()? {
            let key = path.join(".");
            if let Some(before) = put(&mut manifest, &path, value.clone())
                .map_err(|above| CommandFailure::usage(format!("`{key}`: `{above}` of `{shown}` is no table")))?
                && before != value
            {
                remarks.push(format!("the option wins over `{key}` of {shown}"));
            }
        }
        let text = toml::to_string(&manifest)
            .map_err(|error| CommandFailure::usage(format!("the manifest cannot be written: {error}")))?;
        Ok((text, remarks))
    }

    /// Returns code with the options in the block `/// fnd` in it; nothing if the code has no block.
    pub(crate) fn inside(&self, code: &str, shown: &str) -> Result<Option<(String, Vec<String>)>, CommandFailure> {
        let lines: Vec<&str> = code.split_inclusive('\n').collect();
        let is =
            |line: &str, prefix: &str, end: &str| line.trim_end().strip_prefix(prefix).is_some_and(|rest| rest == end);
        let start = lines.iter().enumerate().find_map(|(number, line)| {
            let prefix = ["#", "//", "--"]
                .into_iter()
                .find(|prefix| is(line, prefix, " /// fnd"))?;
            Some((number, prefix))
        });
        let Some((start, prefix)) = start else {
            // fnd would refuse a manifest beside this one.
            return match inline::block(shown, code.as_bytes()) {
                Ok(Some(_)) => Err(CommandFailure::usage(format!(
                    "no option changes the keys in `[tool.fnd]` of {shown}"
                ))
                .help("write the keys there, or all of them in a block `# /// fnd`")),
                Ok(None) | Err(_) => Ok(None),
            };
        };
        let inside = lines.iter().skip(start + 1).position(|line| is(line, prefix, " ///"));
        // fnd says what is wrong with a block that has no end.
        let Some(count) = inside else { return Ok(None) };
        let (before, rest) = lines.split_at(start + 1);
        let (block, after) = rest.split_at(count);
        let text: String = block
            .iter()
            .map(|line| line.strip_prefix(prefix).unwrap_or(line))
            .map(|line| line.strip_prefix([' ', '\t']).unwrap_or(line))
            .collect();
        let (text, remarks) = self.merged(&text, shown)?;
        // A line that is no comment would end the block, so an empty line becomes an empty comment.
        let commented = text
            .lines()
            .map(|line| format!("{prefix} {line}").trim_end().to_owned() + "\n");
        let code = before.concat() + &commented.collect::<String>() + &after.concat();
        Ok(Some((code, remarks)))
    }
}

/// Sets a value at a path; returns the one before. An error is the key on the way that is no table.
fn put(table: &mut Table, path: &[String], value: Value) -> Result<Option<Value>, String> {
    match path {
        [] => Ok(None),
        [key] => Ok(table.insert(key.clone(), value)),
        [key, rest @ ..] => {
            let below = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            put(below.as_table_mut().ok_or_else(|| key.clone())?, rest, value)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::upload::manifest::*;

    fn options() -> ManifestOptions {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        ManifestOptions {
            runtime: Some("python".to_owned()),
            handler: None,
            env: texts(&["A=1", "B=x=y"]),
            size: None,
            schedule: texts(&["0 6 * * *"]),
            set: texts(&["limits.timeout=30s", "retry.retries=2", "on_load=false"]),
        }
    }

    #[test]
    fn options_become_keys_and_win() {
        let (text, remarks) = options()
            .merged("runtime = \"ruby\"\n[env]\nA = \"0\"\nC = \"3\"\n", "f.toml")
            .unwrap();
        let merged: Table = text.parse().unwrap();
        let expected: Table = "runtime = \"python\"\non_load = false\nenv = { A = \"1\", B = \"x=y\", C = \"3\" }\n\
             limits.timeout = \"30s\"\nretry.retries = 2\nschedule = [{ cron = \"0 6 * * *\" }]"
            .parse()
            .unwrap();
        assert_eq!(merged, expected);
        assert_eq!(
            remarks,
            [
                "the option wins over `runtime` of f.toml",
                "the option wins over `env.A` of f.toml"
            ]
        );
        assert_eq!(options().merged("limits = 1", "f.toml").unwrap_err().exit, Exit::Usage);
        assert_eq!(
            options().merged("limits", "f.toml").unwrap_err().exit,
            Exit::InvalidManifest
        );
    }

    #[test]
    fn a_block_in_the_code_gets_the_options() {
        let options = ManifestOptions {
            size: Some("L".to_owned()),
            ..ManifestOptions::default()
        };
        let code = "#!/bin/sh\n# /// fnd\n# on_load = false\n#\n# ///\necho\n";
        let (merged, remarks) = options.inside(code, "f.sh").unwrap().unwrap();
        assert_eq!(
            merged,
            "#!/bin/sh\n# /// fnd\n# on_load = false\n# size = \"L\"\n# ///\necho\n"
        );
        assert_eq!(remarks, [""; 0]);
        let table = "# /// script\n# [tool.fnd]\n# on_load = false\n# ///\n";
        assert!(options.inside(table, "f.py").is_err());
        for code in ["echo\n", "# /// fnd\n# on_load = false\n"] {
            assert_eq!(options.inside(code, "f.sh").unwrap(), None, "{code}");
        }
    }

    #[test]
    fn wrong_options_are_named() {
        for (env, set) in [
            (vec!["A"], vec![]),
            (vec!["=1"], vec![]),
            (vec![], vec!["a"]),
            (vec![], vec!["a..b=1"]),
        ] {
            let options = ManifestOptions {
                env: env.into_iter().map(str::to_owned).collect(),
                set: set.into_iter().map(str::to_owned).collect(),
                ..ManifestOptions::default()
            };
            assert_eq!(options.merged("", "f.toml").unwrap_err().exit, Exit::Usage);
            assert!(!options.is_empty());
        }
    }
}
