//! Options that clap makes only for the verb that is called. To make those of all verbs takes a third of the instructions of
//! `fndctl invoke`.

use crate::COMPLETE;
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::ops::Deref;

/// The options of a verb, as clap parsed them.
#[derive(Debug)]
pub(crate) struct Lazy<T>(pub(crate) T);

/// Adds the options of a verb. The texts of the verb stay, as they do where the options are there from the beginning.
fn options<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    let after = command.get_after_help().cloned();
    let mut command = T::augment_args(command);
    if let Some(about) = about {
        command = command.long_about(None).about(about);
    }
    if let Some(after) = after {
        command = command.after_help(after);
    }
    command
}

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: Command) -> Command {
        // Shells show words in the order that clap has them. Options that are made later come after those of all verbs.
        if std::env::var_os(COMPLETE).is_some() {
            options::<T>(command)
        } else {
            command.defer(options::<T>)
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
