//! A script: it prints, writes its result, and ends.

use super::WorkerTurn;
use super::deeds::{Deed, Deeds, takes};
use crate::simulate::spawner::contents::{Manner, SourceContent};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::Version;

/// Plans everything that a script does.
pub(super) fn plan(version: Version, deeds: &mut Deeds, turn: &mut WorkerTurn<'_>) {
    let temper = turn.temper;
    let random = &mut *turn.random;
    let mut at = turn.now;
    for number in 0..random.u8(0..3) {
        at += takes(random, temper);
        let line = format!("line {number}\n");
        let deed = if random.bool() {
            Deed::Print(line)
        } else {
            Deed::PrintError(line)
        };
        deeds.plan(at, deed);
    }
    at += takes(random, temper);
    let is_polled = SourceContent::of(version).manner() == Manner::Polled;
    let deed = match random.u8(0..100) {
        0..4 if temper.dies => Deed::RunOutOfMemory,
        4..8 if temper.dies => Deed::Exit(ExitStatus::Signal(if random.bool() { 9 } else { 11 })),
        // This script never ends by itself.
        8..10 if temper.slow => return,
        10..20 => Deed::Exit(ExitStatus::Code(1)),
        20..26 => Deed::Exit(ExitStatus::Code(75)),
        26..29 => Deed::Exit(ExitStatus::Code(65)),
        29..60 if is_polled => Deed::Exit(ExitStatus::Code(99)),
        _ => Deed::Exit(ExitStatus::Code(0)),
    };
    if random.u8(0..4) > 0 {
        // JSON, text, or a part of JSON: fnd takes all of them.
        let results = [&b"{\"n\":1}"[..], b"done", b"{\"n\":"];
        let result = results[random.usize(0..results.len())];
        deeds.plan(at, Deed::WriteResult(result.to_vec()));
    }
    deeds.plan(at, deed);
}
