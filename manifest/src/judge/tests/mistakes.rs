//! The mistakes that people make in manifests and files: each message has the fix in it. `tests/it/mistakes` has those that need a
//! running fnd, and `ctl/tests/fndctl/mistakes.rs` those on the command line.

use super::*;
use crate::diagnostic::Colour;

/// The mistake in words, the manifest of `x.sh`, and the words that tell how to mend it.
type Row = (&'static str, &'static str, &'static [&'static str]);

/// Keys that a manifest does not have, or has elsewhere.
const KEYS: &[Row] = &[
    ("a key that is misspelt", "enable = true\n", &["`enabled`"]),
    (
        "a key of a table that is misspelt",
        "[limits]\nmemroy = \"1G\"\n",
        &["`memory`"],
    ),
    ("a table that is misspelt", "[limit]\nmemory = \"1G\"\n", &["`limits`"]),
    ("a key with a capital", "Enabled = true\n", &["`enabled`"]),
    ("a limit at the top", "memory = \"1G\"\n", &["belongs in `[limits]`"]),
    (
        "a timeout at the top",
        "timeout = \"30s\"\n",
        &["belongs in `[limits]`"],
    ),
    ("retries at the top", "retries = 3\n", &["belongs in `[retry]`"]),
    (
        "a user at the top",
        "user = \"www-data\"\n",
        &["belongs in `[sandbox]`"],
    ),
    (
        "a key of the top in a table",
        "[retry]\nruntime = \"bash\"\n",
        &["the top of the file"],
    ),
    ("`cron` at the top", "cron = \"0 3 * * *\"\n", &["`[[schedule]]`"]),
    ("`every` at the top", "every = \"5m\"\n", &["`[[schedule]]`"]),
    ("a time zone at the top", "timezone = \"UTC\"\n", &["`[[schedule]]`"]),
    (
        "a path at the top",
        "path = \"/hello\"\n",
        &["`[[http]]`", "`[[file]]`"],
    ),
    ("`auth` at the top", "auth = \"none\"\n", &["`[[http]]`"]),
    (
        "an order as in systemd and compose",
        "depends_on = [\"db\"]\n",
        &["functions have no order", "`[hooks]"],
    ),
    (
        "a signal as in supervisord",
        "stopsignal = \"INT\"\n",
        &["`stop_signal = \"INT\"` in `[service]`"],
    ),
    (
        "an image as in compose",
        "image = \"python:3\"\n",
        &["without containers", "`runtime = \"python\"`"],
    ),
    ("a name", "name = \"job\"\n", &["rename the file"]),
    (
        "an environment as in compose",
        "[environment]\nA = \"b\"\n",
        &["write `[env]`"],
    ),
    (
        "volumes as in compose",
        "volumes = [\"/srv:/srv\"]\n",
        &["`[sandbox]`", "read_only"],
    ),
    ("ports as in compose", "ports = [\"8080:80\"]\n", &["`[[http]]`"]),
    (
        "`restart` as in compose",
        "restart = \"always\"\n",
        &["`[service]`", "`[retry]`"],
    ),
    (
        "a working directory as in systemd",
        "working_directory = \"/srv\"\n",
        &["`$STATE_DIRECTORY`"],
    ),
    (
        "replicas as in Kubernetes",
        "replicas = 3\n",
        &["`max = 4` in `[pool]`"],
    ),
    (
        "retries as in other libraries",
        "max_retries = 3\n",
        &["`retries = 3` in `[retry]`"],
    ),
    (
        "memory as in docker",
        "mem_limit = \"1G\"\n",
        &["`memory = \"256M\"` in `[limits]`"],
    ),
    (
        "processors as in docker",
        "cpus = 2\n",
        &["`cpu = \"0.5\"` in `[limits]`"],
    ),
    ("`MAILTO` of cron", "mailto = \"root\"\n", &["`[alert]`"]),
    (
        "packages by another name",
        "requirements = [\"requests\"]\n",
        &["dependencies = [\"requests>=2\"]"],
    ),
    ("a version", "version = \"1.0\"\n", &["remove it"]),
    ("a webhook", "webhook = \"/deploy\"\n", &["`[[http]]`"]),
    (
        "a command as in docker",
        "cmd = \"run.sh\"\n",
        &["the file itself is the program"],
    ),
    ("an interval", "interval = \"5m\"\n", &["`every = \"5m\"`"]),
    (
        "a number of retries by another name",
        "[retry]\ncount = 3\n",
        &["`retries`"],
    ),
    ("an event without its type", "[[event]]\ntyp = \"order\"\n", &["`type`"]),
];

