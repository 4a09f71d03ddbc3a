//! `kubeless trigger http`: entries of `[[http]]`, the routes of the public listener.

use super::super::options::{Namespace, ignored, warn, without_secrets};
use super::super::{print_object, print_rows};
use super::{NamedTrigger, TriggerKind};
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::RouteList;
use fnd_import::kubeless::manifest::ROUTES;
use fnd_import::kubeless::object::NAMESPACE;
use fnd_import::kubeless::values;
use fnd_manifest::foreign::{INGRESS_METHODS, ingress_paths};
use serde_json::json;
use toml::{Table, Value};

const KIND: TriggerKind = TriggerKind {
    place: ("http", ROUTES),
    name: "HTTP",
    entries: routes,
};

/// The verbs.
#[derive(Debug, clap::Subcommand)]
pub(in crate::commands::kubeless) enum HttpTriggerVerb {
    /// Let a function answer requests of the public listener.
    #[command(after_help = "Everybody who reaches the listener may call the function.\n\n\
        Example:\n  kubeless trigger http create hello --function-name hello --path hello")]
    Create(CreateHttpTrigger),
    /// Change such a trigger.
    Update(UpdateHttpTrigger),
    /// Remove such a trigger.
    Delete(NamedTrigger),
    /// List such triggers.
    #[command(visible_alias = "ls")]
    List(Namespace),
}

/// Options of `create`.
#[derive(Debug, clap::Args)]
pub(in crate::commands::kubeless) struct CreateHttpTrigger {
    /// Name of the trigger.
    name: String,

    /// The function.
    #[arg(long, value_name = "FUNCTION", add = candidates::functions())]
    function_name: String,

    #[command(flatten)]
    route: KubelessRoute,

    /// Print the object that Kubeless has for the trigger, and change nothing.
    #[arg(long)]
    dryrun: bool,
}

/// Options of `update`.
#[derive(Debug, clap::Args)]
pub(in crate::commands::kubeless) struct UpdateHttpTrigger {
    /// Name of the trigger.
    name: String,

    /// Another function.
    #[arg(long, value_name = "FUNCTION", add = candidates::functions())]
    function_name: Option<String>,

    #[command(flatten)]
    route: KubelessRoute,
}

/// The options of a route.
#[derive(Debug, clap::Args)]
struct KubelessRoute {
    /// The path, with or without `/` at its beginning; it matches what is below it, too [default: /].
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// The host [default: all].
    #[arg(long, value_name = "HOST")]
    hostname: Option<String>,

    /// A secret with user and password that callers need. fnd gives uploads no secrets, so it refuses this option.
    #[arg(long, value_name = "SECRET")]
    basic_auth_secret: Option<String>,

    /// Allow calls by pages of all origins.
    #[arg(long)]
    cors_enable: bool,

    /// Accepted and reported: a web server before fnd has the certificates.
    #[arg(long = "enableTLSAcme", conflicts_with = "tls_secret")]
    enable_tls_acme: bool,

    /// Accepted and reported: a web server before fnd has the certificates.
    #[arg(long, value_name = "SECRET")]
    tls_secret: Option<String>,

    /// Accepted and reported: fnd itself listens.
    #[arg(long, value_name = "GATEWAY", value_parser = ["nginx", "traefik", "kong"])]
    gateway: Option<String>,

    #[command(flatten)]
    namespace: Namespace,
}

