//! `fndctl secret [list|new|set|rm|encrypt|keygen]`: the secrets of functions, and those with which fnd checks requests. Values are read from standard input or
//! a file, never from an argument, and none is shown but a new one, once.
//!
//! The directory is the one beside the configuration that the command line names. fnd, which has no privileges, must not choose
//! where root writes: if its configuration is another one, nothing is written until a person names one.
//!
//! Files:
//! - `encrypt`: secrets that lie encrypted beside functions

mod encrypt;

use crate::common::confirm::confirmed;
use crate::common::reread::{Use, configuration, reread, used_by};
use crate::common::tables::{bad_if, toned};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local::LocalPlaces;
use crate::secrets::store::{self, OnExisting, SecretStore};
use crate::secrets::values::Sender;
use crate::secrets::{users, values};
use crate::text::distance;
use clap::Subcommand;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A secret is a file in `secrets/` beside fnd.toml that only root can read. A function gets it if its manifest says so: \
    `secrets = { DB_PASSWORD = \"db-password\" }` is a file below $CREDENTIALS_DIRECTORY. A route names it to check requests: \
    `auth = \"github:hook\"`; then fnd gets it, and the function does not. For a route, a file may have two lines: both are valid, until \
    the sender uses the new one.\n\nExamples:\n  \
    sudo fndctl secret new hello-token                 a token for `auth = \"token:hello-token\"`\n  \
    sudo fndctl secret new hook --for github           and where to paste it\n  \
    sudo fndctl secret new hook --for github --rotate  a new value; the old one stays valid, too\n  \
    sudo fndctl secret set slack-hook < value          a value that the sender chose\n  \
    sudo fndctl secret new staff --basic ada           a password for `auth = \"basic:staff\"`\n  \
    sudo fndctl secret encrypt db-password < value     a file beside functions, for git\n  \
    sudo fndctl secret list\n  \
    sudo fndctl secret rm hook"
)]
pub(crate) struct Args {
    /// Configuration file of fnd, if it is another one than the installed one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    what: Option<SecretVerb>,
}

#[derive(Debug, Subcommand)]
enum SecretVerb {
    /// List secrets, and the functions that name them; never values.
    #[command(alias = "ls", after_help = "Example:\n  sudo fndctl secret list")]
    List,
    /// Make a new value, store it and print it once.
    #[command(after_help = "Example:\n  sudo fndctl secret new hook --for github")]
    New(New),
    /// Store a value that is read from standard input.
    #[command(after_help = "Example:\n  sudo fndctl secret set slack-hook < value")]
    Set(Set),
    /// Encrypt a value that is read from standard input, as a file beside functions: secrets in git.
    #[command(after_help = "Example:\n  sudo fndctl secret encrypt db-password < value")]
    Encrypt(encrypt::Encrypt),
    /// Make the key of this machine for such files, and print its recipient (`age1...`).
    #[command(after_help = "Example:\n  sudo fndctl secret keygen")]
    Keygen,
    /// Remove a secret.
    #[command(aliases = ["remove", "delete"], after_help = "Example:\n  sudo fndctl secret rm hook")]
    Rm {
        /// Name of the secret.
        #[arg(add = secret_names())]
        name: String,

        /// Do not ask, even if functions use it.
        #[arg(short, long)]
        yes: bool,
    },
}

/// The treatment of a value that is there already.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Existing {
    /// Keep the first line as the second: both values are valid.
    #[arg(long, conflicts_with = "force")]
    rotate: bool,

    /// Replace the value.
    #[arg(long)]
    force: bool,
}

impl Existing {
    fn how(self) -> OnExisting {
        match self {
            Self { rotate: true, .. } => OnExisting::Rotate,
            Self { force: true, .. } => OnExisting::Replace,
            Self { .. } => OnExisting::New,
        }
    }
}

#[derive(Debug, clap::Args)]
struct New {
    /// Name of the secret: letters, digits, `.`, `_` and `-`.
    #[arg(add = secret_names())]
    name: String,

