//! The settings of all programs of a file: the keys of `[supervisord]` that reach them, and the groups.

use super::parse::{Section, SupervisordSetting, expand, variables};
use super::{NO_DIRECTORY, OWN, SupervisordMachine};
use crate::rows::{KeyTexts, refuse, reported};
use crate::script::is_mask;
use fnd_manifest::foreign::{ConversionReport, Field};

/// The rows of keys of `[supervisord]` whose value does not matter.
const ROWS: KeyTexts = fnd_manifest::texts! {
    "not-here logfile logfile_maxbytes logfile_backups loglevel pidfile nodaemon silent minprocs nocleanup childlogdir strip_ansi \
     identifier": OWN,
    "refused umask": "expected a mask such as `022`",
    "not-here minfds": "`limits.open_files` bounds the open files of a function",
};

#[derive(Debug)]
pub(super) struct CommonSettings<'a> {
    pub(super) machine: SupervisordMachine<'a>,
    /// Variables of every program: name, value and origin.
    pub(super) variables: Vec<(String, String, Field)>,
    pub(super) umask: Option<String>,
    pub(super) directory: Option<String>,
    /// The user of a program that names none.
    pub(super) user: Option<(String, Field)>,
    /// Programs with their groups.
    groups: Vec<(String, String)>,
}

impl<'a> CommonSettings<'a> {
    /// Reads the sections that are no programs, and reports the keys of `[supervisord]`.
    pub(super) fn of(sections: &[Section], machine: SupervisordMachine<'a>, report: &mut ConversionReport) -> Self {
        let mut common = Self {
            machine,
            variables: Vec::new(),
            umask: None,
            directory: None,
            user: None,
            groups: Vec::new(),
        };
        for section in sections {
            match section.name.split_once(':') {
                Some(("group", group)) => common.group_of(section, group.trim()),
                None if section.name == "supervisord" => {
                    for item in &section.items {
                        let taken = common.item(item, report);
                        refuse(report, taken, &item.field);
                    }
                }
                _ => {}
            }
        }
        common
    }

    /// Returns the group of a program. One without a group is in a group of its own name.
    pub(super) fn group<'b>(&'b self, program: &'b str) -> &'b str {
        let found = self.groups.iter().find(|(known, _)| known == program);
        found.map_or(program, |(_, group)| group)
    }

    fn group_of(&mut self, section: &Section, group: &str) {
        for item in section.items.iter().filter(|item| item.key == "programs") {
            let programs = item
                .value
                .split([',', '\n'])
                .map(str::trim)
                .filter(|name| !name.is_empty());
            self.groups
                .extend(programs.map(|program| (program.to_owned(), group.to_owned())));
        }
    }

    fn item(&mut self, item: &SupervisordSetting, report: &mut ConversionReport) -> Result<(), String> {
        let field = &item.field;
        let machine = self.machine;
        let known = |name: &str| match name {
            "here" => Some(machine.here.to_owned()),
            "host_node_name" => Some(machine.host.to_owned()),
            _ => None,
        };
        let reaches = ["environment", "umask", "directory", "user"].contains(&item.key.as_str());
        let value = match expand(&item.value, &known) {
            Ok(value) => value,
            // A value that no program gets refuses none.
            Err(_) if !reaches => item.value.clone(),
            Err(why) => return Err(why),
        };
        match item.key.as_str() {
            "environment" => {
                let found = variables(&value)?.into_iter();
                self.variables
                    .extend(found.map(|(name, value)| (name, value, field.clone())));
                report.works(field, "env");
            }
            "umask" if is_mask(&value) => {
                report.works(field, "entry");
                self.umask = Some(value);
            }
            "directory" if !value.starts_with('/') => return Err(NO_DIRECTORY.to_owned()),
            "directory" => {
                report.works(field, "entry");
                self.directory = Some(value);
            }
            "user" => {
                let note = "it is the user of the programs that name none";
                report.differs(field, "sandbox.user", note);
                self.user = Some((value, field.clone()));
            }
            key if reported(ROWS, key, report, field) => {}
            _ => report.unknown(field, "supervisord has no such key in `[supervisord]`"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::testing::check_rows;

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[ROWS, super::super::SECTIONS, super::super::ROWS]);
    }
}
