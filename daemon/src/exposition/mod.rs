//! Exposes the metrics: samples the values of all parts for a scrape, and serves the places beside the control socket that the
//! configuration names.
//!
//! Files:
//! - `listen`: `[metrics] listen`
//! - `nats`: samples the values of NATS
//! - `sample`: samples the current values for a scrape
//! - `textfile`: `[metrics] textfile`

mod listen;
mod nats;
mod sample;
mod textfile;

pub(crate) use sample::scrape;

use crate::driver::Daemon;
use crate::or_never;
use std::rc::Rc;

/// Serves the places for as long as fnd runs. A place that the configuration no longer names is closed, with its connections.
pub(crate) async fn serve(daemon: Rc<Daemon>) {
    let exposed = Rc::clone(&daemon.state.borrow().reporter.exposed);
    loop {
        let wanted = exposed.wanted.borrow().clone();
        let listening = wanted.listen.map(|address| listen::serve(Rc::clone(&daemon), address));
        let writing = wanted
            .textfile
            .map(|path| textfile::keep(Rc::clone(&daemon), path.into()));
        tokio::select! {
            // The change comes first, so that places that are no longer named report no problem any more.
            biased;
            // The loop begins anew, with the places that are named now.
            () = exposed.changed.notified() => {}
            ((), ()) = async { tokio::join!(or_never(listening), or_never(writing)) } => {}
        }
    }
}
