//! A request: its headers and its body, each limited and checked.

use super::limits::{BODY_GAP, BODY_TIME, DISCARD_MAX};
use super::query::Query;
use super::response::{Refusal, no_room, refuse};
use crate::buffers::{Buffers, Gathering};
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_wire::units::print_size;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::{Instant, timeout, timeout_at};

/// A body that has not been read; its reader takes it out.
pub(crate) type Unread = Rc<RefCell<Option<Incoming>>>;

/// A request.
pub(crate) struct Request {
    pub(crate) parts: hyper::http::request::Parts,
    pub(crate) body: Unread,
}

impl Request {
    /// Returns the parameters, which must all be in `known`.
    ///
    /// # Errors
    /// As [`Query::parse`].
    pub(crate) fn query(&self, known: &[&str]) -> Result<Query, Refusal> {
        Query::parse(self.parts.uri.query().unwrap_or_default(), known)
    }

    /// Returns a header as text, without spaces around it.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if it occurs more than once or is not ASCII.
    pub(crate) fn header(&self, name: &'static str) -> Result<Option<&str>, Refusal> {
        let mut values = self.parts.headers.get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            if self.parts.headers.contains_key(name) {
                return Err(refuse(
                    Code::BadRequest,
                    format!("the header `{name}` appears more than once"),
                ));
            }
            return Ok(None);
        };
        match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(refuse(
                Code::BadRequest,
                format!("the header `{name}` has characters that are not ASCII"),
            )),
        }
    }

    /// Refuses a body whose announced length exceeds a limit. The body is not taken out, so that the rest of it can be
    /// discarded.
    ///
    /// # Errors
    /// [`Code::TooLarge`].
    pub(crate) fn check_length(&self, limit: u64, limit_name: &str) -> Result<(), Refusal> {
        let body = self.body.borrow();
        if body.as_ref().is_some_and(|body| body.size_hint().lower() > limit) {
            return Err(too_large(limit, limit_name));
        }
        Ok(())
    }

    /// Returns the whole body, in memory or on the disk, as the memory budget allows.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::SlowRequest`], [`Code::BadRequest`] if the body breaks off, and
    /// [`Code::Unavailable`] if neither memory nor disk has room for it.
    pub(crate) async fn read_body(
        &self,
        buffers: &Arc<Buffers>,
        limit: u64,
        limit_name: &str,
    ) -> Result<Data, Refusal> {
        self.check_length(limit, limit_name)?;
        let mut gathering = Gathering::new(buffers);
        let Some(mut body) = self.body.borrow_mut().take() else {
            return Ok(gathering.finish());
        };
        if body.is_end_stream() {
            return Ok(gathering.finish());
        }
        let end = deadline();
        while let Some(data) = next_data(&mut body, end).await? {
            if gathering.size() + data.len() as u64 > limit {
                self.body.borrow_mut().replace(body);
                return Err(too_large(limit, limit_name));
            }
            if let Err(error) = gathering.push(&data).await {
                self.body.borrow_mut().replace(body);
                return Err(no_room("the body", &error));
            }
        }
        Ok(gathering.finish())
    }
}

fn too_large(limit: u64, limit_name: &str) -> Refusal {
    let limit = print_size(limit);
    refuse(
        Code::TooLarge,
        format!("the body is larger than {limit} ({limit_name})"),
    )
}

fn deadline() -> Instant {
    Instant::now() + BODY_TIME
}

async fn next_data(body: &mut Incoming, end: Instant) -> Result<Option<hyper::body::Bytes>, Refusal> {
    let slow = |what: String| refuse(Code::SlowRequest, what);
    loop {
        let frame = timeout_at(end, timeout(BODY_GAP, body.frame())).await;
        let frame = frame.map_err(|_| slow(format!("the body took longer than {} s", BODY_TIME.as_secs())))?;
        let frame = frame.map_err(|_| slow(format!("no part of the body came for {} s", BODY_GAP.as_secs())))?;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => {
                return Err(refuse(
                    Code::BadRequest,
                    "the connection ended before the whole body had come",
                ));
            }
            // Trailers have no meaning here.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads and drops the rest of a refused request's body, within limits, so that its sender gets to read the answer.
pub(crate) async fn discard(body: &Unread) {
    let Some(mut body) = body.borrow_mut().take() else {
        return;
    };
    let end = deadline();
    let mut left = DISCARD_MAX;
    while let Ok(Some(data)) = next_data(&mut body, end).await {
        left = left.saturating_sub(data.len() as u64);
        if left == 0 {
            return;
        }
    }
}

/// Returns a text of the request for use in a message: at most 80 characters, without control characters.
pub(crate) fn short(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
