//! The syntax of scripts, services and programs that serve HTTP is checked before an edit of them serves.

use super::{answers, error_with};
use fnd_core::api::{FunctionList, FunctionStatus};
use fnd_tests::fnd::Setup;
use fnd_tests::wait::{PATIENCE, now};
use fnd_tests::{Fnd, require, wait_until};
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::time::Duration;

/// How long a thousand edits may take on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// A script in each language: its file, a good version, and what is wrong in another one.
struct Language {
    file: &'static str,
    comment: &'static str,
    before: &'static str,
    /// Prints WORD.
    good: &'static str,
    /// Does not end as the language wants it.
    bad: &'static str,
    /// Line and perhaps column of that, after the block with the manifest (3 lines), and the interpreter's words.
    place: &'static str,
    words: &'static str,
}

const LANGUAGES: [Language; 7] = [
    Language {
        file: "a-python.py",
        comment: "#",
        before: "",
        good: "print('WORD')\n",
        bad: "def f(:\n",
        place: ":5:7",
        words: "SyntaxError: invalid syntax",
    },
    Language {
        file: "a-bash.sh",
        comment: "#",
        before: "",
        good: "echo WORD\n",
        bad: "if true; then fi\n",
        place: ":5",
        words: "syntax error near unexpected token `fi'",
    },
    Language {
        file: "a-node.cjs",
        comment: "//",
        before: "",
        good: "console.log('WORD');\n",
        bad: "function f( {\n",
        place: ":6",
        words: "SyntaxError: ",
    },
    Language {
        file: "a-deno.ts",
        comment: "//",
        before: "",
        good: "const word: string = 'WORD';\nconsole.log(word);\n",
        bad: "const x: number = ;\n",
        place: ":6:19",
        words: "SyntaxError: Expression expected",
    },
    Language {
        file: "a-ruby.rb",
        comment: "#",
        before: "",
        good: "puts 'WORD'\n",
        bad: "def f(\nend\n",
        place: ":6",
        words: "syntax error",
    },
    Language {
        file: "a-php.php",
        comment: "//",
        before: "<?php\n",
        good: "echo 'WORD';\n",
        bad: "function f( {\n",
        place: ":6",
        words: "syntax error, unexpected token",
    },
    Language {
        file: "a-lua.lua",
        comment: "--",
        before: "",
        good: "print('WORD')\n",
        bad: "local x = = 3\n",
        place: ":5",
        words: "unexpected symbol near '='",
    },
];

impl Language {
    fn name(&self) -> &str {
        self.file.split('.').next().unwrap()
    }

    fn text(&self, word: &str, more: &str) -> String {
        let comment = self.comment;
        format!(
            "{}{comment} /// fnd\n{comment} on_load = false\n{comment} ///\n{}{more}",
            self.before,
            self.good.replace("WORD", word)
        )
    }
}

/// Returns how many checks there were.
fn checks(fnd: &Fnd) -> usize {
    fnd.history("fnd-check").len()
}

fn script(code: &str) -> String {
    format!("# /// fnd\n# on_load = false\n# ///\n{code}")
}

#[test]
fn a_broken_edit_of_a_script_never_serves_and_says_where_it_is_broken() {
    require!(root, cgroup, deno, lua, php, ruby);
    let mut fnd = Fnd::prepare(&Setup::default());
    for language in &LANGUAGES {
        fnd.drop_file(language.file, &language.text("one", ""));
    }
    fnd.launch();
    for language in &LANGUAGES {
        let name = language.name();
        answers(&fnd, name, "one");
        fnd.drop_file(language.file, &language.text("broken", language.bad));
        let error = error_with(&fnd, name, "syntax error");
        let place = format!("{}{}: its code has a syntax error", language.file, language.place);
        assert!(error.contains(&place) && error.contains(language.words), "{error}");
        answers(&fnd, name, "one");
        fnd.drop_file(language.file, &language.text("two", ""));
        answers(&fnd, name, "two");
        assert_eq!(fnd.function(name).unwrap().error, None);
    }
    assert_eq!(checks(&fnd), 2 * LANGUAGES.len());
    let printed = fnd.ctl(&["logs", "fnd-check"]).out();
    assert!(
        !printed.contains("two") && !printed.contains("broken\n"),
        "nothing ran: {printed}"
    );
    let listed = fnd.ctl(&["list", "-q"]).expect_code(0).out();
    assert_eq!(listed.lines().count(), LANGUAGES.len(), "{listed}");
    fnd.finish();
}

