//! `fndctl run FILE`: runs a function of a file, without a daemon. A private fnd judges, limits and runs it as an
//! installed one does, and is gone afterwards with everything that it wrote.
//!
//! Files:
//! - `copy`: the private directories: the function's files, and the configuration
//! - `long`: HTTP programs and services, which run until Ctrl-C
//! - `private`: the private fnd, and the words about its copy of the files
//! - `process`: starts and stops the private fnd
//! - `subject`: the function that a path names
//! - `unpacked`: the files of an archive
//! - `wait`: signals, and changes of the function's files

pub(super) mod copy;
mod long;
mod private;
mod process;
mod subject;
mod unpacked;
mod wait;

use crate::client::request;
use crate::common::answers::diagnostics;
use crate::common::payload::PayloadArgument;
use crate::common::results::follow;
use crate::common::waiting::reporting;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::text::optional_span;
use fnd_core::api::{LAYERS, NodeStatus};
use fnd_core::run::FunctionState;
use fnd_manifest::diagnostic::Colour;
use fnd_manifest::function::Mode;
use fnd_manifest::function::sandbox::Profile;
use fnd_wire::units::print_duration;
use hyper::Method;
use hyper::body::Bytes;
use long::ShownProgress;
use private::Private;
use process::PrivateProcess;
use std::path::PathBuf;
use subject::RunSubject;
use wait::{WaitChanges, WaitStop};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl run hello.py -d '{\"name\": \"Ada\"}'\n  \
    fndctl run hello.py --watch                 again after each save\n  \
    jq .order orders.json | fndctl run ship.ts\n  \
    fndctl run -e LEVEL=debug --timeout 5s backup.sh\n  \
    fndctl run shop.zip                         an archive, as it would be installed\n  \
    fndctl run shop.py                          an HTTP program or a service: until Ctrl-C\n  \
    sudo fndctl run big.py                      with all limits, which need root on most machines")]
pub(crate) struct Args {
    /// The function's code, its manifest, its directory, or an archive.
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    file: PathBuf,

    #[command(flatten)]
    payload: PayloadArgument,

    /// Run it again each time one of its files is saved, until Ctrl-C.
    #[arg(short, long)]
    watch: bool,

    /// End each attempt after this time, such as `500ms` or `5m`, instead of the manifest's `limits.timeout`.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,

    /// Set a variable of its environment, which wins over `[env]` of the manifest; may be repeated.
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE")]
    variables: Vec<String>,

    /// Take `[build]` without its secrets, `[defaults]`, `[sizes]`, `[runtimes]` and `[users]` from this configuration
    /// [default: /etc/fnd/fnd.toml and conf.d, if they exist].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The settings of the run from the command line.
#[derive(Debug)]
struct RunNeeds {
    /// Changes in the manifest.
    timeout: Option<String>,
    variables: Vec<(String, String)>,
    payload: Option<RunBody>,
    /// Whether limits without effect were named already.
    again: bool,
}

/// A payload and its media type.
type RunBody = (Vec<u8>, &'static str);

/// # Errors
/// The function is invalid or did not succeed, or a private fnd cannot be started.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    // Signals come first: from here on Ctrl-C stops the private fnd in order, instead of killing this process.
    let mut stop = WaitStop::new()?;
    let first = RunSubject::of(context, &args)?;
    let mut wanted = wanted(context, &args, &first)?;
    if !args.watch {
        return once(context, &first, &wanted, (&mut stop, None)).await;
    }
    let mut changes = WaitChanges::of(&first)?;
    let mut next = Ok(first);
    loop {
        let ended = match &next {
            Ok(subject) => {
                let ends = (&mut stop, Some(&mut changes));
                once(context, subject, &wanted, ends).await.map(drop)
            }
            // The failure was printed when the files were judged.
            Err(()) => Ok(()),
        };
        // The next save may correct the mistake, so a failure does not end the verb.
        if let Err(failure) = ended {
            crate::output::failure(&failure);
        }
        if stop.is_asked() {
            return Ok(Exit::Fine);
        }
        wanted.again = true;
        // A change ends a program that runs until then.
        if !changes.take() {
            context.out.progress("waiting for a change; Ctrl-C ends");
            tokio::select! {
                // Cancel-safe: the verb ends.
                () = stop.asked() => return Ok(Exit::Fine),
                // Cancel-safe: changes stay in their queue.
                () = changes.next() => {}
            }
            // The run that follows has this change already.
            changes.take();
        }
        next = RunSubject::of(context, &args).map_err(|failure| crate::output::failure(&failure));
    }
}

fn wanted(context: &Context, args: &Args, subject: &RunSubject) -> Result<RunNeeds, CommandFailure> {
    let timeout = optional_span("--timeout", args.timeout.as_deref())?.map(print_duration);
    let variable = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(CommandFailure::usage(format!("`-e {text}`: expected NAME=VALUE"))),
    };
    let variables = args.variables.iter().map(variable).collect::<Result<_, _>>()?;
    Ok(RunNeeds {
        timeout,
        variables,
        payload: payload(context, args, subject)?,
        again: false,
    })
}

