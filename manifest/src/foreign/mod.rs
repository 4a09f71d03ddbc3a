//! Makes functions of files that people wrote for other systems, and reports what became of each field.
//!
//! The YAML of Keptn, Kubeless, Kyma and Rafay is read as a set of files: an object may name another one in a file beside
//! it (a definition, a ConfigMap, a trigger). What a set gives is a function in directory form, with a manifest of fnd's own.
//!
//! Files:
//! - `common`: metadata, environment, resources and code of functions of all systems
//! - `item`: a value of a document, with its path
//! - `keptn`: `KeptnTaskDefinition`, `KeptnTask`
//! - `kubeless`: `Function` and its triggers
//! - `kyma`: Kyma's `Function`
//! - `kyma_triggers`: `Subscription`, `APIRule`
//! - `made`: a function that was made, and its manifest
//! - `objects`: the objects of a set of files
//! - `packed`: archives inside of documents
//! - `placed`: the files of a function, and the places of its problems
//! - `rafay`: `Driver`
//! - `report`: what became of each field
//! - `secrets`: Secrets of Kubernetes as secrets of fnd
//! - `yaml`: documents of YAML with places

mod common;
pub mod item;
mod keptn;
mod kubeless;
mod kyma;
mod kyma_triggers;
pub mod made;
pub mod objects;
mod packed;
pub mod placed;
mod rafay;
pub mod report;
mod secrets;
#[cfg(test)]
mod tests;
pub mod yaml;

pub use fnd_unpack::WholeFile;
pub use kubeless::{INGRESS_METHODS, ingress_paths};
pub use made::{MadeManifest, Manifest};
pub use report::{ConversionReport, Field, FieldVerdict, Row};
pub use secrets::{find as find_secret, secrets};

use crate::function::listing::{ListedYaml, stem};
use common::Making;
use fnd_wire::ids::is_part;
use objects::{Object, ObjectKind, Objects};
use yaml::Document;

/// Finds the functions in a file. One without a name that fnd could have counts as a function of the file's own name, so
/// that somebody hears of it.
#[must_use]
pub fn listed(file: &str, bytes: &[u8]) -> ListedYaml {
    let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    // Without these words there is no object of Kubernetes, so most other YAML files are not even parsed.
    if !has(b"apiVersion") || !has(b"kind") {
        return ListedYaml::Other;
    }
    let Ok(documents) = yaml::documents(file, bytes) else {
        return ListedYaml::Broken;
    };
    let objects = Objects::of(&documents);
    let is_foreign = |object: &Object<'_>| !matches!(object.kind, ObjectKind::NotHere | ObjectKind::Other);
    if !objects.0.iter().any(is_foreign) {
        return ListedYaml::Other;
    }
    let name = |object: &Object<'_>| {
        let name = Some(object.name).filter(|name| is_part(name));
        name.unwrap_or_else(|| stem(file)).to_owned()
    };
    let mut names: Vec<String> = objects.functions().map(name).collect();
    names.sort();
    names.dedup();
    ListedYaml::Functions(names)
}

/// Makes the function of this name that a file has; `documents` are those of the file and of the files beside it.
#[must_use]
pub fn function(documents: &[Document], file: &str, name: &str) -> (Option<MadeManifest>, ConversionReport) {
    let objects = Objects::of(documents);
    let here: Vec<&Object<'_>> = objects
        .functions()
        .filter(|object| object.root.file() == file)
        .collect();
    // A function whose name fnd cannot have is listed under the file's.
    let found = here.iter().find(|object| object.name == name);
    let found = found.or_else(|| here.iter().find(|object| !is_part(object.name)));
    match found {
        Some(object) => make(object, &objects),
        None => (None, ConversionReport::default()),
    }
}

/// Makes all functions of a set of documents. One with a mistake is not among them; the report says why.
#[must_use]
pub fn functions(documents: &[Document]) -> (Vec<MadeManifest>, ConversionReport) {
    let objects = Objects::of(documents);
    let mut functions = Vec::new();
    let mut report = ConversionReport::default();
    for object in objects.functions() {
        let (made, rows) = make(object, &objects);
        functions.extend(made);
        report.rows.extend(rows.rows);
    }
    // After the functions: an object is reported here only if no function has reported it.
    for object in &objects.0 {
        rest(object, &objects, &mut report);
    }
    // A definition that a task uses is reported with both.
    report.sort();
    report.rows.dedup();
    (functions, report)
}

fn make(object: &Object<'_>, objects: &Objects<'_>) -> (Option<MadeManifest>, ConversionReport) {
    let mut making = Making {
        objects,
        report: ConversionReport::default(),
        made: MadeManifest::new(object.name),
    };
    let place = object.root.get("metadata.name").unwrap_or_else(|| object.place());
    if !is_part(object.name) {
        let why = match object.name {
            "" => "Required value: metadata.name".to_owned(),
            _ => "a function's name has a-z, 0-9, `_` and `-`, at most 63 of them, and begins and ends with a letter or digit".to_owned(),
        };
        making.refuse(&place, &why);
        return (None, making.report);
    }
    let same = |other: &&Object<'_>| other.name == object.name;
    let twice: Vec<&Object<'_>> = objects.functions().filter(same).collect();
    if let [first, second, ..] = twice.as_slice() {
        let other = if first.root.field() == object.root.field() {
            second
        } else {
            first
        };
        let at = other.root.field();
        making.refuse(
            &place,
            &format!("`{}` is there twice: also at {}:{}", object.name, at.file, at.line),
        );
        return (None, making.report);
    }
    match object.kind {
        ObjectKind::KeptnTaskDefinition => making.keptn_definition(object),
        ObjectKind::KeptnTask => making.keptn_task(object),
        ObjectKind::KubelessFunction => making.kubeless(object),
        ObjectKind::KymaFunction => making.kyma(object),
        ObjectKind::Driver => making.rafay(object),
        // The other kinds make no function by themselves.
        _ => {}
    }
    let Making { report, made, .. } = making;
    ((!report.is_refused()).then_some(made), report)
}

/// Reports an object that is no function, unless a function has reported it.
fn rest(object: &Object<'_>, objects: &Objects<'_>, report: &mut ConversionReport) {
    let field = object.root.get("kind").unwrap_or_else(|| object.root.clone()).field();
    let (word, api) = (object.word, object.api);
    let named = |path: &str| object.root.get(path).map(|item| item.field());
    match object.kind {
        ObjectKind::NotHere => report.not_here(&field, &format!("a {word} has no meaning on one machine")),
        ObjectKind::Other => report.unknown(&field, &format!("fnd knows no kind `{word}` of `{api}`")),
        ObjectKind::Secret => report.differs(
            &field,
            "",
            "its values are secrets of the functions in this directory; `fndctl import` writes them to files for `fndctl secret set`",
        ),
        ObjectKind::CronJobTrigger | ObjectKind::HttpTrigger => {
            let Some(item) = object.root.get("spec.function-name") else {
                return report.refused(&field, "Required value: spec.function-name");
            };
            let name = item.scalar(report).unwrap_or_default();
            if objects.find(ObjectKind::KubelessFunction, &name).is_none() {
                report.refused(
                    &item.field(),
                    &format!("functions.kubeless.io \"{name}\" not found among these files"),
                );
            }
        }
        ObjectKind::Subscription | ObjectKind::ApiRule => {
            let place = named("spec.sink").or_else(|| named("spec.service")).unwrap_or(field);
            let is_known = report
                .rows
                .iter()
                .any(|row| row.file == place.file && row.line == place.line);
            if !is_known {
                report.refused(&place, "it names no function among these files");
            }
        }
        _ => {}
    }
}
