//! Scenes: faults that are aimed at messages. A fault at any time seldom meets a claim that is on its way, or an attempt that
//! outlasts a lease. Each scene begins shortly after a message was published, and lasts for longer than the lease.

use super::faults::ClusterFault;
use fastrand::Rng;

/// How long a scene takes at most, in milliseconds.
const LONGEST_MS: u64 = 60_000;
/// A machine stays away for so long: longer than another node waits for `f8`.
const AWAY_MS: (u64, u64) = (14_000, 45_000);
/// How late answers are at most. A lease of `f8` outlasts them; if it counted from them, an attempt would outlast the wait of the
/// others.
const LATE_MS: (u64, u64) = (3_000, 4_400);

/// Draws the faults of a few scenes for these machines and messages.
pub(super) fn aimed(
    random: &mut Rng,
    machines: usize,
    (messages, lasts_ms): (&[(u64, usize, u32)], u64),
) -> Vec<(u64, ClusterFault)> {
    let in_time = |at_ms: &u64| at_ms.saturating_add(LONGEST_MS) <= lasts_ms;
    let times: Vec<u64> = messages.iter().map(|(at_ms, ..)| *at_ms).filter(in_time).collect();
    let mut faults = Vec::new();
    for _ in 0..random.u8(1..=3) {
        if let Some(at_ms) = random.choice(&times) {
            let machine = random.usize(..machines);
            faults.extend(scene(random, machine, *at_ms));
        }
    }
    faults
}

/// Draws a scene that begins shortly after this time.
fn scene(random: &mut Rng, machine: usize, at_ms: u64) -> Vec<(u64, ClusterFault)> {
    // A claim is on its way for milliseconds, a worker starts for a second, and an attempt runs for many.
    let within = [60, 400, 3_000][random.usize(..3)];
    let begins_ms = at_ms + random.u64(0..within);
    let ends_ms = begins_ms + random.u64(AWAY_MS.0..AWAY_MS.1);
    let away = |fault, end| vec![(begins_ms, fault), (ends_ms, end)];
    match random.u8(0..8) {
        0..3 => away(ClusterFault::Stop(machine), ClusterFault::Continue(machine)),
        3 => away(ClusterFault::Cut(machine), ClusterFault::Join(machine)),
        4 => away(ClusterFault::Down(machine), ClusterFault::Up(machine)),
        5 => vec![(begins_ms, ClusterFault::ServerClock(random.i64(14_000..70_000)))],
        _ => late_then_cut(random, machine, begins_ms),
    }
}

/// Answers come late, and then the server hears nothing more of the machine, which still gets the answers that are on their way.
fn late_then_cut(random: &mut Rng, machine: usize, begins_ms: u64) -> Vec<(u64, ClusterFault)> {
    // Attempts have begun by then, and renewals were answered late.
    let late_ms = begins_ms + random.u64(500..2_000);
    let cut_ms = late_ms + random.u64(5_000..9_000);
    let ends_ms = cut_ms + random.u64(AWAY_MS.0..AWAY_MS.1);
    vec![
        (
            late_ms,
            ClusterFault::LateAnswers(machine, random.u64(LATE_MS.0..LATE_MS.1)),
        ),
        (cut_ms, ClusterFault::CutToServer(machine)),
        (ends_ms, ClusterFault::Join(machine)),
        (ends_ms, ClusterFault::Fast(machine)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_begins_with_a_message_and_everything_that_it_breaks_is_mended() {
        let mut random = Rng::with_seed(1);
        for _ in 0..200 {
            let faults = scene(&mut random, 1, 20_000);
            let first = faults.iter().map(|(at_ms, _)| *at_ms).min();
            assert!(
                first.is_some_and(|at_ms| (20_000..25_000).contains(&at_ms)),
                "{faults:?}"
            );
            let mends = |wanted: ClusterFault| faults.iter().any(|(_, fault)| *fault == wanted);
            for (_, fault) in &faults {
                let is_mended = match fault {
                    ClusterFault::Stop(machine) => mends(ClusterFault::Continue(*machine)),
                    ClusterFault::Down(machine) => mends(ClusterFault::Up(*machine)),
                    ClusterFault::Cut(machine) | ClusterFault::CutToServer(machine) => {
                        mends(ClusterFault::Join(*machine))
                    }
                    ClusterFault::LateAnswers(machine, _) => mends(ClusterFault::Fast(*machine)),
                    _ => true,
                };
                assert!(is_mended, "{faults:?}");
            }
        }
    }

    #[test]
    fn messages_that_come_too_late_for_a_scene_have_none() {
        let mut random = Rng::with_seed(1);
        assert_eq!(aimed(&mut random, 2, (&[(90_000, 0, 1)], 100_000)), []);
        assert!(!aimed(&mut random, 2, (&[(30_000, 0, 1)], 100_000)).is_empty());
    }
}