fn payload(context: &Context, args: &Args, subject: &RunSubject) -> Result<Option<RunBody>, CommandFailure> {
    match subject.mode() {
        Mode::Script | Mode::Handler => args.payload.read(context, false),
        // Standard input is a payload only of what runs and ends.
        Mode::Http if args.payload.is_given() => args.payload.read(context, false),
        Mode::Service if args.payload.is_given() => {
            let message = "a service is never invoked, so it gets no payload";
            Err(CommandFailure::usage(message).help(format!("fndctl run {}", args.file.display())))
        }
        Mode::Http | Mode::Service => Ok(None),
    }
}

/// Runs a function in an fnd of its own, until it ends, the person stops it, or its files change.
async fn once(
    context: &Context,
    subject: &RunSubject,
    wanted: &RunNeeds,
    (stop, changes): (&mut WaitStop, Option<&mut WaitChanges>),
) -> Result<Exit, CommandFailure> {
    // An fnd of its own: limits, retries and messages are those of an installed function, and nothing is built twice.
    let (mut process, private) = Private::start(context, subject, wanted)?;
    // With a payload an HTTP program is called once, as a handler is.
    let long = wanted.payload.is_none() && matches!(subject.mode(), Mode::Http | Mode::Service);
    let changed = async {
        match changes.filter(|_| long) {
            Some(changes) => changes.next().await,
            None => std::future::pending().await,
        }
    };
    let mut shown = None;
    let ended = tokio::select! {
        // Cancel-safe, as the others: the private fnd is stopped afterwards, and nothing goes on.
        ended = perform(&mut process, &private, subject, wanted, long.then_some(&mut shown)) => ended,
        () = stop.asked() => {
            // Only Ctrl-C ends such a program, so it is no failure there.
            if long { Ok(Exit::Fine) } else { Err(CommandFailure::failed("cancelled")) }
        }
        () = changed => Ok(Exit::Fine),
    };
    let last_lines = async {
        if let Some(shown) = &mut shown {
            shown.until_the_end(&private).await;
        }
    };
    // The function still prints while it ends, and the stream of its output ends only with fnd. So neither waits for
    // the other.
    tokio::join!(process.stop(stop), last_lines);
    ended.map_err(|failure| private.in_words_of_the_person(failure))
}

