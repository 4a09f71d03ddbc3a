//! Reads PATH: the code to send, and the manifest that belongs to it. A directory becomes an archive.

use crate::exit::{CommandFailure, Exit};
use crate::upload::manifest::ManifestOptions;
use flate2::Compression;
use flate2::write::GzEncoder;
use fnd_manifest::check::{CheckedFiles as _, Disk};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::placed::Origins;
use fnd_manifest::foreign::{MadeManifest, WholeFile};
use fnd_manifest::regular_file;
use fnd_wire::archive::{Format, SUFFIXES};
use fnd_wire::ids::FunctionName;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Names in a directory that are not sent: what a tool keeps there for itself.
const LEFT_OUT: [&str; 3] = [".git", "__pycache__", "node_modules"];
/// Most bytes of the files of a directory, before they are compressed: as many as fnd unpacks.
const BYTES_MAX: u64 = 512 << 20;
/// The directory at the top of the archive. fnd strips it: without it, fnd could strip a directory of the code.
const TOP: &str = "function";
/// Most levels of directories.
const DEPTH_MAX: usize = 32;

/// A function that is packed for its upload.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// Name of the function.
    pub(crate) name: String,
    /// The suffix of the code's file name.
    suffix: String,
    code: Vec<u8>,
    manifest: Option<Vec<u8>>,
    /// Remarks for people: options that have replaced keys, files that are not sent.
    pub(crate) remarks: Vec<String>,
    path: PathBuf,
    sidecar: PathBuf,
    /// The foreign fields that the lines of its manifest come from.
    origins: Option<Origins>,
}

impl Packed {
    /// Reads PATH, and puts the options into its manifest.
    ///
    /// # Errors
    /// PATH cannot be read, is no code, or has no usable name.
    pub(crate) fn of(path: &Path, name: Option<&str>, options: &ManifestOptions) -> Result<Self, CommandFailure> {
        let about = fs::metadata(path).map_err(|error| failed("read", path, &error))?;
        // A path such as `.` has no name of its own.
        let real = fs::canonicalize(path).map_err(|error| failed("read", path, &error))?;
        let file = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let archive = SUFFIXES
            .iter()
            .find(|(suffix, _)| !about.is_dir() && file.ends_with(suffix));
        // The suffixes of archives may have two dots, so they are cut off as a whole.
        let stem = match (archive, about.is_dir()) {
            (Some((suffix, _)), _) => file.strip_suffix(suffix).unwrap_or(file),
            (None, true) => file,
            (None, false) => file.rsplit_once('.').map_or(file, |(stem, _)| stem),
        };
        let name = name.unwrap_or(stem);
        FunctionName::new(name)
            .map_err(|error| CommandFailure::usage(error.to_string()).help("name the function with --name"))?;
        let mut packed = Self {
            name: name.to_owned(),
            suffix: archive.map_or_else(
                || file.strip_prefix(stem).unwrap_or_default().to_owned(),
                |(suffix, _)| (*suffix).to_owned(),
            ),
            path: path.to_owned(),
            sidecar: path.with_file_name(format!("{stem}.toml")),
            ..Self::default()
        };
        if about.is_dir() {
            packed.suffix = ".tar.gz".to_owned();
            packed.sidecar = path.join("function.toml");
            packed.directory(options)?;
        } else {
            packed.code = fs::read(path).map_err(|error| failed("read", path, &error))?;
            if packed.code.is_empty() {
                let message = format!("`{}` is empty", path.display());
                return Err(CommandFailure::new(Exit::InvalidManifest, message).help("write the code, or pack it anew"));
            }
            packed.file(archive.map(|(_, format)| *format), options)?;
        }
        Ok(packed)
    }

    /// Packs files as a directory. Its manifest, `function.toml`, is one of them. Problems of a file name it as
    /// `FUNCTION/FILE`.
    ///
    /// # Errors
    /// The files are too large.
    pub(crate) fn of_files(name: &str, files: &[WholeFile]) -> Result<Self, CommandFailure> {
        let mut pack = Pack::new(None);
        for file in files {
            let mode = if file.executable { 0o755 } else { 0o644 };
            pack.count(u64::try_from(file.bytes.len()).unwrap_or(u64::MAX))?;
            let inside = format!("{TOP}/{}", file.path);
            pack.add(Path::new(&file.path), &file.bytes, &inside, mode)?;
        }
        Ok(Self {
            name: name.to_owned(),
            suffix: ".tar.gz".to_owned(),
            code: pack.finish(Path::new(name))?,
            path: PathBuf::from(name),
            sidecar: Path::new(name).join("function.toml"),
            ..Self::default()
        })
    }

