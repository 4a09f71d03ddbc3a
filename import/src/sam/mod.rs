//! `fndctl import sam`: the functions of a template of AWS's Serverless Application Model that run a program of their own
//! (`Runtime: provided.*`).
//!
//! Files:
//! - `code`: the files of a directory or an archive
//! - `cron`: times of EventBridge
//! - `events`: routes, schedules, function URLs
//! - `function`: the properties of a function
//! - `fuzzing`: what the fuzzer and tests may call
//! - `intrinsics`: `!Ref`, `!Sub` and others
//! - `keys`: keys whose value does not matter
//! - `prepare`: parameters, `Globals` and intrinsic functions, before the functions are read

mod code;
mod cron;
mod events;
mod function;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod intrinsics;
mod keys;
mod prepare;

use super::Imported;
use super::names::ImportedNames;
use super::rows::reported;
use super::text;
use super::tree::{self, NamedValue};
use crate::failure::ImportFailure;
use code::ReadCode;
use fnd_manifest::foreign::yaml::Document;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use intrinsics::PSEUDO_PARAMETERS;
use prepare::{SamTemplate, is_function, prepared};
use std::path::Path;

/// The machine that a template is read on. Tests have another one.
#[derive(Clone, Copy)]
struct SamMachine<'a> {
    /// The directory that a relative `CodeUri` begins at.
    base: &'a Path,
    read: ReadCode,
    /// The architecture, as Rust names it.
    architecture: &'a str,
}

/// A function on its way.
struct SamImport<'a> {
    made: MadeManifest,
    report: ConversionReport,
    /// The logical id.
    id: &'a str,
    /// The whole template.
    root: NamedValue<'a>,
    template: &'a SamTemplate,
    machine: SamMachine<'a>,
    /// The value of `MemorySize`, in MB.
    memory: Option<(i64, Field)>,
    /// Whether an event is a route of API Gateway.
    has_api: bool,
}

/// Reads a template; `parameters` are values as `NAME=VALUE`.
///
/// # Errors
/// It cannot be read, or a parameter has no value.
pub fn import(file: &Path, parameters: &[String]) -> Result<Imported, ImportFailure> {
    let pair = |text: &String| {
        let pair = text
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| ImportFailure::usage(format!("`--parameter {text}`: expected NAME=VALUE")))
    };
    let parameters: Vec<(String, String)> = parameters.iter().map(pair).collect::<Result<_, _>>()?;
    let shown = file.display().to_string();
    let mut bytes = text::read(file)?;
    // Templates are also written in JSON, whatever the name of their file is.
    if bytes.trim_ascii_start().starts_with(b"{") {
        tree::without_tabs(&mut bytes);
    }
    let documents = tree::parse_tagged(&shown, &bytes)?;
    for parameter in &parameters {
        allowed(&documents, &shown, parameter)?;
    }
    let machine = SamMachine {
        base: &text::directory_of(file),
        read: code::read,
        architecture: std::env::consts::ARCH,
    };
    Ok(functions(&documents, &shown, &parameters, machine))
}

/// Checks that a parameter is one of the template, and that the template allows its value.
fn allowed(documents: &[Document], file: &str, (name, value): &(String, String)) -> Result<(), ImportFailure> {
    let of = |document| NamedValue::root(document).get("Parameters")?.get(name);
    let Some(parameter) = documents.iter().find_map(of) else {
        if PSEUDO_PARAMETERS.contains(&name.as_str()) {
            return Ok(());
        }
        return Err(ImportFailure::usage(format!("`{file}` has no parameter `{name}`")));
    };
    let is_list = parameter.text_of("Type").is_some_and(|kind| kind.contains("List"));
    let texts = parameter.get("AllowedValues").filter(|_| !is_list);
    let texts = texts.map(|texts| texts.items().iter().filter_map(NamedValue::text).collect::<Vec<_>>());
    match texts.filter(|texts| !texts.contains(value)) {
        Some(texts) => {
            let message = format!(
                "`--parameter {name}={value}`: the template allows only `{}`",
                texts.join("`, `")
            );
            Err(ImportFailure::usage(message))
        }
        None => Ok(()),
    }
}

/// The transform that makes a template one of SAM.
const TRANSFORM: &str = "AWS::Serverless-2016-10-31";

/// The type of a function that is none of SAM.
const PLAIN: &str = "AWS::Lambda::Function";

/// Makes functions of a template.
fn functions(documents: &[Document], file: &str, parameters: &[(String, String)], machine: SamMachine<'_>) -> Imported {
    let mut imported = Imported::new(format!("Made of {file} by `fndctl import sam`."));
    let mut names = ImportedNames::default();
    let mut any = false;
    for document in documents {
        let template = prepared(document, parameters, &mut names);
        any |= read(&template, machine, &mut imported);
    }
    if !any && !imported.report.is_refused() {
        let field = tree::whole(file, "Resources");
        imported
            .report
            .refused(&field, "there is no `AWS::Serverless::Function`");
    }
    imported
}

