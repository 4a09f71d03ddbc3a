//! Reads an uploaded function, and files and URLs that a person names. Uploads functions.

use crate::common::{builds, releases};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::interpreters::agent;
use crate::upload::{Packed, send};
use fnd_core::api::FunctionDetail;
use fnd_core::run::FunctionState;
use fnd_import::kubeless::code::KubelessCode;
use fnd_import::kubeless::content::{FetchedContent, is_url};
use fnd_unpack::WholeFile;
use fnd_wire::archive::Format;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Most bytes that are fetched from a URL: as many as the files of a function may have.
const FETCHED_MAX: u64 = 512 << 20;

/// Reads an uploaded function: its archive if this process may read it, else the files that fnd's API shows.
///
/// # Errors
/// There is no such function, it is no upload, or its files cannot be read.
pub(super) async fn uploaded(context: &Context, function: &str) -> Result<KubelessCode, CommandFailure> {
    let detail = context.detail(function).await?;
    let source = &detail.more.source;
    if !detail.more.uploaded {
        let message = format!(
            "`{function}` is the file `{source}`, and Kubeless's command line changes only what it has deployed"
        );
        return Err(CommandFailure::new(Exit::NotAllowed, message)
            .help(format!("edit the file, and fnd notices: `fndctl edit {function}`")));
    }
    let Some(format) = Format::of(source) else {
        let message = format!("`{function}` is an upload of one file, and Kubeless's command line deploys directories");
        return Err(CommandFailure::usage(message).help(format!(
            "upload it again with `fndctl deploy`, or `fndctl remove {function}` and `kubeless function deploy`"
        )));
    };
    let (files, beside) = match archive(source, function) {
        Ok((content, beside)) => (content.unpacked(format)?, beside),
        // The files of uploads belong to fnd's user, so most callers may not read them.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => shown(context, function).await?,
        Err(error) => {
            let message = format!("failed to read `{source}`: {error}");
            return Err(CommandFailure::failed(message));
        }
    };
    let runtime = detail.status.runtime.split(' ').next().unwrap_or_default();
    Ok(KubelessCode::of(files, beside, runtime, function)?)
}

/// Uploads the function, waits until fnd accepts it, and says what was done.
///
/// # Errors
/// fnd refuses the function, its dependencies cannot be installed, or it does not serve.
pub(super) async fn upload(
    context: &Context,
    code: &KubelessCode,
    function: &str,
    new: bool,
) -> Result<(), CommandFailure> {
    let packed = Packed::of_files(function, &code.with_manifest()?)?;
    let condition = new.then(|| ("if-none-match".to_owned(), "*".to_owned()));
    let sent = send(context, &packed, condition.into_iter().collect(), false);
    let reply = builds::watched(context, sent).await?;
    let mut detail: FunctionDetail = crate::output::parse(&reply.body)?;
    // The packages may still be installing when the upload is answered. The verb promises a function that serves.
    if detail.status.state == FunctionState::Building || detail.more.newer.is_some() {
        context.out.progress("installing what it needs ...");
        let built = builds::built(context, function, false).await?;
        detail = crate::output::parse(&built.body)?;
    }
    if let Some(error) = &detail.status.error {
        return Err(CommandFailure::failed(format!("`{function}` does not serve: {error}"))
            .help(format!("fndctl show {function}")));
    }
    Ok(())
}

/// Reads an uploaded archive, and the manifest beside it.
fn archive(source: &str, function: &str) -> io::Result<(FetchedContent, Option<Vec<u8>>)> {
    let bytes = fs::read(source)?;
    let stem = function.rsplit('/').next().unwrap_or(function);
    let beside = match fs::read(Path::new(source).with_file_name(format!("{stem}.toml"))) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read?),
    };
    let content = FetchedContent {
        name: source.to_owned(),
        bytes,
    };
    Ok((content, beside))
}

/// Returns the files of the newest release as the API shows them, which are texts only.
async fn shown(context: &Context, function: &str) -> Result<(Vec<WholeFile>, Option<Vec<u8>>), CommandFailure> {
    let list = releases::of(context, function).await?;
    // The archive on the disk is that of the newest release, so both ways read the same files.
    let newest = list.versions.first().map(|release| release.version.hex());
    let release = releases::files(context, function, &newest.unwrap_or_default()).await?;
    let (mut files, mut beside) = (Vec::new(), None);
    for file in release.files {
        let Some(text) = file.text else {
            let message = format!(
                "`{}` of `{function}` is no text, or large, so fnd does not show it",
                file.path
            );
            return Err(CommandFailure::new(Exit::NotAllowed, message)
                .help("run the command with sudo, which may read the uploaded archive, or deploy the function anew"));
        };
        // The API names files of the code by their paths in it, and the manifest beside the code by its whole path.
        if file.path.starts_with('/') {
            beside = Some(text.into_bytes());
        } else {
            files.push(WholeFile {
                path: file.path,
                bytes: text.into_bytes(),
                executable: file.executable,
            });
        }
    }
    Ok((files, beside))
}

/// Reads a file, or fetches a URL.
///
/// # Errors
/// The file cannot be read, or the URL cannot be fetched.
pub(super) fn fetched(place: &str) -> Result<FetchedContent, CommandFailure> {
    if !is_url(place) {
        let bytes = fs::read(place);
        let bytes = bytes.map_err(|error| CommandFailure::usage(format!("failed to read `{place}`: {error}")))?;
        return Ok(FetchedContent {
            name: place.to_owned(),
            bytes,
        });
    }
    let failed = |error: ureq::Error| {
        CommandFailure::failed(format!("failed to get `{place}`: {error}"))
            .help("check the network and HTTPS_PROXY, or name a file")
    };
    let mut response = agent().get(place).call().map_err(failed)?;
    // The limit counts while the body comes: a server may send any number of bytes.
    let body = response.body_mut().with_config().limit(FETCHED_MAX).read_to_vec();
    Ok(FetchedContent {
        // The suffix of the path says whether the content is an archive, so the query must not follow it.
        name: place.split(['?', '#']).next().unwrap_or(place).to_owned(),
        bytes: body.map_err(failed)?,
    })
}