    /// Packs a function that was made of foreign files, under its own name or another one, with the options in its manifest.
    /// Problems of the manifest are at the foreign fields, unless an option has changed its lines.
    ///
    /// # Errors
    /// The name or an option is wrong, or the files are too large.
    pub(crate) fn of_made(
        made: MadeManifest,
        name: Option<&str>,
        options: &ManifestOptions,
        head: &str,
    ) -> Result<Self, CommandFailure> {
        let name = name.unwrap_or(&made.name).to_owned();
        FunctionName::new(&name).map_err(|error| CommandFailure::usage(error.to_string()))?;
        let (mut files, origins) = Origins::of(made, head);
        let mut remarks = Vec::new();
        let manifest = files.iter_mut().find(|file| file.path == "function.toml");
        if let Some(file) = manifest.filter(|_| !options.is_empty()) {
            let before = String::from_utf8_lossy(&file.bytes);
            let (text, more) = options.merged(&before, &format!("function `{name}`"))?;
            file.bytes = text.into_bytes();
            remarks = more;
        }
        Ok(Self {
            remarks,
            origins: Some(origins).filter(|_| options.is_empty()),
            ..Self::of_files(&name, &files)?
        })
    }

    /// Packs a directory; its manifest lies in it.
    fn directory(&mut self, options: &ManifestOptions) -> Result<(), CommandFailure> {
        let manifest = if options.is_empty() {
            // Without options the manifest goes as it is, with its comments.
            None
        } else {
            let before = read_if_there(&self.sidecar)?.unwrap_or_default();
            Some(self.with_options(&before, options)?)
        };
        let mut pack = Pack::new(manifest.as_ref().map(|_| self.sidecar.clone()));
        pack.tree(&self.path, TOP, 0)?;
        if let Some(manifest) = manifest {
            pack.add(&self.path, &manifest, &format!("{TOP}/function.toml"), 0o644)?;
        }
        if !pack.left_out.is_empty() {
            self.remarks.push(format!("not sent: {}", pack.left_out.join(", ")));
        }
        self.code = pack.finish(&self.path)?;
        Ok(())
    }

    /// Takes the manifest beside a file along, or in it.
    fn file(&mut self, archive: Option<Format>, options: &ManifestOptions) -> Result<(), CommandFailure> {
        self.manifest = read_if_there(&self.sidecar)?;
        if options.is_empty() {
            return Ok(());
        }
        let shown = self.path.display().to_string();
        if let (Some(format), None) = (archive, &self.manifest) {
            let files = Disk.unpack(&shown, format).map_err(|refusal| {
                let (message, help) = refusal.words();
                CommandFailure::new(Exit::InvalidManifest, format!("`{shown}`: {message}")).help(help)
            })?;
            // fnd refuses an archive with a manifest inside and another one beside it.
            if files.iter().any(|file| file.path == "function.toml") {
                let message = format!("`{shown}` has a `function.toml`, so options cannot be added to it");
                return Err(CommandFailure::usage(message)
                    .help("change that file, or unpack the archive and deploy the directory"));
            }
        } else if self.manifest.is_none()
            && let Ok(code) = std::str::from_utf8(&self.code)
            && let Some((code, remarks)) = options.inside(code, &shown)?
        {
            self.code = code.into_bytes();
            self.remarks.extend(remarks);
            return Ok(());
        }
        let before = self.manifest.take().unwrap_or_default();
        self.manifest = Some(self.with_options(&before, options)?);
        Ok(())
    }

    fn with_options(&mut self, manifest: &[u8], options: &ManifestOptions) -> Result<Vec<u8>, CommandFailure> {
        let shown = self.sidecar.display().to_string();
        let text = std::str::from_utf8(manifest)
            .map_err(|_| CommandFailure::new(Exit::InvalidManifest, format!("`{shown}` is not UTF-8 text")))?;
        let (text, remarks) = options.merged(text, &shown)?;
        self.remarks.extend(remarks);
        Ok(text.into_bytes())
    }