#[test]
fn status_and_releases_say_why_an_edit_does_not_serve() {
    require!(root, cgroup);
    let fnd = Fnd::start_with(&Setup::default().file("job.py", &script("print('one')\n")));
    fnd.drop_file("job.py", &script("print('two')\ndef f(:\n"));
    let reload = fnd.ctl(&["reload"]).expect_code(8);
    assert!(
        reload.to_string().contains("job.py:5:7"),
        "a reload waits for the check: {reload}"
    );
    for command in [&["status"][..], &["show", "job"], &["releases", "job"]] {
        let shown = fnd.ctl(command).expect_code(0).to_string();
        assert!(shown.contains("syntax error: SyntaxError: invalid syntax"), "{shown}");
    }
    let states = fnd.ctl(&["releases", "job"]).out();
    assert!(states.contains("failed") && states.contains("serving"), "{states}");
    // The same file again: the result is known.
    let again = fnd.ctl(&["reload"]).expect_code(0);
    assert!(again.to_string().contains("invalid before"), "{again}");
    assert_eq!(checks(&fnd), 1);
    let build = fnd.ctl(&["build", "job"]).expect_code(1);
    assert!(build.to_string().contains("syntax error"), "{build}");
    assert_eq!(checks(&fnd), 2, "a person asks for it");
    fnd.finish();
}

#[test]
fn services_and_programs_that_serve_http_are_checked_too() {
    require!(root, cgroup);
    let service = "# /// fnd\n# [service]\n# ///\nimport time\nwhile True:\n    time.sleep(60)\n";
    let web = "# /// fnd\n# [http_server]\n# ///\nimport os\nfrom http.server import *\n\
               class Page(BaseHTTPRequestHandler):\n    def do_POST(self):\n        self.send_response(200)\n        \
               self.end_headers()\n        self.wfile.write(b'one')\n\
               HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Page).serve_forever()\n";
    let setup = Setup::default().file("keeper.py", service).file("web.py", web);
    let fnd = Fnd::start_with(&setup);
    answers(&fnd, "web", "one");
    let up = fnd.wait_function("keeper", "runs", |keeper| keeper.running == 1);
    for (file, text) in [("keeper.py", service), ("web.py", web)] {
        fnd.drop_file(file, &format!("{text}def f(:\n"));
        let name = file.split('.').next().unwrap();
        let _ = error_with(&fnd, name, "syntax error: SyntaxError: invalid syntax");
    }
    answers(&fnd, "web", "one");
    let still = fnd.function("keeper").unwrap();
    assert_eq!((still.running, still.up_since), (1, up.up_since), "it was not stopped");
    fnd.finish();
}

/// A function without a check comes first.
#[test]
fn first_versions_and_deployments() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    a_manifest_switches_the_check_off_and_a_first_version_has_none(&fnd);
    a_deployment_with_a_mistake_is_refused_and_the_files_before_are_back(&fnd);
    fnd.finish();
}

fn a_manifest_switches_the_check_off_and_a_first_version_has_none(fnd: &Fnd) {
    // There is nothing to protect yet: the run says the same.
    fnd.drop_file("new.py", &script("def f(:\n"));
    let run = wait_until("a run", PATIENCE, || {
        let answer = fnd.invoke("new", "");
        (answer.status != 404).then_some(answer)
    });
    assert!(run.text().contains("SyntaxError: invalid syntax"), "{}", run.text());
    fnd.drop_file("job.sh", &script("echo one\n"));
    answers(fnd, "job", "one");
    let unchecked = "# /// fnd\n# on_load = false\n# [release]\n# check = false\n# ///\necho two\nif true; then fi\n";
    fnd.drop_file("job.sh", unchecked);
    wait_until("the new version", PATIENCE, || {
        fnd.invoke("job", "").text().contains("unexpected token").then_some(())
    });
    assert_eq!(checks(fnd), 0);
}

