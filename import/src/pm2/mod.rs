//! `fndctl import pm2`: a service for each app of an ecosystem file.
//!
//! Files:
//! - `app`: the keys of an app
//! - `code`: the script that starts an app
//! - `evaluate`: runs a file that is a program
//! - `keys`: the names of the keys

mod app;
mod code;
pub(super) mod evaluate;
mod keys;

use super::Imported;
use super::names::{ImportedNames, stem};
use super::text;
use super::tree::{self, NamedValue};
use super::users::ImportedUsers;
use crate::failure::ImportFailure;
use app::App;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{ConversionReport, FieldVerdict, MadeManifest};
use std::path::Path;

/// Reads an ecosystem file.
///
/// # Errors
/// It cannot be read or evaluated.
pub fn import(file: &Path, env: Option<&str>, users: ImportedUsers) -> Result<Imported, ImportFailure> {
    let end = file.extension().and_then(|end| end.to_str());
    let evaluated = matches!(end, Some("js" | "cjs" | "mjs"));
    let documents = if evaluated {
        evaluate::evaluate(file)?
    } else {
        tree::read_json(file, keys::without_comments)?
    };
    let (shown, base) = (file.display().to_string(), text::directory_of(file));
    let machine = Pm2Machine {
        base: &base,
        env,
        users,
        is_text: code::is_text,
    };
    let mut imported = apps(&documents, &shown, machine);
    if evaluated {
        let note = "node evaluated the file; the places are those of the first fitting keys";
        imported
            .report
            .add(&tree::whole(&shown, "apps"), FieldVerdict::Works, None, Some(note));
    }
    Ok(imported)
}

/// The facts about the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pm2Machine<'a> {
    /// The directory of the file.
    pub(super) base: &'a Path,
    /// The environment that is asked for.
    pub(super) env: Option<&'a str>,
    pub(super) users: ImportedUsers,
    /// Says whether a file is a text; nothing if there is no such file.
    pub(super) is_text: fn(&Path) -> Option<bool>,
}

/// Makes functions of the apps.
pub(super) fn apps(documents: &[Document], file: &str, machine: Pm2Machine<'_>) -> Imported {
    let mut imported = Imported::new(format!(
        "Made of {file} by `fndctl import pm2`. The program stays where it is."
    ));
    let mut names = ImportedNames::default();
    let mut any = false;
    for root in documents.iter().map(NamedValue::root) {
        let list = root.get("apps").or_else(|| root.get("pm2")).unwrap_or(root);
        // One app may stand alone.
        let apps = if list.is_list() { list.items() } else { vec![list] };
        let has_script = |app: &&NamedValue<'_>| app.is_map() && keys::entry(app, "script").is_some();
        // An app that stands alone has its keys there.
        let report = &mut imported.report;
        for item in root.items().iter().filter(|_| !has_script(&&list)) {
            let field = item.field();
            match item.key {
                "apps" | "pm2" => {}
                "deploy" => report.not_here(&field, "`[source] git` fetches code of a repository (docs/sources.md)"),
                _ if root.is_list() => {}
                _ => report.unknown(&field, "pm2 has no such key beside `apps`"),
            }
        }
        for item in apps.iter().filter(has_script) {
            any = true;
            // pm2 names an app after its script, unless the file has a name.
            let script = || keys::entry(item, "script").and_then(|script| script.text());
            let name = item
                .text_of("name")
                .or_else(|| script().map(|script| stem(&script).to_owned()));
            let mut app = App {
                made: MadeManifest::new(&names.unique(&name.unwrap_or_default())),
                report: ConversionReport::default(),
                machine,
            };
            app.read(item);
            imported.add(app.made, app.report);
        }
        for item in apps.iter().filter(|app| !has_script(app)) {
            any = true;
            let report = &mut imported.report;
            report.refused(&item.named("app"), "expected an app with `script`");
        }
    }
    if !any {
        imported.report.refused(&tree::whole(file, "apps"), "there is no app");
    }
    imported
}
