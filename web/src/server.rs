//! Connections of browsers, and the way from a request to its answer.

use crate::answer::{Answer, answer_of, asset, document, failed, header, redirect, refused, with_type};
use crate::api::{Api, Failure};
use crate::guard::{admit, is_local, protect};
use crate::http::{Method, Request, pairs};
use crate::idle::Idle;
use crate::listen::{Connection, Listener};
use crate::notice;
use crate::pages;
use crate::parts::text::size;
use crate::session::Sessions;
use crate::stream;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use hyper::header::{COOKIE, HeaderMap, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// Most connections at a time. A browser has six.
const CONNECTIONS_MAX: usize = 64;
/// Most bytes of a request without its body.
const HEAD_MAX: usize = 32 * 1024;
/// How long a browser may take to send a request without its body; an unused connection is closed after this time.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Most bytes of a form: a payload is one field, and each of its bytes may take three.
const FORM_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of the form of a stranger: a token, and an address that a head has room for.
const LOGIN_MAX: usize = 128 * 1024;
const FORM_TIME: Duration = Duration::from_secs(30);

/// The parts of the page that requests need.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) api: Api,
    pub(crate) sessions: Sessions,
    pub(crate) idle: Idle,
    pub(crate) read_only: bool,
}

/// A connection, and whether one of its requests had the session.
type Place = (AbortHandle, Rc<Cell<bool>>);

