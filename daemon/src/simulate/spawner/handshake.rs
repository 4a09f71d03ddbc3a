//! The handshake: a new fnd gets the spawner's version, the processes of the fnd before, their ends, and the configuration.

use super::verdicts::settings;
use super::*;
use fnd_wire::frame::{Containment, Hello, MemoryGroups, PROTOCOL_0_1, Welcome};
use std::path::Path;

impl SpawnerModel {
    /// Connects the next fnd, and returns its end of the connection. `sockets` is the directory for sockets of HTTP programs.
    ///
    /// The answers are sent before fnd asks: between its Hello and the last of them fnd only waits. First everything is carried
    /// out that the fnd before has asked for, as the real spawner does it.
    pub(crate) fn connect(&mut self, sockets: &Path, turn: &mut SpawnerTurn<'_>) -> OwnedFd {
        self.link.read();
        while !self.link.requests.is_empty() {
            self.carry_out(turn);
        }
        self.link.close();
        // No start is under way when fnd is answered, so that fnd learns of every process.
        let starting = self.processes.iter().filter(|(_, process)| process.is_starting());
        let starting: Vec<_> = starting.map(|(worker, _)| *worker).collect();
        starting.into_iter().for_each(|worker| self.start(worker, turn));
        self.connection += 1;
        self.is_welcomed = false;
        // A silent spawner does not answer the handshake either, so its silence has ended.
        self.silent_until = None;
        let ours = self.link.connect();
        self.link.send(1, &Reply::Welcome(self.welcome()), Vec::new());
        self.link
            .send(1, &Reply::Sockets(sockets.display().to_string()), Vec::new());
        self.tell_of_processes(turn.now);
        // The judge reads in order: the answers that the fnd before did not get come before the configuration.
        while let Some(work) = self.judge_queue.pop_front() {
            self.finish_judge_work(work, turn.files);
        }
        let settings = settings(self.nats_node.as_deref());
        self.link.send(0, &Reply::Settings(settings), Vec::new());
        ours
    }

    /// Handles the Hello, which was answered before.
    pub(super) fn hello(&mut self, number: u32, hello: &Hello, turn: &mut SpawnerTurn<'_>) {
        let fits = (hello.min..=hello.max).contains(&self.protocol);
        if number != 1 || self.is_welcomed || !fits {
            turn.defect(format!("Hello is not the first request, or does not fit: {hello:?}"));
        }
        self.is_welcomed = true;
    }

    fn welcome(&self) -> Welcome {
        let version = if self.protocol == PROTOCOL_0_1 {
            "0.1.0"
        } else {
            env!("CARGO_PKG_VERSION")
        };
        Welcome {
            protocol: self.protocol,
            version: version.to_owned(),
            containment: Containment::Cgroup,
            layout: "v2".to_owned(),
            missing: Vec::new(),
            next_worker: self.next_worker,
            functions_dirs: vec!["/functions".to_owned()],
            memory: MemoryGroups::None,
        }
    }

    /// Reports the processes of the fnd before: first all processes, then the ends of the ended ones.
    fn tell_of_processes(&mut self, now: Now) {
        for (worker, process) in &self.processes {
            let (reply, descriptors) = process.retained(*worker, now);
            self.link.send(0, &reply, descriptors);
        }
        for process in self.processes.values() {
            if let ProcessStage::Ended { exited, lasted, at_ms } = &process.stage {
                // By the wall clock, as the real spawner does it: a machine may have been started again meanwhile.
                let ago = now.unix_ms.saturating_sub(*at_ms).saturating_mul(1000);
                let lasted = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
                let exited = Exited {
                    late: Some((ago, lasted)),
                    ..exited.clone()
                };
                self.link.send(0, &Reply::Exited(exited), Vec::new());
            }
        }
    }
}
