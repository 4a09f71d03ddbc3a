//! Keys of `[source]`.

use crate::function::route::{AUTH, Credentials};
use crate::schema::keys::keys;
use crate::text;
use serde::{Deserialize, Serialize};
use std::time::Duration;

keys! {
    /// `[source]`: where the code of a function comes from that has nothing but its manifest.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SourceTable {
        /// The repository: `https://`, `ssh://`, `USER@HOST:PATH`, or an absolute path.
        git: Option<String> = Text(TextKind::Some), example "https://git.example.com/shop.git";
        /// The branch, the tag or the commit. Default: the branch that the repository names.
        r#ref: Option<String> = Text(TextKind::Name), example "main";
        /// The directory of the repository that is the function's. Default: all of it.
        dir: Option<String> = Text(TextKind::Relative), example "functions/shop";
        /// How often the repository is asked for a new commit. Default: only when the function is installed, and by `fndctl build F`.
        every: Option<Duration> [with = "text::duration_or_none"] = DurationOrNone(Zero::Refused), example "5m";
        /// A file or an archive. `http://` only with `sha256`.
        url: Option<String> = Text(TextKind::Some), example "https://example.com/shop.tar.gz";
        /// The SHA-256 of that file, in hexadecimal digits.
        sha256: Option<String> = Text(TextKind::Some), example "9f86d081...";
        /// Whether a request to `/fnd/push/FUNCTION` of the public listener has the repository asked for a new commit, as the server of the repository sends one after a push.
        hook: bool = Bool, default false, example true;
        /// How that request proves that it may, as `auth` of `[[http]]`.
        hook_auth: Credentials = Either(&Text(TextKind::Grammar(&AUTH)), &List(&Text(TextKind::Grammar(&AUTH)))), example "github:push-secret";
        /// The secret that opens the repository: a private SSH key, or `USER:PASSWORD` for `https://`.
        key: Option<String> = Text(TextKind::Name), example "deploy-key";
        /// The lines of `ssh-keyscan HOST`: the only host keys that an `ssh://` server may have. Default: those in `/etc/ssh/ssh_known_hosts`.
        known_hosts: Vec<String> = List(&Text(TextKind::Some)), example ["git.example.com ssh-ed25519 AAAAC3Nz..."];
    }
}
