//! `fndctl -H vm1,vm2 VERB`: the fndctl of each host answers over ssh, and one table or one document has all answers. No server is
//! needed, and this machine needs no fnd. It knows no verb.
//!
//! Files:
//! - `ask`: runs ssh
//! - `words`: the command line for the other machines

mod ask;
mod words;

pub(crate) use words::words;

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{self, Format, Output, TextTable, escape, parse};
use ask::ask;
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Hosts that are asked at the same time: each is a process of ssh on this machine.
const AT_ONCE: usize = 16;

/// A command for several hosts.
#[derive(Debug)]
pub(crate) struct HostCommand {
    pub(crate) hosts: Vec<String>,
    /// The words of the command line.
    pub(crate) words: Vec<String>,
}

/// The answer of a host for people.
#[derive(Debug)]
pub(crate) struct HostRows {
    pub(crate) table: TextTable,
    /// Lines that have no room in the table.
    pub(crate) lines: Vec<String>,
}

/// Returns the line below a list that goes on. A cursor would be that of one host, and the options are those of all.
pub(crate) fn older(next: Option<&str>) -> Vec<String> {
    let line = "there are older ones: `-n` lists more, `--until` earlier ones";
    next.map(|_| line.to_owned()).into_iter().collect()
}

/// Reads the JSON document of a verb, which may come from another version of fnd.
pub(crate) type HostView = fn(&Output, &[u8], Timestamp) -> Result<HostRows, CommandFailure>;

/// The members of a document, with the text of their values: a plain JSON value would change large numbers.
type Members = BTreeMap<String, Box<RawValue>>;

/// A host, and its answer or why there is none.
type HostAnswer<'a, T> = (&'a str, Result<T, CommandFailure>);

/// All answers, in the form of `-o json`.
#[derive(Debug, Serialize)]
struct HostsDocument<'a> {
    hosts: Vec<HostDocument<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum HostDocument<'a> {
    Answer {
        host: &'a str,
        #[serde(flatten)]
        members: &'a Members,
    },
    // Not `error`: the status of a function has that.
    Failure {
        host: &'a str,
        host_error: &'a str,
    },
}

/// Asks all hosts, and prints their answers in the order in which the hosts were typed.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn run(context: &Context, command: &HostCommand, view: HostView) -> Result<Exit, CommandFailure> {
    let asked = command.hosts.iter();
    let most = ask::answer_max(command.hosts.len());
    let asked = asked.map(|host| async move { (host.as_str(), ask(host, &command.words, most).await) });
    let answers: Vec<HostAnswer<'_, Vec<u8>>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let (out, now) = (&context.out, Timestamp::now());
    if out.format.is_document() {
        let answers = read(answers, members);
        let printed = context.made(&document(&answers), |_| Ok(())).map(|_| ());
        report(&answers).after(printed)
    } else {
        let answers = read(answers, |body| view(out, body, now));
        let printed = print(out, &answers);
        report(&answers).after(printed)
    }
}

fn read<'a, T>(
    answers: Vec<HostAnswer<'a, Vec<u8>>>,
    read: impl Fn(&[u8]) -> Result<T, CommandFailure>,
) -> Vec<HostAnswer<'a, T>> {
    let answers = answers.into_iter();
    answers
        .map(|(host, body)| (host, body.and_then(|body| read(&body))))
        .collect()
}

/// Reads the members of a document. A member in place of the name of the host would pass for another host.
fn members(body: &[u8]) -> Result<Members, CommandFailure> {
    let mut members: Members = parse(body)?;
    members.retain(|name, _| !["host", "host_error"].contains(&name.as_str()));
    Ok(members)
}

