//! Steps that most verbs have: they read an answer of fnd, print a document, or print a stream of them.

use crate::client::{BodyPieces, Client, Reply, request};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Output, escape, parse};
use fnd_core::api::{Changed, FunctionDetail, LogStream};
use fnd_manifest::diagnostic::Diagnostic;
use hyper::Method;
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;

impl Context {
    /// Returns fnd's answer to a GET.
    ///
    /// # Errors
    /// The daemon refuses the request, it cannot be reached, or its answer is no `T`.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        read(&self.client, path).await
    }

    /// Returns all about a function.
    ///
    /// # Errors
    /// As for [`Self::read`], or it is no name.
    pub(crate) async fn detail(&self, function: &str) -> Result<FunctionDetail, CommandFailure> {
        self.read(&function_path(function)?).await
    }

    /// Returns the answer to a DELETE.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub(crate) async fn delete(&self, path: &str) -> Result<Reply, CommandFailure> {
        let request = request(Method::DELETE, path, &[], Bytes::new())?;
        Ok(self.client.send(request).await?)
    }

    /// Prints a document that fndctl has made; `print` prints it for people. Ends the verb.
    ///
    /// # Errors
    /// Standard output cannot be written, or JSON cannot say a value (a path that is not UTF-8).
    pub(crate) fn made(
        &self,
        document: &impl Serialize,
        print: impl FnOnce(&Output) -> Result<(), CommandFailure>,
    ) -> Result<Exit, CommandFailure> {
        if self.out.format.is_document() {
            let failed = |error| CommandFailure::failed(format!("the result cannot be printed as a document: {error}"));
            let body = serde_json::to_vec(document).map_err(failed)?;
            as_document(&self.out, &body)?;
        } else {
            print(&self.out)?;
        }
        Ok(Exit::Fine)
    }

    /// Prints what was changed, in the form of fnd's own answers. Ends the verb.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn changed(&self, state: String) -> Result<Exit, CommandFailure> {
        let changed = Changed { state };
        self.made(&changed, |out| out.remark(&changed.state))
    }

    /// Prints what each of several things is now. A document calls the things `key`. Ends the verb.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn became(&self, key: &str, things: &[(String, String)]) -> Result<Exit, CommandFailure> {
        let member = |(name, state): &(String, String)| BTreeMap::from([(key, name.clone()), ("state", state.clone())]);
        let document: Vec<_> = things.iter().map(member).collect();
        self.made(&document, |out| {
            let mut things = things.iter();
            things.try_for_each(|(name, state)| out.remark(&format!("{name}: {state}")))
        })
    }

    /// Prints a stream line by line until it ends: for people with `print`, each other line as a document of its own.
    ///
    /// # Errors
    /// The daemon refuses the request, the connection breaks off, or standard output cannot be written.
    pub(crate) async fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        print: impl Fn(&T) -> Result<(), CommandFailure>,
    ) -> Result<Exit, CommandFailure> {
        let mut lines = self.client.stream(path).await?;
        while let Some(line) = lines.line().await? {
            if self.out.format.is_document() {
                streamed(&self.out, &line)?;
            } else {
                print(&parse(&line)?)?;
            }
        }
        Ok(Exit::Fine)
    }
}

/// Returns the daemon's answer to a GET.
///
/// # Errors
/// The daemon refuses the request, it cannot be reached, or its answer is no `T`.
pub(crate) async fn read<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, CommandFailure> {
    parse(&client.get(path).await?.body)
}

/// Returns the next line of a stream that this fndctl can read; `None` after the last. Dropped before it is ready, it loses no
/// line that has come in part.
///
/// # Errors
/// The connection breaks off.
pub(crate) async fn next<T: DeserializeOwned>(lines: &mut BodyPieces) -> Result<Option<T>, CommandFailure> {
    while let Some(line) = lines.line().await? {
        if let Ok(line) = serde_json::from_slice(&line) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// Prints a JSON body in a form for programs.
fn as_document(out: &Output, body: &[u8]) -> Result<(), CommandFailure> {
    out.document(body, |_: &IgnoredAny, _| Ok(()))
}

/// Prints a line of a stream in a form for programs. In YAML each line is a document of its own.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn streamed(out: &Output, line: &[u8]) -> Result<(), CommandFailure> {
    if out.format == Format::Yaml {
        out.line("---")?;
    }
    as_document(out, line)
}

/// Prints names with their values, one on each line. A value may be text of a function: a line end in it would look like the
/// beginning of another field.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn fields<'a>(
    out: &Output,
    fields: impl IntoIterator<Item = (&'a str, String)>,
) -> Result<(), CommandFailure> {
    let fields = fields.into_iter();
    out.lines(fields.map(|(name, value)| format!("{name:13} {}", escape(&value, false))))
}

/// Returns a text, or a dash in the place of an empty one.
pub(crate) fn or_dash(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Returns the diagnostics of a function.
pub(crate) fn diagnostics(detail: &FunctionDetail) -> Vec<Diagnostic> {
    let read = |problem: &serde_json::Value| serde_json::from_value::<Diagnostic>(problem.clone()).ok();
    detail.more.diagnostics.iter().filter_map(read).collect()
}

/// Returns the mark of a stream before a line of output.
pub(crate) fn mark(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Stdout => "|",
        LogStream::Stderr => "!",
        LogStream::Log | LogStream::Fnd => "-",
    }
}
