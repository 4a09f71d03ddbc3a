//! Code that cannot be loaded: the call and the function report why, until the code is corrected.

use super::{ask, reason};
use fnd_tests::ask::word;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};

#[test]
fn code_that_cannot_be_loaded_is_reported_and_can_be_corrected() {
    let fnd = Fnd::start();
    fnd.drop_file(
        "broken.py",
        "import no_such_module\ndef handler(event, context): return 1\n",
    );
    fnd.wait_ready("broken");
    let (answer, view) = fnd.run("broken", "");
    assert!(answer.status.is_server_error(), "{}", answer.status);
    assert_eq!(reason(&view), "load");
    assert!(view.message.contains("no_such_module"), "{}", view.message);
    wait_until("the stack to be in fnd's log", PATIENCE, || {
        fnd.log().contains("ModuleNotFoundError").then_some(())
    });

    // Each call is a start that fails; after five the function is `crash-looping` and is not started for a while.
    for _ in 0..8 {
        if fnd
            .function("broken")
            .is_some_and(|function| word(&function.state) == "crash-looping")
        {
            break;
        }
        let _ = fnd.invoke("broken", "");
    }
    let looping = fnd.wait_function("broken", "to be crash-looping", |function| {
        function.state.as_str() == "crash-looping"
    });
    let shown = fnd.ctl(&["status", "broken"]).expect_code(0);
    assert!(shown.out().contains("crash-looping"), "{shown}");

    fnd.drop_file("broken.py", "def handler(event, context): return 2\n");
    let _ = fnd.wait_function("broken", "to be mended", |function| {
        function.version != looping.version && function.state.as_str() == "ready"
    });
    assert_eq!(ask(&fnd, "broken", ""), 2);
    let mended = fnd.function("broken").unwrap();
    assert_eq!((mended.error, mended.state.as_str()), (None, "ready"));
    fnd.finish();
}
