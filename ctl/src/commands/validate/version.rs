//! Versions that a manifest asks for by a name such as `nodejs20`, where the runtime has one interpreter for all versions:
//! the judge starts no program, so the interpreter is asked here.

use crate::common::examine::version_of;
use crate::health::installed::Ground;
use fnd_manifest::check::Checked;
use fnd_manifest::runtime::Runtime;
use fnd_manifest::warning::Warning;

/// Replaces the judge's warnings that a version is not checked: the right version needs none, another one is named.
pub(super) async fn compare(checked: &mut Checked, ground: &Ground, runtimes: &[Runtime]) {
    for (verdict, source) in checked.verdicts.iter_mut().zip(&checked.sources) {
        let (Some(wanted), Some(plan)) = (&verdict.unchecked_version, &source.plan) else {
            continue;
        };
        let runtime = runtimes.iter().find(|runtime| runtime.summary.id == plan.runtime);
        let (Some(runtime), Ok(Some(interpreter))) = (runtime, ground.of_interpreter(source)) else {
            continue;
        };
        let path = interpreter.display().to_string();
        // If the interpreter does not answer, the judge's warning stays.
        let Some(version) = version_of(&runtime.summary.probe, &path).await else {
            continue;
        };
        if is_meant(wanted, &version) {
            verdict
                .diagnostics
                .retain(|problem| problem.kind() != Some(Warning::UncheckedVersion));
        }
        for problem in &mut verdict.diagnostics {
            if problem.kind() == Some(Warning::UncheckedVersion) {
                problem.code = Warning::OtherVersion.as_str().into();
                problem.message = format!("`{path}` runs it, which is version {version} and not `{wanted}`");
            }
        }
    }
}

/// Returns whether a version is the one that is asked for: `20` is every 20.
fn is_meant(wanted: &str, version: &str) -> bool {
    version
        // The dot keeps `2` from meaning version 20.
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_version_stands_for_all_that_begin_with_it() {
        for (wanted, version, expected) in [
            ("20", "20.19.2", true),
            ("20.19", "20.19.2", true),
            ("20.19.2", "20.19.2", true),
            ("20.1", "20.19.2", false),
            ("2", "20.19.2", false),
            ("18", "20.19.2", false),
            ("20.19.2", "20.19", false),
        ] {
            assert_eq!(super::is_meant(wanted, version), expected, "{wanted} {version}");
        }
    }
}
