//! Finds the registry that this machine is configured to use: the option, then the variables and files of npm or pip.

use super::{KnownInterpreter, RegistryKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The registries that npm and pip use where nothing else is configured.
const DEFAULT: &str = "https://registry.npmjs.org";
const DEFAULT_INDEX: &str = "https://pypi.org/simple";
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'@').remove(b'-').remove(b'.').remove(b'_');

/// A registry in the form of npm, or an index in the form of PyPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registry {
    kind: RegistryKind,
    /// Its address, without a slash at the end.
    url: String,
    /// The token that a file has for this address.
    pub(crate) token: Option<String>,
}

impl Registry {
    /// Returns the registry for a package. `named` is the option; `files` are the texts of npm's configuration files,
    /// the most important one first; `variable` returns a variable of the environment.
    pub(crate) fn find(
        package: &str,
        named: Option<&str>,
        files: &[String],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let value = |key: &str| files.iter().find_map(|text| entry(text, key, &variable));
        let scope = package.split_once('/').map(|(scope, _)| scope);
        let url = named
            .map(str::to_owned)
            // npm prefers the registry of a scope to the general one.
            .or_else(|| value(&format!("{}:registry", scope?)))
            // npm reads its variables in upper and in lower case.
            .or_else(|| variable("NPM_CONFIG_REGISTRY"))
            .or_else(|| variable("npm_config_registry"))
            .or_else(|| value("registry"))
            .unwrap_or_else(|| DEFAULT.to_owned());
        // Addresses are made by adding a slash and a name.
        let url = url.trim_end_matches('/').to_owned();
        // An npmrc has tokens by address without its scheme: `//HOST/:_authToken`.
        let token = url
            .split_once(':')
            .and_then(|(_, rest)| value(&format!("{rest}/:_authToken")));
        let kind = RegistryKind::Npm;
        Self { kind, url, token }
    }

    /// Returns the index for packages of Python, as [`find`](Self::find) does for those of npm.
    fn find_index(named: Option<&str>, files: &[String], variable: impl Fn(&str) -> Option<String>) -> Self {
        let url = named.map(str::to_owned).or_else(|| variable("UV_DEFAULT_INDEX"));
        let url = url.or_else(|| variable("PIP_INDEX_URL"));
        let url = url.or_else(|| files.iter().find_map(|text| entry(text, "index-url", &variable)));
        let url = url.unwrap_or_else(|| DEFAULT_INDEX.to_owned());
        Self {
            kind: RegistryKind::PyPi,
            url: url.trim_end_matches('/').to_owned(),
            token: None,
        }
    }

    /// Reads the configuration of npm or pip on this machine, and returns the registry for an interpreter.
    pub(crate) fn of_machine(known: &KnownInterpreter, named: Option<&str>) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if known.kind == RegistryKind::PyPi {
            let home = std::env::home_dir().unwrap_or_default();
            let config = variable("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), Into::into);
            // The files of the user win over that of the machine, as with pip.
            let all = [
                config.join("pip/pip.conf"),
                home.join(".pip/pip.conf"),
                "/etc/pip.conf".into(),
            ];
            let files: Vec<String> = all
                .iter()
                .filter_map(|path| std::fs::read_to_string(path).ok())
                .collect();
            return Self::find_index(named, &files, variable);
        }
        let own = variable("NPM_CONFIG_USERCONFIG")
            .map(std::path::PathBuf::from)
            .or_else(|| Some(std::env::home_dir()?.join(".npmrc")));
        // npm has the machine's file below its prefix, `/usr` for a node in `/usr/bin`; Debian's npm has it in `/etc`.
        let all = own.into_iter().chain(["/etc/npmrc".into(), "/usr/etc/npmrc".into()]);
        let files: Vec<String> = all.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        Self::find(known.package, named, &files, variable)
    }

    /// Returns the address of a package's list of versions.
    pub(crate) fn versions(&self, package: &str) -> String {
        let end = match self.kind {
            RegistryKind::Npm => "",
            // Addresses of the index end with a slash (PEP 503).
            RegistryKind::PyPi => "/",
        };
        // npm encodes the slash in the name of a scoped package.
        format!("{}/{}{end}", self.url, utf8_percent_encode(package, &PLAIN))
    }

    /// Returns the address of a file that the list of a package names. Registries of npm have it at the same place,
    /// whatever host the list of a mirror names.
    pub(crate) fn file(&self, package: &str, name: &str) -> String {
        match self.kind {
            RegistryKind::Npm => format!("{}/{package}/-/{}", self.url, utf8_percent_encode(name, &PLAIN)),
            RegistryKind::PyPi => joined(&self.versions(package), name),
        }
    }
}

/// Returns the address that a reference in the document at `base` means (RFC 3986, section 5.2).
fn joined(base: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    if reference.contains("://") {
        return reference.to_owned();
    }
    let (scheme, rest) = base.split_once("://").unwrap_or(("https", base));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if let Some(other) = reference.strip_prefix("//") {
        return format!("{scheme}://{other}");
    }
    let beside = if reference.starts_with('/') { "" } else { path };
    let mut parts: Vec<&str> = beside.split('/').collect();
    parts.pop(); // the document itself
    for part in reference.trim_start_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    format!("{scheme}://{host}/{}", parts.join("/"))
}

