//! Keys of `[[schedule]]`, `[[http]]`, `[[event]]` and `[[file]]`: the triggers of a function.

use super::Overlap;
use crate::schema::keys::keys;

keys! {
    pub(super) const SCHEDULE {
        /// Five fields, six with seconds, or `@hourly` and the like.
        cron = Text(Form::Some), example "*/5 * * * *";
        /// Instead of `cron`: so often.
        every = Duration(Zero::Refused), example "30s";
        /// Default: the machine's.
        timezone = Text(Form::Some), example "Europe/Berlin";
        /// Up to so much later.
        jitter = Duration(Zero::Fine), example "10s";
        /// A time missed less than this ago runs once on start.
        catch_up = Duration(Zero::Fine), default "0", example "1h";
        /// What happens when it is still running.
        overlap = Word(Overlap::WORDS), default "skip", example "queue";
        /// Payload.
        data = Json, example { any = "json" };
    }
}

keys! {
    pub(super) const HTTP {
        /// Path.
        path = Text(Form::UrlPath), example "/hello", required true;
        /// Methods.
        methods = List(&Word(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])),
            default ["GET", "POST"], example ["POST"];
        /// Who may: `token:SECRET`, `basic:SECRET`, `hmac:SECRET` or `none`.
        auth = Text(Form::Auth), example "token:hello-token", required true;
        /// Answer 202 with the id.
        async = Bool, default false, example true;
        /// Origins whose pages may.
        cors = List(&Text(Form::Some)), example ["*"];
    }
}

keys! {
    pub(super) const EVENT {
        /// CloudEvents type; a trailing `*` matches the rest.
        type = Text(Form::Some), example "order.created", required true;
        /// CloudEvents source.
        source = Text(Form::Some), example "shop";
        /// Version of the type.
        version = Text(Form::Some), example "v1";
        /// JSON schema its data has to match.
        schema = Text(Form::Relative), example "order.schema.json";
    }
}

keys! {
    pub(super) const FILE {
        /// Directory.
        path = Text(Form::Absolute), example "/srv/in", required true;
        /// Names.
        pattern = Text(Form::Some), default "*", example "*.csv";
        /// What has to happen.
        on = List(&Word(&["created", "modified", "deleted"])), default ["created", "modified"], example ["created"];
        /// Quiet time before it runs.
        debounce = Duration(Zero::Fine), default "500ms", example "2s";
    }
}
