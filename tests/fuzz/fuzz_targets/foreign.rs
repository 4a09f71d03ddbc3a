//! Any bytes as a file of another system: its functions have files of different names, and the judge reads them; a secret in it
//! has the size of secrets.
#![no_main]

use fnd_fuzz::{file, judge, show};
use fnd_manifest::foreign::{find_secret, listed, placed};
use fnd_manifest::function::listing::ListedYaml;
use fnd_manifest::judge::Judge;
use fnd_wire::archive::check_path;
use fnd_wire::form::Bytes;
use fnd_wire::frame::SECRET_MAX;
use fnd_wire::ids::FunctionName;
use fnd_wire::kubernetes::{SecretSearchAnswer, SecretWanted};
use fnd_wire::plan::{CodeLayout, JudgeFunction};
use fnd_wire::unpack::Foreign;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static JUDGE: LazyLock<Judge> = LazyLock::new(judge);

fuzz_target!(|bytes: &[u8]| {
    const PATH: &str = "/f/it.yaml";
    let found = find_secret(&SecretWanted {
        name: "app".to_owned(),
        files: vec![(PATH.to_owned(), Bytes(bytes.to_vec()))],
    });
    if let SecretSearchAnswer::Value(value) = found {
        assert!(!value.0.is_empty() && value.0.len() as u64 <= SECRET_MAX);
    }
    let names = match listed(PATH, bytes) {
        ListedYaml::Other => return,
        ListedYaml::Functions(names) => names,
        ListedYaml::Broken => vec!["it".to_owned()],
    };
    for name in names {
        let files = placed::files(Foreign {
            function: name.clone(),
            path: PATH.to_owned(),
            files: vec![(PATH.to_owned(), Bytes(bytes.to_vec()))],
        });
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths.len(), files.len());
        assert!(paths.iter().all(|path| check_path(path).is_ok()), "{paths:?}");
        let Ok(name) = FunctionName::new(&name) else { continue };
        let manifest = files.iter().find(|file| file.path == "function.toml");
        let judged = JUDGE.function(&JudgeFunction {
            name,
            manifest: manifest.map(|manifest| file("/f/it.yaml/function.toml", &manifest.bytes)),
            files: files.iter().map(|made| file(&made.path, &made.bytes)).collect(),
            form: CodeLayout::Foreign(PATH.to_owned()),
        });
        let refused = show(&judged.verdict.diagnostics);
        assert!(judged.plan.is_none() || !refused);
        assert!(
            judged
                .verdict
                .diagnostics
                .iter()
                .all(|problem| problem.code != "syntax"),
            "{:?}",
            judged.verdict.diagnostics
        );
    }
});
