//! Uploads the functions of YAML files of Keptn, Kubeless, Kyma and Rafay, as `fndctl import` makes them.
//!
//! It does not upload values of Secrets: fnd reads secrets from files of root alone.

use super::{Args, say_done, say_valid, upload};
use crate::client::Reply;
use crate::common::conversion::table;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::upload::{Packed, is_only_for_root};
use fnd_manifest::foreign::{FieldVerdict, Row};
use serde_json::{Value, json};
use std::path::Path;

/// Says whether a path is one of a YAML file, or standard input.
pub(super) fn is_foreign(path: &Path) -> bool {
    let suffix = path.extension();
    let is_yaml = suffix.is_some_and(|suffix| suffix == "yaml" || suffix == "yml");
    path.as_os_str() == "-" || is_yaml && !path.is_dir()
}

/// Uploads the functions of all files, one after the other. If one of them is refused, none is uploaded.
///
/// # Errors
/// An option contradicts the files, a file cannot be read, or fnd refuses a function.
pub(super) async fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    if let Some(option) = args.options.of_the_code() {
        let message = format!("`{option}` contradicts a YAML file, which says this itself");
        let help = "change the file, or make fnd's own form of it with `fndctl import`";
        return Err(CommandFailure::usage(message).help(help));
    }
    let imported = fnd_import::yaml::import(&args.paths)?;
    check_count(args, imported.functions.len())?;
    let rows = &imported.report.rows;
    let secrets: Vec<&str> = imported.secrets().map(|(name, _)| name.as_str()).collect();
    report(context, rows, &secrets);
    if imported.report.is_refused() {
        let mut failure = CommandFailure::new(Exit::InvalidManifest, "a field is refused, so nothing was uploaded");
        // With `-q` the table of the fields was not printed, so the error itself names the refused ones.
        if context.out.is_quiet() {
            let refused = rows.iter().filter(|row| row.verdict == FieldVerdict::Refused);
            failure.diagnostics = refused.filter_map(Row::diagnostic).collect();
        }
        return Err(failure);
    }
    if imported.functions.is_empty() {
        let message = "there is no function in the files, only what functions name";
        return Err(CommandFailure::usage(message).help("name the file with the function, too"));
    }
    let pack = |made| Packed::of_made(made, args.name.as_deref(), &args.options, &imported.head);
    let packed = imported.functions.iter().cloned().map(pack);
    let packed = packed.collect::<Result<Vec<_>, _>>()?;
    let remarks = packed.iter().flat_map(|one| &one.remarks);
    remarks.for_each(|remark| context.out.aside(remark));
    if packed.len() > 1 && !args.dry_run {
        // A trial first: if fnd refuses one function, the others stay as they are.
        for one in &packed {
            sent(context, args, one, true).await?;
        }
    }
    let mut documents = Vec::new();
    for one in &packed {
        let reply = sent(context, args, one, args.dry_run).await?;
        let mut document: Value = crate::output::parse(&reply.body)?;
        if args.dry_run {
            // fnd's answer to a trial does not name the function.
            document["function"] = one.name.as_str().into();
        }
        if context.out.format.is_document() {
            documents.push(document);
        } else if args.dry_run {
            say_valid(&context.out, one, &crate::output::parse(&reply.body)?)?;
        } else {
            say_done(&context.out, one, reply.status, &crate::output::parse(&reply.body)?)?;
        }
    }
    let document = json!({"functions": documents, "secrets": secrets, "rows": rows});
    context.made(&document, |_| Ok(()))
}

/// Refuses options that belong to one function where there are several.
fn check_count(args: &Args, count: usize) -> Result<(), CommandFailure> {
    let given = [
        ("--name", args.name.is_some()),
        ("--if-version", args.if_version.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if count > 1 => {
            let message = format!("`{option}` is for one function, and the files have {count}");
            Err(CommandFailure::usage(message).help("leave it out, or deploy a file with one function"))
        }
        _ => Ok(()),
    }
}

/// Says on standard error which fields do not simply work, and which secrets are missing.
fn report(context: &Context, rows: &[Row], secrets: &[&str]) {
    let mut notable = rows.iter().filter(|row| row.verdict != FieldVerdict::Works).peekable();
    if notable.peek().is_some() && !context.out.is_quiet() {
        context.out.table_aside(&table(notable));
    }
    if !secrets.is_empty() {
        let out = &context.out;
        out.aside("warning: values of Secrets are not uploaded; store those that are needed, as root:");
        for name in secrets {
            out.aside(&format!("  fndctl secret set {name}"));
        }
    }
}

/// Uploads one function, or only lets fnd judge it.
async fn sent(context: &Context, args: &Args, one: &Packed, dry_run: bool) -> Result<Reply, CommandFailure> {
    let sent = upload(context, args, one, dry_run).await;
    sent.map_err(|failure| {
        if is_only_for_root(&failure) {
            // The remedy in the problem, `chown root`, is not for uploads.
            failure.help(
                "an upload gets no secrets and no rights of its own: as root, let `fndctl import FILE... --out DIR` write the \
                 function to a functions directory, such as /etc/fnd/functions",
            )
        } else {
            failure
        }
    })
}