    /// Returns the body of the request, and what stands between its parts.
    pub(crate) fn form(&self) -> (String, Vec<u8>) {
        let contains = |text: &[u8], needle: &str| text.windows(needle.len()).any(|window| window == needle.as_bytes());
        let mut number = 0_u32;
        // A boundary that occurs in the content would end its part there (RFC 2046).
        let boundary = loop {
            let boundary = format!("fndctl-{number}-{}", std::process::id());
            let parts = std::iter::once(&self.code).chain(&self.manifest);
            if !parts.into_iter().any(|part| contains(part, &boundary)) {
                break boundary;
            }
            number += 1;
        };
        let mut body = Vec::with_capacity(self.code.len() + 1024);
        let mut part = |head: &str, content: &[u8]| {
            body.extend_from_slice(
                format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        };
        // Only the suffix counts; another name could need quotes.
        part(
            &format!("name=\"source\"; filename=\"code{}\"", self.suffix),
            &self.code,
        );
        if let Some(manifest) = &self.manifest {
            part("name=\"manifest\"; filename=\"function.toml\"", manifest);
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        (boundary, body)
    }

    /// Replaces the path that a file has on fnd's machine by the one that was given.
    pub(crate) fn localize(&self, problem: &mut Diagnostic) {
        let Some(file) = &mut problem.file else { return };
        let (name, remote) = (&self.name, file.clone());
        let code = format!("/{name}{}", self.suffix);
        if let Some((_, below)) = file.split_once(&format!("{code}/")) {
            *file = self.path.join(below).display().to_string();
        } else if file.ends_with(&code) {
            *file = self.path.display().to_string();
        } else if file.ends_with(&format!("/{name}.toml")) {
            *file = self.sidecar.display().to_string();
        }
        // The command in a help names the file again.
        let local = file.clone();
        problem.help = problem.help.take().map(|help| help.replace(&remote, &local));
        if let Some(origins) = &self.origins {
            *problem = origins.moved(problem.clone());
        }
    }
}

/// An archive that is being written.
struct Pack {
    archive: Builder<GzEncoder<Vec<u8>>>,
    bytes: u64,
    left_out: Vec<String>,
    /// A file that is replaced by another one.
    skip: Option<PathBuf>,
}

impl Pack {
    fn new(skip: Option<PathBuf>) -> Self {
        Self {
            archive: Builder::new(GzEncoder::new(Vec::new(), Compression::default())),
            bytes: 0,
            left_out: Vec::new(),
            skip,
        }
    }

    /// Counts the bytes of a file.
    fn count(&mut self, bytes: u64) -> Result<(), CommandFailure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES_MAX {
            return Err(CommandFailure::usage(
                "the directory has more than 512 MiB of files, the most that a function can have",
            ));
        }
        Ok(())
    }

    fn tree(&mut self, directory: &Path, inside: &str, depth: usize) -> Result<(), CommandFailure> {
        if depth > DEPTH_MAX {
            let message = format!("`{}` is more than {DEPTH_MAX} levels deep", directory.display());
            return Err(CommandFailure::usage(message));
        }
        let entries = fs::read_dir(directory).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let entries = entries.map_err(|error| failed("read", directory, &error))?;
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        // The order is fixed, so that the same files make the same archive, and the same version.
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name else {
                let message = format!("the name `{}` is not UTF-8", path.display());
                return Err(CommandFailure::usage(message));
            };
            if Some(&path) == self.skip.as_ref() {
                continue;
            }
            if LEFT_OUT.contains(&name) {
                self.left_out.push(path.display().to_string());
                continue;
            }
            let about = fs::symlink_metadata(&path).map_err(|error| failed("read", &path, &error))?;
            let inside = format!("{inside}/{name}");
            if about.is_dir() {
                self.tree(&path, &inside, depth + 1)?;
            } else if about.is_file() {
                self.file(&path, &inside, &about)?;
            } else {
                let shown = path.display();
                let message = format!("`{shown}` is neither a file nor a directory, so it cannot be sent");
                return Err(CommandFailure::usage(message).help("put a copy of the file there, not a link"));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, inside: &str, about: &fs::Metadata) -> Result<(), CommandFailure> {
        self.count(about.len())?;
        let bytes = regular_file::read(path).map_err(|error| failed("read", path, &error))?;
        // Only this bit is sent: another umask of the sender must not make another archive.
        let is_executable = about.permissions().mode() & 0o111 != 0;
        self.add(path, &bytes, inside, if is_executable { 0o755 } else { 0o644 })
    }

    /// Adds the bytes of a file, which has this path for people.
    fn add(&mut self, path: &Path, bytes: &[u8], inside: &str, mode: u32) -> Result<(), CommandFailure> {
        let mut header = Header::new_gnu();
        // Times and owners are left out: with them the same files would make another archive, and another version.
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        let added = self.archive.append_data(&mut header, inside, bytes);
        added.map_err(|error| failed("pack", path, &error))
    }

    fn finish(self, path: &Path) -> Result<Vec<u8>, CommandFailure> {
        let finished = self.archive.into_inner().and_then(GzEncoder::finish);
        finished.map_err(|error| failed("pack", path, &error))
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, CommandFailure> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| failed("read", path, &error)),
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::usage(format!("failed to {what} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_names_the_local_file() {
        let packed = Packed {
            name: "shop".to_owned(),
            suffix: ".tar.gz".to_owned(),
            path: PathBuf::from("noexec"),
            ..Packed::default()
        };
        let remote = "/var/lib/fnd/functions/shop.tar.gz/bootstrap";
        let mut problem = Diagnostic::error("not-executable", "it is not executable")
            .in_file(remote)
            .with_help(format!("chmod +x {remote}"));
        packed.localize(&mut problem);
        assert_eq!(problem.file.as_deref(), Some("noexec/bootstrap"));
        assert_eq!(problem.help.as_deref(), Some("chmod +x noexec/bootstrap"));
    }

    #[test]
    fn an_empty_file_is_named() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("empty.zip");
        fs::write(&path, "").unwrap();
        let failure = Packed::of(&path, None, &ManifestOptions::default()).unwrap_err();
        assert!(failure.message.ends_with("empty.zip` is empty"), "{}", failure.message);
    }
}
