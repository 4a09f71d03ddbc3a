//! Keys of `[[schedule]]`, `[[http]]`, `[[event]]` and `[[file]]`: the triggers of a function.

use super::{OverlapKey, Rate, TEXTS};
use crate::function::file::{self, FileAction, FileChange};
use crate::function::route::{self, Condition, Credentials, HttpPayload, Method, Per, RequestPlace, Response};
use crate::schema::keys::keys;
use crate::text;
use crate::words;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::time::Duration;

keys! {
    /// An entry of `[[schedule]]`: the times at which the function runs.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Schedule {
        /// When the function runs, as in cron: minute, hour, day of the month, month and day of the week, or a word such as `@daily`. If there are six fields, the first one is the second. `H` in a field is a number that fnd chooses: always the same for this function on this host, another one elsewhere.
        cron: Option<String> = Text(TextKind::Some), example "*/5 * * * *";
        /// Time from one planned run to the next, instead of `cron`.
        every: Option<Duration> [with = "text::duration_or_none"] = Duration(Zero::Refused), example "30s";
        /// Instead of `cron`: the function runs once after each boot of the machine, as soon as fnd runs. Saving it runs nothing.
        at: Option<ScheduledAt> [default, skip_serializing_if = "Option::is_none"] = Word(ScheduledAt::WORDS), example "boot";
        /// The time zone in which the times of `cron` are meant. Default: that of the machine.
        timezone: Option<String> = Text(TextKind::Some), example "Europe/Berlin";
        /// Longest random delay of each run.
        jitter: Duration [with = "text::duration"] = Duration(Zero::Fine), default "0", example "10s";
        /// How old a missed run may be to be made up for. A run is missed if at its time fnd was not running, the machine was off or suspended, or the clock was set past it. The function runs once for all missed runs that are younger than this. Older ones are only recorded as skipped.
        catch_up: Duration [with = "text::duration"] = Duration(Zero::Fine), default "0", example "1h";
        /// What happens if all processes are busy.
        overlap: OverlapKey = Word(OverlapKey::WORDS), default "skip", example "queue";
        /// Payload of the run. Default: `data` of the function.
        data: Option<Json> = Json, example { any = "json" };
        /// Whether a run that failed becomes a dead letter: then somebody has to redrive or drop it. By default it does not, since the next run brings the same payload.
        dead_letters: bool = Bool, default false, example true;
    }
}

words! {
    /// An event of the machine at which a schedule runs.
    pub enum ScheduledAt {
        /// Once after each boot.
        Boot = "boot",
    }
}

keys! {
    /// An entry of `[[http]]`: a route of the public listener that runs the function.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HttpRoute {
        /// Path of the route: `/hello`, `/users/{id}` (one segment), `/files/{*rest}` (the rest).
        path: String = Text(TextKind::Grammar(&route::PATTERN)), example "/hello", required true;
        /// Host name of the route. Default: every host.
        host: Option<String> = Text(TextKind::Host), example "api.example.com";
        /// HTTP methods of the route. A route with GET also answers HEAD.
        methods: Vec<Method> = List(&Word(Method::WORDS)), default ["GET", "POST"], example ["POST"];
        // The key is required, so that a route is open to everybody only where its manifest says so.
        /// How a caller proves that it may call: `FORM:SECRET`, or a list of which one is enough. SECRET is the name of a file in `/etc/fnd/secrets`. FORM is the way in which the caller proves that it has this secret: `token` is `Authorization: Bearer`, `github` is the signature that GitHub sends. With `none`, everybody may call.
        auth: Credentials = Either(&Text(TextKind::Grammar(&route::AUTH)), &List(&Text(TextKind::Grammar(&route::AUTH)))), example "token:hello-token", required true;
        /// Conditions on the request that must all hold; another request is answered with 204 and runs nothing.
        when: Vec<Condition> = Map(TextKind::Grammar(&route::PLACE), &Either(&Text(TextKind::Any), &Either(&TEXTS, &Table(TEST)))),
            example { "header.x-github-event" = "push", "body.ref" = ["refs/heads/main"] };
        /// Whether a request is queued and answered with 202 and the id.
        r#async: bool = Bool, default false, example true;
        /// The answer to a queued request of an `async` route, instead of 202 and the id.
        answer: Option<RouteAnswer> [default, skip_serializing_if = "Option::is_none"] = Table(RouteAnswer::KEYS), example { status = 200, body = "thanks" };
        /// Where the idempotency key of a request is: requests with the same key run once.
        idempotency: Option<RequestPlace> = Text(TextKind::Grammar(&route::PLACE)), example "header.x-github-delivery";
        /// Origins whose pages may call the route; `*` for all.
        cors: Vec<String> = List(&Text(TextKind::Grammar(&route::ORIGIN))), example ["https://example.com"];
        /// How many requests are accepted per time.
        rate: Option<Rate> = Rate, example "10/s";
        /// Whose requests `rate` counts together: those of `all` callers, or of one `ip` address.
        per: Per = Word(Per::WORDS), default "all", example "ip";
        /// What the answer is made of: the `result`, or the output of a script that writes it as a `cgi` program does.
        response: Response = Word(Response::WORDS), default "result", example "cgi";
        /// What a handler gets of a request, and what its answer is: `data` is the body, and the result answers; `lambda` is the request as API Gateway's payload 2.0, and an object with `statusCode` answers. Functions of the runtime `lambda` have `lambda` by default.
        payload: HttpPayload [default = "HttpPayload::before", skip_serializing_if = "route::is_data"] = Word(HttpPayload::WORDS), default "data", example "lambda";
        /// Whether an HTTP function gets the path without the fixed beginning of the route's path.
        strip: bool = Bool, default false, example true;
        /// Whether the function gets the header `Authorization`, where everybody may call (`auth = "none"`): callers may mean it for another route.
        authorization: bool = Bool, default false, example true;
    } and {
        /// Whether a request has the function's code fetched again (`[source] hook`), and does not run the function.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fetches: bool,
    }
}

