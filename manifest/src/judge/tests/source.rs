//! Functions whose code comes from a source.

use super::{directory, file, judge, reported};
use crate::judge::Judged;
use fnd_wire::plan::{CodeLayout, JudgeFunction};

fn judged(form: CodeLayout, source: &str, code: &[(&str, &str)]) -> Judged {
    let text = format!("[source]\n{source}");
    let mut files = vec![file("function.toml", text.as_bytes())];
    files.extend(code.iter().map(|(path, text)| file(path, text.as_bytes())));
    judge("").function(&JudgeFunction {
        form,
        ..directory(files, &text)
    })
}

#[test]
fn code_that_is_not_there_is_fetched_first() {
    let judged = judged(
        CodeLayout::Directory,
        "git = \"https://example.com/shop.git\"\nref = \"main\"\ndir = \"f/shop\"\nevery = \"5m\"\n",
        &[],
    );
    assert!(judged.verdict.diagnostics.is_empty(), "{judged:?}");
    assert!(judged.plan.is_none() && judged.verdict.manifest.is_none());
    let origin = judged.verdict.source.unwrap();
    assert_eq!(
        (origin.from.as_str(), origin.every_s),
        ("https://example.com/shop.git main", Some(300))
    );
    let build = judged.build.unwrap();
    let arguments: Vec<_> = build.plan.argv.iter().map(|text| text.text.as_str()).collect();
    let [shim, "{entry}", rest @ ..] = arguments.as_slice() else {
        panic!("{arguments:?}")
    };
    assert!(shim.ends_with("bash/fetch.sh"), "{shim}");
    assert_eq!(rest, ["git", "https://example.com/shop.git", "main", "f/shop"]);
    // A text of a manifest is never a template.
    assert!(build.plan.argv.iter().skip(2).all(|text| !text.template));
    assert_eq!(build.fresh_for, Some(300));
}

#[test]
fn code_that_was_fetched_is_judged_as_any_other() {
    let code = "def handler(event, context):\n    return 1\n";
    // One file of a web server may have any name.
    let one = judged(
        CodeLayout::Source,
        "url = \"https://example.com/shop.py\"\n",
        &[("shop.py", code)],
    );
    assert!(one.verdict.diagnostics.is_empty(), "{one:?}");
    let manifest = one.verdict.manifest.unwrap();
    assert_eq!(
        (manifest.entry.as_str(), manifest.mode.as_str()),
        ("shop.py", "handler")
    );
    assert!(one.build.is_none() && one.verdict.source.is_some());
    let none = judged(
        CodeLayout::Source,
        "git = \"/srv/shop.git\"\n",
        &[("a.py", code), ("b.py", code)],
    );
    let problems = reported(&none.verdict.diagnostics);
    assert!(problems[0].contains("no file to run"), "{problems:?}");
}

#[test]
fn a_repository_on_the_machine_is_shown_to_its_reader_only() {
    let shown = |source: &str| {
        let build = judged(CodeLayout::Directory, source, &[]).build.unwrap();
        build.sandbox.read_only
    };
    assert_eq!(shown("git = \"/srv/git/shop.git\"\n"), ["/srv/git/shop.git"]);
    assert!(shown("git = \"ada@example.com:shop.git\"\n").is_empty());
}

const HOST_KEY: &str =
    "git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5jDk5Ps0Gh4TKeEzxqsQwQdAPkJTn0Vx8LHMHHT5Vr";

#[test]
fn host_keys_are_arguments_of_the_fetch() {
    let arguments = |source: &str| {
        let build = judged(CodeLayout::Directory, source, &[]).build.unwrap();
        let texts = build.plan.argv.into_iter().map(|text| text.text);
        texts.skip_while(|text| text != "git").collect::<Vec<_>>()
    };
    let git = "git = \"ssh://git@git.example.com/shop.git\"\n";
    assert_eq!(arguments(git), ["git", "ssh://git@git.example.com/shop.git", "", ""]);
    let marked = format!("@cert-authority *.{HOST_KEY} a comment");
    let keyed = arguments(&format!("{git}known_hosts = [\"{HOST_KEY}\", \"{marked}\"]\n"));
    assert_eq!(keyed[4..], [HOST_KEY.to_owned(), marked]);
}

