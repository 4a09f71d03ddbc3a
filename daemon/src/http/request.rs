//! A request: its headers and its body, each limited and checked.

use super::limits::{BODY_GAP, DISCARD_MAX, Pace};
use super::query::Query;
use super::response::{Refusal, internal, no_room, refuse, refuse_for_now};
use crate::buffers::{AddressShare, Buffers, Gathering};
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_wire::units::print_size;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{EXPECT, HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::{Instant, timeout, timeout_at};

/// A body that has not been read; its reader takes it out.
#[derive(Debug)]
pub(crate) struct Unread {
    body: RefCell<Option<Incoming>>,
    /// Whether its sender waits for `100 Continue`, which hyper sends when the body is read.
    is_announced: Cell<bool>,
}

impl Unread {
    /// Returns the body of a request with these headers.
    pub(crate) fn new(headers: &HeaderMap, body: Incoming) -> Rc<Self> {
        let expects = headers.get(EXPECT).map(HeaderValue::as_bytes);
        Rc::new(Self {
            body: RefCell::new(Some(body)),
            is_announced: Cell::new(expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))),
        })
    }

    /// Takes the body out, to read it.
    pub(crate) fn take(&self) -> Option<Incoming> {
        self.is_announced.set(false);
        self.body.borrow_mut().take()
    }
}

/// The body of a request, and whether its sender is known.
pub(crate) enum RequestBody {
    /// The body was read already, because a signature covers it.
    Read(Data),
    OfKnown,
    /// The sender has shown no credential; its address, if it has one.
    OfStranger(Option<IpAddr>),
}

pub(crate) struct IncomingRequest {
    pub(crate) parts: hyper::http::request::Parts,
    pub(crate) body: Rc<Unread>,
    /// How long the body may take.
    pub(crate) pace: Pace,
}

impl IncomingRequest {
    /// Returns the parameters, which must all be in `known`.
    ///
    /// # Errors
    /// As [`Query::parse`].
    pub(crate) fn query(&self, known: &[&str]) -> Result<Query, Refusal> {
        Query::parse(self.parts.uri.query().unwrap_or_default(), known)
    }

    /// Returns a header as text, without spaces around it. A name as text would be parsed at each call.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if it occurs more than once or is not ASCII.
    pub(crate) fn header(&self, name: &HeaderName) -> Result<Option<&str>, Refusal> {
        let mut values = self.parts.headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        // Of two values, fnd and a proxy in front of it could each take another one.
        if values.next().is_some() {
            return Err(refuse(
                Code::BadRequest,
                format!("the header `{name}` appears more than once"),
            ));
        }
        match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(refuse(
                Code::BadRequest,
                format!("the header `{name}` has characters that are not ASCII"),
            )),
        }
    }

    /// Takes the body out, to pass it on.
    ///
    /// # Errors
    /// [`Code::TooLarge`]; [`Code::BadRequest`] if it was taken out before.
    pub(crate) fn take_body(&self, (limit, limit_name): (u64, &str)) -> Result<Incoming, Refusal> {
        self.check_length(limit, limit_name)?;
        self.body.take().ok_or_else(broken_off)
    }

    /// Refuses a body whose announced length exceeds a limit. The body is not taken out, so that the rest of it can be
    /// discarded.
    fn check_length(&self, limit: u64, limit_name: &str) -> Result<(), Refusal> {
        let body = self.body.body.borrow();
        if body.as_ref().is_some_and(|body| body.size_hint().lower() > limit) {
            return Err(too_large(limit, limit_name));
        }
        Ok(())
    }

    /// Returns the whole body, in memory or on the disk, as the memory budget allows. A stranger's body counts in the
    /// stranger's share as long as fnd holds it.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::SlowRequest`], [`Code::BadRequest`] if the body breaks off, and
    /// [`Code::Unavailable`] if neither memory nor disk has room for it.
    pub(crate) async fn read_body(
        &self,
        buffers: &Arc<Buffers>,
        body: RequestBody,
        limit: (u64, &str),
    ) -> Result<Data, Refusal> {
        match body {
            RequestBody::Read(body) => Ok(body),
            RequestBody::OfKnown => self.read(buffers, limit, None).await,
            RequestBody::OfStranger(from) => {
                let (body, share) = self.read_unauthenticated_body(buffers, limit, from).await?;
                Ok(share.stay_with(body))
            }
        }
    }

    /// Returns the whole body of a caller who has shown no credential, and its share of what such callers may have.
    ///
    /// # Errors
    /// As [`Self::read_body`]; [`Code::Unavailable`] also if such callers, or this one, have too much.
    pub(crate) async fn read_unauthenticated_body(
        &self,
        buffers: &Arc<Buffers>,
        (limit, limit_name): (u64, &str),
        from: Option<IpAddr>,
    ) -> Result<(Data, AddressShare), Refusal> {
        let mut share = AddressShare::new(buffers, from, limit);
        let body = self.read(buffers, (limit, limit_name), Some(&mut share)).await?;
        Ok((body, share))
    }

    async fn read(
        &self,
        buffers: &Arc<Buffers>,
        (limit, limit_name): (u64, &str),
        mut share: Option<&mut AddressShare>,
    ) -> Result<Data, Refusal> {
        // Checked before the first read, at which hyper sends `100 Continue`: a sender that waits for it gets the
        // refusal instead.
        self.check_length(limit, limit_name)?;
        let mut gathering = Gathering::new(buffers);
        let Some(mut body) = self.body.take() else {
            return Ok(gathering.finish());
        };
        if body.is_end_stream() {
            return Ok(gathering.finish());
        }
        // `check_length` has compared it with the limit.
        gathering.announce(body.size_hint().exact().unwrap_or(0));
        let mut clock = BodyClock::start(self.pace);
        while let Some(data) = clock.next_data(&mut body).await? {
            let size = data.len() as u64;
            let kept = if gathering.size() + size > limit {
                Err(too_large(limit, limit_name))
            } else if share.as_deref_mut().is_some_and(|share| !share.take(size)) {
                Err(refuse_for_now(Code::Unavailable, TOO_MUCH))
            } else {
                let pushed = gathering.push(&data, share.as_deref()).await;
                pushed.map_err(|error| no_room("the body", &error))
            };
            if let Err(refusal) = kept {
                // Put back, so that `discard` can read the rest and the sender gets the answer.
                self.body.body.replace(Some(body));
                return Err(refusal);
            }
        }
        Ok(gathering.finish())
    }
}