    /// Say where a webhook's sender wants the value.
    #[arg(long)]
    webhook: bool,

    /// The sender, which decides the form of the value; implies --webhook.
    #[arg(long = "for", value_enum, value_name = "SENDER")]
    sender: Option<Sender>,

    /// Add this user with a new password, for `auth = "basic:NAME"`.
    #[arg(long, value_name = "USER", conflicts_with_all = ["sender", "webhook", "rotate"])]
    basic: Option<String>,

    /// Read the password from this file; `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "basic")]
    password_file: Option<PathBuf>,

    #[command(flatten)]
    existing: Existing,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Name of the secret.
    #[arg(add = secret_names())]
    name: String,

    /// Read the value from this file instead of standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    existing: Existing,
}

/// The stored secret, as `-o json` prints it.
#[derive(Debug, Serialize)]
struct Stored {
    name: String,
    file: String,
    /// The new value; absent if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Functions that use it; absent if fnd was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
struct ListedSecret {
    name: String,
    /// Absent: a function names the secret, but there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    /// The encrypted file beside a function that uses it, if there is no other file.
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted: Option<String>,
    /// The YAML file beside a function that uses it, if there is no other file.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<Vec<String>>,
}

/// Names of secrets, for those who may list them; none if the directory cannot be read.
fn secret_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        // clap does not tell a completer whether `--user` was typed.
        let places = LocalPlaces::of(false).ok();
        let found = places.and_then(|places| SecretStore::beside(&places.config).list().ok());
        let names = found.into_iter().flatten().map(|(name, _)| name);
        names.map(CompletionCandidate::new).collect()
    })
}

/// # Errors
/// The value can't be stored, or there is one already.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let what = args.what.unwrap_or(SecretVerb::List);
    let how = match what {
        SecretVerb::List => Use::Read,
        SecretVerb::New(_)
        | SecretVerb::Set(_)
        | SecretVerb::Encrypt(_)
        | SecretVerb::Keygen
        | SecretVerb::Rm { .. } => Use::Change,
    };
    let config = configuration(context, args.config.as_deref(), how).await?;
    let store = SecretStore::beside(&config);
    match what {
        SecretVerb::List => list(context, &store).await,
        SecretVerb::New(new) => make(context, &store, new).await,
        SecretVerb::Set(set) => {
            let value = values::given(set.file.as_deref())?;
            store.write(&set.name, &value, set.existing.how())?;
            report(context, &store, &set.name, None, &[]).await
        }
        SecretVerb::Encrypt(args) => encrypt::encrypt(context, &config, &args),
        SecretVerb::Keygen => encrypt::keygen(context, &config),
        SecretVerb::Rm { name, yes } => {
            if !yes && !may_go(context, &name).await? {
                context.out.aside("nothing was removed");
                return Ok(Exit::FunctionFailed);
            }
            store.remove(&name)?;
            report(context, &store, &name, None, &[]).await
        }
    }
}

/// Asks whether to remove a secret that functions use. If fnd does not answer, the users are not known.
async fn may_go(context: &Context, name: &str) -> Result<bool, CommandFailure> {
    let users = users::of_all(context, users::secrets).await.unwrap_or_default();
    match users.get(name).filter(|users| !users.is_empty()) {
        Some(users) => confirmed(&format!(
            "`{name}` is used by {}, which fail without it: remove it?",
            users.join(", ")
        )),
        None => Ok(true),
    }
}

async fn make(context: &Context, store: &SecretStore, new: New) -> Result<Exit, CommandFailure> {
    let name = &new.name;
    let Some(user) = &new.basic else {
        let value = values::new(new.sender)?;
        store.write(name, value.as_bytes(), new.existing.how())?;
        let advice = values::advice(new.sender, new.webhook, name);
        return report(context, store, name, Some(value.as_str()), &advice).await;
    };
    let (password, is_new) = match new.password_file.as_deref() {
        Some(file) => (values::password(file)?, false),
        None => (values::new(None)?, true),
    };
    store.add_user(name, user, &values::hash(password.as_bytes())?, new.existing.force)?;
    // The person knows the password of a file. Only a new one must be shown.
    let shown = is_new.then_some(password.as_str());
    report(context, store, name, shown, &[]).await
}

