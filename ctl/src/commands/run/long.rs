//! HTTP programs and services: their output, and how they end, until Ctrl-C.

use super::private::Private;
use super::subject::RunSubject;
use crate::client::{BodyPieces, encode};
use crate::common::answers::next;
use crate::common::event_words;
use crate::context::Parameters;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::LogLine;
use fnd_core::api::stream::{Kind, StreamEvent};
use fnd_core::records::outcome::Reason;
use fnd_manifest::function::Mode;

/// The output and the events of a function.
pub(super) struct ShownProgress {
    lines: BodyPieces,
    events: BodyPieces,
}

impl ShownProgress {
    /// Says that the function runs, and asks for what it prints and for how its processes end.
    ///
    /// # Errors
    /// fnd cannot be reached.
    pub(super) async fn open(private: &Private, subject: &RunSubject) -> Result<Self, CommandFailure> {
        let out = &private.context.out;
        if subject.mode() == Mode::Http {
            let url = format!("http://fnd/v1/functions/{}/http/", encode(subject.name()));
            out.line("ready; call it from another terminal, Ctrl-C ends it:")?;
            out.line(&format!("  curl --unix-socket {} {url}", private.socket.display()))?;
        } else {
            out.line("the service runs; Ctrl-C ends it")?;
        }
        let mut of_function = Parameters::default();
        of_function.add("function", Some(subject.name()));
        let client = &private.context.client;
        let events = format!("/v1/stream{}&kind=ended,state,refused", of_function.0);
        Ok(Self {
            lines: client.stream(&format!("/v1/logs{}&follow=1", of_function.0)).await?,
            events: client.stream(&events).await?,
        })
    }

    /// Shows both; returns only if the connection to fnd ends.
    ///
    /// # Errors
    /// fnd cannot be reached.
    pub(super) async fn run(&mut self, private: &Private) -> Result<Exit, CommandFailure> {
        loop {
            tokio::select! {
                // Cancel-safe: a part of a line that was read is kept for the next call.
                line = next(&mut self.lines) => match line? {
                    Some(line) => show(private, &line)?,
                    None => return Ok(Exit::Fine),
                },
                // Cancel-safe: as above.
                event = next(&mut self.events) => match event? {
                    Some(event) => if let Some(text) = worth_telling(private, &event) {
                        private.context.out.aside(&text);
                    },
                    None => return Ok(Exit::Fine),
                },
            }
        }
    }

    /// Shows what the function still prints while it is stopped, until fnd has ended.
    pub(super) async fn until_the_end(&mut self, private: &Private) {
        // An error is the end of fnd, too.
        while let Ok(Some(line)) = next(&mut self.lines).await {
            if show(private, &line).is_err() {
                return;
            }
        }
    }
}

fn show(private: &Private, line: &LogLine) -> Result<(), CommandFailure> {
    let out = &private.context.out;
    out.line(&private.text_of_the_person(&out.printed(&line.text)))
}

/// Returns the words of an event, unless all is well.
fn worth_telling(private: &Private, event: &StreamEvent) -> Option<String> {
    let is_well = event.kind == Kind::Ended && matches!(event.reason, Some(Reason::Ok) | None);
    let words = event_words::words(&private.context.out, event);
    (!is_well && !words.is_empty()).then(|| format!("-- {}", private.text_of_the_person(&words)))
}
