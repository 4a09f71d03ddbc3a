//! The keys of DAGs and steps whose value does not matter. The last rows have all keys of the schemas of dagu 1.16 to 2.15, in the
//! spelling of the earlier ones (`retryPolicy` is `retry_policy` there): a name that is not there is misspelt, and dagu refuses it.

use crate::rows::KeyTexts;

/// The rows of keys of a DAG.
pub(super) const DAG: KeyTexts = fnd_manifest::texts! {
    "works group labels name steps tags": "",
    "not-here logDir logOutput histRetentionDays histRetentionRuns":
        "fnd keeps the output itself: `[history]` of fnd.toml says how long",
    "refused shell": "the steps would run with bash: start the other shell in each script",
    "refused type": "it is neither `chain` nor `graph`",
    "refused shellArgs defaults consts": "write it in the steps themselves",
    "refused container ssh": "fnd runs the steps on this machine: install their programs, and remove this",
    "not-here maxActiveRuns maxActiveSteps delaySec skipIfSuccessful":
        "a scheduled run that would overlap is skipped; `[queue]` and `[pool]` say more",
    "not-here mailOn smtp errorMail infoMail": "`[alert]` with the example `mail.py` (docs/alerts.md)",
    "refused handlerOn": "make a function of each handler, and name it in `[hooks]` of the last step's function",
    "refused params": "fnd has no parameters of a DAG: write the values in `env`, or send them as the payload",
    "refused preconditions precondition": "test it in the first step: exit with 65 to end the chain",
    "refused dotenv secrets": "name variables in `env`, and secrets in `secrets` of the functions",
    "not-here \
     actions artifacts catchupWindow consts container defaults delaySec description dotenv env errorMail group handlerOn harness \
     harnesses histRetentionDays histRetentionRuns infoMail kubernetes labels llm logDir logOutput mailOn maxActiveRuns \
     maxActiveSteps maxCleanUpTimeSec maxOutputSize name otel overlapPolicy params precondition preconditions queue redis \
     registryAuths resources restartWaitSec retryPolicy runConfig s3 schedule secrets shell shellArgs skipIfSuccessful smtp ssh \
     stepTypes steps tags tasks timeoutSec tools type webhook workerSelector workingDir": "fnd has nothing like it",
};

/// The rows of keys of a step.
pub(super) const STEP: KeyTexts = fnd_manifest::texts! {
    "works name depends id": "",
    "not-here mailOnError signalOnStop": "`[alert]` tells of failures; fnd sends SIGTERM",
    "refused \
     action approval call command config container continueOn dependencies depends description dir env exec executor foreach id \
     inputs llm logOutput mailOnError maxConcurrent messages name output outputSchema outputs parallel params precondition \
     preconditions repeatPolicy retryPolicy routes run script shell shellArgs shellPackages signalOnStop stderr stdout timeoutSec \
     tools type value with workerSelector workingDir": "fnd has no such thing for a step: do it in the script",
};

/// Keys of a step whose value is a text, a number, or `true` or `false`.
pub(super) const STEP_SCALARS: &str = "name description dir workingDir script stdout stderr timeoutSec";

/// Keys that a DAG may leave out, where dagu does something else without them than fnd.
pub(super) const ABSENT: KeyTexts = fnd_manifest::texts! {
    "workingDir entry": "dagu begins each step in the directory of the DAG's file, and fnd in that of the function",
    "dotenv env": "dagu reads `.env` in the DAG's directory, if there is one; a function gets only `[env]`",
};

/// Variables of dagu with the paths of its files.
pub(super) const LOG_VARIABLES: &str = "DAG_RUN_LOG_FILE DAG_RUN_STEP_STDOUT_FILE DAG_RUN_STEP_STDERR_FILE DAG_EXECUTION_LOG_PATH \
                                        DAG_SCHEDULER_LOG_PATH DAG_STEP_LOG_PATH";

/// Says whether a text of a shell names a variable: `$NAME`, `${NAME}`, `${NAME%.txt}`.
pub(super) fn names_variable(text: &str, name: &str) -> bool {
    text.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let behind = rest.strip_prefix(name);
        behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}

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
    use crate::tests::testing::{check_absent, check_rows, keys_of};

    /// Keys that a file may lack without a row, and why.
    const WITHOUT: KeyTexts = fnd_manifest::texts! {
        "steps": "a file without steps is refused",
        "name": "both take the name of the file",
        "type": "the row of the steps tells of their order",
        "schedule": "both run it only when they are asked to",
        "timeoutSec maxCleanUpTimeSec restartWaitSec": "both wait for the end of a step",
        "histRetentionDays histRetentionRuns logDir logOutput maxOutputSize": "fnd keeps the output itself",
        "overlapPolicy catchupWindow maxActiveRuns maxActiveSteps delaySec skipIfSuccessful queue":
            "a run that would overlap is skipped, and a missed one is not made up for",
        "actions artifacts consts container defaults description env errorMail group handlerOn harness harnesses \
         infoMail kubernetes labels llm mailOn otel params precondition preconditions redis registryAuths resources \
         retryPolicy runConfig s3 secrets shell shellArgs smtp ssh stepTypes tags tasks tools webhook workerSelector":
            "both have nothing of it",
    };

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

    #[test]
    fn a_variable_of_dagu_is_found_by_its_whole_name() {
        for (text, expected) in [
            ("echo $DAG_RUN_ID", true),
            ("echo x${DAG_RUN_ID}y", true),
            ("echo ${DAG_RUN_ID:-none}", true),
            ("echo $DAG_RUN_IDS", false),
            ("echo DAG_RUN_ID $", false),
            ("echo $MY_DAG_RUN_ID", false),
        ] {
            assert_eq!(names_variable(text, "DAG_RUN_ID"), expected, "{text}");
        }
    }

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[DAG, STEP]);
    }

    #[test]
    fn every_key_has_a_verdict_where_it_is_absent() {
        let keys = keys_of(DAG);
        check_absent(keys, ABSENT, WITHOUT);
    }
}
