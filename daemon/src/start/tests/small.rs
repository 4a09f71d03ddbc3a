//! The control server of the [`World`], in a thread of its own: the whole API, with real stores, before a spawner that this thread
//! plays.

use super::spawner::Content;
use super::world::World;
use crate::control::{listen, serve};
use crate::peer::PeerAccess;
use fnd_wire::ids::FunctionName;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The functions. `answer` in `spawner.rs` says what each of them does; `invalid` is refused.
const FUNCTIONS: [(&str, Content); 8] = [
    ("chooses", Content(1)),
    ("fails", Content(1)),
    ("hello", Content(1)),
    ("invalid", Content(2)),
    ("mirror", Content::WITH_ENV),
    ("ops/backup", Content(1)),
    ("orders", Content::WITH_EVENT),
    ("stuck", Content::SINGLE),
];

/// How often the thread looks after the spawner.
const PAUSE: Duration = Duration::from_millis(1);

/// A control server; stops when dropped.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a server at which only the own user has a role.
    pub(crate) fn start() -> Self {
        Self::start_with(own(), None)
    }

    /// Starts a server with these roles, and with this budget in bytes for bodies and answers.
    pub(crate) fn start_with(access: PeerAccess, body_budget: Option<u64>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::channel();
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut world = world(body_budget);
            let socket = world.directory().join("control.sock");
            let (access, path) = (Rc::new(RefCell::new(access)), socket.clone());
            let backend = world.backend();
            let (server, stop) = world.run_until(async move {
                let (server, stop) = serve(listen::bind(&path).unwrap(), Rc::new(backend), access);
                (tokio::task::spawn_local(server), stop)
            });
            ready.send(socket).unwrap();
            while !over.load(Ordering::Relaxed) {
                world.go_on_all();
                world.run_until(async { tokio::time::sleep(PAUSE).await });
            }
            stop.now();
            world.run_until(server).unwrap();
        });
        Self {
            socket: started.recv().unwrap(),
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Returns a world in which all functions serve.
pub(crate) fn world(body_budget: Option<u64>) -> World {
    let mut world = World::with_body_budget(body_budget);
    for (name, content) in FUNCTIONS {
        world.write(&FunctionName::new(name).unwrap(), Some(content));
    }
    world.settle();
    world
}

/// Returns roles in which everybody but the own user has none.
pub(crate) fn own() -> PeerAccess {
    PeerAccess {
        own_uid: Some(rustix::process::getuid().as_raw()),
        ..PeerAccess::default()
    }
}