/// Values of another type or form.
const VALUES: &[Row] = &[
    ("true in quotes", "enabled = \"true\"\n", &["without quotes: `true`"]),
    (
        "no in place of false",
        "on_load = \"no\"\n",
        &["`true` or `false`", "`auto`"],
    ),
    ("a duration without a unit", "[limits]\ntimeout = 30\n", &["`\"30s\"`"]),
    (
        "hours without a unit",
        "[alert]\ncall = \"page\"\nexpect_success_every = 26\n",
        &["`\"26s\"`, `\"26m\"` or `\"26h\"`"],
    ),
    (
        "a duration in words",
        "[limits]\ntimeout = \"30 seconds\"\n",
        &["did you mean `\"30s\"`"],
    ),
    (
        "a duration without quotes",
        "[limits]\ntimeout = 30s\n",
        &["in quotes: `\"30s\"`"],
    ),
    (
        "a timeout of nothing",
        "[limits]\ntimeout = \"0s\"\n",
        &["remove the key"],
    ),
    (
        "a size in megabytes",
        "[limits]\nmemory = \"64MB\"\n",
        &["did you mean `\"64M\"`"],
    ),
    (
        "a size in small letters",
        "[limits]\nmemory = \"256m\"\n",
        &["did you mean `\"256M\"`"],
    ),
    (
        "a size in words",
        "[limits]\nmemory = \"256 megabytes\"\n",
        &["such as `256M`"],
    ),
    (
        "too little memory for anything",
        "[limits]\nmemory = \"1K\"\n",
        &["from `1M`"],
    ),
    (
        "too little memory for bash",
        "[limits]\nmemory = \"2M\"\n",
        &["at least `\"4M\"`"],
    ),
    (
        "a soft limit above the hard one",
        "[limits]\nmemory_high = \"300M\"\n",
        &["below `memory`"],
    ),
    ("a negative number", "[limits]\npids = -1\n", &["from 1 to"]),
    (
        "a number in quotes",
        "[limits]\npids = \"100\"\n",
        &["without quotes: `100`"],
    ),
    (
        "retries in quotes",
        "[retry]\nretries = \"3\"\n",
        &["without quotes: `3`"],
    ),
    (
        "a number in place of `[retry]`",
        "retry = 3\n",
        &["write `[retry]`", "`retries = 3`"],
    ),
    (
        "a text in place of `[env]`",
        "env = 'A=b'\n",
        &["write `[env]`", "NAME = \"value\""],
    ),
    ("a list in place of `[env]`", "env = [\"A=b\"]\n", &["write `[env]`"]),
    (
        "a list in place of `[secrets]`",
        "secrets = [\"token\"]\n",
        &["write `[secrets]`"],
    ),
    (
        "a text in place of `[labels]`",
        "labels = \"web\"\n",
        &["write `[labels]`"],
    ),
    (
        "true in place of `[service]`",
        "service = true\n",
        &["write `[service]` on a line of its own"],
    ),
    (
        "a text in place of `[alert]`",
        "alert = \"page\"\n",
        &["write `[alert]`", "`call = "],
    ),
    (
        "a line of cron in place of `[[schedule]]`",
        "schedule = \"0 3 * * *\"\n",
        &["write `[[schedule]]`", "cron = "],
    ),
    (
        "one bracket at `[[schedule]]`",
        "[schedule]\ncron = \"@daily\"\n",
        &["write `[[schedule]]`"],
    ),
    (
        "one bracket at `[[http]]`",
        "[http]\npath = \"/x\"\nauth = \"none\"\n",
        &["write `[[http]]`"],
    ),
    ("an argument without a list", "args = \"-x\"\n", &["write `[\"-x\"]`"]),
    ("a host without a list", "nodes = \"web-1\"\n", &["write `[\"web-1\"]`"]),
    ("a number in `[env]`", "[env]\nA = 1\n", &["in quotes: `\"1\"`"]),
    (
        "a truth value in `[env]`",
        "[env]\nDEBUG = true\n",
        &["in quotes: `\"true\"`"],
    ),
    ("a variable of fnd", "[env]\nDATA = \"x\"\n", &["use another name"]),
    (
        "a variable with a space",
        "[env]\n\"a b\" = \"x\"\n",
        &["letters, digits and `_`"],
    ),
    ("bits without quotes", "umask = 27\n", &["in quotes: `\"0027\"`"]),
    ("text without quotes", "runtime = bash\n", &["in quotes: `\"bash\"`"]),
    (
        "the same key twice",
        "enabled = true\nenabled = false\n",
        &["remove one of them"],
    ),
    (
        "YAML",
        "limits:\n  memory: 1G\n",
        &["looks like YAML", "`key = \"value\"`"],
    ),
    ("a path out of the directory", "entry = \"../x\"\n", &["without `..`"]),
    (
        "a runtime that is misspelt",
        "runtime = \"pyhton\"\n",
        &["did you mean `python`"],
    ),
    ("a mode that does not exist", "mode = \"daemon\"\n", &["`service`"]),
    (
        "a size of limits that does not exist",
        "size = \"XXL\"\n",
        &["known sizes", "`[sizes]`"],
    ),
    (
        "a class of errors that is misspelt",
        "[retry]\non = [\"errors\"]\n",
        &["did you mean `error`"],
    ),
    (
        "an overlap that is misspelt",
        "[queue]\noverlap = \"skp\"\n",
        &["did you mean `skip`"],
    ),
    (
        "a backoff that is misspelt",
        "[retry]\nbackoff = \"linear\"\n",
        &["`exponential` or `fixed`"],
    ),
    ("a rate without its time", "[queue]\nrate = \"10\"\n", &["`10/s`"]),
    (
        "a processor in percent without a sign",
        "[limits]\ncpu = \"half\"\n",
        &["`50%`"],
    ),
];

