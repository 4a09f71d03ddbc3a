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

    /// Returns what is wrong with the secrets.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }
}
