//! `fndctl wait`: how runs ended, and its exit code.

use crate::fake::{ENDED, FAILED, RUNNING, Running, UNKNOWN};
use crate::run;

#[test]
fn wait_prints_how_a_run_ended_and_ends_as_it_did() {
    let server = Running::start();
    for (typed, code, expected) in [
        (&[ENDED][..], 0, "89abcdef hello succeeded after 113ms\n"),
        (&["89abcdef"], 0, "89abcdef hello succeeded after 113ms\n"),
        (&["hello"], 0, "89abcdef hello succeeded after 113ms\n"),
        (
            &["fa11"],
            1,
            "0000fa11 fails failed after 113ms: exit-3: no such host\n",
        ),
        (
            &["hello", FAILED],
            1,
            "89abcdef hello succeeded after 113ms\n0000fa11 fails failed after 113ms: exit-3: no such host\n",
        ),
        (&[ENDED, "-q"], 0, ""),
        (
            &["hello", "fa11", "--jq", ".invocations[].state"],
            1,
            "succeeded\nfailed\n",
        ),
        (&["hello", "--jq", ".state"], 0, "succeeded\n"),
    ] {
        let (found, out, errors) = run(&server, &[&["wait"], typed].concat());
        assert_eq!((found, out.as_str()), (code, expected), "{typed:?}: {errors}");
        assert_eq!(errors, "");
    }
}

#[test]
fn a_wait_that_is_over_is_no_end_of_the_run() {
    let server = Running::start();
    for (typed, expected, words) in [
        (&[RUNNING, "--timeout", "10ms"][..], 6, "has not ended: it is running"),
        (&[RUNNING, ENDED, "--timeout", "0"], 6, "fndctl cancel 0000face"),
        (&[UNKNOWN], 3, "there is no invocation"),
        (&["helo"], 3, "did you mean `hello`?"),
        (&["void"], 3, "the history has no run of a function `void`"),
        (&["Hello"], 2, "Hello"),
        (&["hello", "--timeout", "soon"], 2, "soon"),
        (&[], 2, "<ID|FUNCTION>"),
    ] {
        let (code, out, errors) = run(&server, &[&["wait"], typed].concat());
        assert_eq!((code, out.as_str()), (expected, ""), "{typed:?}: {errors}");
        assert!(errors.contains(words), "{typed:?}: {errors}");
    }
}
