//! An uploaded function: its files and its manifest, read and uploaded anew.

use super::content::FetchedContent;
use crate::client::encode;
use crate::common::{builds, releases};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::upload::{Packed, send};
use fnd_core::api::{FunctionDetail, ReleaseFiles};
use fnd_core::supervisor::FunctionState;
use fnd_unpack::WholeFile;
use fnd_wire::archive::Format;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use toml::Table;

/// The manifest of a function in directory form.
pub(super) const MANIFEST: &str = "function.toml";

/// A function as it was uploaded.
#[derive(Debug, Clone, Default)]
pub(super) struct KubelessCode {
    /// Its files, without the manifest.
    pub(super) files: Vec<WholeFile>,
    pub(super) manifest: Table,
    /// The id of the runtime that runs it.
    pub(super) runtime: String,
}

impl KubelessCode {
    /// Reads an uploaded function: its archive where this process may read it, else what fnd's API shows of it.
    ///
    /// # Errors
    /// There is no such function, it is no upload, or its files cannot be read.
    pub(super) async fn of(context: &Context, function: &str) -> Result<Self, CommandFailure> {
        let path = function_path(function)?;
        let detail: FunctionDetail = crate::output::parse(&context.client.get(&path).await?.body)?;
        let source = &detail.more.source;
        if !detail.more.uploaded {
            let message = format!(
                "`{function}` is the file `{source}`, and Kubeless's command line changes only what it has deployed"
            );
            return Err(CommandFailure::new(Exit::NotAllowed, message)
                .help(format!("edit the file, and fnd notices: `fndctl edit {function}`")));
        }
        if Format::of(source).is_none() {
            let message =
                format!("`{function}` is an upload of one file, and Kubeless's command line deploys directories");
            return Err(CommandFailure::usage(message).help(format!(
                "upload it again with `fndctl deploy`, or `fndctl remove {function}` and `kubeless function deploy`"
            )));
        }
        let (files, beside) = match archive(source, function) {
            Ok(read) => read?,
            // The files of uploads belong to fnd's user, so most callers may not read them.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => shown(context, function, &path).await?,
            Err(error) => {
                let message = format!("failed to read `{source}`: {error}");
                return Err(CommandFailure::new(Exit::FunctionFailed, message));
            }
        };
        let code = Self::with_manifest(files, beside, function)?;
        let runtime = detail.status.runtime.split(' ').next().unwrap_or_default();
        Ok(Self {
            runtime: runtime.to_owned(),
            ..code
        })
    }

    /// Takes the manifest out of the files; one that lies beside them wins, and becomes the one in them.
    fn with_manifest(
        mut files: Vec<WholeFile>,
        beside: Option<Vec<u8>>,
        function: &str,
    ) -> Result<Self, CommandFailure> {
        let inside = files.iter().position(|file| file.path == MANIFEST);
        let inside = inside.map(|place| files.remove(place).bytes);
        let bytes = beside.or(inside).unwrap_or_default();
        let wrong = |why: String| {
            CommandFailure::new(
                Exit::InvalidManifest,
                format!("the manifest of `{function}` cannot be read: {why}"),
            )
        };
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let manifest = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        Ok(Self {
            files,
            manifest,
            runtime: String::new(),
        })
    }

    /// Uploads the function, waits until it serves, and says what was done.
    ///
    /// # Errors
    /// fnd refuses it, or its dependencies cannot be installed.
    pub(super) async fn upload(&self, context: &Context, function: &str, new: bool) -> Result<(), CommandFailure> {
        let text = toml::to_string(&self.manifest)
            .map_err(|error| CommandFailure::usage(format!("the manifest cannot be written: {error}")))?;
        let mut files = self.files.clone();
        files.push(WholeFile {
            path: MANIFEST.to_owned(),
            bytes: text.into_bytes(),
            executable: false,
        });
        let packed = Packed::of_files(function, &files)?;
        let condition = new.then(|| ("if-none-match".to_owned(), "*".to_owned()));
        let sent = send(context, &packed, condition.into_iter().collect(), false);
        let reply = builds::watched(context, sent).await?;
        let mut detail: FunctionDetail = crate::output::parse(&reply.body)?;
        if detail.status.state == FunctionState::Building || detail.more.newer.is_some() {
            context.out.progress("installing what it needs ...");
            let built = builds::built(context, function, false).await?;
            detail = crate::output::parse(&built.body)?;
        }
        if let Some(error) = &detail.status.error {
            return Err(
                CommandFailure::new(Exit::FunctionFailed, format!("`{function}` does not serve: {error}"))
                    .help(format!("fndctl show {function}")),
            );
        }
        Ok(())
    }
}

/// Reads an uploaded archive, and the manifest beside it.
#[expect(
    clippy::type_complexity,
    reason = "an error of the file is looked at, one of its content is final"
)]
fn archive(source: &str, function: &str) -> io::Result<Result<(Vec<WholeFile>, Option<Vec<u8>>), CommandFailure>> {
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
    // `of` has checked the suffix already.
    let format = content.archive().unwrap_or(Format::Gzip);
    Ok(content.unpacked(format).map(|files| (files, beside)))
}

/// Returns the files of the newest release as the API shows them, which are texts only.
async fn shown(
    context: &Context,
    function: &str,
    path: &str,
) -> Result<(Vec<WholeFile>, Option<Vec<u8>>), CommandFailure> {
    let list = releases::of(context, function).await?;
    let newest = list
        .versions
        .first()
        .map(|release| release.version.hex())
        .unwrap_or_default();
    let reply = context
        .client
        .get(&format!("{path}/versions/{}/files", encode(&newest)))
        .await?;
    let release: ReleaseFiles = crate::output::parse(&reply.body)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_taken_out_of_the_files() {
        let file = |path: &str, text: &str| WholeFile {
            path: path.to_owned(),
            bytes: text.as_bytes().to_vec(),
            executable: false,
        };
        let files = vec![file("a.py", "1"), file(MANIFEST, "handler = \"a.b\"")];
        let code = KubelessCode::with_manifest(files.clone(), None, "f").unwrap();
        assert_eq!(code.files, [file("a.py", "1")]);
        assert_eq!(code.manifest["handler"].as_str(), Some("a.b"));
        let code = KubelessCode::with_manifest(files, Some(b"handler = \"x.y\"".to_vec()), "f").unwrap();
        assert_eq!(code.manifest["handler"].as_str(), Some("x.y"));
        let failure = KubelessCode::with_manifest(vec![file(MANIFEST, "handler")], None, "f").unwrap_err();
        assert_eq!(failure.exit, Exit::InvalidManifest);
    }
}
