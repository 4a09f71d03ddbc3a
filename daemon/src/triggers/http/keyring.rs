//! The secrets of routes, ready to verify credentials.

use crate::triggers::secrets::TriggerSecrets;
use fnd_core::triggers::credentials::Verifier;
use fnd_manifest::function::route::Credential;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// A verifier for each credential that a route accepts.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    verifiers: HashMap<Credential, Rc<Verifier>>,
    /// Secrets that cannot be used for a credential, each with the reason.
    problems: Vec<String>,
}

impl Keyring {
    /// Makes the verifiers of these credentials. One whose secret has no value, or a line that cannot be used, admits
    /// nobody.
    pub(crate) fn new(credentials: BTreeSet<Credential>, secrets: &TriggerSecrets) -> Self {
        let mut keyring = Self::default();
        for credential in credentials {
            // Without a value: the secrets themselves say why.
            let Some(secret) = secrets.get(&credential.secret) else {
                continue;
            };
            let lines: Vec<&[u8]> = secret.lines.iter().map(|line| line.as_slice()).collect();
            let content = zeroize::Zeroizing::new(lines.join(&b'\n'));
            match Verifier::new(&credential, &content) {
                Ok(verifier) => drop(keyring.verifiers.insert(credential, Rc::new(verifier))),
                Err(why) => {
                    let name = String::from(credential);
                    keyring.problems.push(format!("`{name}` admits nobody: {why}"));
                }
            }
        }
        keyring
    }

    /// Returns the verifier of a credential; nothing while its secret is not known.
    pub(crate) fn get(&self, credential: &Credential) -> Option<Rc<Verifier>> {
        self.verifiers.get(credential).cloned()
    }

    /// Returns why a credential without a verifier admits nobody.
    pub(crate) fn refusal(&self, credential: &Credential) -> String {
        let begin = format!("`{}` ", String::from(credential.clone()));
        let problem = self.problems.iter().find(|problem| problem.starts_with(&begin));
        problem
            .cloned()
            .unwrap_or_else(|| format!("the secret `{}` is not known to fnd", credential.secret))
    }

    /// Returns what is wrong with the secrets.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_without_a_verifier_says_why() {
        let credential = |text: &str| Credential::parse(text).unwrap();
        let problem = "`basic:staff` admits nobody: line 1 is no hash".to_owned();
        let keyring = Keyring {
            problems: vec![problem.clone()],
            ..Keyring::default()
        };
        assert_eq!(keyring.refusal(&credential("basic:staff")), problem);
        let unknown = keyring.refusal(&credential("basic:staf"));
        assert_eq!(unknown, "the secret `staf` is not known to fnd");
    }
}