#[test]
fn mistakes_are_named_where_they_are() {
    let sum = "sha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\n";
    let mut all = String::new();
    for source in [
        String::new(),
        "git = \"/a\"\nurl = \"https://x/a.py\"\n".to_owned(),
        "git = \"--upload-pack=id\"\n".to_owned(),
        "git = \"ext::sh -c id\"\n".to_owned(),
        "git = \"http://example.com/a\"\n".to_owned(),
        "git = \"ssh://-oProxyCommand=id/a\"\n".to_owned(),
        "git = \"-x@host:a\"\n".to_owned(),
        "git = \"../a\"\n".to_owned(),
        "git = \"/srv/../etc\"\n".to_owned(),
        "git = \"/a\"\nref = \"--all\"\n".to_owned(),
        "git = \"/a\"\ndir = \"../b\"\n".to_owned(),
        format!("git = \"/a\"\n{sum}"),
        "git = \"/a\"\nevery = \"0s\"\n".to_owned(),
        "url = \"https://x/a.py\"\nref = \"main\"\n".to_owned(),
        "url = \"https://x/a.py\"\nsha256 = \"12\"\n".to_owned(),
        "url = \"http://x/a.py\"\n".to_owned(),
        format!("url = \"file:///etc/passwd\"\n{sum}"),
        "git = \"https://ada:secret@example.com/a\"\n".to_owned(),
        "url = \"https://ada:secret@example.com/a.py\"\n".to_owned(),
        "url = \"https://x/\"\n".to_owned(),
        "url = \"https://x/.hidden\"\n".to_owned(),
        "git = \"/a\"\nhook = true\n".to_owned(),
        "git = \"/a\"\nhook_auth = \"token:t\"\n".to_owned(),
        "url = \"https://x/a.py\"\nhook = true\nhook_auth = \"token:t\"\n".to_owned(),
        "url = \"https://x/a.py\"\nkey = \"deploy\"\n".to_owned(),
        format!("git = \"https://x/a\"\nknown_hosts = [\"{HOST_KEY}\"]\n"),
        format!("git = \"/a\"\nknown_hosts = [\"{HOST_KEY}\"]\n"),
        format!("url = \"https://x/a.py\"\nknown_hosts = [\"{HOST_KEY}\"]\n"),
        "git = \"ssh://git@example.com/a\"\nknown_hosts = [\"example.com\"]\n".to_owned(),
        format!("git = \"git@example.com:a\"\nknown_hosts = [\"{HOST_KEY}\\n{HOST_KEY}\"]\n"),
    ] {
        let judged = judged(CodeLayout::Directory, &source, &[]);
        assert!(judged.build.is_none() && judged.plan.is_none(), "{source}");
        all += &format!(
            "{}\n{}\n\n",
            source.trim_end(),
            reported(&judged.verdict.diagnostics).join("\n")
        );
    }
    let beside = judged(CodeLayout::Directory, "git = \"/a\"\n", &[("main.py", "")]);
    all += &reported(&beside.verdict.diagnostics).join("\n");
    snapshot!(all);
}

#[test]
fn a_hook_is_a_route_of_the_function() {
    let code = "def handler(event, context):\n    pass\n";
    let source = "git = \"/srv/shop.git\"\nhook = true\nhook_auth = \"github:push\"\n";
    let manifest = judged(CodeLayout::Source, source, &[("main.py", code)])
        .verdict
        .manifest
        .unwrap();
    let [route] = manifest.http.as_slice() else {
        panic!("{:?}", manifest.http);
    };
    assert_eq!(route.path, "/fnd/push/x");
    assert!(route.fetches && manifest.secrets() == ["push"]);
    let open = source.replace("github:push", "none");
    let manifest = judged(CodeLayout::Source, &open, &[("main.py", code)])
        .verdict
        .manifest
        .unwrap();
    assert!(manifest.secrets().is_empty() && manifest.http.len() == 1);
}
