//! Options of Kubeless that have no effect on one machine, each with the reason.

const CERTIFICATES: &str = "a web server before fnd has the certificates (docs/behind-a-web-server.md)";
const NO_SERVICE: &str = "there are no services of a cluster";

const WITHOUT_EFFECT: &[(&str, &str)] = fnd_manifest::texts! {
    "--namespace": "one machine has no namespaces",
    "--port": "fnd hands calls to a function itself, so it has no port",
    "--servicePort": NO_SERVICE,
    "--runtime-image": "fnd runs no container images",
    "--image-pull-policy": "fnd pulls no images",
    "--node-selectors": "there is one node; the manifest's `nodes` names hosts",
    "--service-account": "each function has a user of its own",
    "--headless": NO_SERVICE,
    "--enableTLSAcme": CERTIFICATES,
    "--tls-secret": CERTIFICATES,
    "--gateway": "fnd itself listens",
    "--metric": "fnd starts workers as calls need them, up to --max",
};

/// Returns the message about an option without effect. `typed` is the option with its value.
pub fn without_effect(typed: &str) -> String {
    let option = typed.split(' ').next().unwrap_or_default();
    let reason = WITHOUT_EFFECT.iter().find(|(known, _)| *known == option);
    let (_, why) = reason.unwrap_or(&("", "fnd has nothing like it"));
    format!("`{typed}` has no effect: {why}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_option_has_its_reason() {
        for (typed, text) in [
            (
                "--headless",
                "`--headless` has no effect: there are no services of a cluster",
            ),
            (
                "--namespace a b",
                "`--namespace a b` has no effect: one machine has no namespaces",
            ),
            ("--new 1", "`--new 1` has no effect: fnd has nothing like it"),
        ] {
            assert_eq!(super::without_effect(typed), text);
        }
    }
}
