//! The secrets of routes, ready to verify credentials.

use fnd_core::triggers::credentials::Verifier;
use fnd_manifest::function::route::Credential;
use std::collections::HashMap;
use std::rc::Rc;

/// A verifier for each credential that a route accepts.
#[derive(Debug, Default)]
pub(crate) struct Keyring(HashMap<Credential, Rc<Verifier>>);

impl Keyring {
    /// Returns the verifier of a credential; nothing while its secret is not known.
    pub(crate) fn get(&self, credential: &Credential) -> Option<Rc<Verifier>> {
        self.0.get(credential).cloned()
    }

    /// Reads the content of a secret for a credential.
    ///
    /// # Errors
    /// Which line cannot be used, for people; the content before it stays valid.
    pub(crate) fn set(&mut self, credential: &Credential, content: &[u8]) -> Result<(), String> {
        let verifier = Verifier::new(credential, content).map_err(|error| error.to_string())?;
        self.0.insert(credential.clone(), Rc::new(verifier));
        Ok(())
    }

    /// Forgets all secrets but those of these credentials.
    pub(crate) fn keep(&mut self, used: impl Fn(&Credential) -> bool) {
        self.0.retain(|credential, _| used(credential));
    }
}
