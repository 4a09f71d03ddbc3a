//! The keys of DAGs and steps: those of the schemas of dagu 1.16 to 2.15, in the spelling of the earlier ones (`retryPolicy` is
//! `retry_policy` there). A name that is not here is misspelt: dagu refuses it.

use crate::names::lists;

const DAG: &str = "\
    actions artifacts catchupWindow consts container defaults delaySec description dotenv env errorMail group handlerOn harness \
    harnesses histRetentionDays histRetentionRuns infoMail kubernetes labels llm logDir logOutput mailOn maxActiveRuns \
    maxActiveSteps maxCleanUpTimeSec maxOutputSize name otel overlapPolicy params precondition preconditions queue redis \
    registryAuths resources restartWaitSec retryPolicy runConfig s3 schedule secrets shell shellArgs skipIfSuccessful smtp ssh \
    stepTypes steps tags tasks timeoutSec tools type webhook workerSelector workingDir";

const STEP: &str = "\
    action approval call command config container continueOn dependencies depends description dir env exec executor foreach id \
    inputs llm logOutput mailOnError maxConcurrent messages name output outputSchema outputs parallel params precondition \
    preconditions repeatPolicy retryPolicy routes run script shell shellArgs shellPackages signalOnStop stderr stdout timeoutSec \
    tools type value with workerSelector workingDir";

/// Says whether dagu knows a key of a DAG.
pub(super) fn is_of_dag(key: &str) -> bool {
    lists(DAG, key)
}

/// Says whether dagu knows a key of a step.
pub(super) fn is_of_step(key: &str) -> bool {
    lists(STEP, key)
}

/// Keys that a DAG may leave out, where dagu does something else without them than fnd.
pub(super) const ABSENT: [(&str, &str, &str); 2] = [
    (
        "workingDir",
        "entry",
        "dagu begins each step in the directory of the DAG's file, and fnd in that of the function",
    ),
    (
        "dotenv",
        "env",
        "dagu reads `.env` in the DAG's directory, if there is one; a function gets only `[env]`",
    ),
];

/// Says whether dagu fills in something in a text that is no variable of the shell: `${params.DAY}`, `${{ env.A }}`.
pub(super) fn is_filled(text: &str) -> bool {
    text.split("${").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        end.is_some_and(|end| {
            let (name, behind) = rest.split_at(end);
            behind.starts_with(if name.is_empty() { '{' } else { '.' })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_no_variables_of_the_shell() {
        for (text, expected) in [
            ("echo ${params.DAY}", true),
            ("echo ${{ env.A }}", true),
            ("echo ${first.stdout}/x", true),
            ("echo ${DAY}.txt", false),
            ("echo ${DAY%.txt} ${#DAY}", false),
            ("echo ${.x}", false),
            ("echo $DAY.x $", false),
        ] {
            assert_eq!(is_filled(text), expected, "{text}");
        }
    }
}
