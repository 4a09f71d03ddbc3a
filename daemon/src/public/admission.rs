//! Decides whether a caller may call: checks credentials in headers first, then those that cover the body.
//!
//! A caller without a credential learns nothing about routes. So on a host with signed routes every path takes a body,
//! up to the largest that such a route takes, if the request has the headers of some signature; and then only the secrets of the
//! matched route are tried.

use super::Public;
use crate::http::connections::ConnectionOwner;
use crate::http::request::{IncomingRequest, RequestBody, bytes_of};
use crate::http::response::{Refusal, refuse, refuse_for_now};
use crate::triggers::http::CredentialHeaders;
use crate::triggers::passwords::LoginRefusal;
use fnd_core::api::problem::Code;
use fnd_core::triggers::credentials::{Denied, Proof, ReplayKey};
use fnd_core::triggers::route::{Admits, Route};
use fnd_manifest::function::route::Credential;
use std::net::IpAddr;

/// The reason why a caller was admitted.
#[derive(Debug)]
pub(super) enum Admitted {
    /// The route, or some route of the host, is for everybody.
    Open,
    /// A credential that holds again, and who has it.
    Known(String),
    /// A signature that holds once, and who has its secret.
    Once(String, ReplayKey),
}

/// Returns the holder of a credential as text: `scheme:secret`, and the user for passwords. Both values of a secret that is being
/// rotated belong to one holder.
fn holder(credential: &Credential, user: Option<&[u8]>) -> String {
    let Credential { scheme, secret } = credential;
    let mut holder = format!("{}:{secret}", scheme.as_str());
    if let Some(user) = user {
        holder.push(':');
        holder.push_str(&String::from_utf8_lossy(user));
    }
    holder
}

impl Admitted {
    /// Returns who was admitted; absent: anybody would have been.
    pub(super) fn holder(&self) -> Option<&str> {
        match self {
            Self::Open => None,
            Self::Known(holder) | Self::Once(holder, _) => Some(holder),
        }
    }
}

impl Public {
    /// Returns the refusal of a caller without a credential that holds. It is the same for everybody, and for every path of a host.
    fn denied(&self, admits: &Admits) -> Refusal {
        // The credential of an honest caller may need a secret that was installed a moment ago.
        if self.control.daemon.state.borrow().secrets.awaits_secret() {
            return refuse_for_now(Code::Unavailable, "fnd is reading its secrets");
        }
        let mut refusal = refuse(Code::Unauthorized, "the request has no credential that holds here");
        refusal.ask = Some(match admits.asks_for_passwords() {
            // A browser asks its user for no password if the answer names only `Bearer`.
            true => "Basic realm=\"fnd\", charset=\"UTF-8\"",
            false => "Bearer",
        });
        refusal
    }

    /// Returns what admits a caller, and the body of the request, which is read if a signature has to be checked. `route` is
    /// absent if the host has no route for the request.
    ///
    /// # Errors
    /// [`Code::Unauthorized`]; [`Code::TooLarge`] and others if a body was to be read; [`Code::Unavailable`] if too many
    /// passwords wait to be checked, or a secret is on its way.
    pub(super) async fn admitted(
        &self,
        request: &IncomingRequest,
        caller: Option<IpAddr>,
        (route, admits): (Option<&Route>, &Admits),
    ) -> Result<(Admitted, RequestBody), Refusal> {
        // A host with an open route admits everybody: so it answers 404 for a path without a route, not 401.
        if route.map_or(admits.everybody, Route::is_open) {
            return Ok((Admitted::Open, RequestBody::OfStranger(caller)));
        }
        let credentials: Vec<Credential> = match route {
            Some(route) => route.entry.auth.0.clone(),
            None => admits.credentials.iter().cloned().collect(),
        };
        let (signed, of_headers): (Vec<_>, Vec<_>) = credentials
            .into_iter()
            .partition(|credential| credential.scheme.signs());
        // All of them are tried, so that the time does not depend on which one holds. The first one counts.
        let mut holder = None;
        for credential in &of_headers {
            let holds = self.holds(request, caller, credential).await?;
            holder = holder.or(holds);
        }
        if let Some(holder) = holder {
            return Ok((Admitted::Known(holder), RequestBody::OfKnown));
        }
        let limit = admits.signed_body.filter(|_| self.may_be_signed(request, admits));
        let limit = limit.ok_or_else(|| self.denied(admits))?;
        let buffers = self.control.daemon.state.borrow().callers.buffers.clone();
        let limit = (limit, "limits.body");
        // The share ends with this function: once a signature holds, the body counts like that of any known caller.
        let (body, _share) = request.read_unauthenticated_body(&buffers, limit, caller).await?;
        let bytes = bytes_of(&body)?;
        match self.proof(request, &signed, &bytes) {
            Some(proof) => {
                drop(bytes);
                Ok((proof, RequestBody::Read(body)))
            }
            None => Err(self.denied(admits)),
        }
    }