/// # Errors
/// There is no such trigger or function, or fnd refuses the change.
pub(super) async fn run(context: &Context, verb: HttpTriggerVerb) -> Result<Exit, CommandFailure> {
    match verb {
        HttpTriggerVerb::Create(args) => {
            args.route.report(context);
            let name = values::trigger(&args.name)?;
            let mut entry = Table::new();
            args.route.apply(&mut entry);
            // Kubeless's own default. `apply` does not set it, since an `update` without `--path` keeps the path.
            entry.entry("path").or_insert_with(|| "/".into());
            // fnd refuses a route without `auth`, and a trigger of Kubeless is open to everybody.
            entry.entry("auth").or_insert_with(|| "none".into());
            // A route of fnd has fewer methods by default than an ingress lets through.
            let methods = INGRESS_METHODS.map(Value::from);
            entry.insert("methods".to_owned(), Value::Array(methods.to_vec()));
            if args.dryrun {
                let object = json!({
                    "apiVersion": "kubeless.io/v1beta1",
                    "kind": "HTTPTrigger",
                    "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"created-by": "kubeless"}},
                    "spec": {
                        "function-name": args.function_name,
                        "path": args.route.path,
                        "host-name": args.route.hostname,
                        "basic-auth-secret": args.route.basic_auth_secret,
                        "cors-enable": args.route.cors_enable,
                    },
                });
                return print_object(context, &object);
            }
            let created = KIND.create(context, &args.function_name, name, &entry).await;
            created.map_err(|failure| args.route.advised(failure, &args.function_name))?;
            // The trigger exists all the same, since the listener may be set later.
            say_if_nobody_listens(context).await
        }
        HttpTriggerVerb::Update(args) => {
            args.route.report(context);
            let named = (args.name.as_str(), args.function_name.as_deref());
            let updated = KIND.update(context, named, |entry| args.route.apply(entry)).await;
            // The advice has a placeholder: the command line need not name the function, and only the trigger knows it.
            let function = args.function_name.as_deref().unwrap_or("FUNCTION");
            updated.map_err(|failure| args.route.advised(failure, function))
        }
        HttpTriggerVerb::Delete(args) => KIND.delete(context, &args).await,
        HttpTriggerVerb::List(namespace) => {
            namespace.report(context);
            list(context).await
        }
    }
}

impl KubelessRoute {
    fn report(&self, context: &Context) {
        self.namespace.report(context);
        if self.enable_tls_acme {
            ignored(context, "--enableTLSAcme");
        }
        if let Some(secret) = &self.tls_secret {
            ignored(context, &format!("--tls-secret {secret}"));
        }
        if let Some(gateway) = &self.gateway {
            ignored(context, &format!("--gateway {gateway}"));
        }
    }

    /// Puts the options that are given into an entry.
    fn apply(&self, entry: &mut Table) {
        let path = self.path.clone().map(Value::String);
        let host = self.hostname.clone().map(Value::String);
        let auth = self.basic_auth_secret.as_ref();
        let auth = auth.map(|secret| format!("basic:{secret}").into());
        let cors = self.cors_enable.then(|| Value::Array(vec!["*".into()]));
        let keys = [("path", path), ("host", host), ("auth", auth), ("cors", cors)];
        entry.extend(
            keys.into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?))),
        );
    }

    /// Adds the remedy to a refusal whose own remedy is not for uploads.
    fn advised(&self, failure: CommandFailure, function: &str) -> CommandFailure {
        let Some(secret) = &self.basic_auth_secret else {
            return failure;
        };
        let keys = format!("`auth = \"basic:{secret}\"` in `[[http]]`");
        let store = format!("fndctl secret new {secret} --basic USER --password-file FILE");
        without_secrets(failure, function, &keys, &store)
    }
}

/// Returns the routes of an entry, for its path and those below it. The first one has the path itself.
fn routes(entry: &Table) -> Vec<Table> {
    let path = entry.get("path").and_then(Value::as_str).unwrap_or_default();
    let with = |path: String| {
        let mut route = entry.clone();
        route.insert("path".to_owned(), Value::String(path));
        route
    };
    ingress_paths(path).into_iter().map(with).collect()
}

/// Warns if no address of the public listener is set: then no request can arrive.
async fn say_if_nobody_listens(context: &Context) -> Result<Exit, CommandFailure> {
    let routes: RouteList = context.read("/v1/routes").await?;
    if routes.listen.is_empty() {
        let text = "the public listener is off: set `listen` in `[http]` of fnd.toml, for example \"127.0.0.1:8080\"";
        warn(context, text);
    }
    Ok(Exit::Fine)
}

async fn list(context: &Context) -> Result<Exit, CommandFailure> {
    let found = KIND.list(context).await?;
    let rows = found.iter().map(|(name, function, entry)| {
        json!({"name": name, "namespace": NAMESPACE, "function-name": function, "host-name": entry["host"], "path": entry["path"]})
    });
    let heads = ["NAME", "NAMESPACE", "FUNCTION NAME", "HOST", "PATH"];
    let keys = ["name", "namespace", "function-name", "host-name", "path"];
    print_rows(context, &rows.collect::<Vec<_>>(), (&heads, &keys))
}
