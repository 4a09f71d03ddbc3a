//! Everything that the tables of keys say, and the documents made from them, as snapshots.

use super::*;
use crate::schema::read::read;
use crate::schema::source::Source;
use crate::schema::{Key, TextKind, ValueKind};

fn describe_form(form: TextKind) -> String {
    match form {
        TextKind::Grammar(grammar) => grammar.name.to_owned(),
        form => format!("{form:?}"),
    }
}

/// Returns a description of a kind, and adds the tables in it to a list.
fn describe(kind: &ValueKind, tables: &mut Vec<&'static [Key]>) -> String {
    match *kind {
        ValueKind::Table(keys) | ValueKind::Tables(keys) => {
            tables.push(keys);
            if matches!(kind, ValueKind::Table(_)) {
                "Table"
            } else {
                "Tables"
            }
            .to_owned()
        }
        ValueKind::List(item) => format!("List({})", describe(item, tables)),
        ValueKind::Text(form) => format!("Text({})", describe_form(form)),
        ValueKind::Map(form, item) => format!("Map({}, {})", describe_form(form), describe(item, tables)),
        ValueKind::Defaults(_) => "Defaults".to_owned(),
        ValueKind::Either(first, second) => {
            format!("Either({}, {})", describe(first, tables), describe(second, tables))
        }
        ref kind => format!("{kind:?}"),
    }
}

/// Returns a line for each key, tables before their keys.
fn lines(keys: &'static [Key], path: &str, result: &mut String) {
    for key in keys {
        let path = format!("{path}{}", key.name);
        let mut tables = Vec::new();
        let kind = describe(&key.kind, &mut tables);
        let required = if key.required { " required" } else { "" };
        let (default, example, meaning) = (key.default, key.example, key.meaning);
        *result += &format!("{path}: {kind}{required} | {default} | {example} | {meaning}\n");
        for keys in tables {
            lines(keys, &format!("{path}."), result);
        }
    }
}

/// Returns a document as the API shows it: the fields of an object are sorted.
fn json(document: &impl serde::Serialize) -> String {
    format!("{:#}", serde_json::to_value(document).unwrap())
}

#[test]
fn the_tables_of_keys_are_as_before() {
    let mut result = String::new();
    for (file, keys) in [
        ("function.toml", crate::function::Manifest::KEYS),
        ("fnd.toml", crate::settings::Settings::KEYS),
        ("runtime.toml", crate::runtime::keys::Description::KEYS),
    ] {
        result += &format!("# {file}\n");
        lines(keys, "", &mut result);
    }
    snapshot!(result);
}

