//! Functions: their states are in the supervisor.

use super::Control;
use crate::control::backend::{Answering, Bounds, Changes, FunctionBackend, FunctionFilter, Pending};
use fnd_core::api::{FunctionDetail, FunctionStatus};
use fnd_core::supervisor::{Event, Rejection};
use fnd_manifest::function::Mode;
use fnd_wire::ids::FunctionName;

impl FunctionBackend for Control {
    fn functions(&self) -> Vec<FunctionStatus> {
        self.daemon.state.borrow().function_list()
    }

    fn function(&self, name: &FunctionName) -> Option<FunctionDetail> {
        self.daemon.state.borrow().function_detail(name)
    }

    fn unknown(&self, name: &FunctionName) -> Rejection {
        self.daemon.state.borrow().supervisor.unknown(name)
    }

    fn bounds(&self, name: &FunctionName) -> Option<Bounds> {
        let state = self.daemon.state.borrow();
        let manifest = &state.serving(name)?.manifest;
        let limits = &manifest.limits;
        Some(Bounds {
            body: limits.body,
            timeout: limits.timeout,
            mode: manifest.mode,
            passes: manifest.mode == Mode::Http && manifest.retry.retries == 0,
        })
    }

    fn set_enabled(&self, name: &FunctionName, enabled: bool) -> Answering {
        self.ask(|reply| Event::SetEnabled {
            function: name.clone(),
            enabled,
            reply,
        })
    }

    fn status_written(&self, name: &FunctionName) -> Pending<()> {
        let written = self.settled().reporter.status_files.written(name);
        Box::pin(async move {
            if let Some(written) = written {
                let _ = written.await; // an error: the function is gone, or fnd ends
            }
        })
    }

    fn watch(&self, filter: FunctionFilter) -> Changes {
        crate::backend::watch_functions::watch(&self.daemon, filter)
    }
}
