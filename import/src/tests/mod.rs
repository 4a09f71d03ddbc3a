//! Files as people have published them, shortened and with other names: how many functions become of each, and the verdicts
//! that its owner needs. A file that was read wrongly is a row.
//!
//! Files:
//! - `apps`: ecosystem files of pm2
//! - `crontabs`: crontabs
//! - `hooks`: hooks of webhook
//! - `others`: compose files, DAGs of dagu
//! - `programs`: files of supervisord
//! - `templates`: templates of AWS SAM
//! - `testing`: helpers of the tests of all importers
//! - `units`: services and timers of systemd

mod apps;
mod crontabs;
mod hooks;
mod others;
mod programs;
mod templates;
pub(crate) mod testing;
mod units;

use crate::{Imported, tree};
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{FieldVerdict, Row};
use testing::table;

const W: FieldVerdict = FieldVerdict::Works;
const D: FieldVerdict = FieldVerdict::Differs;
const N: FieldVerdict = FieldVerdict::NotHere;
const U: FieldVerdict = FieldVerdict::Unknown;
const R: FieldVerdict = FieldVerdict::Refused;

/// A file: its text, the number of its functions, and verdicts on its fields.
type PublishedFile = (&'static str, usize, &'static [(&'static str, FieldVerdict)]);

/// Checks the files. Of verdicts that are not named, none may be `unknown`: no published key is misspelt but where the row says so.
#[track_caller]
fn check(files: &[PublishedFile], made: impl Fn(&str) -> Imported) {
    for (text, functions, verdicts) in files {
        let imported = made(text);
        let rows = &imported.report.rows;
        let shown = || format!("{text}\n{rows:#?}");
        assert_eq!(imported.functions.len(), *functions, "{}", shown());
        for (field, verdict) in *verdicts {
            let is = |row: &&Row| row.field == *field && row.verdict == *verdict;
            assert!(
                rows.iter().any(|row| is(&row)),
                "`{field}` is not {verdict:?} in {}",
                shown()
            );
        }
        for row in rows.iter().filter(|row| row.verdict == U) {
            let is_known = verdicts.contains(&(row.field.as_str(), U));
            assert!(is_known, "`{}` is unknown in {}", row.field, shown());
        }
        for made in &imported.functions {
            // Panics if it is no TOML.
            let _ = table(made);
        }
    }
}

fn documents(name: &str, text: &str) -> Vec<Document> {
    tree::parse(name, text.as_bytes()).unwrap_or_else(|failure| panic!("{text}: {failure:?}"))
}
