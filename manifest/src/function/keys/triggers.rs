//! Keys of `[[schedule]]`, `[[http]]`, `[[event]]` and `[[file]]`: the triggers of a function.

use super::Overlap;
use crate::schema::keys::keys;

keys! {
    pub(super) const SCHEDULE {
        /// When it runs, as a cron line: five fields, six with seconds, or a word such as `@hourly`.
        cron = Text(Form::Some), example "*/5 * * * *";
        /// Time between runs, instead of `cron`.
        every = Duration(Zero::Refused), example "30s";
        /// Time zone of `cron`. Default: that of the machine.
        timezone = Text(Form::Some), example "Europe/Berlin";
        /// Longest random delay of each run.
        jitter = Duration(Zero::Fine), example "10s";
        /// A run that was missed at most this long ago is made up for when fnd starts.
        catch_up = Duration(Zero::Fine), default "0", example "1h";
        /// What happens if the last run has not ended.
        overlap = Word(Overlap::WORDS), default "skip", example "queue";
        /// Payload of the run.
        data = Json, example { any = "json" };
    }
}

keys! {
    pub(super) const HTTP {
        /// Path of the route.
        path = Text(Form::UrlPath), example "/hello", required true;
        /// HTTP methods of the route.
        methods = List(&Word(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])),
            default ["GET", "POST"], example ["POST"];
        /// How a caller proves who it is: `token:SECRET`, `basic:SECRET`, `hmac:SECRET` or `none`.
        auth = Text(Form::Auth), example "token:hello-token", required true;
        /// Whether a request is queued and answered with 202 and the id.
        async = Bool, default false, example true;
        /// Origins that CORS allows.
        cors = List(&Text(Form::Some)), example ["*"];
    }
}

keys! {
    pub(super) const EVENT {
        /// CloudEvents type; a `*` at the end matches any rest.
        type = Text(Form::Some), example "order.created", required true;
        /// CloudEvents source.
        source = Text(Form::Some), example "shop";
        /// Version of the type.
        version = Text(Form::Some), example "v1";
        /// JSON schema that the data must match.
        schema = Text(Form::Relative), example "order.schema.json";
    }
}

keys! {
    pub(super) const FILE {
        /// Directory that is watched.
        path = Text(Form::Absolute), example "/srv/in", required true;
        /// Pattern of the file names.
        pattern = Text(Form::Some), default "*", example "*.csv";
        /// Kinds of changes that run the function.
        on = List(&Word(&["created", "modified", "deleted"])), default ["created", "modified"], example ["created"];
        /// Quiet time after a change before the function runs.
        debounce = Duration(Zero::Fine), default "500ms", example "2s";
    }
}
