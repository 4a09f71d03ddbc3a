//! Finds the runtime of this machine that a name of Kubeless means, such as `python3.7` or `nodejs10`, and what Kubeless
//! knows about its files.

use crate::failure::ImportFailure;
use fnd_manifest::runtime::RuntimeSummary;

/// A runtime that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub id: String,
    /// The value of the manifest's `runtime`.
    pub name: String,
    /// A warning for people: the function runs with another version of the language than the one asked for.
    pub warning: Option<String>,
    suffixes: Vec<String>,
}

/// Runtimes that have no handlers, or others than Kubeless's.
const WITHOUT_HANDLERS: [&str; 4] = ["exec", "lambda", "lua", "perl"];

/// Returns the names by which functions can be deployed now, with the versions that are installed.
pub fn supported(runtimes: &[RuntimeSummary]) -> Vec<String> {
    let mut names = Vec::new();
    let has_handlers = |runtime: &&RuntimeSummary| !WITHOUT_HANDLERS.contains(&runtime.id.as_str());
    for runtime in runtimes.iter().filter(|runtime| serves(runtime)).filter(has_handlers) {
        let versions: Vec<String> = numbered(runtime).map(|name| format!("{}{name}", runtime.id)).collect();
        if versions.is_empty() {
            names.push(runtime.id.clone());
        }
        names.extend(versions);
    }
    names
}

/// Returns whether an interpreter of a runtime is installed; a few runtimes need none.
fn serves(runtime: &RuntimeSummary) -> bool {
    runtime.enabled && (runtime.versions.is_empty() || runtime.versions.iter().any(|version| version.installed))
}

/// Returns the names of installed versions that are numbers.
fn numbered(runtime: &RuntimeSummary) -> impl Iterator<Item = &str> {
    let installed = runtime.versions.iter().filter(|version| version.installed);
    let names = installed.map(|version| version.name.as_str());
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the runtime that a name of Kubeless means. If its version is not installed, another one is used, with a
/// warning.
///
/// # Errors
/// The machine has no such runtime; in Kubeless's words, with those that it has.
pub fn choose(typed: &str, runtimes: &[RuntimeSummary]) -> Result<Chosen, ImportFailure> {
    let digits = typed.find(|c: char| c.is_ascii_digit()).unwrap_or(typed.len());
    let (language, version) = typed.split_at(digits);
    // Variants of Kubeless's node that only differ in their images.
    let language = match language {
        "nodejsCE" | "nodejs_distroless" | "nodejs_distroless-" => "nodejs",
        language => language,
    };
    let is_meant =
        |runtime: &&RuntimeSummary| runtime.id == language || runtime.aliases.iter().any(|alias| alias == language);
    let found = runtimes.iter().find(is_meant).filter(|runtime| serves(runtime));
    let Some(found) = found.filter(|_| !language.is_empty()) else {
        let names = supported(runtimes).join(", ");
        let message = format!("Invalid runtime: {typed}. Supported runtimes are: {names}");
        return Err(ImportFailure::usage(message)
            .help("`fndctl runtimes` lists all runtimes, with those that are not installed"));
    };
    // Kubeless writes `nodejs10` and `ruby2.4`, so the version counts with and without its dots.
    let installed = numbered(found).find(|name| *name == version || name.replace('.', "") == version);
    let name = format!("{}{}", found.id, installed.unwrap_or_default());
    let asked_for_another = !version.is_empty() && installed.is_none();
    Ok(Chosen {
        id: found.id.clone(),
        warning: asked_for_another.then(|| {
            let id = &found.id;
            format!("`{typed}` is not installed: the `{id}` of this machine runs the function")
        }),
        name,
        suffixes: found.suffixes.clone(),
    })
}

impl Chosen {
    /// Returns the suffix of the file with the code. Kubeless names that file after the module of the handler and the
    /// runtime, whatever the name of the file was.
    pub fn suffix(&self, file: &str) -> String {
        // fnd leaves `.js` to deno, but Kubeless's node functions have that suffix.
        let known: Vec<&str> = match self.id.as_str() {
            "node" => vec![".js", ".cjs", ".mjs"],
            _ => self.suffixes.iter().map(String::as_str).collect(),
        };
        let found = known.iter().find(|suffix| file.ends_with(**suffix));
        found.or(known.first()).copied().unwrap_or_default().to_owned()
    }

    /// Returns the name of the file that lists dependencies.
    ///
    /// # Errors
    /// The runtime has none that fnd reads.
    pub fn dependency_file(&self) -> Result<&'static str, ImportFailure> {
        let name = DEPENDENCIES.iter().find(|(id, _)| *id == self.id);
        name.map(|(_, name)| *name).ok_or_else(|| {
            ImportFailure::usage(format!("`--dependencies`: fnd installs no packages for `{}`", self.id))
                .help("put what the function needs into the archive of `--from-file`")
        })
    }
}

