//! The users that imported functions run as.

use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};

/// How users of the other program become users of functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportedUsers {
    /// The functions are for somebody's own fnd, which runs all of them as this person.
    Caller,
    /// As the other program names them. A function of a program that ran as root is refused.
    #[default]
    Named,
    /// As the other program names them. A function of a program that ran as root gets a user of its own.
    OwnForRoot,
}

/// The user of Debian and of others that owns nothing. fnd never gives its id to a function.
const NOBODY: [&str; 2] = ["nobody", "65534"];

impl ImportedUsers {
    /// Says whether the functions are for somebody's own fnd.
    #[must_use]
    pub fn is_caller(self) -> bool {
        self == Self::Caller
    }

    /// Takes over a user that the other program names.
    pub(crate) fn named(self, made: &mut MadeManifest, report: &mut ConversionReport, user: &str, field: &Field) {
        if self.is_caller() {
            return report.not_here(field, "functions of your own fnd run as you");
        }
        // Root is never taken over: only a person may write this into a manifest.
        if user == "root" || user == "0" {
            return self.root(report, field);
        }
        if NOBODY.contains(&user) {
            let note = "fnd runs no function as `nobody`: it has a user of its own, which has no more rights";
            return report.differs(field, "", note);
        }
        let note = format!(
            "fnd.toml must allow the user: `allow = [\"{user}\"]` in `[users]`; without `sandbox.user` it runs as a user of its own"
        );
        made.differs(report, ("sandbox.user", user), field, &note);
    }

    /// Reports a program that ran as root. The function gets a user of its own, and only its owner knows what would then fail.
    pub(crate) fn root(self, report: &mut ConversionReport, field: &Field) {
        const NOTE: &str = "root there, an own user here: what of this needs root?";
        const KEYS: &str = "`sandbox.user = \"root\"`, and `allow_root = true` in `[users]` of fnd.toml";
        match self {
            Self::Caller => {}
            Self::Named => report.refused(
                field,
                &format!(
                    "{NOTE} If nothing does, import it with `--own-user`; if something does, do that, and write {KEYS}"
                ),
            ),
            Self::OwnForRoot => report.differs(field, "", &format!("{NOTE} If something does, write {KEYS}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::foreign::FieldVerdict;

    #[test]
    fn root_is_refused_unless_an_own_user_is_asked_for() {
        let field = crate::text::ImportText::new("x", "User=root").whole("User=");
        for (users, user, verdict, becomes) in [
            (ImportedUsers::Named, "root", FieldVerdict::Refused, None),
            (ImportedUsers::Named, "0", FieldVerdict::Refused, None),
            (ImportedUsers::OwnForRoot, "root", FieldVerdict::Differs, None),
            (ImportedUsers::Named, "ada", FieldVerdict::Differs, Some("ada")),
            (ImportedUsers::Named, "nobody", FieldVerdict::Differs, None),
            (ImportedUsers::Caller, "nobody", FieldVerdict::NotHere, None),
            (ImportedUsers::OwnForRoot, "ada", FieldVerdict::Differs, Some("ada")),
            (ImportedUsers::Caller, "root", FieldVerdict::NotHere, None),
            (ImportedUsers::Caller, "ada", FieldVerdict::NotHere, None),
        ] {
            let mut made = MadeManifest::new("x");
            let mut report = ConversionReport::default();
            users.named(&mut made, &mut report, user, &field);
            assert_eq!(report.rows[0].verdict, verdict, "{users:?} {user}");
            let set = made.manifest.get("sandbox.user").and_then(toml::Value::as_str);
            assert_eq!(set, becomes, "{users:?} {user}");
        }
    }
}
