//! Asks the spawner for the secrets that routes and `[http] events` name and for the files of `[http] tls`, and hands on its answers.

use super::Driver;
use crate::functions::registry::Function;
use crate::triggers::secrets::SecretsAnswer;
use fnd_manifest::function::route::Credential;
use fnd_wire::frame::{CERTIFICATE, KEY, NAMED, SecretAsked};
use fnd_wire::ids::FunctionName;
use std::collections::BTreeSet;
use std::time::Duration;

/// The reason of a refusal where the running spawner cannot open secrets.
const OLD_SPAWNER: &str = "the running fnd-spawner is older than secrets: start it again (`systemctl stop fnd && systemctl start fnd`, \
     which ends running functions)";

impl Driver {
    /// Asks for the secrets of a function whose files were just judged; those of the version that serves if the newest
    /// files are refused.
    pub(super) fn ask_for_secrets(&mut self, function: &FunctionName) {
        let Some(known) = self.functions.registry.get(function) else {
            return;
        };
        let names: BTreeSet<String> = known
            .versions()
            .flat_map(|version| version.manifest.secrets())
            .collect();
        for name in names {
            self.ask_for_secret(SecretAsked {
                function: Some(function.clone()),
                name,
            });
        }
    }

    /// Asks for the files of `[http] tls`, if there is any, now and then again after a while.
    pub(crate) fn ask_for_tls(&mut self) {
        let has_tls = self.node.settings.settings.http.tls.is_some();
        let now = self.clock.now().mono;
        self.secrets.ask_for_tls_after(has_tls.then_some(now));
        if has_tls {
            for name in [CERTIFICATE, KEY] {
                self.ask_for_secret(SecretAsked {
                    function: None,
                    name: name.to_owned(),
                });
            }
        }
    }

    /// Asks for the files of `[http] tls` if it is time.
    pub(super) fn ask_for_tls_if_due(&mut self) {
        let now = self.clock.now().mono;
        if self.secrets.next_due().is_some_and(|due| due <= now) {
            self.ask_for_tls();
        }
    }

    /// Asks for the secrets of `[http] events`.
    pub(crate) fn ask_for_events(&mut self) {
        for credential in self.credentials_of_events() {
            self.ask_for_secret(SecretAsked {
                function: None,
                name: format!("{NAMED}{}", credential.secret),
            });
        }
        self.forget_secrets();
    }

    fn credentials_of_events(&self) -> Vec<Credential> {
        let events = &self.node.settings.settings.http.events;
        events.as_ref().map(|events| events.auth.0.clone()).unwrap_or_default()
    }

    fn ask_for_secret(&mut self, asked: SecretAsked) {
        if self.workers.welcome.is_of_0_1() {
            self.secrets.cannot(&asked, OLD_SPAWNER);
            return self.problems_changed();
        }
        let Some(asked) = self.secrets.needs(asked) else {
            return;
        };
        let request = fnd_wire::frame::Request::Secret(asked.clone());
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.secrets.sent(number, &asked);
        }
    }

    /// Handles the answer to a request for a secret; returns whether the request was one.
    pub(super) fn secret_answered(&mut self, request: u32, answer: SecretsAnswer) -> bool {
        let Some(again) = self.secrets.answered(request, answer) else {
            return false;
        };
        if let Some(asked) = again {
            self.ask_for_secret(asked);
        }
        // The listener gets all answers together: a new certificate fits only the new key, which is another answer.
        if !self.secrets.is_asking() && self.secrets.take_news() {
            self.renew_keys();
        }
        self.problems_changed();
        true
    }

    /// Forgets secrets that no function names any more.
    pub(super) fn forget_secrets(&mut self) {
        let functions = self.functions.registry.iter().map(|(_, function)| function);
        let versions = functions.flat_map(Function::versions);
        let names = versions.flat_map(|version| version.manifest.secrets());
        let of_events = self.credentials_of_events();
        let names = names
            .chain(of_events.into_iter().map(|credential| credential.secret))
            .collect();
        self.secrets
            .retain(&names, self.node.settings.settings.http.tls.is_some());
        self.renew_keys();
        self.problems_changed();
    }

    /// Hands the secrets to the listener.
    fn renew_keys(&mut self) {
        let functions = self.functions.registry.iter().map(|(_, function)| function);
        let versions = functions.flat_map(Function::versions);
        let routes = versions.flat_map(|version| &version.manifest.http);
        let credentials = routes.flat_map(|route| route.auth.0.iter().cloned());
        let credentials = credentials.chain(self.credentials_of_events()).collect();
        let now = Duration::from_millis(self.clock.now().unix_ms);
        self.listener.renew(&self.secrets, credentials, now);
    }
}
