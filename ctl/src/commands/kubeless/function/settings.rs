//! The options of `deploy` and `update`, as files and keys of the manifest.

use super::super::code::fetched;
use super::super::options::{Cluster, Namespace, warn, without_secrets};
use super::super::print_object;
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_import::kubeless::code::KubelessCode;
use fnd_import::kubeless::content::is_url;
use fnd_import::kubeless::manifest::ManifestChanges;
use fnd_import::kubeless::runtime::{Chosen, lists_dependencies};
use fnd_import::kubeless::{object, values};
use fnd_unpack::WholeFile;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Options of `deploy` and `update`.
#[derive(Debug, clap::Args)]
pub(super) struct Settings {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    pub(super) function: String,

    /// Runtime, such as `python3.7`; another version is used, with a warning, if this one is not installed.
    #[arg(short, long, value_name = "RUNTIME")]
    pub(super) runtime: Option<String>,

    /// The function to call: `MODULE.FUNCTION`. The file is stored under the name of the module.
    #[arg(long, value_name = "MODULE.FUNCTION")]
    pub(super) handler: Option<String>,

    /// A file of code or an archive, or a URL of one.
    #[arg(short = 'f', long, value_name = "FILE|URL")]
    pub(super) from_file: Option<String>,

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
    pub(super) dryrun: bool,

    #[command(flatten)]
    namespace: Namespace,

    #[command(flatten, next_help_heading = "Options without effect")]
    pub(super) cluster: Cluster,
}

impl Settings {
    /// Reports what has no effect, and what is another one than was asked for.
    pub(super) fn report(&self, context: &Context, chosen: Option<&Chosen>) {
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

    pub(super) fn changes(&self, chosen: Option<&Chosen>) -> ManifestChanges {
        ManifestChanges {
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
    pub(super) fn take_dependencies(&self, code: &mut KubelessCode, chosen: &Chosen) -> Result<(), CommandFailure> {
        let Some(place) = &self.dependencies else { return Ok(()) };
        code.set_dependencies(chosen.dependency_file()?, fetched(place)?.bytes);
        Ok(())
    }

    /// Prints the object of Kubeless that the options mean.
    pub(super) fn print(&self, context: &Context, code: &KubelessCode) -> Result<Exit, CommandFailure> {
        let manifest = serde_json::to_value(&code.manifest).unwrap_or_default(); // keys are texts
        let mut object = object::function(&self.function, &manifest);
        let packages = code.files.iter().find(|file| lists_dependencies(&file.path));
        object["spec"]["deps"] = packages.map_or_else(|| "".into(), text);
        if let Some(from) = &self.from_file {
            let content = fetched(from)?;
            let is_text = content.archive().is_none() && std::str::from_utf8(&content.bytes).is_ok();
            // The words are those of the field `function-content-type` in Kubeless's objects.
            let kind = match (is_url(from), is_text) {
                (true, _) => "url",
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
        print_object(context, &object)
    }

    /// Adds the remedy to a refusal whose own remedy is not for uploads.
    pub(super) fn advised(&self, failure: CommandFailure) -> CommandFailure {
        match failure.exit {
            Exit::InvalidManifest if !self.secrets.is_empty() => {
                let pair = |secret: &String| format!("{} = \"{secret}\"", values::secret_file(secret));
                let pairs = self.secrets.iter().map(pair);
                let keys = format!("`secrets = {{ {} }}`", pairs.collect::<Vec<_>>().join(", "));
                let store = format!("fndctl secret set {}", self.secrets.join("`, `fndctl secret set "));
                without_secrets(failure, &self.function, &keys, &store)
            }
            // Other conflicts have the same error code, so the text decides.
            Exit::Busy if failure.message.contains("there is a function") => {
                failure.help(format!("kubeless function update {}", self.function))
            }
            _ => failure,
        }
    }
}

fn text(file: &WholeFile) -> Value {
    String::from_utf8_lossy(&file.bytes).into_owned().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