/// Lines of cron and the keys beside them.
const SCHEDULES: &[Row] = &[
    (
        "a minute that does not exist",
        "[[schedule]]\ncron = \"61 3 * * *\"\n",
        &["the minute `61`", "0 to 59"],
    ),
    (
        "an hour that does not exist",
        "[[schedule]]\ncron = \"0 24 * * *\"\n",
        &["the hour `24`", "0 to 23"],
    ),
    (
        "a day that is misspelt",
        "[[schedule]]\ncron = \"0 3 * * MOND\"\n",
        &["the day of the week", "`SUN` to `SAT`"],
    ),
    (
        "a date that never comes",
        "[[schedule]]\ncron = \"0 0 30 2 *\"\n",
        &["never comes", "correct the day"],
    ),
    (
        "too few fields",
        "[[schedule]]\ncron = \"0 3\"\n",
        &["5 or 6 fields", "minute, hour"],
    ),
    (
        "an interval in words",
        "[[schedule]]\ncron = \"every 5 minutes\"\n",
        &["`every = \"5m\"`"],
    ),
    (
        "an interval of Go",
        "[[schedule]]\ncron = \"@every 5m\"\n",
        &["`every = \"5m\"`"],
    ),
    (
        "a rate of AWS",
        "[[schedule]]\ncron = \"rate(5 minutes)\"\n",
        &["`every = \"5m\"`"],
    ),
    (
        "a line of AWS with its year",
        "[[schedule]]\ncron = \"cron(0 12 * * ? *)\"\n",
        &["`cron = \"0 12 * * ?\"`"],
    ),
    (
        "a line of Quartz with its year",
        "[[schedule]]\ncron = \"0 0 12 * * ? *\"\n",
        &["no field for the year"],
    ),
    (
        "a calendar of systemd",
        "[[schedule]]\ncron = \"Mon..Fri 02:30\"\n",
        &["`cron = \"30 2 * * MON-FRI\"`"],
    ),
    (
        "a time of the day",
        "[[schedule]]\ncron = \"02:30\"\n",
        &["`cron = \"30 2 * * *\"`"],
    ),
    (
        "a word of systemd",
        "[[schedule]]\ncron = \"daily\"\n",
        &["`cron = \"@daily\"`"],
    ),
    (
        "`@midnight`",
        "[[schedule]]\ncron = \"@midnight\"\n",
        &["`cron = \"@daily\"`"],
    ),
    ("`@reboot`", "[[schedule]]\ncron = \"@reboot\"\n", &["`at = \"boot\"`"]),
    (
        "a step of nothing",
        "[[schedule]]\ncron = \"*/0 * * * *\"\n",
        &["the minute `*/0`", "a step `*/5`"],
    ),
    (
        "an empty item",
        "[[schedule]]\ncron = \"0,,5 * * * *\"\n",
        &["write `1,2`"],
    ),
    (
        "a zone that is misspelt",
        "[[schedule]]\ncron = \"@daily\"\ntimezone = \"Europe/Berln\"\n",
        &["`Europe/Berlin`"],
    ),
    (
        "a zone by its letters",
        "[[schedule]]\ncron = \"@daily\"\ntimezone = \"CEST\"\n",
        &["timedatectl list-timezones"],
    ),
    (
        "a zone for an interval",
        "[[schedule]]\nevery = \"5m\"\ntimezone = \"UTC\"\n",
        &["remove it"],
    ),
    (
        "two ways to say when",
        "[[schedule]]\ncron = \"@daily\"\nevery = \"1h\"\n",
        &["remove one of the two"],
    ),
    (
        "a schedule without a time",
        "[[schedule]]\njitter = \"5s\"\n",
        &["`cron = \"0 3 * * *\"`", "`every = \"30s\"`"],
    ),
    (
        "a delay as long as the interval",
        "[[schedule]]\nevery = \"30s\"\njitter = \"30s\"\n",
        &["use less than 30s"],
    ),
    (
        "a boot with a line of cron",
        "[[schedule]]\nat = \"boot\"\ncron = \"@daily\"\n",
        &["an entry of its own"],
    ),
    (
        "a boot with `catch_up`",
        "[[schedule]]\nat = \"boot\"\ncatch_up = \"1h\"\n",
        &["remove it"],
    ),
    (
        "a schedule of a service",
        "[service]\n[[schedule]]\ncron = \"@daily\"\n",
        &["`mode = \"script\"`"],
    ),
];

