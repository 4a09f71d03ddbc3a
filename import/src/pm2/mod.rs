//! `fndctl import pm2`: a service for each app of an ecosystem file.
//!
//! Files:
//! - `app`: the keys of an app
//! - `evaluate`: runs a file that is a program

mod app;
pub(super) mod evaluate;

use super::Imported;
use super::names::{ImportedNames, stem};
use super::tree::{self, NamedValue};
use crate::failure::ImportFailure;
use app::App;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{Field, FieldVerdict};
use std::path::Path;

/// Reads an ecosystem file.
///
/// # Errors
/// It cannot be read or evaluated.
pub fn import(file: &Path, env: Option<&str>, own: bool) -> Result<Imported, ImportFailure> {
    let end = file.extension().and_then(|end| end.to_str());
    let evaluated = matches!(end, Some("js" | "cjs" | "mjs"));
    let documents = if evaluated {
        evaluate::evaluate(file)?
    } else {
        tree::read(file)?
    };
    let full = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let base = full.parent().unwrap_or(Path::new("/")).to_owned();
    let shown = file.display().to_string();
    let mut imported = apps(&documents, &shown, &base, env, own);
    if evaluated {
        let note = "node evaluated the file; the places are those of the first fitting keys";
        imported
            .report
            .add(&field(&shown), FieldVerdict::Works, None, Some(note));
    }
    Ok(imported)
}

fn field(file: &str) -> Field {
    Field {
        file: file.to_owned(),
        name: "apps".to_owned(),
        line: 1,
        column: 1,
        excerpt: String::new(),
    }
}

/// Makes functions of the apps.
pub(super) fn apps(documents: &[Document], file: &str, base: &Path, env: Option<&str>, own: bool) -> Imported {
    let mut imported = Imported {
        head: format!("Made of {file} by `fndctl import pm2`. The program stays where it is."),
        ..Imported::default()
    };
    let mut names = ImportedNames::default();
    let mut any = false;
    for root in documents.iter().map(NamedValue::root) {
        let list = match root.get("apps").or_else(|| root.get("pm2")) {
            Some(apps) => apps,
            None => root,
        };
        // One app may stand alone.
        let apps = if list.is_list() { list.items() } else { vec![list] };
        for item in root.items().iter().filter(|item| item.key == "deploy") {
            imported.report.not_here(
                &item.field(),
                "`[source] git` fetches code of a repository (docs/sources.md)",
            );
        }
        for item in apps.iter().filter(|app| app.is_map() && app.get("script").is_some()) {
            any = true;
            // pm2 names an app after its script, unless the file has a name.
            let name = item
                .text_of("name")
                .or_else(|| item.text_of("script").map(|script| stem(&script).to_owned()));
            let mut app = App::new(&names.unique(&name.unwrap_or_default()), base, env, own);
            app.read(item);
            imported
                .functions
                .extend((!app.report.is_refused()).then_some(app.made));
            imported.report.rows.extend(app.report.rows);
        }
        for item in apps.iter().filter(|app| !app.is_map() || app.get("script").is_none()) {
            any = true;
            imported
                .report
                .refused(&item.named("app"), "expected an app with `script`");
        }
    }
    if !any {
        imported.report.refused(&field(file), "there is no app");
    }
    imported
}