#[test]
fn after_a_restart_the_version_before_serves_if_the_file_is_broken_and_good_files_are_not_checked() {
    require!(root, cgroup);
    let setup = Setup::default().file("job.py", &script("print('one')\n"));
    let mut fnd = Fnd::start_with(&setup.file("other.sh", &script("echo other\n")));
    fnd.drop_file("job.py", &script("print('two')\n"));
    answers(&fnd, "job", "two");
    fnd.stop();
    fnd.launch();
    assert_eq!(checks(&fnd), 1, "nothing is new");
    answers(&fnd, "job", "two");
    fnd.stop();
    fnd.drop_file("job.py", &script("print('three')\ndef f(:\n"));
    fnd.launch();
    let _ = error_with(&fnd, "job", "job.py:5:7");
    answers(&fnd, "job", "two");
    fnd.drop_file("job.py", &script("print('four')\n"));
    answers(&fnd, "job", "four");
    fnd.finish();
}

#[test]
fn a_check_that_cannot_be_made_lets_the_edit_serve_and_status_says_so() {
    require!(root, cgroup);
    let own = tempfile::tempdir().unwrap();
    fs::create_dir_all(own.path().join("slow")).unwrap();
    let sleeps = "id = \"slow\"\nsuffixes = [\".slow\"]\ninterpreters = [\"/bin/sh\"]\nnames = [\"sh\"]\n\
                  [phases.run]\ncommand = [\"{interpreter}\", \"{entry}\"]\n\
                  [phases.check]\ncommand = [\"{interpreter}\", \"-c\", \"read -r line </dev/zero\"]\n";
    let description = own.path().join("slow/runtime.toml");
    fs::write(&description, sleeps).unwrap();
    let mut setup = Setup::default().config("[build]\ntimeout = \"500ms\"\n");
    setup.arguments = vec!["--runtimes".to_owned(), own.path().display().to_string()];
    let fnd = Fnd::start_with(&setup.file("job.slow", &script("echo one\n")));
    answers(&fnd, "job", "one");
    fnd.drop_file("job.slow", &script("echo two\n"));
    answers(&fnd, "job", "two");
    let status = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(
        status.contains("the syntax of its code could not be checked (timeout)"),
        "{status}"
    );
    // A tool that is not there.
    fs::write(
        &description,
        sleeps.replace("read -r line </dev/zero", "exec /usr/bin/none-of-this"),
    )
    .unwrap();
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    fnd.drop_file("job.slow", &script("echo three\n"));
    answers(&fnd, "job", "three");
    let status = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(status.contains("could not be checked (exit-127)"), "{status}");
    fnd.finish();
}

#[test]
fn a_name_of_fnds_own_and_code_that_is_read_in_another_way_are_left_alone() {
    require!(root, cgroup);
    let glob = script("shopt -s extglob\ncase one in @(one|two)) echo one ;; esac\necho !(none)\n");
    let fnd = Fnd::start_with(&Setup::default().file("glob.sh", &script("echo before\n")));
    answers(&fnd, "glob", "before");
    fnd.drop_file("glob.sh", &glob);
    answers(&fnd, "glob", "one");
    // Node reads a file by what `package.json` says.
    fnd.drop_file("mod/package.json", "{\"type\": \"module\"}");
    fnd.drop_file(
        "mod/main.js",
        "import os from 'node:os';\nconsole.log('one' + typeof os);\n",
    );
    fnd.drop_file(
        "mod/function.toml",
        "runtime = \"node\"\nmode = \"script\"\non_load = false\n",
    );
    answers(&fnd, "mod", "one");
    fnd.drop_file(
        "mod/main.js",
        "import os from 'node:os';\nconsole.log('two' + typeof os);\n",
    );
    answers(&fnd, "mod", "two");
    fnd.drop_file("fnd-check.sh", "echo mine\n");
    let problem = fnd.wait_problem("fnd-check");
    assert!(problem.contains("fnd's own"), "{problem}");
    fnd.finish();
}

