//! Makes functions of files that other systems have: crontabs, units of systemd, apps of pm2 and so on. The results are plain
//! data: functions, a report about each field, secrets. This crate prints nothing; `fndctl import` and `fndctl deploy` call
//! it.
//!
//! Files:
//! - `compose`: services of compose files
//! - `crontab`: functions of crontabs
//! - `dagu`: functions of dagu's DAGs
//! - `failure`: why files could not be read or written
//! - `fuzzing`: what the fuzzer may call
//! - `kubeless`: what the command line of Kubeless means
//! - `names`: names for functions
//! - `places`: places that the sandbox must show
//! - `pm2`: services of pm2's apps
//! - `rows`: rows of the report, as tables
//! - `sam`: functions of templates of AWS SAM
//! - `script`: the scripts of functions
//! - `stop_signal`: the signal that asks a program to end
//! - `supervisord`: services of supervisord's programs
//! - `systemd`: functions of services and timers
//! - `text`: reads foreign files
//! - `tree`: reads YAML and JSON
//! - `users`: the users that functions run as
//! - `webhook`: functions of the hooks of webhook
//! - `write`: writes functions to a directory
//! - `yaml`: functions of Keptn, Kubeless, Kyma and Rafay

pub mod compose;
pub mod crontab;
pub mod dagu;
pub mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod kubeless;
mod names;
mod places;
pub mod pm2;
mod rows;
pub mod sam;
mod script;
mod stop_signal;
pub mod supervisord;
pub mod systemd;
#[cfg(test)]
mod tests;
mod text;
mod tree;
pub mod users;
pub mod webhook;
pub mod write;
pub mod yaml;

pub use script::quoted;

use fnd_manifest::foreign::{ConversionReport, MadeManifest};

/// The functions that were made of the given files.
#[derive(Debug, Default)]
pub struct Imported {
    /// The functions; one with a mistake is not among them.
    pub functions: Vec<MadeManifest>,
    /// The names of functions that are not written because of a mistake.
    pub refused: Vec<String>,
    /// The treatment of each field.
    pub report: ConversionReport,
    /// Secrets that belong to no single function: name and value.
    pub secrets: Vec<(String, Vec<u8>)>,
    /// The first comment of each manifest.
    pub head: String,
}

impl Imported {
    fn new(head: String) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// Adds the rows of a report, and the function that it is about unless something of it was refused.
    fn add(&mut self, made: MadeManifest, report: ConversionReport) {
        match report.is_refused() {
            true => self.refused.push(made.name),
            false => self.functions.push(made),
        }
        self.report.rows.extend(report.rows);
    }

    /// Returns all secrets: name and value.
    pub fn secrets(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.functions
            .iter()
            .flat_map(|made| &made.secrets)
            .chain(&self.secrets)
    }
}
