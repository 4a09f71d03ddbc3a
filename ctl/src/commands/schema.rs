//! `fndctl schema`: JSON Schemas for editors, which complete and check manifests and configurations with them. Needs no
//! daemon.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use fnd_manifest::json_schema::{SchemaFile, schema};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl schema manifest > ~/.config/fnd/manifest.json\n  \
    fndctl schema config > fnd.schema.json\n\n\
Editors with a TOML language server (taplo, Even Better TOML) find the schema by the first line of the file:\n  \
    #:schema file:///usr/share/fnd/schema/manifest.json")]
pub(crate) struct Args {
    /// The file that the schema is for.
    #[arg(value_enum)]
    file: SchemaName,
}

/// The files that have a schema.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SchemaName {
    /// A function's manifest: `NAME.toml` or `function.toml`.
    Manifest,
    /// The configuration: `fnd.toml`.
    Config,
}

/// # Errors
/// Standard output cannot be written.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let text = text(match args.file {
        SchemaName::Manifest => SchemaFile::Manifest,
        SchemaName::Config => SchemaFile::Configuration,
    });
    match context.out.format {
        Format::Yaml => context.out.yaml(text.as_bytes())?,
        _ => context.out.raw(text.as_bytes())?,
    }
    Ok(Exit::Fine)
}

/// Returns the text of a schema, as the package installs it.
pub(crate) fn text(file: SchemaFile) -> String {
    format!("{:#}\n", schema(file))
}
