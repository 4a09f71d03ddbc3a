//! The calls of `pinned` on a machine whose caches are poor, as where many virtual machines share them: before each call a
//! neighbour on the same CPU walks through more memory than the caches hold. So such a machine is seen on any machine.

use crate::handlers::{FIRST, WARM};
use crate::load::{in_turns_after, timed};
use crate::pinned::on_one_cpu;
use crate::table::{Table, Times};
use std::hint::black_box;

/// Bytes that the neighbour walks through.
const MEMORY: usize = 64 << 20;

/// Bytes that a cache takes at once.
const LINE: usize = 64;

/// Measures the handlers of all languages: as they are, and with the neighbour.
pub(crate) fn measure(rounds: usize, table: &mut Table) {
    let mut neighbour = Neighbour(vec![0; MEMORY]);
    on_one_cpu(|language, actions| {
        let quiet = in_turns_after(FIRST, rounds * WARM, actions);
        let poor = neighbour.before_each(rounds, actions);
        rows(language.id, quiet, poor, table);
    });
}

fn rows(id: &str, quiet: Vec<Times>, poor: Vec<Times>, table: &mut Table) {
    let [quiet, poor] = [quiet, poor].map(|times| <[_; 3]>::try_from(times).expect("each action has its times"));
    let ([_, quiet_relay, _], [_, poor_relay, _]) = (&quiet, &poor);
    for (what, (quiet, poor)) in ["shim", "three plain programs", "fnd, warm"]
        .into_iter()
        .zip(quiet.iter().zip(&poor))
    {
        table.times(&format!("{id}: {what}, quiet"), quiet, quiet_relay);
        table.times(&format!("{id}: {what}, poor"), poor, poor_relay);
        table.times(&format!("{id}: {what}, poor beside quiet"), poor, quiet);
    }
}

/// The memory of the neighbour.
struct Neighbour(Vec<u8>);

impl Neighbour {
    /// Does each of some actions `rounds` times, each after a walk, whose time does not count.
    fn before_each(&mut self, rounds: usize, actions: &mut [Box<dyn FnMut() + '_>]) -> Vec<Times> {
        let mut times = vec![Vec::new(); actions.len()];
        for _ in 0..rounds {
            for (action, times) in actions.iter_mut().zip(&mut times) {
                self.walk();
                times.push(timed(action));
            }
        }
        times.into_iter().map(Times::new).collect()
    }

    /// Writes, since untouched pages are all the same page of zeros, and a changed line has to leave the cache too.
    fn walk(&mut self) {
        for byte in self.0.iter_mut().step_by(LINE) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&mut self.0);
    }
}
