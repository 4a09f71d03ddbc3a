//! `kubeless function deploy` and `update`: the files and the manifest of a function, uploaded as a directory.

use super::super::Context;
use super::super::deploy::TreeFile;
use super::code::{Code, Content, MANIFEST, is_url};
use super::manifest::{Changes, set_entry};
use super::options::{Cluster, NO_SECRETS, Namespace, warn};
use super::{cronjob, object, runtime, values};
use crate::candidates;
use crate::exit::{Exit, Failure};
use runtime::{Chosen, lists_dependencies};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toml::Table;

/// Options of `deploy` and `update`.
#[derive(Debug, clap::Args)]
struct Settings {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// Runtime, such as `python3.7`; another version is used, with a warning, if this one is not installed.
    #[arg(short, long, value_name = "RUNTIME")]
    runtime: Option<String>,

    /// What is called: `MODULE.FUNCTION`. The file is stored under the name of the module.
    #[arg(long, value_name = "MODULE.FUNCTION")]
    handler: Option<String>,

    /// A file of code or an archive, or a URL of one.
    #[arg(short = 'f', long, value_name = "FILE|URL")]
    from_file: Option<String>,

    /// The file that lists the packages of the function, or a URL of it.
    #[arg(short, long, value_name = "FILE|URL")]
    dependencies: Option<String>,

    /// Set environment variables: `NAME=VALUE` or `NAME:VALUE`, with commas between several.
    #[arg(short, long, value_name = "NAME=VALUE", value_delimiter = ',')]
    env: Vec<String>,

    /// Add labels, in the same form; a label may have no value.
    #[arg(short, long, value_name = "NAME=VALUE", value_delimiter = ',')]
    label: Vec<String>,

    /// Secrets, as files of $CREDENTIALS_DIRECTORY. fnd gives uploads no secrets, so it refuses this option.
    #[arg(long, value_name = "SECRET", value_delimiter = ',')]
    secrets: Vec<String>,

    /// Memory limit, such as `128Mi`.
    #[arg(long, value_name = "MEMORY")]
    memory: Option<String>,

    /// CPU limit in cores, such as `500m`.
    #[arg(long, value_name = "CPU")]
    cpu: Option<String>,

    /// End each call after so many seconds [default: 180].
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<String>,

    /// Print the object that Kubeless has for the function (`-o yaml` or `json`), and change nothing.
    #[arg(long)]
    dryrun: bool,

    #[command(flatten)]
    namespace: Namespace,

    #[command(flatten, next_help_heading = "Options without effect")]
    cluster: Cluster,
}

/// Options of `deploy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kubeless function deploy hello -r python3.7 --handler get.foo -f get.py\n  \
    kubeless function deploy post -r nodejs10 --handler index.main -f src.zip -e A=1,B=2\n  \
    kubeless function deploy tick -r python --handler t.run -f t.py --schedule '@hourly'")]
