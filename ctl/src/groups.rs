//! Lists of verbs: the groups of `fndctl --help`, since clap lists all verbs below one heading, and what verbs need and print.

use clap::Command;
use std::fmt::Write as _;

/// Each group and its verbs, in the order in which people need them.
pub(crate) const GROUPS: &[(&str, &str)] = fnd_manifest::texts! {
    "See": "status overview list show cat top logs events history result report audit",
    "Run": "invoke emit wait cancel replay dead-letters enable disable start stop restart shell mcp",
    "Write": "new run edit validate reload deploy remove import",
    "Releases": "releases rollback pin unpin canary diff build",
    "Things of functions": "schedules routes nats secret binding state home sizes runtimes",
    "Machine": "doctor verify config log-level drain backup restore bundle web open",
    "Help": "explain schema completion whoami version kubeless",
};

/// Verbs that need no daemon: they must work without a login session, which sets `XDG_RUNTIME_DIR`.
pub(crate) const WITHOUT_DAEMON: &str = "new import run validate explain schema completion restore";

/// Verbs that print a table with names or ids in its first column.
pub(crate) const WITH_TABLE: &str = "\
    status list top emit history audit dead-letters releases runtimes routes schedules nats secret binding state sizes home";

/// Verbs that print the bytes of a function.
pub(crate) const WITH_BYTES: &str = "invoke run cat result logs tail state";

/// Verbs that print a text that people read from its beginning to its end, whatever their options are.
pub(crate) const WITH_PAGER: &str = "\
    show overview history audit report releases diff runtimes routes sizes doctor explain config";

/// Says whether a list has a verb.
pub(crate) fn lists(list: &str, verb: &str) -> bool {
    list.split(' ').any(|one| one == verb)
}

/// Columns of a name, and of a text after it: a line fits into 80 columns.
const NAME: usize = 14;
const TEXT: usize = 64;

/// Returns the command whose help lists the verbs by groups.
pub(crate) fn grouped(command: Command) -> Command {
    let mut list = String::new();
    for (group, verbs) in GROUPS {
        // Writing to a text never fails.
        let _ = writeln!(list, "{group}:");
        for verb in verbs.split(' ') {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {verb:NAME$}{}", cut(&about));
        }
        list.push('\n');
    }
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// Returns a text up to a comma, colon or semicolon, if it is too long for a line. The verb's own help has all of it.
fn cut(about: &str) -> &str {
    let about = about.trim_end_matches('.');
    if about.len() <= TEXT {
        return about;
    }
    let line = about.get(..about.floor_char_boundary(TEXT)).unwrap_or(about);
    let end = line.rfind([',', ':', ';']).or_else(|| line.rfind(' '));
    end.and_then(|end| line.get(..end)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_text_is_cut_where_a_part_of_it_ends() {
        let long = "Run a function of a file without a daemon, somewhere on this machine, and print its result.";
        assert_eq!(cut("List runs, newest first."), "List runs, newest first");
        assert_eq!(cut(long), "Run a function of a file without a daemon");
        assert_eq!(cut(&"word ".repeat(20)).len(), 59);
    }
}