/// Routes, events, files and what calls what.
const TRIGGERS: &[Row] = &[
    ("a route without `auth`", "[[http]]\npath = \"/x\"\n", &["add `auth = "]),
    (
        "a path without a slash",
        "[[http]]\npath = \"x\"\nauth = \"none\"\n",
        &["such as `/hello`"],
    ),
    (
        "a path of another framework",
        "[[http]]\npath = \"/users/:id/<x>\"\nauth = \"none\"\n",
        &["`/users/{id}`"],
    ),
    (
        "a path of fnd",
        "[[http]]\npath = \"/healthz\"\nauth = \"none\"\n",
        &["use another path"],
    ),
    (
        "a method without a list",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nmethods = \"POST\"\n",
        &["write `[\"POST\"]`"],
    ),
    (
        "a method in small letters",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nmethods = [\"get\"]\n",
        &["`GET`"],
    ),
    (
        "`bearer` in place of `token`",
        "[[http]]\npath = \"/x\"\nauth = \"bearer:tok\"\n",
        &["`token` (a Bearer token)"],
    ),
    (
        "a form that is misspelt",
        "[[http]]\npath = \"/x\"\nauth = \"tokn:tok\"\n",
        &["the forms are `token`"],
    ),
    (
        "everybody and a token",
        "[[http]]\npath = \"/x\"\nauth = [\"none\", \"token:a\"]\n",
        &["`auth = \"none\"`"],
    ),
    (
        "an origin without a scheme",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\ncors = [\"example.com\"]\n",
        &["`https://example.com`"],
    ),
    (
        "a host with a port",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nhost = \"a.example.com:80\"\n",
        &["without a port"],
    ),
    (
        "callers without a rate",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nper = \"ip\"\n",
        &["add `rate`"],
    ),
    (
        "an answer that nobody gets",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nanswer = { status = 200 }\n",
        &["add `async = true`"],
    ),
    (
        "a place that a request does not have",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nidempotency = \"cookie.id\"\n",
        &["`header.NAME`"],
    ),
    (
        "a regular expression that is none",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\nwhen = { \"body.a\" = { matches = \"(\" } }\n",
        &["a regular expression"],
    ),
    (
        "the same route twice",
        "[[http]]\npath = \"/x\"\nauth = \"none\"\n[[http]]\npath = \"/x\"\nauth = \"none\"\n",
        &["remove one of the two"],
    ),
    (
        "a route of a service",
        "[service]\n[[http]]\npath = \"/x\"\nauth = \"none\"\n",
        &["`mode = \"http\"`"],
    ),
    (
        "an event without a type",
        "[[event]]\nsource = \"s\"\n",
        &["add `type = "],
    ),
    (
        "a star in the middle of a type",
        "[[event]]\ntype = \"a.*.b\"\n",
        &["`when`"],
    ),
    (
        "a star in a source",
        "[[event]]\ntype = \"a\"\nsource = \"s/*\"\n",
        &["`when`"],
    ),
    (
        "the whole disk is watched",
        "[[file]]\npath = \"/\"\n",
        &["name the directory"],
    ),
    (
        "a path that is not absolute",
        "[[file]]\npath = \"in\"\n",
        &["absolute path"],
    ),
    (
        "an action that does not exist",
        "[[file]]\npath = \"/srv/in\"\nthen = \"remove\"\n",
        &["`keep`, `delete`"],
    ),
    (
        "a pattern with a slash",
        "[[file]]\npath = \"/srv/in\"\npattern = \"a/*\"\n",
        &["`*.csv`"],
    ),
    (
        "files that come again",
        "[[file]]\npath = \"/srv/in\"\nrecursive = true\nthen = \"move:done\"\n",
        &["`move:../done`"],
    ),
    ("an alert to nobody", "[alert]\nafter = 2\n", &["add `call = \"NAME\"`"]),
    (
        "an alert of nothing bad",
        "[alert]\ncall = \"page\"\non = [\"recovered\"]\n",
        &["add `failed`"],
    ),
    (
        "an alert of a miss without a time",
        "[alert]\ncall = \"page\"\non = [\"missed\"]\n",
        &["`expect_success_every = \"26h\"`"],
    ),
    (
        "a hook without a function",
        "[hooks]\non_failure = [{ on_failure = \"fail\" }]\n",
        &["add `call = "],
    ),
    (
        "a longest delay below the first",
        "[retry]\ninterval = \"10s\"\nmax_interval = \"1s\"\n",
        &["`\"10s\"` or more"],
    ),
    (
        "polls that end before the first",
        "[poll]\nrepeat = \"1h\"\nuntil = \"1m\"\n",
        &["set it to", "or more"],
    ),
];

/// Users, sandbox, packages.
const RIGHTS: &[Row] = &[
    (
        "the user of a web server",
        "[sandbox]\nuser = \"www-data\"\n",
        &["add `www-data` to `allow`"],
    ),
    ("root", "[sandbox]\nuser = \"root\"\n", &["`allow_root = true`"]),
    (
        "a profile that is misspelt",
        "[sandbox]\nprofile = \"stric\"\n",
        &["did you mean `strict`"],
    ),
    (
        "a network that is misspelt",
        "[sandbox]\nnetwork = \"hosts\"\n",
        &["did you mean `host`"],
    ),
    (
        "ports without `connect:`",
        "[sandbox]\nnetwork = [\"443\"]\n",
        &["`connect:443`"],
    ),
    (
        "no port at all",
        "[sandbox]\nnetwork = []\n",
        &["`connect:443`", "`\"none\"`"],
    ),
    (
        "the whole disk",
        "[sandbox]\nread_only = [\"/\"]\n",
        &["other than `/`"],
    ),
    (
        "a directory without a list",
        "[sandbox]\nread_only = \"/srv\"\n",
        &["write `[\"/srv\"]`"],
    ),
    (
        "a directory twice",
        "[sandbox]\nread_only = [\"/srv\"]\nread_write = [\"/srv\"]\n",
        &["remove one of the two"],
    ),
    (
        "a file of the kernel",
        "[sandbox]\nread_write = [\"/proc\"]\n",
        &["remove it"],
    ),
    (
        "a file as a device",
        "[sandbox]\ndevices = [\"/etc/shadow\"]\n",
        &["below `/dev`"],
    ),
    (
        "watched files that are read-only",
        "[sandbox]\nread_only = [\"/srv/in\"]\n[[file]]\npath = \"/srv/in\"\nthen = \"delete\"\n",
        &["from `read_only` to `read_write`"],
    ),
    ("packages of a shell", "dependencies = [\"jq\"]\n", &["remove the key"]),
    (
        "permissions of a shell",
        "permissions = [\"net\"]\n",
        &["only deno has permissions", "remove it"],
    ),
    (
        "a file of variables without a directory",
        "env_file = \"x.env\"\n",
        &["env_file"],
    ),
    (
        "a group of the queue that does not exist",
        "[queue]\ngroup = \"db\"\n",
        &["`fnd.toml` has no groups"],
    ),
    (
        "a number of runs without a key",
        "[queue]\nper_key = 2\n",
        &["`queue.per_key`"],
    ),
];

/// The mistake in words, the file with its code, and the words that tell how to mend it.
type Code = (&'static str, (&'static str, &'static str), &'static [&'static str]);

/// Blocks and code.
const CODE: &[Code] = &[
    (
        "a block without an end",
        ("x.sh", "# /// fnd\n# on_load = false\necho\n"),
        &["`# ///`"],
    ),
    (
        "an empty line in a block",
        ("x.sh", "# /// fnd\n# on_load = false\n\n# enabled = true\n# ///\n"),
        &["write `#` on the empty line 3"],
    ),
    (
        "too few slashes",
        ("x.sh", "# // fnd\n# on_load = false\n# //\n"),
        &["write a manifest as `# /// fnd`"],
    ),
    (
        "two blocks",
        ("x.sh", "# /// fnd\n# ///\n# /// fnd\n# ///\n"),
        &["in one block"],
    ),
    (
        "a block without spaces",
        ("x.sh", "# /// fnd\n#on_load = false\n# ///\n"),
        &["expected a space after `#`"],
    ),
    (
        "YAML in a block",
        ("x.sh", "# /// fnd\n# limits:\n#   memory: 1G\n# ///\n"),
        &["looks like YAML"],
    ),
    (
        "a key of fnd in the block of a script",
        ("x.py", "# /// script\n# on_load = false\n# ///\n"),
        &["from `# /// fnd` to `# ///`"],
    ),
    (
        "a value in a block",
        ("x.sh", "# /// fnd\n# [limits]\n# timeout = 30\n# ///\n"),
        &["`\"30s\"`"],
    ),
    (
        "another language in the `#!` line",
        ("x.py", "#!/usr/bin/tclsh\n"),
        &["correct the line", "chmod +x"],
    ),
    (
        "a venv in the `#!` line",
        ("x.py", "#!venv/bin/python\n"),
        &["write the absolute path"],
    ),
    (
        "handlers for `sh`",
        ("x.sh", "#!/bin/sh\nhandler() { :; }\n"),
        &["write `#!/usr/bin/bash`"],
    ),
    (
        "permissions in the `#!` line",
        ("x.ts", "#!/usr/bin/env -S deno run --allow-net\n"),
        &["permissions = [\"net\"]"],
    ),
    (
        "a handler of OpenWhisk",
        ("x.py", "def main(args):\n    return 1\n"),
        &["`def main(event, context)`"],
    ),
];

/// Returns what a person sees of problems.
fn said(diagnostics: &[Diagnostic]) -> String {
    diagnostics
        .iter()
        .map(|problem| problem.render(Colour::Plain))
        .collect()
}

/// Adds a mistake whose message lacks the fix.
fn compare(faults: &mut Vec<String>, what: &str, said: &str, fix: &[&str]) {
    let joined = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let missing: Vec<_> = fix.iter().filter(|words| !joined.contains(**words)).collect();
    if !missing.is_empty() || joined.is_empty() {
        faults.push(format!("{what}: no {missing:?} in:\n{said}"));
    }
}

#[test]
fn the_message_of_each_mistake_has_the_fix_in_it() {
    let mut faults = Vec::new();
    let rows = [KEYS, VALUES, SCHEDULES, TRIGGERS, RIGHTS];
    for (what, manifest, fix) in rows.into_iter().flatten() {
        let function = single(file("/f/x.sh", b"echo\n"), Some(*manifest));
        compare(
            &mut faults,
            what,
            &said(&judge("").function(&function).verdict.diagnostics),
            fix,
        );
    }
    for (what, (name, code), fix) in CODE {
        let function = single(file(&format!("/f/{name}"), code.as_bytes()), None);
        compare(
            &mut faults,
            what,
            &said(&judge("").function(&function).verdict.diagnostics),
            fix,
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let count = rows.iter().map(|rows| rows.len()).sum::<usize>() + CODE.len();
    assert!(count >= 150, "only {count} mistakes");
}
