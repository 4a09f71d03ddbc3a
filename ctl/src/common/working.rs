//! Says what is being waited for, if that takes more than a second.

use crate::context::Context;
use std::pin::pin;
use std::time::Duration;

/// Work that takes less is not reported.
const SOON: Duration = Duration::from_secs(1);

/// Does work. While it lasts, `about` is asked each second what to say; an empty text changes nothing.
pub(crate) async fn while_working<T>(
    context: &Context,
    work: impl Future<Output = T>,
    mut about: impl AsyncFnMut() -> String,
) -> T {
    let mut work = pin!(work);
    if !context.out.reports() {
        return work.await;
    }
    let mut progress = context.out.counter();
    loop {
        tokio::select! {
            // Cancel-safe: polled in place.
            done = &mut work => return done,
            // Cancel-safe: a sleep has no state. Time itself is shown, so nothing else is waited for.
            () = tokio::time::sleep(SOON) => {}
        }
        let text = about().await;
        if !text.is_empty() {
            progress.say(&text);
        }
    }
}
