//! The scenarios, in the order in which they run: those that destroy more come later.
//!
//! Files:
//! - `beside`: what else runs programs with limits
//! - `doctor`: fndctl doctor
//! - `documents`: commands of the documents that need systemd
//! - `faults`: full disk, clock, cgroup version 1
//! - `first_minutes`: what a person does first
//! - `install`: the package
//! - `killing`: nothing outlives its end
//! - `limits`: enforced by cgroup v2
//! - `modes`: HTTP programs and services
//! - `packages`: packages that functions need, and code that is fetched
//! - `power`: reboots and power cuts
//! - `repository`: the signed repository
//! - `sandbox`: what a function can reach
//! - `schedules`: slots over a reboot and steps of the clock
//! - `service`: fnd under systemd
//! - `strangers`: secrets of functions, calls between them
//! - `takeover`: restart, crash, upgrade
//! - `teams`: each team has access to its functions only
//! - `users`: names of functions' users

mod beside;
mod doctor;
mod documents;
mod faults;
mod first_minutes;
mod install;
mod killing;
mod limits;
mod modes;
mod packages;
mod power;
mod repository;
mod sandbox;
mod schedules;
mod service;
mod strangers;
mod takeover;
mod teams;
mod users;

use crate::machine::VirtualMachine;

pub(crate) struct Scenario {
    /// The behaviour that it shows.
    pub(crate) name: &'static str,
    /// Whether it always runs, since the others need it.
    pub(crate) always: bool,
    /// The function that runs it; it panics on a failure.
    pub(crate) run: fn(&mut VirtualMachine),
}

/// All of them.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "install",
        always: true,
        run: install::package,
    },
    then("units: status line", install::status_line),
    then("units: hardening", install::hardening),
    then("units: profile of AppArmor", install::apparmor),
    then("doctor: fresh", doctor::fresh),
    then("doctor: broken", doctor::broken),
    then("first minutes: four languages", first_minutes::languages),
    then("first minutes: handlers", first_minutes::handlers),
    then("first minutes: once by being there", first_minutes::once_by_being_there),
    then("first minutes: who may", first_minutes::who_may),
    then("users: names", users::names),
    then("users: own fnd", users::own_fnd),
    then("teams: two teams", teams::two_teams),
    then("documents: commands", documents::commands),
    then("modes: http", modes::http),
    then("modes: services", modes::services),
    then("modes: beside systemd-run", beside::systemd_run),
    then("limits: read back", limits::read_back),
    then("limits: memory", limits::memory),
    then("limits: swap", limits::swap),
    then("limits: cpu", limits::cpu),
    then("limits: pids", limits::pids),
    then("limits: fork bomb", limits::fork_bomb),
    then("limits: io", limits::io),
    then("sandbox: layers", sandbox::layers),
    then("packages: installed", packages::installed),
    then("packages: fetched", packages::fetched),
    then("strangers: secrets", strangers::secrets),
    then("strangers: calls", strangers::calls),
    then("killing: timeout", killing::timeout),
    then("killing: spawner killed", killing::spawner_killed),
    then("killing: stop", killing::stop),
    then("service: reload", service::reload),
    then("service: typing mistake", service::typing_mistake),
    then("service: journal", service::journal),
    then("service: socket", service::socket),
    then("service: public listener", service::listener),
    then("takeover: restarts and kills", takeover::restarts_and_kills),
    then("takeover: upgrade", takeover::upgrade),
    then("takeover: newer state", takeover::newer_state),
    then(
        "repository: install, upgrade and a change of keys",
        repository::repository,
    ),
    then("service: watchdog", service::watchdog),
    then("service: journal stopped", service::journal_stopped),
    then("faults: disk full", faults::disk_full),
    then("faults: clock", faults::clock),
    then("schedules: clock, reboot and suspend", schedules::clock_and_reboot),
    then("power: reboot", power::reboot),
    then("power: cut", power::cut),
    then("faults: cgroup version 1", faults::hybrid),
];

/// Names of the scenarios that always run: files become functions, limits, the sandbox, the end of the spawner, the socket's rights,
/// and a boot.
pub(crate) const CORE: [&str; 6] = [
    "sandbox: layers",
    "first minutes: four languages",
    "limits: read back",
    "killing: spawner killed",
    "service: socket",
    "power: reboot",
];

const fn then(name: &'static str, run: fn(&mut VirtualMachine)) -> Scenario {
    Scenario {
        name,
        always: false,
        run,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_core_scenarios_exist() {
        for name in super::CORE {
            assert!(super::ALL.iter().any(|scenario| scenario.name == name), "{name}");
        }
    }
}
