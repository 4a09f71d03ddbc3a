//! Finds the registry that this machine is configured to use: the option, then npm's variables and files.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The registry that npm uses where nothing else is configured.
const DEFAULT: &str = "https://registry.npmjs.org";
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'@').remove(b'-').remove(b'.').remove(b'_');

/// A registry in npm's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registry {
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
            .or_else(|| value(&format!("{}:registry", scope?)))
            .or_else(|| variable("NPM_CONFIG_REGISTRY"))
            .or_else(|| variable("npm_config_registry"))
            .or_else(|| value("registry"))
            .unwrap_or_else(|| DEFAULT.to_owned());
        let url = url.trim_end_matches('/').to_owned();
        let token = url
            .split_once(':')
            .and_then(|(_, rest)| value(&format!("{rest}/:_authToken")));
        Self { url, token }
    }

    /// Reads npm's configuration of this machine, and returns the registry for a package.
    pub(crate) fn of_machine(package: &str, named: Option<&str>) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let own = variable("NPM_CONFIG_USERCONFIG")
            .map(std::path::PathBuf::from)
            .or_else(|| Some(std::env::home_dir()?.join(".npmrc")));
        let all = own.into_iter().chain(["/etc/npmrc".into(), "/usr/etc/npmrc".into()]);
        let files: Vec<String> = all.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        Self::find(package, named, &files, variable)
    }

    /// Returns the address of a package's list of versions.
    pub(crate) fn versions(&self, package: &str) -> String {
        format!("{}/{}", self.url, utf8_percent_encode(package, &PLAIN))
    }

    /// Returns the address of a file of a package. Registries have it at the same place, whatever host the list of a
    /// mirror names.
    pub(crate) fn file(&self, package: &str, name: &str) -> String {
        format!("{}/{package}/-/{}", self.url, utf8_percent_encode(name, &PLAIN))
    }
}

/// Returns the value of a key in an npmrc; `${NAME}` stands for a variable.
fn entry(text: &str, key: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with([';', '#']));
    let mut pairs = lines.filter_map(|line| line.split_once('='));
    let (_, value) = pairs.rfind(|(found, _)| found.trim() == key)?;
    let mut value = value.trim().trim_matches(['"', '\'']).to_owned();
    while let Some((before, rest)) = value.split_once("${") {
        let (name, after) = rest.split_once('}')?;
        value = format!("{before}{}{after}", variable(name)?);
    }
    Some(value).filter(|value| !value.is_empty())
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
            url: "https://r.example/npm".into(),
            token: None,
        };
        assert_eq!(
            registry.versions("@deno/linux-x64-glibc"),
            "https://r.example/npm/@deno%2Flinux-x64-glibc"
        );
        assert_eq!(registry.file("@d/x", "x-1.tgz"), "https://r.example/npm/@d/x/-/x-1.tgz");
    }
}