keys! {
    /// The answer to a queued request.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RouteAnswer {
        /// Status of the answer.
        status: u16 = Whole(200..=599), default 202, example 200;
        /// Body of the answer; `text/plain`, unless `headers` names another type.
        body: String = Text(TextKind::Any), default "", example "thanks";
        /// Headers of the answer.
        headers: BTreeMap<String, String> = Map(TextKind::Any, &Text(TextKind::Any)), example { "x-queue" = "deploys" };
    }
}

impl HttpRoute {
    /// Returns a route of fnd's own, which takes what it is sent and answers with 202.
    #[must_use]
    pub fn of_fnd(path: String, auth: Credentials) -> Self {
        Self {
            path,
            host: None,
            methods: vec![Method::Post],
            auth,
            when: Vec::new(),
            r#async: true,
            answer: None,
            idempotency: None,
            cors: Vec::new(),
            rate: None,
            per: Per::All,
            response: Response::Result,
            payload: HttpPayload::Data,
            strip: false,
            authorization: false,
            fetches: false,
        }
    }
}

keys! {
    pub(super) const TEST {
        /// Values that the place must not have.
        not = Either(&Text(TextKind::Any), &TEXTS), example ["refs/heads/main"];
        /// Regular expression that the value must match.
        matches = Text(TextKind::Regex), example "^bot-";
    }
}

keys! {
    /// An entry of `[[event]]`: the events that run the function.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct EventSubscription {
        /// CloudEvents type; a `*` at the end matches any rest.
        r#type: String = Text(TextKind::Some), example "order.created", required true;
        /// The source of the events, exactly as the sender writes it. Default: every source.
        source: Option<String> = Text(TextKind::Some), example "shop";
        /// The subject of the events, in which `*` stands for any text. Default: events with any subject, and events without one.
        subject: Option<String> = Text(TextKind::Some), example "orders/*";
        /// Version of the type, which senders name in the extension `eventtypeversion`.
        version: Option<String> = Text(TextKind::Some), example "v1";
        /// JSON Schema that the data must match, a file beside the code.
        schema: Option<String> = Text(TextKind::Relative), example "order.schema.json";
        /// Conditions on the event that must all hold: `body.NAME` looks into the data, `header.ce-NAME` is an attribute.
        when: Vec<Condition> = Map(TextKind::Grammar(&route::PLACE), &Either(&Text(TextKind::Any), &Either(&TEXTS, &Table(TEST)))),
            example { "body.total" = { matches = "^[0-9]{4,}$" } };
        /// Events with the same value at this place run one after the other, in the order in which they were accepted.
        key: Option<RequestPlace> = Text(TextKind::Grammar(&route::PLACE)), example "body.order";
    } and {
        /// The content of the schema's file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        json_schema: Option<serde_json::Value>,
    }
}

keys! {
    /// An entry of `[[file]]`: a directory whose files run the function.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct FileTrigger {
        /// Directory that is watched. It may be made later; the user of the function must be able to read it.
        path: String = Text(TextKind::Absolute), example "/srv/in", required true;
        /// Pattern of the file names: `*`, `?`, `[a-z]`, `{csv,txt}`. Only a pattern that begins with a dot matches hidden files.
        pattern: String = Text(TextKind::Grammar(&file::PATTERN)), default "*", example "*.csv";
        /// Changes that run the function.
        on: Vec<FileChange> = List(&Word(FileChange::WORDS)), default ["created", "modified"], example ["created"];
        /// Quiet time after a file was closed before it counts.
        debounce: Duration [with = "text::duration"] = Duration(Zero::Fine), default "500ms", example "2s";
        /// Quiet time before a file counts that no program has closed.
        settle: Duration [with = "text::duration"] = Duration(Zero::Refused), default "2s", example "10s";
        /// Whether files in directories below count too. Hidden directories do not count.
        recursive: bool = Bool, default false, example true;
        /// Whether files count that were there before the function.
        existing: bool = Bool, default true, example false;
        /// Most files of one invocation. With more than one, the payload is a list.
        batch: u32 = Whole(1..=1000), default 1, example 100;
        /// What happens to the files after success: `keep`, `delete`, or `move:DIRECTORY`, which is relative to `path`.
        then: FileAction = Text(TextKind::Grammar(&file::ACTION)), default "keep", example "move:done";
        /// What happens to the files after the last failure: `keep`, `delete` or `move:DIRECTORY`.
        failed: FileAction = Text(TextKind::Grammar(&file::ACTION)), default "keep", example "move:failed";
        /// Time between looks at all files, for file systems that report no changes, such as NFS. Default: changes are reported.
        every: Option<Duration> [with = "text::duration_or_none"] = Duration(Zero::Refused), example "1m";
    }
}