/// Has fnd read the secrets again, and prints what was stored.
async fn report(
    context: &Context,
    store: &SecretStore,
    name: &str,
    value: Option<&str>,
    advice: &[String],
) -> Result<Exit, CommandFailure> {
    let (used_by, used) = reread(context, name, users::secrets).await;
    let path = store.path(name);
    let stored = Stored {
        name: name.to_owned(),
        file: path.display().to_string(),
        value: value.map(str::to_owned),
        used_by,
    };
    let what = if path.exists() { "is stored" } else { "is removed" };
    context.made(&stored, |out| {
        if let Some(value) = &stored.value {
            out.line(value)?;
        }
        out.remark(&format!("`{}` {what}", stored.file))?;
        out.remark(&match stored.used_by.as_deref() {
            Some(users @ [_, ..]) if what == "is removed" => format!("it is missing now for: {}", users.join(", ")),
            _ => used,
        })?;
        advice.iter().try_for_each(|line| out.remark(line))
    })
}

async fn list(context: &Context, store: &SecretStore) -> Result<Exit, CommandFailure> {
    // fnd may not run. Then the files are listed without their users.
    let found = users::of_all_with_files(context, users::secrets).await.ok();
    let (users, files) = found.unzip();
    let mut all: BTreeMap<String, ListedSecret> = BTreeMap::new();
    for name in users.iter().flat_map(BTreeMap::keys) {
        let file = files.as_ref().and_then(|files| files.get(name));
        let about = file.and_then(|file| store::about(&std::fs::metadata(file).ok()?));
        let shown = file.filter(|_| about.is_some()).map(|file| file.display().to_string());
        let (encrypted, manifest) = match shown {
            Some(path) if path.ends_with(".age") => (Some(path), None),
            shown => (None, shown),
        };
        let listed = ListedSecret {
            encrypted,
            manifest,
            ..listed(name, about, users.as_ref())
        };
        all.insert(name.clone(), listed);
    }
    // A file in `secrets/` wins over one beside a function, so it replaces that entry.
    for (name, about) in store.list()? {
        all.insert(name.clone(), listed(&name, Some(about), users.as_ref()));
    }
    let secrets: Vec<&ListedSecret> = all.values().collect();
    context.made(&BTreeMap::from([("secrets", &secrets)]), |out| {
        let now = Timestamp::now();
        let tone = |secret: &ListedSecret| bad_if(secret.changed_at.is_none());
        let heads = ["SECRET", "AGE", "SIZE", "USED BY"];
        out.table(&toned(heads, all.values(), tone, |secret| {
            let age = match &secret.changed_at {
                Some(changed) => distance(Some(changed), now),
                None => "missing".to_owned(),
            };
            let size = match (&secret.encrypted, &secret.manifest) {
                (Some(_), _) => "encrypted".to_owned(),
                (None, Some(_)) => "in YAML".to_owned(),
                (None, None) => secret.size.clone().unwrap_or_default(),
            };
            [secret.name.clone(), age, size, used_by(secret.used_by.as_ref())]
        }))?;
        if users.is_none() {
            out.aside("fnd does not answer, so the functions that use the secrets are not known");
        }
        Ok(())
    })
}

fn listed(
    name: &str,
    about: Option<store::StoredSecret>,
    users: Option<&BTreeMap<String, Vec<String>>>,
) -> ListedSecret {
    let (changed_at, size) = about.map(|about| (about.changed_at, about.size)).unzip();
    ListedSecret {
        name: name.to_owned(),
        changed_at,
        size,
        encrypted: None,
        manifest: None,
        used_by: users.map(|users| users.get(name).cloned().unwrap_or_default()),
    }
}