/// Returns the value of a key in an npmrc; `${NAME}` stands for a variable.
fn entry(text: &str, key: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with([';', '#']));
    let mut pairs = lines.filter_map(|line| line.split_once('='));
    // Of two lines with one key, the last one counts.
    let (_, value) = pairs.rfind(|(found, _)| found.trim() == key)?;
    let mut rest = value.trim().trim_matches(['"', '\'']);
    let mut filled = String::new();
    // Variables are filled in once, from front to back, as npm does it. Otherwise a variable whose value names itself
    // would be replaced for ever.
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}')?;
        filled += before;
        filled += &variable(name)?;
        rest = after;
    }
    filled += rest;
    Some(filled).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "; of a person\nregistry = https://mirror.example/npm/\n@deno:registry=https://scope.example\n\
        //mirror.example/npm/:_authToken=${TOKEN}\n//scope.example/:_authToken=\"two\"\n#registry=https://no.example\n";

    #[track_caller]
    fn check(
        package: &str,
        named: Option<&str>,
        files: &[&str],
        variables: &[(&str, &str)],
        expected: (&str, Option<&str>),
    ) {
        let files: Vec<String> = files.iter().map(|text| (*text).to_owned()).collect();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = Registry::find(package, named, &files, variable);
        assert_eq!((found.url.as_str(), found.token.as_deref()), expected);
    }

    #[test]
    fn a_variable_that_names_itself_is_filled_in_once() {
        let variable = |name: &str| (name == "A").then(|| "${A}/x".to_owned());
        assert_eq!(
            entry("registry=https://m/${A}", "registry", variable).as_deref(),
            Some("https://m/${A}/x")
        );
        assert_eq!(entry("registry=${B}", "registry", variable), None);
    }

    #[test]
    fn the_option_wins_then_the_scope_then_variables_then_files() {
        let token = [("TOKEN", "one")];
        check("node", None, &[], &[], (DEFAULT, None));
        check(
            "node",
            None,
            &[OWN],
            &token,
            ("https://mirror.example/npm", Some("one")),
        );
        check("@deno/x", None, &[OWN], &token, ("https://scope.example", Some("two")));
        check(
            "@oven/x",
            None,
            &[OWN],
            &token,
            ("https://mirror.example/npm", Some("one")),
        );
        check(
            "node",
            None,
            &[OWN],
            &[("NPM_CONFIG_REGISTRY", "http://v.example/")],
            ("http://v.example", None),
        );
        check(
            "@deno/x",
            Some("https://o.example/"),
            &[OWN],
            &token,
            ("https://o.example", None),
        );
        check(
            "node",
            None,
            &["", "registry=https://all.example"],
            &[],
            ("https://all.example", None),
        );
        // A token whose variable is not set is none.
        check("node", None, &[OWN], &[], ("https://mirror.example/npm", None));
    }

    #[test]
    fn addresses_of_a_package() {
        let registry = Registry {
            kind: RegistryKind::Npm,
            url: "https://r.example/npm".into(),
            token: None,
        };
        assert_eq!(
            registry.versions("@deno/linux-x64-glibc"),
            "https://r.example/npm/@deno%2Flinux-x64-glibc"
        );
        assert_eq!(registry.file("@d/x", "x-1.tgz"), "https://r.example/npm/@d/x/-/x-1.tgz");
    }

    #[test]
    fn the_index_of_pip_and_where_its_files_are() {
        let conf = "[global]\nindex-url = https://mirror.example/simple/\n".to_owned();
        let variable = |name: &str| (name == "PIP_INDEX_URL").then(|| "https://v.example/simple".to_owned());
        let url = |named, variable: &dyn Fn(&str) -> Option<String>| {
            Registry::find_index(named, std::slice::from_ref(&conf), variable).versions("uv")
        };
        assert_eq!(url(None, &|_| None), "https://mirror.example/simple/uv/");
        assert_eq!(url(None, &variable), "https://v.example/simple/uv/");
        assert_eq!(url(Some("http://o.example"), &variable), "http://o.example/uv/");
        let base = "https://m.example/pypi/simple/uv/";
        for (reference, expected) in [
            ("https://f.example/x.whl#sha256=ab", "https://f.example/x.whl"),
            ("//f.example/x.whl", "https://f.example/x.whl"),
            ("/p/x.whl", "https://m.example/p/x.whl"),
            ("x.whl", "https://m.example/pypi/simple/uv/x.whl"),
            ("../../packages/x.whl", "https://m.example/pypi/packages/x.whl"),
            ("../../../../../x.whl", "https://m.example/x.whl"),
        ] {
            assert_eq!(joined(base, reference), expected, "{reference}");
        }
    }
}