/// Runs the function to its end. `shown` is for the output of a function without end.
async fn perform(
    process: &mut PrivateProcess,
    private: &Private,
    subject: &RunSubject,
    wanted: &RunNeeds,
    shown: Option<&mut Option<ShownProgress>>,
) -> Result<Exit, CommandFailure> {
    process.ready().await?;
    let context = &private.context;
    // The packages come first: fnd has no verdict on a function that is being built.
    install(private, subject, wanted.again).await?;
    check(private, subject, wanted.again).await?;
    if let Some(shown) = shown {
        let shown = shown.insert(ShownProgress::open(private, subject).await?);
        return shown.run(private).await;
    }
    // The run is queued: so its id is known at once, and its output can be followed.
    let path = format!("{}/invocations", function_path(subject.name())?);
    let (bytes, media_type) = wanted.payload.clone().unzip();
    let header = media_type.map(|media_type| ("Content-Type".to_owned(), media_type.to_owned()));
    let body = Bytes::from(bytes.unwrap_or_default());
    let request = request(Method::POST, &path, header.as_slice(), body)?;
    let followed = follow(context, request, |line| private.text_of_the_person(line));
    reporting(context, subject.name(), followed).await
}

/// Waits until the packages of the function are installed.
async fn install(private: &Private, subject: &RunSubject, again: bool) -> Result<(), CommandFailure> {
    let client = &private.context.client;
    let path = function_path(subject.name())?;
    // A function that does not exist is told later, with the reason.
    let detail = private.context.detail(subject.name()).await;
    if !detail.is_ok_and(|detail| detail.status.state == FunctionState::Building) {
        return Ok(());
    }
    private.context.out.progress("installing its packages");
    if !again && !private.without.is_empty() {
        let names = private.without.join(", ");
        let text = format!("its packages are installed without the secrets of `[build]`: {names}");
        private.context.out.aside(&text);
    }
    // A failure is a problem of the function, which is told later.
    let _ = client.post(&format!("{path}/build")).await;
    Ok(())
}

/// The limits that every function has by default.
const ALWAYS: [&str; 2] = ["memory", "pids"];

/// Reports the limits that cannot be enforced here, and refuses a function that fnd refuses.
async fn check(private: &Private, subject: &RunSubject, again: bool) -> Result<(), CommandFailure> {
    let context = &private.context;
    let status: NodeStatus = context.read("/v1/status").await?;
    // Only limits matter that the manifest sets, or that every function has.
    let matters =
        |limit: &&str| subject.manifest.limits.asked.iter().any(|asked| asked == limit) || ALWAYS.contains(limit);
    let limits: Vec<&str> = status.not_enforced.keys().map(String::as_str).filter(matters).collect();
    if !limits.is_empty() && !again {
        let help = match rustix::process::geteuid().is_root() {
            true => "",
            false => "; `sudo fndctl run` can enforce them",
        };
        let limits = limits.join(", ");
        context
            .out
            .aside(&format!("limits without effect here: {limits}{help}"));
    }
    let lacks = |layer: &&str| status.not_enforced.contains_key(*layer);
    let lacking: Vec<&str> = LAYERS.into_iter().filter(lacks).collect();
    if !lacking.is_empty() && !again && subject.manifest.sandbox.profile != Profile::Off {
        let layers = lacking.join(", ");
        context.out.aside(&format!(
            "the sandbox is incomplete here, without: {layers}; `sudo fndctl run` has all of it"
        ));
    }
    let mut functions = status.functions.iter();
    let Some(function) = functions.find(|function| function.function.as_str() == subject.name()) else {
        let message = format!("fnd refuses it: {}", status.problems.join("; "));
        return Err(CommandFailure::new(Exit::InvalidManifest, message));
    };
    if function.state != FunctionState::Invalid {
        return Ok(());
    }
    let diagnostics = diagnostics(&context.detail(subject.name()).await?);
    let why = function.error.as_deref().filter(|_| diagnostics.is_empty());
    for diagnostic in diagnostics {
        let diagnostic = private.of_the_person(diagnostic);
        context.out.aside(&diagnostic.render(Colour::Plain));
    }
    let why = why.unwrap_or("the function is invalid");
    Err(CommandFailure::new(Exit::InvalidManifest, why))
}
