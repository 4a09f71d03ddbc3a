//! The fuzzer's entry to the import of units.

use super::make::make;
use super::unit::{SystemdMachine, Unit};
use super::{ImportText, ImportedNames, ImportedUsers};
use crate::Imported;
use crate::script::LINK;

/// Makes a function of a service, and of a timer if there is one, without looking at files.
pub(crate) fn made(service: &str, timer: Option<&str>) -> Imported {
    let unit = |name: &str, text: &str| Unit {
        name: name.to_owned(),
        text: ImportText::new(name, text),
        drop_ins: Vec::new(),
    };
    let machine = SystemdMachine {
        script: LINK,
        users: ImportedUsers::OwnForRoot,
        user: "root",
        read: &|path| (path.len() % 2 == 0).then(|| (format!("A={path}"), path.len() % 4 == 0)),
        home: &|_| None,
    };
    let timer = timer.map(|text| unit("a@b.timer", text));
    let name = ImportedNames::default().unique("a@b");
    let (made, report) = make(&name, &unit("a@b.service", service), timer.as_ref(), machine);
    Imported {
        functions: made.into_iter().collect(),
        report,
        ..Imported::new("x".to_owned())
    }
}
