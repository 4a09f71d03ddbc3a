//! `fnd-web`, the page of one person: it shows functions and their runs in a browser. `fndctl web` starts it with the rights
//! of its caller. It has no rights and no checks of its own: each request becomes a call of the control socket. It keeps no data.
//!
//! ```text
//! browser ─▶ server ─▶ guard ─▶ session ─▶ pages ─▶ api ─▶ control.sock
//!                        │ another host, another site, no session: refused
//! ```
//!
//! Files:
//! - `answer`: status, headers and bodies of answers
//! - `api`: calls of the control API
//! - `assets`: style and scripts
//! - `bin`: `main` of fnd-web
//! - `cli`: the command line
//! - `confine`: the rights that the program gives up
//! - `fuzzing`: what the fuzzer may call
//! - `guard`: which requests are answered, and the headers of every answer
//! - `http`: requests and answers, as pages see them
//! - `idle`: the end after a time without a request
//! - `listen`: the socket or the port
//! - `notice`: documents of the server itself: to sign in, failures
//! - `pages`: the pages
//! - `parts`: what several pages share
//! - `server`: connections, and the way from a request to its answer
//! - `session`: the token and the cookie
//! - `stream`: answers that follow events and output

mod answer;
mod api;
mod assets;
mod cli;
mod confine;
#[cfg(fuzzing)]
pub mod fuzzing;
mod guard;
mod http;
mod idle;
mod listen;
mod notice;
mod pages;
mod parts;
mod server;
mod session;
mod stream;

use api::Api;
use clap::Parser as _;
use cli::Cli;
use fnd_client::client::Client;
use futures_util::StreamExt as _;
use idle::Idle;
use listen::Listener;
use server::{Site, serve};
use session::Sessions;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::rc::Rc;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Serves the page until it is told to end, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // An error is ignored: there is no other place to report that the stream is closed.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2).into();
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed: the exit code tells the failure, too.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, page(cli))
}

async fn page(cli: Cli) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (sessions, token) = Sessions::new()?;
    let listener = Listener::bind(&cli.place()?).await?;
    if !confine::files()? {
        let text = "warning: this kernel has no Landlock: only the filter of system calls confines the page";
        writeln!(io::stderr(), "{text}")?;
    }
    // Before the filter, which forbids to start threads.
    let input = end_of_input(cli.end_with_input)?;
    confine::calls()?;
    writeln!(io::stdout(), "{}", listener.startup_line(&token))?;
    let site = Rc::new(Site {
        api: Api::new(Client::new(cli.control, cli.user)),
        sessions,
        idle: Idle::default(),
        read_only: cli.read_only,
    });
    tokio::select! {
        // All arms only wait; the program ends after the first.
        () = serve(&listener, &site) => {}
        () = site.idle.ended(cli.idle) => {}
        _ = signals.next() => {}
        () = ended(input) => {}
    }
    Ok(())
}

/// Returns a message that comes at the end of standard input: the program that started this one is gone.
fn end_of_input(is_watched: bool) -> io::Result<Option<oneshot::Receiver<()>>> {
    if !is_watched {
        return Ok(None);
    }
    let (sender, receiver) = oneshot::channel();
    let (started, starts) = std::sync::mpsc::sync_channel(1);
    // A read of a terminal or a file cannot be awaited. The thread ends with the process.
    std::thread::Builder::new().spawn(move || {
        let _ = started.send(());
        // Only the end counts, not the bytes before it.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = sender.send(());
    })?;
    // The start of a thread needs calls that the filter forbids.
    let _ = starts.recv();
    Ok(Some(receiver))
}

async fn ended(input: Option<oneshot::Receiver<()>>) {
    match input {
        // Also where the thread is gone without a word.
        Some(input) => {
            let _ = input.await;
        }
        None => std::future::pending().await,
    }
}