fn a_deployment_with_a_mistake_is_refused_and_the_files_before_are_back(fnd: &Fnd) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sent.sh");
    let deploy = |code: &str| {
        fs::write(&file, script(code)).unwrap();
        fnd.ctl(&["deploy", &file.display().to_string()])
    };
    let _ = deploy("echo one\n").expect_code(0);
    let refused = deploy("echo two\nif true; then fi\n").expect_code(8);
    assert!(
        refused.to_string().contains("syntax error near unexpected token `fi'"),
        "{refused}"
    );
    answers(fnd, "sent", "one");
    let _ = deploy("echo three\n").expect_code(0);
    answers(fnd, "sent", "three");
}

/// The version of `fnd-check` names the owner of the files, and a run has only files of its version.
#[test]
fn files_of_two_owners_are_never_checked_by_one_version() {
    require!(root, cgroup);
    let setup = ["a.sh", "b.sh", "other.sh"].map(|file| (file, script("echo one\n")));
    let setup = setup
        .iter()
        .fold(Setup::default(), |setup, (file, text)| setup.file(file, text));
    let fnd = Fnd::start_with(&setup);
    chown(fnd.function_path("other.sh"), Some(65534), None).unwrap();
    let edit = |name: &str| {
        let known = checks(&fnd);
        answers(&fnd, name, "one");
        // Written in place, so that the owner stays.
        fs::write(fnd.function_path(&format!("{name}.sh")), script("echo two\n")).unwrap();
        answers(&fnd, name, "two");
        assert_eq!(checks(&fnd), known + 1);
        fnd.history("fnd-check")[0].version.unwrap()
    };
    let (of_a, of_other, of_b) = (edit("a"), edit("other"), edit("b"));
    assert_eq!(of_a, of_b);
    assert_ne!(of_a, of_other);
    fnd.finish();
}

/// Edits of many scripts at once converge. `FND_EDITS=1000 cargo nextest run ... --no-capture` says how long that takes.
#[test]
fn many_edits_at_once_are_checked_and_the_broken_ones_do_not_serve() {
    require!(root, cgroup);
    let edits = std::env::var("FND_EDITS").map_or(60, |text| text.parse().unwrap());
    let file = |number: usize| format!("job{number}.{}", if number.is_multiple_of(2) { "sh" } else { "py" });
    let text = |number: usize, word: &str| match number {
        0 | 1 => script(&format!("echo '{word}' (((\n")),
        _ if number.is_multiple_of(2) => script(&format!("echo {word}\n")),
        _ => script(&format!("print('{word}')\n")),
    };
    let good = |number: usize| {
        script(if number.is_multiple_of(2) {
            "echo one\n"
        } else {
            "print('one')\n"
        })
    };
    let setup = (0..edits).fold(Setup::default(), |setup, number| {
        setup.file(&file(number), &good(number))
    });
    let fnd = Fnd::start_with(&setup);
    let versions = || -> BTreeMap<FunctionName, Version> {
        let list: FunctionList = fnd.client().get("/v1/functions").json();
        let serving = |function: FunctionStatus| Some((function.function, function.version?));
        list.functions.into_iter().filter_map(serving).collect()
    };
    let before = wait_until("the first versions", PATIENCE, || {
        Some(versions()).filter(|all| all.len() == edits)
    });
    let began = now();
    for number in 0..edits {
        fnd.drop_file(&file(number), &text(number, "two"));
    }
    let saved = began.elapsed();
    // Of one function first: the list of all takes fnd time.
    let last = format!("job{}", edits - 1);
    let is_new = |name: &str, version: Option<&Version>| before.get(&FunctionName::new(name).unwrap()) != version;
    wait_until("the last edit", LONG, || {
        is_new(&last, fnd.function(&last)?.version.as_ref()).then_some(())
    });
    wait_until("all edits but two", LONG, || {
        let serving = versions();
        let edited = serving
            .iter()
            .filter(|(name, version)| is_new(name.as_str(), Some(*version)));
        (edited.count() == edits - 2).then_some(())
    });
    for broken in ["job0", "job1"] {
        let _ = error_with(&fnd, broken, "syntax error");
    }
    println!(
        "{edits} edits: saved in {saved:.1?}, serve after {:.1?}",
        began.elapsed()
    );
    for broken in ["job0", "job1"] {
        assert!(!is_new(broken, versions().get(&FunctionName::new(broken).unwrap())));
    }
    fnd.finish();
}