#[test]
fn documents_are_as_before() {
    let every_limit = "size = \"M\"\nlabels = { a = \"b\" }\nargs = [\"x\"]\ndata = { a = 1 }\ncontext = { a = 1 }\n\
        [limits]\ntimeout = \"none\"\ndeadline = \"1h\"\ngrace = \"0\"\nswap = \"64M\"\nmemory_high = \"200M\"\n\
        cpu_weight = 50\npids = 128\nopen_files = 4096\nfile_size = \"1G\"\nio_weight = 50\nio_read = \"10M/s\"\n\
        io_write = \"1K/s\"\ntmp = \"1M\"\noutput = \"64K\"\nresult = \"1M\"\nbody = \"2M\"\n\
        [retry]\nretries = 3\ninterval = \"10m\"\nbackoff = \"fixed\"\nfactor = 1.5\njitter = \"none\"\n\
        on = [\"interrupted\", \"error\", \"error\"]\nnot_on_exit = [2, 3]\n[poll]\nrepeat = \"1m\"\n\
        [queue]\nmax = 7\noverlap = \"replace\"\nrate = \"10/m\"\n\
        [history]\nkeep = 5\nkeep_for = \"7d\"\nkeep_failed = 6\nkeep_bytes = \"64M\"\n\
        [logs]\nkeep_for = \"1d\"\nkeep_bytes = \"1G\"\n[sandbox]\nuser = \"postgres\"\ngroups = [\"adm\"]\n\
        profile = \"standard\"\nnetwork = [\"connect:443\"]\nread_only = [\"/home/ada/.pyenv\"]\nread_write = [\"/srv/out\"]\n\
        hide = [\"/opt/other\"]\nproc = \"full\"\nsyscalls = \"strict\"\ndevices = [\"/dev/fuse\"]\n\
        capabilities = [\"chown\"]\n";
    let pool = "[pool]\nmin = 1\nmax = 3\nconcurrency = 2\nidle = \"none\"\nmax_invocations = 9\nmax_age = \"1h\"\nspare = 1\n";
    let sh = || file("/f/x.sh", b"echo hi\n");
    let handler = || file("/f/x.py", b"def handler(event, context):\n    pass\n");
    let judge = judge("[users]\nallow = [\"postgres\", \"adm\"]\nallow_root = true\ncapabilities = [\"chown\"]\n");
    let mut result = String::new();
    for (name, code, manifest) in [
        ("script", sh(), ""),
        ("script with all keys", sh(), every_limit),
        ("handler", handler(), ""),
        ("handler with all keys", handler(), pool),
        (
            "handler with fresh workers",
            handler(),
            "[pool]\nisolation = \"invocation\"\n",
        ),
        ("http", sh(), "[http_server]\n"),
        (
            "http on a port",
            sh(),
            "[http_server]\ncommand = [\"/usr/bin/true\", \"a\"]\nport = 8080\nready = \"/r\"\nstart_timeout = \"1m\"\n",
        ),
        ("http on a socket", sh(), "[http_server]\nlisten = \"unix\"\n"),
        ("service", sh(), "[service]\n"),
        (
            "service with all keys",
            sh(),
            "[service]\ncommand = [\"/usr/bin/true\", \"a\"]\nreplicas = 2\nready = \"path:/r\"\nstart_timeout = \"1m\"\nstop_signal = \"SIGINT\"\n",
        ),
    ] {
        let judged = judge.function(&single(code, Some(manifest)));
        result += &format!("# {name}\n{}\n", json(&judged.verdict));
    }
    for text in [
        "",
        "functions_dirs = [\"/a\"]\nkeep_versions = 9\nbest_effort_limits = true\n[defaults]\nruntime = \"deno\"\n\
         [sizes]\nM = { memory = \"1G\" }\nhuge = { pids = 999, io_read = \"1G/s\" }\n\
         [node]\nreserve_memory = \"1G\"\nmax_workers = 9\nbuffers = \"1M\"\nspin = \"20us\"\nmemory = \"4G\"\ncpu = \"1.5\"\n\
         [users]\nrange = [70000, 70009]\nallow = [\"adm\"]\nallow_root = true\ncapabilities = [\"chown\"]\n\
         [[access]]\ngroup = \"a\"\nrole = \"viewer\"\n[[access]]\nuser = \"b\"\nrole = \"admin\"\nfunctions = [\"web/*\"]\n\
         [metrics]\nlisten = \"[::1]:9640\"\ntextfile = \"/t\"\n[status]\nmode = \"0644\"\n\
         [history]\non_damage = \"refuse\"\nkeep_for = \"7d\"\nkeep_bytes = \"1M\"\n\
         [logs]\nkeep_for = \"7d\"\nkeep_bytes = \"1M\"\njournal = false\n\
         [runtimes]\npython = { interpreters = { \"3.12\" = \"/p\" }, enabled = false }\nbash = {}\n\
         [sandbox]\nprofile = \"standard\"\nmissing = \"refuse\"\n",
    ] {
        let settings = crate::settings::resolve::configuration([("fnd.toml", text.as_bytes())])
            .unwrap()
            .settings;
        result += &format!("# fnd.toml\n{}\n", json(&settings));
    }
    snapshot!(result);
}

/// The shipped files name every key, so they have every problem of a key that is not built yet.
#[test]
fn what_is_not_built_is_refused_as_before() {
    let mut result = String::new();
    for key in crate::explain::keys().iter().filter(|key| key.not_yet) {
        result += &format!("{} {}\n", key.file, key.path);
    }
    let sizes = "[sizes]\nM = { tmp = \"1M\" }\n[defaults]\nbindings = [\"orders-db\"]\n[defaults.sandbox]\nprofile = \"off\"\n";
    for (file, text, schema) in [
        ("function.toml", super::shipped::FUNCTION, crate::function::keys::SCHEMA),
        ("fnd.toml", super::shipped::FND, crate::settings::keys::SCHEMA),
        ("sizes", sizes, crate::settings::keys::SCHEMA),
    ] {
        let source = Source::whole(file, super::shipped::with_examples(text).as_bytes()).unwrap();
        for problem in read(&source, 0, schema).1 {
            result += &format!("{} | {}\n", problem.line(), problem.help.unwrap_or_default());
        }
    }
    snapshot!(result);
}
