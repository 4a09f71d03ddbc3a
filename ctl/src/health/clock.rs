//! Checks whether the clock is synchronised: schedules, signatures and `history --since` use it; timeouts do not.

use super::finding::Finding;
use std::mem::MaybeUninit;

const CHECK: &str = "clock";

/// Returns whether the clock is synchronised (adjtimex(2): `STA_UNSYNC`); nothing where the kernel gives no answer.
#[expect(unsafe_code, reason = "neither nix nor rustix has adjtimex")]
pub(crate) fn inspect() -> Option<bool> {
    let mut timex = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: `timex` has room for the result and is zeroed, so `modes` is 0: the call only reads (adjtimex(2)).
    if unsafe { libc::adjtimex(timex.as_mut_ptr()) } < 0 {
        return None;
    }
    // SAFETY: numbers only, for which all bits zero are valid; the call has filled them.
    let timex = unsafe { timex.assume_init() };
    Some(timex.status & libc::STA_UNSYNC == 0)
}

pub(crate) fn judge(synchronised: Option<bool>) -> Vec<Finding> {
    vec![match synchronised {
        Some(true) => Finding::ok(CHECK, "the clock is synchronised"),
        Some(false) => Finding::warning(CHECK, "nothing synchronises the clock of this machine")
            .fix("sudo apt install systemd-timesyncd && sudo timedatectl set-ntp true (or another NTP client)"),
        None => Finding::unknown(CHECK, "the kernel does not say whether the clock is synchronised").fix("timedatectl"),
    }]
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    #[test]
    fn synchronised_or_not() {
        for (synchronised, expected) in [(Some(true), "ok"), (Some(false), "warning"), (None, "unknown")] {
            assert!(brief(&judge(synchronised))[0].starts_with(expected));
        }
    }

    #[test]
    fn this_machine_says_something() {
        assert!(inspect().is_some());
    }
}
