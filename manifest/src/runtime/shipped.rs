//! The runtimes that come with fnd, inside the program, so that a program without any other file can run functions.
//!
//! Only an fnd that starts the spawner itself writes them to a directory: then both run as the same user. The spawner of
//! an installation takes runtimes only from the directories that its unit names, never from fnd.

use fnd_wire::form::Bytes;
use fnd_wire::plan::JudgedFile;
use std::path::{Path, PathBuf};

/// Directory of the runtimes of an installation.
pub const INSTALLED: &str = "/usr/lib/fnd/runtimes";

macro_rules! files {
    ($($path:literal)*) => { &[$(($path, include_bytes!(concat!("../../../runtimes/", $path)))),*] };
}

/// Each file that a running function needs, by its path below a directory of runtimes.
pub const FILES: &[(&str, &[u8])] = files![
    "bash/fetch.sh"
    "bash/runtime.toml"
    "bash/shim.sh"
    "deno/connection.mjs"
    "deno/handle.mjs"
    "deno/host.mjs"
    "deno/http.mjs"
    "deno/inherited.mjs"
    "deno/install.mjs"
    "deno/runtime.toml"
    "deno/shim.mjs"
    "exec/runtime.toml"
    "go/build.go"
    "go/lib/go.mod"
    "go/lib/pkg/functions/form.go"
    "go/lib/pkg/functions/functions.go"
    "go/lib/pkg/functions/headers.go"
    "go/lib/worker/answer.go"
    "go/lib/worker/call.go"
    "go/lib/worker/serve.go"
    "go/lib/worker/wire.go"
    "go/rafay/before_slog.go"
    "go/rafay/errors.go"
    "go/rafay/events.go"
    "go/rafay/fields.go"
    "go/rafay/go.mod"
    "go/rafay/records.go"
    "go/rafay/sdk.go"
    "go/rafay/slog.go"
    "go/rafay/worker/worker.go"
    "go/runtime.toml"
    "java/Shim.java"
    "java/lib/fnd/BadRequest.java"
    "java/lib/fnd/ExecuteAgainException.java"
    "java/lib/fnd/FailedException.java"
    "java/lib/fnd/Logger.java"
    "java/lib/fnd/Request.java"
    "java/lib/fnd/Response.java"
    "java/lib/fnd/TransientException.java"
    "java/lib/fnd/Upload.java"
    "java/lib/fnd/worker/Answer.java"
    "java/lib/fnd/worker/BadAnswer.java"
    "java/lib/fnd/worker/Call.java"
    "java/lib/fnd/worker/Form.java"
    "java/lib/fnd/worker/FormHeaders.java"
    "java/lib/fnd/worker/Handler.java"
    "java/lib/fnd/worker/HttpRequest.java"
    "java/lib/fnd/worker/JsonReader.java"
    "java/lib/fnd/worker/JsonWriter.java"
    "java/lib/fnd/worker/Payload.java"
    "java/lib/fnd/worker/Wire.java"
    "java/lib/fnd/worker/Worker.java"
    "java/lib/io/kubeless/Context.java"
    "java/lib/io/kubeless/Event.java"
    "java/runtime.toml"
    "lambda/runtime.toml"
    "lua/runtime.toml"
    "node/host.mjs"
    "node/install.mjs"
    "node/resolve.mjs"
    "node/runtime.toml"
    "node/sdk.cjs"
    "node/sdk.mjs"
    "node/shim.mjs"
    "perl/runtime.toml"
    "php/install.php"
    "php/lib/answer.php"
    "php/lib/event.php"
    "php/lib/fnd.php"
    "php/lib/form.php"
    "php/lib/request.php"
    "php/lib/upload.php"
    "php/lib/wire.php"
    "php/lib/worker.php"
    "php/runtime.toml"
    "php/shim.php"
    "python/install.py"
    "python/lib/fnd/__init__.py"
    "python/lib/fnd_worker/__init__.py"
    "python/lib/fnd_worker/answer.py"
    "python/lib/fnd_worker/asynchronous.py"
    "python/lib/fnd_worker/call.py"
    "python/lib/fnd_worker/decode.py"
    "python/lib/fnd_worker/event.py"
    "python/lib/fnd_worker/flask.py"
    "python/lib/fnd_worker/form.py"
    "python/lib/fnd_worker/jsontext.py"
    "python/lib/fnd_worker/kyma.py"
    "python/lib/fnd_worker/large.py"
    "python/lib/fnd_worker/load.py"
    "python/lib/fnd_worker/node.py"
    "python/lib/fnd_worker/publish.py"
    "python/lib/fnd_worker/request.py"
    "python/lib/fnd_worker/run.py"
    "python/lib/fnd_worker/single.py"
    "python/lib/fnd_worker/threads.py"
    "python/lib/fnd_worker/trace.py"
    "python/lib/fnd_worker/values.py"
    "python/lib/fnd_worker/wire.py"
    "python/lib/fnd_worker/wsgi.py"
    "python/lib/python_sdk_rafay_workflow/__init__.py"
    "python/lib/python_sdk_rafay_workflow/app_factory.py"
    "python/lib/python_sdk_rafay_workflow/const.py"
    "python/lib/python_sdk_rafay_workflow/errors.py"
    "python/lib/python_sdk_rafay_workflow/event_details.py"
    "python/lib/python_sdk_rafay_workflow/sdk.py"
    "python/lib/python_sdk_rafay_workflow/state_client.py"
    "python/runtime.toml"
    "python/shim.py"
    "ruby/install.rb"
    "ruby/lib/fnd.rb"
    "ruby/lib/fnd_worker/answer.rb"
    "ruby/lib/fnd_worker/event.rb"
    "ruby/lib/fnd_worker/form.rb"
    "ruby/lib/fnd_worker/request.rb"
    "ruby/lib/fnd_worker/server.rb"
    "ruby/lib/fnd_worker/wire.rb"
    "ruby/runtime.toml"
    "ruby/shim.rb"
    "share/js/answer.mjs"
    "share/js/descriptor.mjs"
    "share/js/event.mjs"
    "share/js/find.mjs"
    "share/js/form.mjs"
    "share/js/head.mjs"
    "share/js/host.mjs"
    "share/js/kyma.mjs"
    "share/js/media.mjs"
    "share/js/payload.mjs"
    "share/js/request.mjs"
    "share/js/response.mjs"
    "share/js/serve.mjs"
    "share/js/stream.mjs"
    "share/js/wire.mjs"
];