    /// Returns whether a request has the headers of a signature that some route of the host takes: otherwise its body, which
    /// proves nothing, need not be read. All of the host's schemes count, not the route's: the answer would tell else which
    /// paths are routes.
    fn may_be_signed(&self, request: &IncomingRequest, admits: &Admits) -> bool {
        let headers = CredentialHeaders(&request.parts.headers);
        let mut signed = admits.signatures.iter();
        signed.any(|credential| {
            // A request with one of these faults has no complete signature. Any other fault depends on the body or the
            // secret.
            let lacks =
                |why: &Denied| matches!(why, Denied::Missing(_) | Denied::Repeated(_) | Denied::Malformed { .. });
            !self.verify(credential, &headers, &[]).is_err_and(|why| lacks(&why))
        })
    }

    /// Returns who has a credential of headers alone, if it holds.
    async fn holds(
        &self,
        request: &IncomingRequest,
        caller: Option<IpAddr>,
        credential: &Credential,
    ) -> Result<Option<String>, Refusal> {
        let headers = CredentialHeaders(&request.parts.headers);
        let verified = self.verify(credential, &headers, &[]);
        let login = match verified {
            Ok(Proof::Holds | Proof::HoldsOnce(_)) => return Ok(Some(holder(credential, None))),
            Ok(Proof::Password(login)) => login,
            Err(_) => return Ok(None),
        };
        let user = holder(credential, Some(&login.user));
        match self
            .listener
            .passwords
            // Logins wait by address, so that one address with many of them locks nobody else out.
            .check(login, caller.map_or(ConnectionOwner::Exempt, ConnectionOwner::of))
            .await
        {
            Ok(()) => Ok(Some(user)),
            Err(LoginRefusal::Denied(_)) => Ok(None),
            Err(LoginRefusal::Busy) => Err(refuse_for_now(
                Code::Unavailable,
                "too many passwords wait to be checked",
            )),
        }
    }

    /// Returns the proof of the first signature that holds; all are tried.
    fn proof(&self, request: &IncomingRequest, signed: &[Credential], body: &[u8]) -> Option<Admitted> {
        let headers = CredentialHeaders(&request.parts.headers);
        let proofs: Vec<_> = signed
            .iter()
            .map(|credential| (credential, self.verify(credential, &headers, body)))
            .collect();
        proofs.into_iter().find_map(|(credential, proof)| match proof {
            Ok(Proof::Holds) => Some(Admitted::Known(holder(credential, None))),
            Ok(Proof::HoldsOnce(key)) => Some(Admitted::Once(holder(credential, None), key)),
            Ok(Proof::Password(_)) | Err(_) => None,
        })
    }

    fn verify(&self, credential: &Credential, headers: &CredentialHeaders<'_>, body: &[u8]) -> Result<Proof, Denied> {
        let now_s = self.control.now_ms() / 1000;
        let verifier = self.listener.keyring.borrow().get(credential);
        let verified = match verifier.as_deref() {
            Some(verifier) => verifier.verify(headers, body, now_s),
            None => Err(Denied::NoMatch),
        };
        if let Err(why) = &verified {
            let Credential { scheme, secret } = credential;
            // The reason is only for the journal: the caller gets the same answer whatever the reason is.
            tracing::debug!("the credential {}:{secret} does not hold: {why}", scheme.as_str());
        }
        verified
    }
}