fn document<'a>(answers: &'a [HostAnswer<'a, Members>]) -> HostsDocument<'a> {
    let hosts = answers.iter().map(|(host, answer)| match answer {
        Ok(members) => HostDocument::Answer { host, members },
        Err(failure) => HostDocument::Failure {
            host,
            host_error: &failure.message,
        },
    });
    HostsDocument { hosts: hosts.collect() }
}

fn print(out: &Output, answers: &[HostAnswer<'_, HostRows>]) -> Result<(), CommandFailure> {
    if out.format == Format::Name {
        let rows = answers
            .iter()
            .filter_map(|(host, answer)| Some((host, answer.as_ref().ok()?)));
        let names = rows.flat_map(|(host, rows)| rows.table.names().map(move |name| format!("{host} {name}")));
        return out.lines(names);
    }
    if let Some(table) = merged(answers) {
        out.table(&table)?;
    }
    out.lines(lines(answers))
}

/// Returns one table of all answers; nothing if no host has answered.
fn merged(answers: &[HostAnswer<'_, HostRows>]) -> Option<TextTable> {
    let any = answers.iter().find_map(|(_, answer)| answer.as_ref().ok())?;
    let mut table = any.table.behind("HOST");
    for (host, answer) in answers {
        match answer {
            Ok(rows) => table.append(host, &rows.table),
            Err(failure) if failure.exit == Exit::NotReachable => table.without_cells(host, "no answer"),
            Err(_) => table.without_cells(host, "failed"),
        }
    }
    Some(table)
}

/// Returns the lines below the table, after an empty one.
fn lines(answers: &[HostAnswer<'_, HostRows>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (host, answer) in answers {
        let own = answer.iter().flat_map(|rows| &rows.lines);
        lines.extend(own.map(|line| escape(&format!("{host}: {line}"), false)));
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// Reports the hosts without an answer. Returns the exit code of the first of them; that of a host that is not reachable wins.
fn report<T>(answers: &[HostAnswer<'_, T>]) -> Exit {
    let mut exit = Exit::Fine;
    for (host, answer) in answers {
        let Err(failure) = answer else { continue };
        let message = format!("{host}: {}", failure.message);
        let help = failure.help.clone();
        output::failure(&CommandFailure {
            help,
            ..CommandFailure::new(failure.exit, message)
        });
        if exit == Exit::Fine || failure.exit == Exit::NotReachable {
            exit = failure.exit;
        }
    }
    exit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Tone;

    fn rows(names: &[&str]) -> HostRows {
        let mut table = TextTable::new(&["FUNCTION", "STATE"]);
        for name in names {
            table.row(Tone::Plain, [(*name).to_owned(), "ready".to_owned()]);
        }
        let lines = names.iter().map(|name| format!("{name}: a\nb")).collect();
        HostRows { table, lines }
    }

    fn refused(exit: Exit) -> CommandFailure {
        CommandFailure::new(exit, "why")
    }

    #[test]
    fn one_table_has_all_hosts_in_their_order() {
        let answers = [
            ("vm2", Ok(rows(&["hello", "mail"]))),
            ("vm3", Err(refused(Exit::NotReachable))),
            ("vm4", Err(refused(Exit::NotAllowed))),
            ("vm5", Ok(rows(&[]))),
            ("vm1", Ok(rows(&["hello"]))),
        ];
        assert_eq!(
            merged(&answers).unwrap().lines(None),
            [
                "HOST  FUNCTION   STATE",
                "vm2   hello      ready",
                "vm2   mail       ready",
                "vm3   no answer  -",
                "vm4   failed     -",
                "vm1   hello      ready",
            ]
        );
        assert_eq!(
            lines(&answers),
            ["", "vm2: hello: a\\nb", "vm2: mail: a\\nb", "vm1: hello: a\\nb"]
        );
        assert_eq!(report(&answers), Exit::NotReachable);
        assert_eq!(report(&answers[2..]), Exit::NotAllowed);
        assert_eq!(report(&answers[3..]), Exit::Fine);
        assert!(merged(&answers[1..3]).is_none());
    }

    #[test]
    fn one_document_has_all_hosts_and_each_number_as_it_was() {
        let body = br#"{"host": "vm9", "functions": [{"error": null}], "big": 12345678901234567890123}"#;
        let answers = vec![("vm1", Ok(body.to_vec())), ("vm2", Err(refused(Exit::NotReachable)))];
        let answers = read(answers, members);
        let text = serde_json::to_string(&document(&answers)).unwrap();
        assert_eq!(
            text,
            r#"{"hosts":[{"host":"vm1","big":12345678901234567890123,"functions":[{"error": null}]},{"host":"vm2","host_error":"why"}]}"#
        );
        let greeting = read(vec![("vm1", Ok(b"Welcome".to_vec()))], members);
        assert!(greeting[0].1.is_err());
    }
}
