//! The functions under load, and the journals that they write themselves: a line when an attempt begins and one when it
//! ends. Each line is one appending write. Each function has its own file, since it has its own user.

use super::follows;
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A function under load.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    file: &'static str,
    code: &'static str,
    /// Whether it is a script, which survives the end of fnd and has one attempt, unless it polls or retries.
    pub(crate) script: bool,
    /// Whether its manifest retries interrupted attempts.
    pub(crate) again: bool,
    /// The end of its first attempt, unless it is interrupted.
    pub(crate) first: &'static str,
}

const SCRIPT: &str = "# /// fnd
# on_load = false
# [pool]
# max = 3
# [queue]
# max = 20
# [history]
# keep = 1000000
MORE# ///
echo \"begin $FND_FUNCTION $FND_INVOCATION $FND_ATTEMPT $DATA\" >>GATE/NAME
echo \"one $FND_INVOCATION $FND_ATTEMPT\"
[[ $RANDOM -gt 9000 ]] || sleep 0.0$((RANDOM % 10))
echo \"two $FND_INVOCATION $FND_ATTEMPT\"
[[ $RANDOM -gt 9000 ]] || printf 'padding %0900d\\n' {1..20}
echo \"three $FND_INVOCATION $FND_ATTEMPT\"
echo \"end $FND_FUNCTION $FND_INVOCATION $FND_ATTEMPT $DATA\" >>GATE/NAME
EXIT
";

const HANDLER: &str = r#"# /// fnd
# [pool]
# max = 2
# [queue]
# max = 20
# [history]
# keep = 1000000
MORE# ///
import json, random, time

def handler(event, context):
    data = json.dumps(event["data"], separators=(",", ":"))
    key = f"NAME {context['invocation']} {context['attempt']} {data}"
    with open("GATE/NAME", "a") as journal:
        journal.write(f"begin {key}\n")
    time.sleep(random.random() / 50)
    with open("GATE/NAME", "a") as journal:
        journal.write(f"end {key}\n")
    return {"answered": context["invocation"]}
"#;

const PATIENT: &str = "# [retry]\n# retries = 9\n# interval = \"20ms\"\n# max_interval = \"100ms\"\n# on = [\"interrupted\", \"transient\"]\n";

const fn script(name: &'static str, file: &'static str, first: &'static str) -> Function {
    Function {
        name,
        file,
        code: SCRIPT,
        script: true,
        again: false,
        first,
    }
}

pub(crate) const FUNCTIONS: [Function; 5] = [
    script("plain", "plain.sh", "ok"),
    // Fails for good: its asynchronous invocations become dead letters.
    script("dies", "dies.sh", "exit-3"),
    Function {
        again: true,
        ..script("flaky", "flaky.sh", "transient")
    },
    Function {
        code: HANDLER,
        script: false,
        ..script("warm", "warm.py", "ok")
    },
    Function {
        code: HANDLER,
        script: false,
        again: true,
        ..script("again", "again.py", "ok")
    },
];

/// Returns the files of the functions.
pub(crate) fn files() -> Vec<(&'static str, String)> {
    let text = |function: &Function| {
        let exit = match function.first {
            "exit-3" => "exit 3",
            "transient" => "((FND_ATTEMPT > 1)) || exit 75",
            _ => "exit 0",
        };
        let more = if function.again {
            PATIENT
        } else {
            follows::hooks(function.name)
        };
        let code = function.code.replace("MORE", more).replace("NAME", function.name);
        (function.file, code.replace("EXIT", exit))
    };
    FUNCTIONS.iter().map(text).collect()
}

pub(crate) fn function(name: &str) -> &'static Function {
    let found = FUNCTIONS.iter().find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("no function of this test: {name:?}"))
}

/// The journals that functions wrote.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Attempts that began, and how often.
    pub(crate) begun: BTreeMap<(InvocationId, u32), u32>,
    /// Attempts that came to their end.
    pub(crate) ended: BTreeSet<(InvocationId, u32)>,
    /// Invocations by the tag in their payload; each request has its own tag.
    pub(crate) by_tag: BTreeMap<String, BTreeSet<InvocationId>>,
}

impl Journal {
    /// Reads the journals of functions with these names below a directory.
    pub(crate) fn read<'a>(gate: &Path, names: impl Iterator<Item = &'a str>) -> Self {
        let mut journal = Self::default();
        let texts: Vec<String> = names
            .map(|name| std::fs::read_to_string(gate.join(name)).unwrap_or_default())
            .collect();
        for line in texts.iter().flat_map(|text| text.lines()) {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, _function, id, attempt, data] = words[..] else {
                panic!("torn line in the journal: {line:?}");
            };
            let id = InvocationId::parse(id).expect("an invocation's id");
            let attempt = attempt.parse().expect("an attempt's number");
            if what == "begin" {
                *journal.begun.entry((id, attempt)).or_default() += 1;
                journal.by_tag.entry(data.to_owned()).or_default().insert(id);
            } else {
                journal.ended.insert((id, attempt));
            }
        }
        journal
    }
}
