//! `fndctl secret keygen` and `fndctl secret encrypt`: secrets that lie beside functions, in git. The program `fnd` makes the
//! key and encrypts, since it has the library that decrypts.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::secrets::{key_of, values, write};
use fnd_wire::decrypt::Encrypted;
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::trust::is_secret;
use serde::Serialize;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

/// Options of `encrypt`.
#[derive(Debug, clap::Args)]
pub(super) struct Encrypt {
    /// Name of the secret.
    #[arg(add = super::secret_names())]
    name: String,

    /// Write `NAME.age` to this directory, beside the functions that use it.
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,

    /// Encrypt to this recipient (`age1...`) instead of the key of this machine; may be repeated.
    #[arg(long, value_name = "RECIPIENT")]
    recipient: Vec<String>,

    /// Read the value from this file instead of standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Replace a value that is there.
    #[arg(long)]
    force: bool,
}

/// The written secret, as `-o json` prints it.
#[derive(Debug, Serialize)]
struct MadeSecret {
    file: String,
    /// The recipient of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient: Option<String>,
}

/// Encrypts a value and writes it to a file.
///
/// # Errors
/// There is no key or another file already, or the value can't be read or encrypted.
pub(super) fn encrypt(context: &Context, config: &Path, encrypt: &Encrypt) -> Result<Exit, CommandFailure> {
    if !is_secret(&encrypt.name) {
        let message = format!("a secret can't have the name `{}`", encrypt.name);
        return Err(CommandFailure::usage(message));
    }
    let to = if encrypt.recipient.is_empty() {
        read_key(&key_of(config))?
    } else {
        Zeroizing::new(encrypt.recipient.join("\n").into_bytes())
    };
    let path = encrypt.to.join(format!("{}.age", encrypt.name));
    if path.exists() && !encrypt.force {
        let message = format!("there is a file `{}` already", path.display());
        return Err(CommandFailure::usage(message).help("--force replaces it"));
    }
    let value = values::given(encrypt.file.as_deref())?;
    let mut question = Encrypted {
        key: Bytes(to.to_vec()),
        text: Bytes(value.to_vec()),
    };
    let bytes = Zeroizing::new(question.to_wire());
    // `Bytes` does not overwrite its memory when it is dropped.
    zeroize::Zeroize::zeroize(&mut question.key.0);
    zeroize::Zeroize::zeroize(&mut question.text.0);
    let text = run("--encrypt", &bytes)?;
    // Everybody may read an encrypted file: it is meant for git.
    write(&path, &text, 0o644)?;
    let what = "is written: functions in this directory get its value";
    report(context, &path, None, what)
}

/// Makes the key, and prints its recipient; prints only the recipient if there is a key.
///
/// # Errors
/// The key can't be written or read.
pub(super) fn keygen(context: &Context, config: &Path) -> Result<Exit, CommandFailure> {
    let path = key_of(config);
    let there = path.exists();
    let key = if there { read_key(&path)? } else { run("--keygen", b"")? };
    if !there {
        write(&path, &key, 0o400)?;
    }
    let mut lines = str::from_utf8(&key).unwrap_or_default().lines();
    let recipient = lines.find_map(|line| Some(line.strip_prefix("# public key:")?.trim().to_owned()));
    let what = match there {
        true => "is there already",
        false => "is made: keep a copy of it in a safe place",
    };
    report(context, &path, recipient, what)
}

fn report(context: &Context, path: &Path, recipient: Option<String>, what: &str) -> Result<Exit, CommandFailure> {
    let made = MadeSecret {
        file: path.display().to_string(),
        recipient,
    };
    context.made(&made, |out| {
        if let Some(recipient) = &made.recipient {
            out.line(recipient)?;
        }
        out.remark(&format!("`{}` {what}", made.file))
    })
}

fn read_key(path: &Path) -> Result<Zeroizing<Vec<u8>>, CommandFailure> {
    fs::read(path).map(Zeroizing::new).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::NotFound => "`fndctl secret keygen` makes it",
            _ => "the key is root's: run it with sudo, or name `--recipient age1...`",
        };
        let message = format!("failed to read the key `{}`: {error}", path.display());
        CommandFailure::failed(message).help(help)
    })
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CommandFailure> {
    let failed = |error| CommandFailure::failed(format!("failed to write `{}`: {error}", path.display()));
    write::whole(path, bytes, mode).map_err(failed)
}

/// Runs `fnd` with this input, and returns what it prints.
fn run(mode: &str, input: &[u8]) -> Result<Zeroizing<Vec<u8>>, CommandFailure> {
    let program = crate::local::fnd()?;
    let failed = |why: String| CommandFailure::failed(format!("`{} {mode}` {why}", program.display()));
    let unused = |error: io::Error| failed(format!("cannot be used: {error}"));
    let mut command = Command::new(&program);
    command.arg(mode).env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(unused)?;
    // The program reads all of its input before it prints, so neither of the two waits for the other.
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input).map_err(unused)?;
    }
    let output = child.wait_with_output().map_err(unused)?;
    match output.status.code() {
        Some(0) => Ok(Zeroizing::new(output.stdout)),
        // The exit code of a wrong configuration (sysexits(3)): here a key or a recipient that is not valid.
        Some(78) => {
            let message = "expected recipients of the form `age1...`, or a file of keys of age";
            Err(CommandFailure::usage(message))
        }
        _ => Err(failed(format!("failed ({})", output.status))),
    }
}