/// Serves connections until this future is dropped.
pub(crate) async fn serve(listener: &Listener, site: &Rc<Site>) {
    let mut tasks = JoinSet::new();
    let mut places = Vec::new();
    loop {
        tokio::select! {
            // Cancel-safe: a connection is either accepted or still in the backlog.
            connection = listener.accept(), if tasks.len() < CONNECTIONS_MAX => {
                let (site, trusted) = (Rc::clone(site), Rc::<Cell<bool>>::default());
                let of_place = Rc::clone(&trusted);
                let task = tasks.spawn_local(async move {
                    match connection {
                        Connection::Socket(stream) => serve_one(stream, site, trusted).await,
                        Connection::Port(stream) => serve_one(stream, site, trusted).await,
                    }
                });
                places.push((task, of_place));
                leave_room(&mut places);
            }
            // Cancel-safe: a finished task stays in the set until it is taken. A panic ends only its own connection.
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Ends the oldest connection of a stranger when the newest one took the last place: every user of the machine can connect to a
/// port, and must not keep the person out. If only the newest is a stranger's, further ones wait.
fn leave_room(places: &mut Vec<Place>) {
    places.retain(|(task, _)| !task.is_finished());
    if places.len() < CONNECTIONS_MAX {
        return;
    }
    let mut earlier = places.iter().take(CONNECTIONS_MAX - 1);
    if let Some(stranger) = earlier.position(|(_, trusted)| !trusted.get()) {
        places.remove(stranger).0.abort();
    }
}

async fn serve_one(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, site: Rc<Site>, trusted: Rc<Cell<bool>>) {
    let service = service_fn(move |request| {
        let (site, trusted) = (Rc::clone(&site), Rc::clone(&trusted));
        async move { Ok::<_, Infallible>(site.answer(request, &trusted).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX);
    // The browser has left, or broke the rules and has its answer.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

impl Site {
    async fn answer(&self, request: hyper::Request<Incoming>, trusted: &Cell<bool>) -> Answer {
        let (head, body) = request.into_parts();
        let mut answer = self.admitted(&head, body, trusted).await;
        protect(answer.headers_mut());
        answer
    }

    async fn admitted(&self, head: &Parts, body: Incoming, trusted: &Cell<bool>) -> Answer {
        let path = head.uri.path();
        let method = match admit(head) {
            Ok(method) => method,
            Err(refusal) => return refused(refusal.status(), refusal.message()),
        };
        match (method, path) {
            (Method::Get, "/login") => document(200, notice::sign_in("/", false)),
            (Method::Post, "/login") => self.sign_in(body).await,
            (Method::Get, _) if path.starts_with("/assets/") => asset(path),
            _ if !self.sessions.has(cookies(&head.headers)) => stranger(method, head),
            _ => {
                trusted.set(true);
                self.known(method, head, body).await
            }
        }
    }

    async fn sign_in(&self, body: Incoming) -> Answer {
        let form = match form(body, LOGIN_MAX).await {
            Ok(form) => Request::new(Method::Post, "/login", "", &form),
            Err(failure) => return failed(&failure, Method::Post),
        };
        let next = form.field("next").filter(|next| is_local(next)).unwrap_or("/");
        match self.sessions.exchange(form.field("token").unwrap_or_default().trim()) {
            Ok(Some(cookie)) => {
                let mut answer = redirect(next);
                answer.headers_mut().extend(header(SET_COOKIE, &cookie));
                answer
            }
            Ok(None) => document(403, notice::sign_in(next, true)),
            Err(error) => refused(500, &format!("The kernel gives no random bytes: {error}.")),
        }
    }

    async fn known(&self, method: Method, head: &Parts, body: Incoming) -> Answer {
        self.idle.used();
        if method == Method::Post && self.read_only {
            return refused(403, "This page was started with --read-only.");
        }
        let mut request = Request::new(method, head.uri.path(), head.uri.query().unwrap_or_default(), b"");
        request.read_only = self.read_only;
        if method == Method::Post {
            request.form = match form(body, FORM_MAX).await {
                Ok(form) => pairs(&form),
                Err(failure) => return failed(&failure, method),
            };
        }
        let last = head.headers.get("last-event-id").and_then(|last| last.to_str().ok());
        let followed = match (method, request.parts().as_slice()) {
            (Method::Get, ["stream"]) => stream::events(&self.api, &request, last, self.idle.stream()).await,
            (Method::Get, ["runs", id, "follow"]) => {
                stream::output(&self.api, &request, id, last, self.idle.stream()).await
            }
            _ => return answer_of(pages::answer(&request, &self.api).await, method),
        };
        match followed {
            Ok(body) => with_type(StatusCode::OK, "text/event-stream", body),
            Err(failure) => failed(&failure, method),
        }
    }
}

/// Returns the answer to a request without a session. The token is in the fragment, which the browser has not sent.
fn stranger(method: Method, head: &Parts) -> Answer {
    let next = head.uri.path_and_query().map(|target| target.as_str());
    let next = next.filter(|next| method == Method::Get && is_local(next));
    document(401, notice::sign_in(next.unwrap_or("/"), false))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(COOKIE).into_iter();
    values.filter_map(|value| value.to_str().ok())
}

/// Returns the bytes of a form.
async fn form(body: Incoming, most: usize) -> Result<Bytes, Failure> {
    match timeout(FORM_TIME, Limited::new(body, most).collect()).await {
        Ok(Ok(form)) => Ok(form.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let most = size(Some(most as u64));
            Err(Failure::page(413, format!("The form is larger than {most}.")))
        }
        Ok(Err(_)) => Err(Failure::bad_request("The form broke off.")),
        Err(_) => Err(Failure::page(408, "The form did not arrive within 30 seconds.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_client::client::Client;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    /// Sends the beginning of a request and nothing more; returns the answer, and how long it took.
    async fn slow(bytes: &[u8]) -> (String, Duration) {
        let site = Site {
            api: Api::new(Client::new("/nonexistent/control.sock".into(), false)),
            sessions: Sessions::new().unwrap().0,
            idle: Idle::default(),
            read_only: false,
        };
        let (mut browser, server) = duplex(64 * 1024);
        let start = Instant::now();
        let browse = async {
            browser.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            browser.read_to_end(&mut answer).await.unwrap();
            (String::from_utf8(answer).unwrap(), start.elapsed())
        };
        tokio::join!(serve_one(server, Rc::new(site), Rc::default()), browse).1
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_is_left() {
        let (_, time) = slow(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n").await;
        assert_eq!(time.as_secs(), HEAD_TIME.as_secs());
        let head = "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n\
                    Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken=";
        let (answer, _) = slow(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }

    #[tokio::test]
    async fn strangers_cannot_keep_the_person_out() {
        let mut tasks = JoinSet::new();
        let mut place = |trusted| (tasks.spawn(std::future::pending::<()>()), Rc::new(Cell::new(trusted)));
        let mut mixed: Vec<Place> = (0..CONNECTIONS_MAX).map(|number| place(number == 0)).collect();
        leave_room(&mut mixed);
        assert_eq!(mixed.len(), CONNECTIONS_MAX - 1);
        assert!(mixed[0].1.get());
        let newest = CONNECTIONS_MAX - 1;
        let mut own: Vec<Place> = (0..CONNECTIONS_MAX).map(|number| place(number < newest)).collect();
        leave_room(&mut own);
        assert_eq!(own.len(), CONNECTIONS_MAX);
    }
}
