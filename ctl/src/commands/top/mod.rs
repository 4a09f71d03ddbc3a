//! `fndctl top`: what functions use, live.
//!
//! Files:
//! - `rates`: the differences of two readings
//! - `view`: what is drawn, and what keys mean

mod rates;
mod view;

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Screen};
use crate::text::optional_span;
use fnd_core::api::UsageList;
use rates::{RatesOrder, UsageRates};
use std::time::Duration;
use tokio::time::Instant;
use view::TopView;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "CPU is of one CPU: 150% is one and a half. THROTTLED is the share of the time slices in which `limits.cpu` held the \
    function up. PIDS are processes and threads. A value that is not known, as where nothing runs, is `-`.\n\n\
    Keys: c m r n sort by CPU, memory, runs a second, name; arrows and Enter show a function; ? help; q ends.\n\nExamples:\n  \
    fndctl top\n  \
    fndctl top --sort memory --interval 5s\n  \
    fndctl top -b | head                     one reading, as a table\n  \
    fndctl top --jq '.functions[] | select(.throttled_percent > 10).function'"
)]
pub(crate) struct Args {
    /// Print one reading and end, as without a terminal.
    #[arg(short, long)]
    batch: bool,

    /// The time between two readings [default: 2s; 1s for one reading].
    #[arg(long, value_name = "DURATION")]
    interval: Option<String>,

    /// The order of the functions.
    #[arg(long, value_name = "KEY", value_enum, default_value_t = RatesOrder::Cpu)]
    sort: RatesOrder,
}

/// The interval on a terminal.
const LIVE: Duration = Duration::from_secs(2);
/// The interval of one reading.
const ONCE: Duration = Duration::from_secs(1);
/// The shortest interval on a terminal: a reading of ten thousand functions takes a part of it.
const SHORTEST: Duration = Duration::from_millis(100);

/// # Errors
/// The daemon does not answer at the beginning, or the terminal cannot be used.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let interval = optional_span("--interval", args.interval.as_deref())?;
    let before = read(context).await?;
    // A pipe and a document get one reading, so that a program can read them to their end.
    let live = !args.batch && context.out.is_terminal() && matches!(context.out.format, Format::Table | Format::Wide);
    if live {
        watch(context, args.sort, interval.unwrap_or(LIVE).max(SHORTEST), before).await?;
        return Ok(Exit::Fine);
    }
    // A rate needs a time to pass: nothing else is waited for.
    tokio::time::sleep(interval.unwrap_or(ONCE)).await;
    let rates = UsageRates::between(&before, &read(context).await?, args.sort);
    context.made(&rates, |out| out.table(&view::table(&rates)))
}

async fn read(context: &Context) -> Result<UsageList, CommandFailure> {
    context.read("/v1/usage").await
}

/// Shows readings until somebody ends it. fnd may restart meanwhile.
async fn watch(
    context: &Context,
    order: RatesOrder,
    interval: Duration,
    mut before: UsageList,
) -> Result<(), CommandFailure> {
    let screen = Screen::open()?;
    let mut view = TopView::new(order);
    let mut rates = UsageRates::between(&before, &before, order);
    // The first rates come soon.
    let mut next = Instant::now() + SHORTEST.max(interval / 4);
    loop {
        let (columns, rows) = screen.size();
        screen.draw(&view.lines(&rates, columns, rows))?;
        // Waiting for a key blocks the thread. No other task needs it meanwhile.
        match screen.key(next.saturating_duration_since(Instant::now()))? {
            Some(key) if view.press(key, &mut rates) => continue,
            Some(_) => return Ok(()),
            None => {}
        }
        // The interval begins before the request, so a slow answer does not make it longer.
        next = Instant::now() + interval;
        match read(context).await {
            Ok(now) => {
                rates = UsageRates::between(&before, &now, view.order);
                (before, view.failure) = (now, None);
            }
            Err(failure) => view.failure = Some(failure.message),
        }
    }
}
