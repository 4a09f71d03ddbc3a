//! The options that several verbs of Kubeless have, and those that mean nothing on one machine: each of these is reported in
//! one line.

use crate::common::candidates;
use crate::context::Context;
use crate::exit::CommandFailure;
use crate::upload::is_only_for_root;
use fnd_import::kubeless::options::without_effect;

/// Adds the remedy to a failure if fnd refuses a secret: its own one, `chown root`, is not for uploads. `keys` are what the
/// manifest of the function needs, and `store` is the command that stores the secret.
pub(super) fn without_secrets(failure: CommandFailure, function: &str, keys: &str, store: &str) -> CommandFailure {
    if !is_only_for_root(&failure) {
        return failure;
    }
    failure.help(format!(
        "fnd gives uploads no secrets, and no setting changes that. As root, save the code in /etc/fnd/functions/{function} with {keys} in \
         its `function.toml`, and store the secret: `{store}` (docs/kubeless.md)"
    ))
}

/// `-n`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Namespace {
    /// Accepted and reported: one machine has no namespaces.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl Namespace {
    /// Reports the option, if it is given.
    pub(super) fn report(&self, context: &Context) {
        if let Some(namespace) = &self.namespace {
            ignored(context, &format!("--namespace {namespace}"));
        }
    }
}

/// A function.
#[derive(Debug, clap::Args)]
pub(super) struct NamedFunction {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    pub(super) function: String,

    #[command(flatten)]
    pub(super) namespace: Namespace,
}

/// Options of `deploy` and `update` that say how a cluster runs a function.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Cluster {
    /// Accepted and reported: fnd hands calls to a function itself, so it has no port.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Accepted and reported: there are no services of a cluster.
    #[arg(long = "servicePort", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    service_port: Option<u16>,

    /// Accepted and reported: fnd runs no container images.
    #[arg(long, value_name = "IMAGE")]
    pub(super) runtime_image: Option<String>,

    /// Accepted and reported: fnd pulls no images.
    #[arg(long, value_name = "POLICY", value_parser = ["IfNotPresent", "Always", "Never"])]
    image_pull_policy: Option<String>,

    /// Accepted and reported: there is one node.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    node_selectors: Vec<String>,

    /// Accepted and reported: each function has a user of its own.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,

    /// Accepted and reported: there are no services of a cluster.
    #[arg(long)]
    headless: bool,
}

impl Cluster {
    /// Reports the options that are given.
    pub(super) fn report(&self, context: &Context) {
        for option in self.given() {
            ignored(context, &option);
        }
    }

    /// Returns the given options, each with its value.
    fn given(&self) -> Vec<String> {
        let port = |port: Option<u16>| port.map(|port| port.to_string());
        let selectors = Some(self.node_selectors.join(",")).filter(|list| !list.is_empty());
        let with_values = [
            ("--port", port(self.port)),
            ("--servicePort", port(self.service_port)),
            ("--runtime-image", self.runtime_image.clone()),
            ("--image-pull-policy", self.image_pull_policy.clone()),
            ("--node-selectors", selectors),
            ("--service-account", self.service_account.clone()),
        ];
        let given = with_values.into_iter();
        given
            .filter_map(|(option, value)| Some(format!("{option} {}", value?)))
            .chain(self.headless.then(|| "--headless".to_owned()))
            .collect()
    }
}

/// Says on standard error that an option has no effect.
pub(super) fn ignored(context: &Context, typed: &str) {
    warn(context, &without_effect(typed));
}

/// Says something on standard error that a person should know.
pub(super) fn warn(context: &Context, text: &str) {
    context.out.aside(&format!("warning: {text}"));
}

/// The words of a command line of which nothing exists here.
#[derive(Debug, Clone, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Anything {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

impl Anything {
    /// Returns the failure that says what to use instead.
    pub(super) fn refused(&self, what: &str) -> CommandFailure {
        let words = self.words.iter().map(|word| format!(" {word}")).collect::<String>();
        let message = format!("`kubeless {what}{words}`: fnd has no message system of its own");
        let help = "functions subscribe to events with `[[event]]`, and `fndctl emit TYPE -d DATA` publishes one (docs/cloudevents.md)";
        CommandFailure::usage(message).help(help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_without_effect_is_reported_once() {
        let cluster = Cluster {
            port: Some(8081),
            service_port: Some(80),
            runtime_image: Some("x/y".to_owned()),
            image_pull_policy: Some("Always".to_owned()),
            node_selectors: vec!["a=b".to_owned(), "c:d".to_owned()],
            service_account: Some("me".to_owned()),
            headless: true,
        };
        assert_eq!(
            cluster.given(),
            [
                "--port 8081",
                "--servicePort 80",
                "--runtime-image x/y",
                "--image-pull-policy Always",
                "--node-selectors a=b,c:d",
                "--service-account me",
                "--headless"
            ]
        );
        assert!(Cluster::default().given().is_empty());
    }
}