/// Reads a template; says whether it has a function.
fn read(template: &SamTemplate, machine: SamMachine<'_>, imported: &mut Imported) -> bool {
    let root = NamedValue::root(&template.document);
    let transform = root.get("Transform");
    let is_sam = |item: &NamedValue<'_>| item.text().as_deref() == Some(TRANSFORM);
    if !transform
        .iter()
        .any(|item| is_sam(item) || item.items().iter().any(is_sam))
    {
        let place = transform.unwrap_or(root);
        let mut why = format!("it is no template of SAM: it has no `Transform: {TRANSFORM}`");
        let plain = |item: &NamedValue<'_>| item.text_of("Type").as_deref() == Some(PLAIN);
        if root
            .get("Resources")
            .iter()
            .flat_map(NamedValue::items)
            .any(|item| plain(&item))
        {
            why.push_str("; write it, and each `AWS::Lambda::Function` as `AWS::Serverless::Function` with `CodeUri`");
        }
        imported.report.refused(&place.named("Transform"), &why);
        return false;
    }
    if template.is_too_large {
        let field = root.get("Globals").unwrap_or(root).named("Globals");
        imported.report.refused(&field, "it is too large for so many functions");
        return false;
    }
    for item in root.items().iter().filter(|item| item.key != "Resources") {
        let (report, field) = (&mut imported.report, item.field());
        if !reported(keys::FILE, item.key, report, &field) {
            report.unknown(&field, "a template has no such section");
        }
    }
    globals(&root, &mut imported.report);
    let mut any = false;
    for resource in root.get("Resources").iter().flat_map(NamedValue::items) {
        if !is_function(&resource) {
            if resource.text_of("Type").as_deref() == Some(PLAIN) {
                imported.refused.push(resource.key.to_owned());
            }
            other(&resource, &mut imported.report);
            continue;
        }
        any = true;
        if template.left_out.iter().any(|id| id == resource.key) {
            let note = "its `Condition` does not hold with these parameters";
            imported.report.not_here(&resource.field(), note);
            continue;
        }
        if template.unclear.iter().any(|id| id == resource.key) {
            let why = "fnd cannot tell whether its `Condition` holds: give the parameters of it with `--parameter`, or remove it";
            imported.report.refused(&resource.field(), why);
            imported.refused.push(resource.key.to_owned());
            continue;
        }
        let name = template.names.get(resource.key).map_or(resource.key, String::as_str);
        let mut import = SamImport {
            made: MadeManifest::new(name),
            report: ConversionReport::default(),
            id: resource.key,
            root,
            template,
            machine,
            memory: None,
            has_api: false,
        };
        import.read(&resource);
        imported.add(import.made, import.report);
    }
    any
}

/// Reports the keys of `Globals` that are about no function.
fn globals(root: &NamedValue<'_>, report: &mut ConversionReport) {
    for item in root.get("Globals").iter().flat_map(NamedValue::items) {
        let name = format!("Globals.{}", item.key);
        if ["Api", "HttpApi"].contains(&item.key) {
            api(&item, &name, report);
        } else if !reported(keys::GLOBALS, item.key, report, &item.named(&name)) {
            report.unknown(&item.named(&name), "`Globals` has no such section");
        }
    }
}

/// Reports the properties of an API; those of its routes are in the events of the functions.
fn api(properties: &NamedValue<'_>, name: &str, report: &mut ConversionReport) {
    for item in properties.items() {
        let field = item.named(&format!("{name}.{}", item.key));
        if !reported(keys::API, item.key, report, &field) {
            report.not_here(&field, "fnd's listener has no such setting");
        }
    }
}

/// Reports a resource that is no function.
fn other(resource: &NamedValue<'_>, report: &mut ConversionReport) {
    let (field, kind) = (resource.field(), resource.text_of("Type").unwrap_or_default());
    if resource.key.starts_with("Fn::ForEach") {
        return report.refused(&field, "fnd unfolds no loops: write each function of it");
    }
    if kind.is_empty() {
        return report.refused(&field, "expected a resource with `Type`");
    }
    if !reported(keys::RESOURCES, &kind, report, &field) {
        report.not_here(&field, &format!("`{kind}` has no meaning here"));
    }
    if ["AWS::Serverless::Api", "AWS::Serverless::HttpApi"].contains(&kind.as_str())
        && let Some(properties) = resource.get("Properties")
    {
        api(&properties, resource.key, report);
    }
}

#[cfg(test)]
pub(crate) mod tests;
