//! A day in the life of a nightly function, as its owner sees it with fndctl: its run is missed while fnd is off, is
//! caught up, fails, is retried, and somebody is told. The file is mended, the run is repeated, and the owner is told that
//! all is well. The next night it runs by itself. With `--nocapture` the test prints the commands and their output.

use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use nix::sys::signal::Signal;

const PAGE: &str = "# /// fnd\n# on_load = false\n# ///\ncat\n";

/// `CRON` is replaced. `pg_dmup` is the mistake.
const NIGHTLY: &str = "# /// fnd
# [[schedule]]
# cron = \"CRON\"
# timezone = \"UTC\"
# catch_up = \"12h\"
# [retry]
# retries = 1
# interval = \"50ms\"
# [alert]
# call = \"page\"
# ///
pg_dump() { echo \"dumped $1 for $FND_SCHEDULED_AT\"; }
pg_dmup shop
";

/// The owner at a terminal.
struct Owner<'a>(&'a Fnd);

impl Owner<'_> {
    /// Runs fndctl and checks that its output has these texts, in this order. Returns the output.
    #[track_caller]
    fn sees(&self, arguments: &[&str], code: i32, texts: &[&str]) -> String {
        let run = self.0.ctl(arguments).expect_code(code);
        let out = run.out();
        say(&format!("$ fndctl {}\n{}{}", arguments.join(" "), out, run.stderr));
        let mut rest = out.as_str();
        for text in texts {
            let at = rest.find(text);
            let at =
                at.unwrap_or_else(|| panic!("`{text}` does not follow in `fndctl {}`: {run}", arguments.join(" ")));
            rest = &rest[at + text.len()..];
        }
        out
    }

    /// Waits until so many alerts have come.
    #[track_caller]
    fn is_told(&self, count: usize) {
        wait_until(&format!("{count} alerts"), PATIENCE, || {
            let ended = self.0.history("page");
            let ended = ended.iter().filter(|view| view.state == RunState::Succeeded);
            (ended.count() >= count).then_some(())
        });
    }
}

#[test]
fn a_nightly_function_is_missed_caught_up_fails_alerts_is_mended_and_recovers() {
    // The morning is now; the function was due five hours ago, and was saved three hours before that.
    let directory = tempfile::tempdir().unwrap();
    let clock = directory.path().join("clock");
    let it_is = |hours: i64| {
        let new = directory.path().join("new");
        std::fs::write(&new, (hours * 3_600_000).to_string()).unwrap();
        std::fs::rename(new, &clock).unwrap();
    };
    let due = Timestamp::now() - 5.hours();
    let cron = due.to_zoned(TimeZone::UTC).strftime("%-M %-H * * *").to_string();
    let slot = due.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:00").to_string();

    say("# In the evening the function is saved, and the machine is switched off.");
    it_is(-8);
    let environment = vec![("FND_TEST_CLOCK".to_owned(), clock.display().to_string())];
    let setup = Setup {
        environment,
        ..Setup::default().detached()
    };
    let mut fnd = Fnd::start_with(&setup);
    fnd.drop_file("page.sh", PAGE);
    let nightly = NIGHTLY.replace("CRON", &cron);
    fnd.drop_file("nightly.sh", &nightly);
    fnd.wait_ready("page");
    fnd.wait_ready("nightly");
    Owner(&fnd).sees(&["schedules", "-o", "json"], 0, &[&slot]);
    fnd.leave(Signal::SIGTERM);

    say("# In the morning the machine is on again.");
    it_is(0);
    fnd.launch();
    let owner = Owner(&fnd);
    owner.is_told(1);
    let payload = [".alert", ".function", ".message", ".output"].join(", ");
    let told = ["result", "--last", "page", "--jq", &payload];
    owner.sees(
        &told,
        0,
        &[
            "failed\nnightly\n",
            "pg_dmup: command not found\n",
            "pg_dmup: command not found",
        ],
    );
    owner.sees(&["status"], 0, &["nightly", "nightly: alert `failed`"]);
    owner.sees(
        &["schedules"],
        0,
        &["nightly", &cron, "UTC", "in 18h", "exit-127", "ago", "active"],
    );
    owner.sees(&["history", "nightly"], 0, &["nightly", "failed", "exit-127"]);
    let run = fnd.history("nightly")[0].clone();
    let id = run.id.to_string();
    owner.sees(
        &["history", "--id", &id],
        0,
        &["failed", "exit-127", "schedule", &slot, "exit-127", "exit-127"],
    );
    assert_eq!((run.state, run.attempts), (RunState::Failed, 2), "{run:?}");
    owner.sees(
        &["logs", "nightly", "--id", &id],
        0,
        &["pg_dmup: command not found", "pg_dmup: command not found"],
    );

    say("# The file is mended, and the run is repeated.");
    let before = fnd.wait_ready("nightly").version;
    fnd.drop_file("nightly.sh", &nightly.replace("pg_dmup", "pg_dump"));
    let _ = fnd.wait_function("nightly", "it is mended", |now| now.version != before);
    owner.sees(&["replay", &id], 0, &[]);
    owner.is_told(2);
    owner.sees(
        &told,
        0,
        &["recovered\nnightly\nit works again after ", "; it was `failed`\n"],
    );
    owner.sees(
        &["history", "nightly"],
        0,
        &["nightly", "succeeded", "ok", "nightly", "failed", "exit-127"],
    );
    let dumped = format!("dumped shop for {slot}");
    owner.sees(&["result", "--last", "nightly"], 0, &[&dumped]);
    assert_eq!(fnd.status().dead_letters, 0, "the next night brings the same run");

    say("# The next night it runs by itself, and nobody is called.");
    it_is(20);
    wait_until("the next run", PATIENCE, || {
        let runs = fnd.history("nightly");
        (runs.len() == 3 && runs[0].state == RunState::Succeeded).then_some(())
    });
    owner.sees(&["schedules"], 0, &["nightly", &cron, "ok", "active"]);
    owner.sees(&["history", "nightly", "-o", "name"], 0, &[&id]);
    assert!(!owner.sees(&["status"], 0, &["nightly"]).contains("alert `"));
    assert_eq!(fnd.history("page").len(), 2);
    fnd.finish();
}

/// Prints the transcript.
#[expect(clippy::print_stdout, reason = "the transcript is for documents and reviews")]
fn say(what: &str) {
    println!("{what}");
}
