//! People change which release gets calls: they go back, pin a release, give one a share of the calls, promote it, or stop it.

use super::all_releases::AwaitedRelease;
use super::order::{CallerNumber, Order};
use super::release::{CanaryRules, HoldKind, NoRelease, NotHeld, ReleaseState, Releases, short};
use super::{Lifecycle, Running};
use fnd_wire::ids::{FunctionName, Version};

/// A change of which release gets calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseChange {
    /// Holds a release, by the beginning of its hash; without it, a rollback goes to the release before, and a pin holds the
    /// one that serves.
    Hold(HoldKind, Option<String>),
    /// Ends the hold. Then the file is installed, unless it serves.
    EndHold,
    /// Gives the release that waits this share of the calls in percent, or changes the share of the canary.
    Canary(u32),
    /// Lets the canary serve.
    Promote,
    /// Takes the calls from the canary.
    StopCanary,
}

/// A change that a person asks for, with the facts that it depends on.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseRequest<'c> {
    /// The change that the person asks for.
    pub change: &'c ReleaseChange,
    /// The versions that the supervisor has besides the one that serves.
    pub running: Running,
    /// The time, Unix milliseconds.
    pub now_ms: u64,
    /// Whether the running spawner is that of fnd 0.1, which cannot install copies.
    pub is_spawner_of_0_1: bool,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeResult {
    /// The change is done: the release that it is about, and the state of that release.
    Done(Option<Version>, ReleaseState),
    /// The release is being installed and perhaps tried, and the caller is answered after that; the state is the one that the
    /// release has then.
    Asked(Version, ReleaseState),
}

impl Lifecycle {
    /// Returns the releases of a function that exists.
    ///
    /// # Errors
    /// [`NoRelease::None`] if the function has none.
    pub fn releases_of(&self, function: &FunctionName) -> Result<&Releases, NotHeld> {
        self.releases.get(function).ok_or_else(|| NoRelease::None.into())
    }

    /// Returns what a change will make of the releases of a function, as JSON.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn planned(&self, function: &FunctionName, change: ReleaseRequest<'_>) -> Result<String, NotHeld> {
        let mut releases = self.releases_of(function)?.clone();
        apply(&mut releases, change)?;
        // Releases consist of texts and numbers, so this cannot fail.
        Ok(serde_json::to_string(&releases).unwrap_or_default())
    }

    /// Makes a change. `caller` is answered later if the result is [`ChangeResult::Asked`].
    ///
    /// # Errors
    /// Why it cannot be made; then nothing is changed.
    pub fn change(
        &mut self,
        function: &FunctionName,
        change: ReleaseRequest<'_>,
        caller: CallerNumber,
        out: &mut Vec<Order>,
    ) -> Result<ChangeResult, NotHeld> {
        let has_canary = self.releases_of(function)?.canary().is_some();
        let about = self.releases.change(function, |releases| apply(releases, change))?;
        if matches!(change.change, ReleaseChange::Hold(..)) {
            // Somebody who waits for another release is answered: this one is asked for in its place.
            let replaced = Err("another release was asked for meanwhile".to_owned());
            self.releases.answer(function, &replaced, out);
        }
        let is_live = about.is_some() && self.live(function) == about;
        let (awaited, state) = match change.change {
            ReleaseChange::Hold(..) => {
                // The hold has ended the canary, which the supervisor still has.
                if has_canary {
                    out.push(Order::FollowCanary(function.clone()));
                }
                if is_live && change.running.trial.is_none() {
                    return Ok(ChangeResult::Done(about, ReleaseState::Serving));
                }
                // If the held release serves already, installing it again ends the trial of the other version, which could
                // replace it.
                (AwaitedRelease::Held, ReleaseState::Serving)
            }
            ReleaseChange::EndHold => {
                self.after_hold(function, change.running);
                out.push(Order::Settle);
                out.push(Order::Status(function.clone()));
                return Ok(ChangeResult::Done(self.live(function), ReleaseState::Serving));
            }
            ReleaseChange::Canary(_) => (AwaitedRelease::Canary, ReleaseState::Canary),
            // A promotion installs the stored copy like any other release, so that routes, schedules and sockets follow by the
            // one way. The supervisor finds the version among its canaries and keeps the workers.
            ReleaseChange::Promote => (AwaitedRelease::Promoted, ReleaseState::Serving),
            ReleaseChange::StopCanary => {
                let stopped = Err("its canary was stopped".to_owned());
                self.releases.answer(function, &stopped, out);
                out.push(Order::FollowCanary(function.clone()));
                return Ok(ChangeResult::Done(about, ReleaseState::Waiting));
            }
        };
        let version = about.ok_or(NoRelease::None)?;
        self.releases.wait(function, awaited, caller);
        self.enqueue_copy(function, Some(version));
        out.push(Order::Settle);
        Ok(ChangeResult::Asked(version, state))
    }

    /// Queues what serves after the end of a hold: the file, or the release that serves while another one is on trial.
    fn after_hold(&mut self, function: &FunctionName, running: Running) {
        let Some(releases) = self.releases.get(function) else {
            return;
        };
        let serving = releases.serving();
        if releases.wants_file() {
            self.enqueue_file(function);
        } else if let Some((_, false)) = running.trial {
            // Nothing holds the release on trial any more. Installing the release that serves ends the trial.
            self.enqueue_copy(function, serving);
        }
    }
}

/// Applies a change to the releases of a function. Returns the release that it is about. If the change cannot be made, the releases
/// stay as they are.
fn apply(releases: &mut Releases, change: ReleaseRequest<'_>) -> Result<Option<Version>, NotHeld> {
    let begins = matches!(change.change, ReleaseChange::Hold(..) | ReleaseChange::Canary(_));
    if begins && change.is_spawner_of_0_1 {
        return Err(NotHeld::OldSpawner);
    }
    let about = match change.change {
        ReleaseChange::Hold(kind, name) => {
            let version = held_version(releases, *kind, name.as_deref())?;
            let is_tried = change.running.trial.is_some();
            releases.hold_release(change.now_ms, *kind, (version, is_tried));
            Ok(version)
        }
        ReleaseChange::EndHold if releases.end_hold() => return Ok(None),
        ReleaseChange::EndHold => return Err(NotHeld::NothingHeld),
        // Its own manifest says when it is promoted; that is read when its copy is installed.
        ReleaseChange::Canary(percent) => releases.try_canary(CanaryRules {
            percent: *percent,
            promote_after_ms: None,
            max_failures: 0,
        }),
        ReleaseChange::Promote => releases.promote(change.now_ms),
        ReleaseChange::StopCanary => releases.end_canary(change.now_ms, None),
    };
    Ok(Some(about?))
}

/// Returns the release that a person holds. `name` is the beginning of its hash.
fn held_version(releases: &Releases, kind: HoldKind, name: Option<&str>) -> Result<Version, NotHeld> {
    let chosen = match (name, kind) {
        (Some(name), _) => releases.named(name),
        (None, HoldKind::Rollback) => releases.one_before(),
        (None, HoldKind::Pin) => releases.current(),
    };
    let version = chosen?.version;
    // A rollback to the release that serves has an effect only while a newer release is on trial or is tried again.
    if releases.is_live(version) && kind == HoldKind::Rollback && !releases.wants_file() {
        return Err(NotHeld::Serves(short(version)));
    }
    Ok(version)
}