/// Returns the bytes of a body, which may be on the disk.
pub(crate) fn bytes_of(body: &Data) -> Result<Cow<'_, [u8]>, Refusal> {
    body.bytes()
        .map_err(|error| internal("read a body from the disk", &error))
}

/// Why a body without a credential is refused.
const TOO_MUCH: &str =
    "your address, or all callers who have shown no credential, have as many bytes of bodies here as they may";

fn broken_off() -> Refusal {
    refuse(Code::BadRequest, "the connection ended before the whole body had come")
}

fn too_large(limit: u64, limit_name: &str) -> Refusal {
    let limit = print_size(limit);
    refuse(
        Code::TooLarge,
        format!("the body is larger than {limit} ({limit_name})"),
    )
}

/// Measures how long a body takes.
struct BodyClock {
    pace: Pace,
    start: Instant,
    /// Bytes that have come.
    bytes: u64,
}

impl BodyClock {
    fn start(pace: Pace) -> Self {
        let (start, bytes) = (Instant::now(), 0);
        Self { pace, start, bytes }
    }

    async fn next_data(&mut self, body: &mut Incoming) -> Result<Option<hyper::body::Bytes>, Refusal> {
        let slow = |what: String| refuse(Code::SlowRequest, what);
        let allowed = self.pace.time(self.bytes);
        loop {
            let frame = timeout_at(self.start + allowed, timeout(BODY_GAP, body.frame())).await;
            let frame = frame.map_err(|_| match self.pace {
                Pace::Within(time) => slow(format!("the body took longer than {} s", time.as_secs())),
                Pace::AtLeast { bytes_per_second, .. } => {
                    slow(format!("the body came slower than {}/s", print_size(bytes_per_second)))
                }
            })?;
            let frame = frame.map_err(|_| slow(format!("no part of the body came for {} s", BODY_GAP.as_secs())))?;
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(broken_off()),
                // Trailers have no meaning here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.bytes += data.len() as u64;
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Reads and drops the rest of a refused request's body, within limits, so that its sender gets to read the answer.
pub(crate) async fn discard(body: &Unread, pace: Pace) {
    if body.is_announced.get() {
        // The sender has not sent it, and need not: it waits for the answer.
        return;
    }
    let Some(mut body) = body.take() else {
        return;
    };
    let mut clock = BodyClock::start(pace);
    while let Ok(Some(_)) = clock.next_data(&mut body).await {
        if clock.bytes >= DISCARD_MAX {
            return;
        }
    }
}
