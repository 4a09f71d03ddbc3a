//! Functions as tools of agents: the official client library of the Model Context Protocol, unmodified, talks to
//! `fndctl mcp`. `walk.py` has its requests and what has to come of them.

use fnd_core::records::outcome::RunState;
use fnd_tests::documents::blocks::{Use, blocks};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, programs, require, wait_until};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

const GREET: &str = "# /// fnd
# mcp = true
# description = \"Greets a person\"
# [input.schema]
# type = \"object\"
# required = [\"name\"]
# properties.name = { type = \"string\" }
# ///
def handler(event, context):
    return {\"hello\": event[\"data\"][\"name\"]}
";

const ADD: &str = "# /// fnd
# mcp = true
# ///
def handler(event, context):
    return sum(event[\"data\"][\"numbers\"])
";

/// Returns a script that is a tool and does not run when it is saved.
fn tool(code: &str) -> String {
    format!("# /// fnd\n# mcp = true\n# on_load = false\n# ///\n{code}\n")
}

fn start(config: &str) -> Fnd {
    let fnd = Fnd::start_with(&Setup::default().config(config));
    fnd.drop_file("greet.py", GREET);
    fnd.drop_file("web/add.py", ADD);
    fnd.drop_file("fails.sh", &tool("echo no such host >&2\nexit 3"));
    fnd.drop_file("long.sh", &tool("head -c 100000 /dev/zero | tr '\\0' x"));
    fnd.drop_file("slow.sh", &tool("echo half of it\nexec sleep 1000"));
    fnd.drop_file("hidden.sh", "# /// fnd\n# on_load = false\n# ///\necho hidden\n");
    for name in ["greet", "web/add", "fails", "long", "slow", "hidden"] {
        fnd.wait_ready(name);
    }
    fnd
}

/// Runs Python code of a client, and panics with what it prints if it fails.
fn client(code: &str, arguments: &[&str]) {
    let python = programs::mcp_client().unwrap();
    let output = Command::new(python)
        .args(["-c", code])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {printed}");
}

#[test]
fn a_client_library_lists_calls_follows_and_cancels() {
    require!(mcp);
    let fnd = start("");
    let (fndctl, socket, functions) = (programs::program("fndctl"), fnd.socket(), fnd.path("functions"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for protocol in ["legacy", "auto"] {
        let arguments = [protocol, &text(&fndctl), &text(&socket), &text(&functions)];
        client(include_str!("walk.py"), &arguments);
    }
    // The client has learnt of each failure.
    let dead = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).json();
    assert_eq!(dead["dead_letters"], serde_json::json!([]));
    fnd.finish();
}

/// Calls a function that the caller may run, and one that it may only see.
const AS_NOBODY: &str = r#"
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main():
    words = ["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--", sys.argv[1], "mcp"]
    server = StdioServerParameters(command="setpriv", args=words, env={"FND_SOCKET": sys.argv[2]})
    async with Client(server) as client:
        result = await client.call_tool("web.add", {"numbers": [1, 2]})
        assert result.content[0].text == "3", result
        result = await client.call_tool("greet", {"name": "Ada"})
        assert result.is_error and "role" in result.content[0].text, result

asyncio.run(main())
"#;

#[test]
fn a_call_has_the_rights_of_the_caller() {
    require!(root, mcp);
    let fnd = start(
        "[[access]]\nuser = \"nobody\"\nrole = \"operator\"\nfunctions = [\"web/*\"]\n\
         [[access]]\nuser = \"nobody\"\nrole = \"viewer\"\nfunctions = [\"greet\"]\n",
    );
    std::fs::set_permissions(fnd.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    // The program is in a build directory, which other users may not enter.
    let fndctl = fnd.path("fndctl");
    std::fs::copy(programs::program("fndctl"), &fndctl).unwrap();
    client(AS_NOBODY, &[fndctl.to_str().unwrap(), fnd.socket().to_str().unwrap()]);
    let audit = fnd.ctl(&["audit", "--by", "nobody", "-o", "json"]).expect_code(0).out();
    assert!(
        audit.contains("\"web/add\"") && audit.contains("not-allowed"),
        "{audit}"
    );
    fnd.finish();
}

/// Returns whether an answer is the one that a page shows, where `...` stands for any text.
fn is_shown(answer: &str, shown: &str) -> bool {
    let parts: Vec<&str> = shown.split("...").collect();
    let mut rest = answer;
    let mut follows = |part: &&str| match rest.split_once(*part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    };
    parts.iter().all(&mut follows) && answer.starts_with(parts[0]) && answer.ends_with(parts[parts.len() - 1])
}

/// The session of docs/tools-for-agents.md: a client that sends the lines with `→` gets those with `←`.
#[test]
fn the_session_of_the_documents_is_the_one_that_a_client_has() {
    let blocks = blocks(&programs::repository().join("docs/tools-for-agents.md"));
    let saved = Use::Save("restock.py".to_owned());
    let restock = blocks.iter().find(|block| block.use_of() == saved).unwrap();
    let session = blocks.iter().find(|block| block.text.starts_with('→')).unwrap();
    let fnd = Fnd::start();
    fnd.drop_file("restock.py", &restock.text);
    fnd.drop_file("count-stock.sh", &tool("echo shelf 1 of 40\nexec sleep 1000"));
    for name in ["restock", "count-stock"] {
        fnd.wait_ready(name);
    }
    let mut command = Command::new(programs::program("fndctl"));
    command.arg("mcp").env("FND_SOCKET", fnd.socket());
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    for line in session.text.lines() {
        let (side, message) = line.split_once(' ').unwrap();
        if side == "→" {
            writeln!(input, "{message}").unwrap();
        } else {
            let mut answer = String::new();
            output.read_line(&mut answer).unwrap();
            assert!(is_shown(answer.trim_end(), message), "{answer} for {message}");
        }
    }
    wait_until("the run to be cancelled", PATIENCE, || {
        let runs = fnd.history("count-stock");
        runs.iter().any(|run| run.state == RunState::Cancelled).then_some(())
    });
    drop(input);
    assert!(server.wait().unwrap().success());
    fnd.finish();
}
