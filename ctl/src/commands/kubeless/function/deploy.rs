//! `kubeless function deploy` and `update`: the files and the manifest of a function, uploaded as a directory.

use super::super::code::{fetched, upload, uploaded};
use super::super::options::warn;
use super::super::runtimes;
use super::super::trigger::cronjob;
use super::settings::Settings;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_import::kubeless::code::{KubelessCode, MANIFEST};
use fnd_import::kubeless::manifest::{set_entries, table};
use fnd_import::kubeless::runtime::{Chosen, choose};
use fnd_import::kubeless::values;
use fnd_unpack::WholeFile;

/// Options of `deploy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubeless function deploy hello -r python3.7 --handler get.foo -f get.py\n  \
    kubeless function deploy post -r nodejs10 --handler index.main -f src.zip -e A=1,B=2\n  \
    kubeless function deploy tick -r python --handler t.run -f t.py --schedule '@hourly'")]
pub(in crate::commands::kubeless) struct Deploy {
    #[command(flatten)]
    settings: Settings,

    /// Run it at the times of this line of cron: a cronjob trigger with the name of the function.
    #[arg(long, value_name = "CRON")]
    schedule: Option<String>,
}

/// Options of `update`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is not named stays as it was. `-e` replaces all variables, `-l` and `--secrets` add to those that are there.\n\n\
    Example:\n  kubeless function update hello --from-file helloget.py"
)]
pub(in crate::commands::kubeless) struct UpdateFunction {
    #[command(flatten)]
    settings: Settings,
}

/// Deploys a new function.
///
/// # Errors
/// An option is wrong, or fnd refuses the function.
pub(super) async fn deploy(context: &Context, args: Deploy) -> Result<Exit, CommandFailure> {
    let settings = args.settings;
    let Some(typed) = &settings.runtime else {
        // The sentences without a remedy are those of Kubeless.
        let message = match &settings.cluster.runtime_image {
            Some(image) => format!("fnd runs no container images, so `{image}` cannot be deployed"),
            None => "Either `--runtime` or `--runtime-image` flag must be specified.".to_owned(),
        };
        let help = "name the language with --runtime, and the code with --from-file";
        return Err(CommandFailure::usage(message).help(help));
    };
    let handler = settings.handler.as_deref();
    let handler = handler.ok_or_else(|| CommandFailure::usage("You must specify handler for the runtime."))?;
    let (module, _) = values::handler(handler)?;
    let no_code = || CommandFailure::usage("there is no code: name its file with `--from-file`");
    let from = settings.from_file.as_deref().ok_or_else(no_code)?;
    let chosen = choose(typed, &runtimes(context).await?)?;
    settings.report(context, Some(&chosen));
    let mut code = KubelessCode {
        files: read(context, from, module, &chosen)?,
        ..KubelessCode::default()
    };
    settings.changes(Some(&chosen)).apply(&mut code.manifest)?;
    // Kubeless gives these two labels to each function that it deploys.
    for (label, value) in [("created-by", "kubeless"), ("function", settings.function.as_str())] {
        table(&mut code.manifest, "labels")?.insert(label.to_owned(), value.into());
    }
    settings.take_dependencies(&mut code, &chosen)?;
    if let Some(cron) = &args.schedule {
        let name = values::trigger(&settings.function)?;
        let schedule = vec![cronjob::schedule(cron, None)];
        set_entries(&mut code.manifest, cronjob::PLACE, name, schedule)?;
    }
    // Kubeless's `deploy` does not replace a function that exists.
    finish(context, &settings, &code, (true, "deployed")).await
}

/// Uploads a function, or with `--dryrun` only prints its object.
async fn finish(
    context: &Context,
    settings: &Settings,
    code: &KubelessCode,
    (new, done): (bool, &str),
) -> Result<Exit, CommandFailure> {
    if settings.dryrun {
        return settings.print(context, code);
    }
    let name = &settings.function;
    let sent = upload(context, code, name, new).await;
    sent.map_err(|failure| settings.advised(failure))?;
    context.out.remark(&format!("Function {name} {done}"))?;
    Ok(Exit::Fine)
}

/// Changes a function that was deployed.
///
/// # Errors
/// There is no such function, an option is wrong, or fnd refuses the change.
pub(super) async fn update(context: &Context, args: UpdateFunction) -> Result<Exit, CommandFailure> {
    let settings = args.settings;
    let mut code = uploaded(context, &settings.function).await?;
    let written =
        |code: &KubelessCode, key: &str| code.manifest.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let before = written(&code, "handler");
    let typed = settings.runtime.clone().or_else(|| written(&code, "runtime"));
    let typed = typed.unwrap_or_else(|| code.runtime.clone());
    let chosen = choose(&typed, &runtimes(context).await?)?;
    // A runtime that the command does not name stays as it is written: `choose` may have taken another version for it.
    let changed = settings.runtime.as_ref().map(|_| &chosen);
    settings.report(context, changed);
    settings.changes(changed).apply(&mut code.manifest)?;
    // A function of `fndctl deploy` may have none.
    let handler = written(&code, "handler");
    let module = handler.as_deref().map(values::handler).transpose()?;
    let module = module.map(|(module, _)| module);
    match (&settings.from_file, module) {
        (Some(_), None) => return Err(CommandFailure::usage("You must specify handler for the runtime.")),
        (Some(from), Some(module)) => code.replace(read(context, from, module, &chosen)?),
        (None, Some(module)) => code.rename(before.as_deref().unwrap_or_default(), module, &chosen),
        (None, None) => {}
    }
    settings.take_dependencies(&mut code, &chosen)?;
    finish(context, &settings, &code, (false, "updated")).await
}

/// Reads code: the files of an archive, or one file under the name of the handler's module.
fn read(context: &Context, from: &str, module: &str, chosen: &Chosen) -> Result<Vec<WholeFile>, CommandFailure> {
    let (manifest, files): (Vec<_>, Vec<_>) = fetched(from)?
        .files(module, chosen)?
        .into_iter()
        .partition(|file| file.path == MANIFEST);
    if !manifest.is_empty() {
        let text = format!("`{MANIFEST}` of `{from}` is not used: the options say what would be in it");
        warn(context, &text);
    }
    Ok(files)
}
