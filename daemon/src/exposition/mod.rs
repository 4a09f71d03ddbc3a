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
use std::future::pending;
use std::rc::Rc;

/// Serves the places for as long as fnd runs. A place that the configuration no longer names is closed, with its connections.
pub(crate) async fn serve(daemon: Rc<Daemon>) {
    let exposed = Rc::clone(&daemon.state.borrow().reporter.exposed);
    loop {
        let wanted = exposed.wanted();
        let listening = async {
            match wanted.listen {
                Some(address) => listen::serve(Rc::clone(&daemon), address).await,
                None => pending().await,
            }
        };
        let writing = async {
            match wanted.textfile {
                Some(path) => textfile::keep(Rc::clone(&daemon), path.into()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            // The change comes first, so that places that are no longer named report no problem any more.
            biased;
            () = exposed.changed() => {}
            ((), ()) = async { tokio::join!(listening, writing) } => {}
        }
    }
}
