//! `kubeless function deploy` and `update`: the files and the manifest of a function, uploaded as a directory.

use super::super::code::{KubelessCode, MANIFEST};
use super::super::content::FetchedContent;
use super::super::options::warn;
use super::super::runtime::{self, Chosen, lists_dependencies};
use super::super::trigger::cronjob;
use super::settings::Settings;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_import::kubeless::manifest::{set_entries, table};
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
        let message = match &settings.cluster.runtime_image {
            Some(image) => format!("fnd runs no container images, so `{image}` cannot be deployed"),
            None => "Either `--runtime` or `--runtime-image` flag must be specified.".to_owned(),
        };
        return Err(
            CommandFailure::usage(message).help("name the language with --runtime, and the code with --from-file")
        );
    };
    let handler = settings.handler.as_deref();
    let handler = handler.ok_or_else(|| CommandFailure::usage("You must specify handler for the runtime."))?;
    let (module, _) = values::handler(handler)?;
    let from = settings
        .from_file
        .as_deref()
        .ok_or_else(|| CommandFailure::usage("there is no code: name its file with `--from-file`"))?;
    let chosen = runtime::choose(typed, &runtime::all(context).await?)?;
    settings.report(context, Some(&chosen));
    let mut code = KubelessCode {
        files: read(context, from, module, &chosen)?,
        ..KubelessCode::default()
    };
    settings.changes(Some(&chosen)).apply(&mut code.manifest)?;
    for (label, value) in [("created-by", "kubeless"), ("function", settings.function.as_str())] {
        table(&mut code.manifest, "labels")?.insert(label.to_owned(), value.into());
    }
    settings.take_dependencies(&mut code, &chosen)?;
    if let Some(cron) = &args.schedule {
        let name = values::trigger(&settings.function)?;
        let schedule = vec![cronjob::schedule(cron, None)];
        set_entries(&mut code.manifest, cronjob::PLACE, name, schedule)?;
    }
    if settings.dryrun {
        return settings.print(context, &code);
    }
    let uploaded = code.upload(context, &settings.function, true).await;
    uploaded.map_err(|failure| settings.advised(failure))?;
    context
        .out
        .remark(&format!("Function {} deployed", settings.function))?;
    Ok(Exit::Fine)
}

/// Changes a function that was deployed.
///
/// # Errors
/// There is no such function, an option is wrong, or fnd refuses the change.
pub(super) async fn update(context: &Context, args: UpdateFunction) -> Result<Exit, CommandFailure> {
    let settings = args.settings;
    let mut code = KubelessCode::of(context, &settings.function).await?;
    let written =
        |code: &KubelessCode, key: &str| code.manifest.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let before = written(&code, "handler");
    let typed = settings.runtime.clone().or_else(|| written(&code, "runtime"));
    let typed = typed.unwrap_or_else(|| code.runtime.clone());
    let chosen = runtime::choose(&typed, &runtime::all(context).await?)?;
    let changed = settings.runtime.as_ref().map(|_| &chosen);
    settings.report(context, changed);
    settings.changes(changed).apply(&mut code.manifest)?;
    // A function of `fndctl deploy` may have none.
    let handler = written(&code, "handler");
    let module = handler
        .as_deref()
        .map(values::handler)
        .transpose()?
        .map(|(module, _)| module);
    match (&settings.from_file, module) {
        (Some(_), None) => return Err(CommandFailure::usage("You must specify handler for the runtime.")),
        (Some(from), Some(module)) => code.files = replaced(&code.files, read(context, from, module, &chosen)?),
        (None, Some(module)) => rename(&mut code.files, before.as_deref().unwrap_or_default(), module, &chosen),
        (None, None) => {}
    }
    settings.take_dependencies(&mut code, &chosen)?;
    if settings.dryrun {
        return settings.print(context, &code);
    }
    let uploaded = code.upload(context, &settings.function, false).await;
    uploaded.map_err(|failure| settings.advised(failure))?;
    context.out.remark(&format!("Function {} updated", settings.function))?;
    Ok(Exit::Fine)
}

/// Reads code: the files of an archive, or one file under the name of the handler's module.
fn read(context: &Context, from: &str, module: &str, chosen: &Chosen) -> Result<Vec<WholeFile>, CommandFailure> {
    let content = FetchedContent::read(from)?;
    if let Some(format) = content.archive() {
        let mut files = content.unpacked(format)?;
        let before = files.len();
        files.retain(|file| file.path != MANIFEST);
        if files.len() < before {
            warn(
                context,
                &format!("`{MANIFEST}` of `{from}` is not used: the options say what would be in it"),
            );
        }
        return Ok(files);
    }
    Ok(vec![WholeFile {
        path: format!("{module}{}", chosen.suffix(&content.name)),
        bytes: content.bytes,
        executable: false,
    }])
}

/// Returns new files, with the list of dependencies of the old ones if the new ones have none.
fn replaced(old: &[WholeFile], mut new: Vec<WholeFile>) -> Vec<WholeFile> {
    let is_missing = |file: &&WholeFile| lists_dependencies(&file.path) && !new.iter().any(|one| one.path == file.path);
    let kept: Vec<WholeFile> = old.iter().filter(is_missing).cloned().collect();
    new.extend(kept);
    new
}

/// Renames the file with the code after another module or another runtime, as Kubeless stores it.
fn rename(files: &mut [WholeFile], handler: &str, module: &str, chosen: &Chosen) {
    let old = handler.split('.').next().unwrap_or_default();
    let is_of = |path: &str, module: &str| path.rsplit_once('.').is_some_and(|(stem, _)| stem == module);
    if old != module && files.iter().any(|file| is_of(&file.path, module)) {
        return;
    }
    if let Some(file) = files.iter_mut().find(|file| is_of(&file.path, old)) {
        file.path = format!("{module}{}", chosen.suffix(&file.path));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::runtime::{choose, tests::machine};
    use super::*;

    #[test]
    fn the_file_follows_the_module_and_the_runtime() {
        let python = choose("python3.7", &machine()).unwrap();
        let renamed = |names: &[&str], handler: &str, module: &str| {
            let mut files: Vec<WholeFile> = names
                .iter()
                .map(|name| WholeFile {
                    path: (*name).to_owned(),
                    bytes: Vec::new(),
                    executable: false,
                })
                .collect();
            rename(&mut files, handler, module, &python);
            files.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        let two = ["hello.py", "requirements.txt"];
        assert_eq!(renamed(&two, "hello.foo", "other"), ["other.py", "requirements.txt"]);
        assert_eq!(renamed(&two, "hello.foo", "hello"), two);
        assert_eq!(renamed(&["hello.js"], "hello.foo", "hello"), ["hello.py"]);
        // An archive has the other module already.
        assert_eq!(renamed(&["a.py", "b.py"], "a.foo", "b"), ["a.py", "b.py"]);
    }
}