/// Returns the descriptions of these runtimes, as if they were installed.
pub fn descriptions() -> impl Iterator<Item = JudgedFile> {
    let described = FILES.iter().filter(|(path, _)| path.ends_with("/runtime.toml"));
    described.map(|(path, bytes)| JudgedFile {
        path: format!("{INSTALLED}/{path}"),
        bytes: Bytes(bytes.to_vec()),
        mode: 0o644,
        trusted: true,
    })
}

/// Returns the directories where the shipped runtimes may be, the first one wins: beside a program that was unpacked
/// somewhere or built in a checkout, then those of an installation.
#[must_use]
pub fn directories(program: &Path) -> Vec<PathBuf> {
    let beside = |path: &str| program.parent().map(|directory| directory.join(path));
    let places = [
        "../share/fnd/runtimes",
        "../lib/fnd/runtimes",
        "runtimes",
        // A build in a checkout is two directories below it, in `target/release`.
        "../../runtimes",
    ];
    places
        .into_iter()
        .filter_map(beside)
        .chain([INSTALLED.into()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
            if entry.path().is_dir() {
                below(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }

    #[test]
    fn every_file_but_those_for_people_is_inside() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtimes");
        let mut found = Vec::new();
        below(&top, &mut found);
        found.retain(|path| {
            let text = path.display().to_string();
            !text.ends_with(".md") && !text.contains("__pycache__")
        });
        let mut found: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(&top).expect("below it").display().to_string())
            .collect();
        found.sort();
        assert_eq!(found, FILES.iter().map(|(path, _)| *path).collect::<Vec<_>>());
    }
}
