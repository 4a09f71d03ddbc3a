//! The audit: its entries, and the runs whose records have their callers, in one list.

use super::{Backend, Failure, STORED, failure};
use fnd_core::api::AuditList;
use fnd_core::audit::{AuditFilter, AuditPart, merged};
use nix::unistd::{Uid, User};
use std::collections::HashMap;
use tokio::task::spawn_blocking;

impl Backend {
    /// Returns a page of the audit, newest first.
    pub(crate) async fn audited(&self, filter: AuditFilter) -> Result<AuditList, Failure> {
        let entries = self.audit.list(filter.clone()).await.map_err(Failure)?;
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let cursor = filter.after.unwrap_or_default();
        let runs = self.audited_runs(filter).await?;
        Ok(merged([entries, runs], cursor, limit))
    }

    /// Returns the runs of a page with the names of their users.
    async fn audited_runs(&self, filter: AuditFilter) -> Result<AuditPart, Failure> {
        if !filter.takes_runs() {
            return Ok(AuditPart::default());
        }
        let uid = match filter.user.clone() {
            None => None,
            // A name that no user has now is in entries only.
            Some(user) => match spawn_blocking(move || uid_of(&user)).await.map_err(failure)? {
                None => return Ok(AuditPart::default()),
                found => found,
            },
        };
        // A run that was answered may wait until its output is counted.
        let counted = self.settled().records.wait_for_output();
        if let Some(counted) = counted {
            let _ = tokio::time::timeout(STORED, counted).await; // without the newest runs, the page is better than none
        }
        let runs = self.history().audited(filter, uid).await.map_err(failure)?;
        spawn_blocking(move || with_names(runs)).await.map_err(failure)
    }
}

/// Returns the uid of a user that is given by its name or its uid. A directory server may take long to answer.
fn uid_of(user: &str) -> Option<u32> {
    let named = || User::from_name(user).ok().flatten().map(|user| user.uid.as_raw());
    user.parse().ok().or_else(named)
}

/// Adds the name that each user has now.
fn with_names(mut runs: AuditPart) -> AuditPart {
    let mut names: HashMap<u32, Option<String>> = HashMap::new();
    let look_up = |uid| User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    for (_, run) in &mut runs.found {
        let name = names.entry(run.uid).or_insert_with(|| look_up(run.uid));
        run.user.clone_from(name);
    }
    runs
}