pub(super) struct Deploy {
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
pub(super) struct Update {
    #[command(flatten)]
    settings: Settings,
}

/// Deploys a new function.
///
/// # Errors
/// An option is wrong, or fnd refuses the function.
pub(super) async fn deploy(context: &Context, args: Deploy) -> Result<Exit, Failure> {
    let settings = args.settings;
    let Some(typed) = &settings.runtime else {
        let message = match &settings.cluster.runtime_image {
            Some(image) => format!("fnd runs no container images, so `{image}` cannot be deployed"),
            None => "Either `--runtime` or `--runtime-image` flag must be specified.".to_owned(),
        };
        return Err(Failure::usage(message).help("name the language with --runtime, and the code with --from-file"));
    };
    let handler = settings.handler.as_deref();
    let handler = handler.ok_or_else(|| Failure::usage("You must specify handler for the runtime."))?;
    let (module, _) = values::handler(handler)?;
    let from = settings
        .from_file
        .as_deref()
        .ok_or_else(|| Failure::usage("there is no code: name its file with `--from-file`"))?;
    let chosen = runtime::choose(typed, &runtime::all(context).await?)?;
    settings.report(context, Some(&chosen));
    let mut code = Code {
        files: read(context, from, module, &chosen)?,
        manifest: Table::new(),
    };
    settings.changes(Some(&chosen)).apply(&mut code.manifest)?;
    for (label, value) in [("created-by", "kubeless"), ("function", settings.function.as_str())] {
        super::manifest::table(&mut code.manifest, "labels")?.insert(label.to_owned(), value.into());
    }
    settings.take_dependencies(&mut code, &chosen)?;
    if let Some(cron) = &args.schedule {
        let name = values::trigger(&settings.function)?;
        set_entry(&mut code.manifest, cronjob::PLACE, name, cronjob::schedule(cron, None))?;
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
pub(super) async fn update(context: &Context, args: Update) -> Result<Exit, Failure> {
    let settings = args.settings;
    let mut code = Code::of(context, &settings.function).await?;
    let written = |code: &Code, key: &str| code.manifest.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let before = written(&code, "handler");
    let typed = settings
        .runtime
        .clone()
        .or_else(|| written(&code, "runtime"))
        .unwrap_or_default();
    let chosen = runtime::choose(&typed, &runtime::all(context).await?)?;
    settings.report(context, settings.runtime.as_ref().map(|_| &chosen));
    let changed = settings.runtime.as_ref().map(|_| &chosen);
    settings.changes(changed).apply(&mut code.manifest)?;
    let handler = written(&code, "handler").unwrap_or_default();
    let (module, _) = values::handler(&handler)?;
    match &settings.from_file {
        Some(from) => {
            let mut files = read(context, from, module, &chosen)?;
            let is_new =
                |file: &TreeFile| lists_dependencies(&file.path) && !files.iter().any(|new| new.path == file.path);
            let kept: Vec<TreeFile> = code.files.iter().filter(|file| is_new(file)).cloned().collect();
            files.extend(kept);
            code.files = files;
        }
        None => rename(&mut code.files, before.as_deref().unwrap_or_default(), module, &chosen),
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
fn read(context: &Context, from: &str, module: &str, chosen: &Chosen) -> Result<Vec<TreeFile>, Failure> {
    let content = Content::read(from)?;
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
    Ok(vec![TreeFile {
        path: format!("{module}{}", chosen.suffix(&content.name)),
        bytes: content.bytes,
        executable: false,
    }])
}

/// Renames the file with the code after another module or another runtime, as Kubeless stores it.
fn rename(files: &mut [TreeFile], handler: &str, module: &str, chosen: &Chosen) {
    let old = handler.split('.').next().unwrap_or_default();
    let is_of = |path: &str, module: &str| path.rsplit_once('.').is_some_and(|(stem, _)| stem == module);
    if old != module && files.iter().any(|file| is_of(&file.path, module)) {
        return;
    }
    if let Some(file) = files.iter_mut().find(|file| is_of(&file.path, old)) {
        file.path = format!("{module}{}", chosen.suffix(&file.path));
    }
}

impl Settings {
    /// Reports what has no effect, and what is another one than was asked for.
    fn report(&self, context: &Context, chosen: Option<&Chosen>) {
        self.namespace.report(context);
        self.cluster.report(context);
        if let Some(warning) = chosen.and_then(|chosen| chosen.warning.as_ref()) {
            warn(context, warning);
        }
        for secret in &self.secrets {
            let file = values::secret_file(secret);
            let text = format!("secret `{secret}` is the file $CREDENTIALS_DIRECTORY/{file}, and not /{secret}/KEY");
            warn(context, &text);
        }
    }

    fn changes(&self, chosen: Option<&Chosen>) -> Changes {
        Changes {
            runtime: chosen.map(|chosen| chosen.name.clone()),
            handler: self.handler.clone(),
            env: self.env.clone(),
            labels: self.label.clone(),
            secrets: self.secrets.clone(),
            memory: self.memory.clone(),
            cpu: self.cpu.clone(),
            timeout: self.timeout.clone(),
        }
    }

    /// Puts the file of `--dependencies` beside the code.
    fn take_dependencies(&self, code: &mut Code, chosen: &Chosen) -> Result<(), Failure> {
        let Some(place) = &self.dependencies else { return Ok(()) };
        let name = chosen.dependency_file()?;
        let bytes = Content::read(place)?.bytes;
        code.files.retain(|file| file.path != name);
        code.files.push(TreeFile {
            path: name.to_owned(),
            bytes,
            executable: false,
        });
        Ok(())
    }

    /// Prints the object of Kubeless that the options mean.
    fn print(&self, context: &Context, code: &Code) -> Result<Exit, Failure> {
        let manifest = serde_json::to_value(&code.manifest).unwrap_or_default(); // keys are texts
        let mut object = object::function(&self.function, &manifest);
        let packages = code.files.iter().find(|file| lists_dependencies(&file.path));
        object["spec"]["deps"] = packages.map_or_else(|| "".into(), text);
        if let Some(from) = &self.from_file {
            let content = Content::read(from)?;
            let url = if is_url(from) { "url" } else { "" };
            let is_text = content.archive().is_none() && std::str::from_utf8(&content.bytes).is_ok();
            let kind = match (url, is_text) {
                ("url", _) => "url",
                (_, true) => "text",
                (_, false) => "base64",
            };
            let packed = match content.archive() {
                None => "",
                Some(fnd_wire::archive::Format::Zip) => "+zip",
                Some(_) => "+compressedtar",
            };
            object["spec"]["checksum"] = format!("sha256:{}", hex(&Sha256::digest(&content.bytes))).into();
            object["spec"]["function-content-type"] = format!("{kind}{packed}").into();
            object["spec"]["function"] = match kind {
                "url" => from.clone().into(),
                "text" => String::from_utf8_lossy(&content.bytes).into_owned().into(),
                _ => base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &content.bytes).into(),
            };
        }
        super::print_object(context, &object)
    }

    /// Adds the remedy to a refusal whose own remedy is not for uploads.
    fn advised(&self, failure: Failure) -> Failure {
        match failure.exit {
            Exit::InvalidManifest if !self.secrets.is_empty() => failure.help(NO_SECRETS),
            Exit::Busy if failure.message.contains("there is a function") => {
                failure.help(format!("kubeless function update {}", self.function))
            }
            _ => failure,
        }
    }
}

fn text(file: &TreeFile) -> Value {
    String::from_utf8_lossy(&file.bytes).into_owned().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::runtime::{choose, tests::machine};
    use super::*;

    #[test]
    fn the_file_follows_the_module_and_the_runtime() {
        let python = choose("python3.7", &machine()).unwrap();
        let renamed = |names: &[&str], handler: &str, module: &str| {
            let mut files: Vec<TreeFile> = names
                .iter()
                .map(|name| TreeFile {
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