/// Runtimes with packages, and the file that lists them.
const DEPENDENCIES: [(&str, &str); 6] = [
    ("python", "requirements.txt"),
    ("node", "package.json"),
    ("ruby", "Gemfile"),
    ("php", "composer.json"),
    ("go", "go.mod"),
    ("deno", "deno.json"),
];

/// Returns whether a file of a function lists its dependencies.
pub fn lists_dependencies(path: &str) -> bool {
    DEPENDENCIES.iter().any(|(_, name)| *name == path)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a machine with some versions of Python, with node, and without ruby.
    pub(in crate::kubeless) fn machine() -> Vec<RuntimeSummary> {
        let runtime = |id: &str, aliases: &[&str], suffixes: &[&str], versions: &[(&str, bool)]| {
            serde_json::from_value(serde_json::json!({
                "id": id, "description": "", "suffixes": suffixes, "aliases": aliases, "enabled": true,
                "versions": versions.iter().map(|(name, installed)| serde_json::json!({
                    "name": name, "interpreter": format!("/usr/bin/{id}"), "installed": installed,
                })).collect::<Vec<_>>(),
            }))
            .unwrap()
        };
        vec![
            runtime("exec", &[], &[], &[]),
            runtime("node", &["nodejs"], &[".cjs"], &[("default", true)]),
            runtime(
                "python",
                &[],
                &[".py"],
                &[("3.13", false), ("3.11", true), ("default", true)],
            ),
            runtime("ruby", &[], &[".rb"], &[("default", false)]),
        ]
    }

    #[test]
    fn names_of_kubeless_mean_what_is_installed() {
        for (typed, name, warns) in [
            ("python3.11", "python3.11", false),
            ("python311", "python3.11", false),
            ("python", "python", false),
            ("python3.7", "python", true),
            ("python3.13", "python", true),
            ("python2.7", "python", true),
            ("nodejs10", "node", true),
            ("nodejs", "node", false),
            ("nodejsCE8", "node", true),
            ("nodejs_distroless8", "node", true),
        ] {
            let chosen = choose(typed, &machine()).unwrap();
            assert_eq!(
                (chosen.name.as_str(), chosen.warning.is_some()),
                (name, warns),
                "{typed}"
            );
        }
        for typed in ["ruby2.4", "dotnetcore2.0", "pythn3.7", "3.7", ""] {
            let failure = choose(typed, &machine()).unwrap_err();
            let expected = format!("Invalid runtime: {typed}. Supported runtimes are: node, python3.11");
            assert_eq!(failure.message, expected);
        }
    }

    #[test]
    fn the_file_gets_the_suffix_of_its_runtime() {
        let python = choose("python3.7", &machine()).unwrap();
        assert_eq!(
            (python.suffix("hello.py"), python.suffix("hello.js")),
            (".py".to_owned(), ".py".to_owned())
        );
        assert_eq!(python.dependency_file().unwrap(), "requirements.txt");
        let node = choose("nodejs6", &machine()).unwrap();
        for (file, suffix) in [
            ("hello.js", ".js"),
            ("hello", ".js"),
            ("hello.cjs", ".cjs"),
            ("hello.mjs", ".mjs"),
        ] {
            assert_eq!(node.suffix(file), suffix);
        }
    }
}
