//! Finds the homes that a function does not use any more, since its files belong to another owner than before.

use crate::places::Places;
use crate::policy::problem;
use crate::uids::{UidOwner, Uids};
use fnd_wire::frame::{Problem, SET_ASIDE};
use fnd_wire::ids::FunctionName;
use std::fs;

/// Returns a warning for each home of a function that has files, and that belongs to another user of the function.
pub fn set_aside(
    (function, uid): (&FunctionName, u32),
    owner: Option<&UidOwner>,
    (uids, places): (&Uids, &Places),
    shown: &str,
) -> Vec<Problem> {
    let others = uids.others(function, uid);
    let warning = |(other, before, apart): (u32, Option<&UidOwner>, bool)| {
        let home = places.of_user(&function.file_form(), apart.then_some(other)).home;
        // Only root can rename what is in the directory of all homes, so this is that user's own directory.
        fs::read_dir(&home).ok()?.next()?.ok()?;
        let of = |owner: Option<&UidOwner>| owner.map_or_else(|| "somebody else".to_owned(), ToString::to_string);
        let message = format!(
            "its files belong to {} and belonged to {} before, so it has a home of its own (user {uid}); \
             {SET_ASIDE}: `{}`",
            of(owner),
            of(before),
            home.display()
        );
        let help =
            format!("run `fndctl home {function} --take {other}` if it may have these files, otherwise remove them");
        Some(problem(shown, message, help))
    };
    others.filter_map(warning).collect()
}
