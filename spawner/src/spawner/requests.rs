//! The conversation with fnd: connections, requests, replies.

use super::*;

impl Spawner {
    pub(super) fn accept(&mut self) {
        let Some(socket) = self.listener.as_ref().and_then(meeting::accept) else {
            return;
        };
        if self.connection.is_some() {
            crate::log!("refused a second connection: one fnd at a time");
        } else if let Err(error) = self.connect(socket) {
            crate::log!("failed to use a connection: {error}");
        }
    }

    pub(super) fn connect(&mut self, socket: OwnedFd) -> io::Result<()> {
        let channel = Channel::new(socket)?;
        self.poller.add(&channel, Token::Connection)?;
        self.greeted = false;
        self.connection = Some(channel);
        Ok(())
    }

    pub(super) fn disconnect(&mut self, why: &str) {
        if let Some(connection) = self.connection.take() {
            crate::log!("the connection with fnd ended: {why}");
            self.poller.remove(&connection);
        }
    }

    pub(super) fn read_requests(&mut self) {
        // Bounded, so that a flood of requests can't keep the loop from exits.
        for _ in 0..64 {
            let Some(connection) = &mut self.connection else { return };
            if let Err(error) = connection.flush() {
                return self.disconnect(&error.to_string());
            }
            if connection.waiting() > BACKLOG {
                return;
            }
            match connection.receive() {
                Ok(None) => return,
                Ok(Some(frame)) if frame.bytes.is_empty() => return self.disconnect("it was closed"),
                Ok(Some(Frame { bytes, descriptors })) => match decode::<Request>(&bytes) {
                    Ok((number, request)) => self.request(number, request, descriptors),
                    Err(error) => return self.disconnect(&format!("a frame can't be read: {error}")),
                },
                Err(error) => return self.disconnect(&error.to_string()),
            }
        }
    }

    pub(super) fn request(&mut self, number: u32, request: Request, descriptors: VecDeque<OwnedFd>) {
        if !self.greeted && !matches!(request, Request::Hello(_)) {
            return self.reply(number, &Reply::Failed("the first request has to be Hello".to_owned()), Vec::new());
        }
        match request {
            Request::Hello(hello) => self.hello(number, &hello),
            Request::Reload => self.reload(number),
            Request::Install(install) => self.installer.queue.push_back((number, install)),
            Request::Remove(function) => {
                if let Some(id) = self.uids.id(&function) {
                    self.workers.retire(id, None);
                }
                self.done(number);
            }
            Request::Spawn(spawn) => {
                let worker = spawn.worker;
                // Before anything is the function's: its number must not be given to another after a crash.
                let synced = self.uids.sync().map_err(|error| chain(&error));
                let policy = self.policy.as_ref().ok_or("the configuration has not been read yet".to_owned());
                let result = synced.and(policy).and_then(|policy| {
                    self.workers.spawn(number, &spawn, descriptors, (&self.uids, policy, &self.poller))
                });
                if let Err(message) = result {
                    self.reply(number, &Reply::SpawnFailed(SpawnFailed { worker, message }), Vec::new());
                }
            }
            Request::Term(worker) => {
                self.workers.term(worker);
                self.done(number);
            }
            Request::Kill(worker) => {
                self.workers.kill(worker);
                self.done(number);
            }
            Request::Release(release) => self.release(number, release),
            Request::Acknowledge(worker) => self.workers.acknowledge(worker),
            Request::Prune(prune) => self.prune(number, &prune),
        }
    }

    pub(super) fn hello(&mut self, number: u32, hello: &Hello) {
        if hello.min > PROTOCOL_MAX || hello.max < PROTOCOL_MIN {
            let text = format!(
                "fnd speaks protocol {} to {}, fnd-spawner {PROTOCOL_MIN} to {PROTOCOL_MAX}; restart both",
                hello.min, hello.max
            );
            return self.reply(number, &Reply::Failed(text), Vec::new());
        }
        // Of an earlier connection; the frames to take them over come with handover.
        self.workers.kill_all();
        self.greeted = true;
        let host = self.workers.host();
        let welcome = Welcome {
            protocol: hello.max.min(PROTOCOL_MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            containment: host.containment,
            layout: host.tree.as_ref().map_or("none", Tree::layout).to_owned(),
            missing: host.missing(),
            next_worker: self.workers.next_worker(),
            functions_dirs: self.sources.dirs().iter().map(|dir| dir.display().to_string()).collect(),
        };
        let exits = self.workers.exits();
        self.reply(number, &Reply::Welcome(welcome), Vec::new());
        if let Some(settings) = self.settings.clone() {
            self.send_settings(0, settings);
        }
        for exited in exits {
            self.reply(0, &Reply::Exited(exited), Vec::new());
        }
    }

    pub(super) fn done(&mut self, request: u32) {
        self.reply(request, &Reply::Done, Vec::new());
    }

    pub(super) fn reply(&mut self, request: u32, reply: &Reply, descriptors: Vec<OwnedFd>) {
        let Some(connection) = self.connection.as_mut().filter(|_| self.greeted || matches!(reply, Reply::Failed(_)))
        else {
            return;
        };
        if let Err(error) = connection.send(encode(request, reply), descriptors) {
            self.disconnect(&error.to_string());
        }
    }

    /// Sends a reply that holds a document, made by `body`.
    pub(super) fn reply_document(&mut self, request: u32, document: Vec<u8>, body: impl FnOnce(Document) -> Reply) {
        let mut beside = Vec::new();
        match protocol::document(document, &mut beside) {
            Ok(document) => self.reply(request, &body(document), beside),
            Err(error) => {
                self.reply(request, &Reply::Failed(format!("failed to pass a document: {error}")), Vec::new());
            }
        }
    }
}
