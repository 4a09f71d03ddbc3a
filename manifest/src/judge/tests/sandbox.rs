//! `[sandbox]`: what the spawner gets of it, what is refused, and what only files of root may widen.

use super::*;
use crate::diagnostic::Colour;
use fnd_wire::sandbox::{Network, Profile, Sandbox};
use proptest::prelude::*;

/// Answers as the daemon does; returns the sandbox and the problems.
fn answer(judge: &mut Judge, manifest: &str, trusted: bool) -> (Option<Sandbox>, Vec<Diagnostic>) {
    let mut function = single(file("/f/x.sh", b"echo\n"), Some(manifest));
    function.files.iter_mut().for_each(|file| file.trusted = trusted);
    let diagnostics = judge.function(&function).verdict.diagnostics;
    let JudgeReply::Function(reply) = judge.answer(&JudgeRequest::Function(function)) else {
        panic!("another answer");
    };
    assert_eq!(reply.sandbox.is_some(), reply.verdict.plan.is_some());
    (reply.sandbox, diagnostics)
}

/// Returns the sandbox of a bash script of root.
#[track_caller]
fn sandbox(settings: &str, manifest: &str) -> Sandbox {
    let (sandbox, problems) = answer(&mut judge(settings), manifest, true);
    let sandbox = sandbox.unwrap_or_else(|| panic!("{:?}", reported(&problems)));
    assert_eq!(sandbox.flaw(), None);
    sandbox
}

fn shown(problems: &[Diagnostic]) -> String {
    let one = |problem: &Diagnostic| format!("{}\n{}\n", problem.code, problem.render(Colour::Plain));
    problems.iter().map(one).collect()
}

#[test]
fn every_key_reaches_the_spawner() {
    let default = Sandbox {
        profile: Profile::Strict,
        network: Network::Host,
        syscalls: Profile::Strict,
        proc_full: false,
        read_only: vec![],
        read_write: vec![],
        hide: vec![],
        devices: vec![],
        tmp: 64 << 20,
        asked: vec![],
    };
    assert_eq!(sandbox("", ""), default);
    let list = |path: &str| vec![path.to_owned()];
    let manifest = "[limits]\ntmp = \"1M\"\n[sandbox]\nprofile = \"standard\"\nnetwork = [\"connect:443\", \"connect:22\", \
        \"connect:443\"]\nread_only = [\"/home/ada/.pyenv/\"]\nread_write = [\"/srv/out\"]\nhide = [\"/opt/other\"]\n\
        proc = \"full\"\nsyscalls = \"off\"\ndevices = [\"/dev/fuse\"]\n";
    let every = Sandbox {
        profile: Profile::Standard,
        network: Network::Connect(vec![22, 443]),
        syscalls: Profile::Off,
        proc_full: true,
        read_only: list("/home/ada/.pyenv"),
        read_write: list("/srv/out"),
        hide: list("/opt/other"),
        devices: list("/dev/fuse"),
        tmp: 1 << 20,
        asked: ["mounts", "pid", "landlock"].map(str::to_owned).to_vec(),
    };
    assert_eq!(sandbox("", manifest), every);
    let network = |word: &str| sandbox("", &format!("[sandbox]\nnetwork = \"{word}\"\n")).network;
    assert_eq!(network("none"), Network::None);
    assert_eq!(network("loopback"), Network::Loopback);
    let watching = sandbox(
        "",
        "[[file]]\npath = \"/srv/in/\"\n[[file]]\npath = \"/home/a\"\nfailed = \"move:/home/b\"\n",
    );
    assert_eq!(watching.read_only, ["/srv/in"]);
    assert_eq!(watching.read_write, ["/home/a", "/home/b"]);
    assert_eq!(watching.asked, [""; 0]);
}

#[test]
fn the_configuration_gives_the_default() {
    let standard = "[sandbox]\nprofile = \"standard\"\n";
    let defaults = "[sandbox]\nprofile = \"off\"\n[defaults.sandbox]\nprofile = \"standard\"\n";
    for (settings, manifest, expected) in [
        ("", "", Profile::Strict),
        (standard, "", Profile::Standard),
        (defaults, "", Profile::Standard),
        (defaults, "[sandbox]\nprofile = \"strict\"\n", Profile::Strict),
        (standard, "[sandbox]\nprofile = \"off\"\n", Profile::Off),
    ] {
        let found = sandbox(settings, manifest);
        assert_eq!(
            (found.profile, found.syscalls),
            (expected, expected),
            "{settings} {manifest}"
        );
        let request = JudgeSettings {
            files: vec![file("/etc/fnd/fnd.toml", settings.as_bytes())],
            runtimes: vec![],
        };
        let JudgeReply::Settings(reply) = judge("").answer(&JudgeRequest::Settings(request)) else {
            panic!("another answer");
        };
        assert_eq!(reply.profile, sandbox(settings, "").profile);
    }
    // Refused settings change nothing.
    let mut judge = judge(standard);
    let request = JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml", b"[sandbox]\nprofile = \"of\"\n")],
        runtimes: vec![],
    };
    let JudgeReply::Settings(reply) = judge.answer(&JudgeRequest::Settings(request)) else {
        panic!("another answer");
    };
    assert_eq!(reply.profile, Profile::Standard);
}

#[test]
fn hiding_without_a_sandbox_is_refused() {
    let keys = "[sandbox]\nprofile = \"off\"\nhide = [\"/opt\"]\n";
    let found = refused("", &[keys], true);
    assert!(found.contains("`sandbox.hide` hides nothing"), "{found}");
}

#[test]
fn layers_are_asked_for_by_the_keys_of_the_manifest() {
    let refuse = "[sandbox]\nmissing = \"refuse\"\n";
    let default =
        "[defaults.sandbox]\nprofile = \"standard\"\nnetwork = \"none\"\nhide = [\"/opt\"]\nsyscalls = \"off\"\n";
    for (settings, keys, expected) in [
        ("", "", ""),
        ("", "profile = \"strict\"", "mounts pid seccomp"),
        ("", "profile = \"standard\"", "mounts pid seccomp"),
        ("", "profile = \"off\"", ""),
        ("", "profile = \"strict\"\nsyscalls = \"off\"", "mounts pid"),
        ("", "network = \"host\"", ""),
        ("", "network = \"none\"", "network"),
        ("", "network = \"loopback\"", "network"),
        ("", "network = [\"connect:443\"]", "landlock"),
        ("", "syscalls = \"standard\"", "seccomp"),
        ("", "syscalls = \"off\"", ""),
        ("", "profile = \"off\"\nsyscalls = \"strict\"", "seccomp"),
        ("", "read_only = [\"/home/a\"]", "mounts"),
        ("", "hide = [\"/opt\"]", "mounts"),
        ("", "devices = [\"/dev/fuse\"]", "mounts"),
        ("", "read_only = []", ""),
        ("", "read_write = [\"/srv\"]\nproc = \"full\"", ""),
        (refuse, "", "mounts pid seccomp"),
        (refuse, "profile = \"off\"", ""),
        (refuse, "syscalls = \"off\"", "mounts pid"),
        (default, "", ""),
        (default, "profile = \"strict\"", "mounts pid"),
    ] {
        let asked = sandbox(settings, &format!("[sandbox]\n{keys}\n")).asked;
        assert_eq!(asked.join(" "), expected, "{settings} {keys}");
    }
    let both = format!("{default}{refuse}");
    assert_eq!(sandbox(&both, "").asked, ["mounts", "pid", "network"]);
}

/// Returns manifests that are refused, and what a person sees of each.
fn refused(settings: &str, manifests: &[&str], trusted: bool) -> String {
    let one = |manifest: &&str| {
        let (sandbox, problems) = answer(&mut judge(settings), manifest, trusted);
        assert!(sandbox.is_none(), "{manifest}");
        format!("===\n{manifest}---\n{}", shown(&problems))
    };
    manifests.iter().map(one).collect()
}

#[test]
fn sandboxes_that_cannot_be() {
    let http = "mode = \"http\"\n[sandbox]\nnetwork = ";
    snapshot!(refused(
        "",
        &[
            "[sandbox]\nprofile = \"stric\"\n",
            "[sandbox]\nnetwork = \"nobody\"\n",
            "[sandbox]\nnetwork = \"hosts\"\n",
            "[sandbox]\nnetwork = [\"connect:0\", \"connect:443\"]\n",
            "[sandbox]\nnetwork = [\"443\"]\n",
            "[sandbox]\nnetwork = []\n",
            "[sandbox]\nread_only = [\"/\"]\n",
            "[sandbox]\nread_write = [\"/srv/../etc\"]\n",
            "[sandbox]\nhide = [\"srv\"]\n",
            "[sandbox]\nproc = \"own\"\n",
            "[sandbox]\nsyscalls = \"none\"\n",
            "[sandbox]\ndevices = [\"/etc/shadow\", \"/dev/../etc/shadow\", \"/dev/\"]\n",
            "[limits]\ntmp = \"1K\"\n",
            "[sandbox]\nhide = [\"/opt/a\", \"/opt/b/\"]\nread_only = [\"/opt/b\"]\nread_write = [\"/opt/a\"]\n",
            "[sandbox]\nread_only = [\"/srv\"]\nread_write = [\"/srv/\"]\n",
            "[sandbox]\nread_write = [\"/sys/kernel\", \"/proc\", \"/process\"]\n",
            "[sandbox]\nhide = [\"/srv/in\"]\n[[file]]\npath = \"/srv/in\"\n",
            "[sandbox]\nread_only = [\"/srv/in\"]\n[[file]]\npath = \"/srv/in\"\nthen = \"delete\"\n",
            &format!("{http}\"none\"\n"),
            &format!("{http}\"loopback\"\n[http_server]\nport = 8080\n"),
        ],
        true
    ));
    let fine = format!("{http}\"none\"\n[http_server]\nlisten = \"unix\"\n");
    assert_eq!(sandbox("", &fine).network, Network::None);
    let connects = format!("{http}[\"connect:443\"]\n");
    assert_eq!(sandbox("", &connects).network, Network::Connect(vec![443]));
}

#[test]
fn a_program_that_says_its_port_cannot_have_another_network() {
    let code = file("/f/x.ts", b"export default { fetch: () => new Response('hi') };\n");
    let judged = judge("").function(&single(code, Some("[sandbox]\nnetwork = \"none\"\n")));
    assert!(judged.plan.is_none());
    let problem = &judged.verdict.diagnostics[0];
    assert!(problem.help.as_ref().unwrap().contains("Deno.serve"), "{problem:?}");
}

#[test]
fn lists_have_a_bound() {
    let paths = |count: usize| {
        (0..count)
            .map(|n| format!("\"/srv/{n}\""))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let list = |key: &str, count| format!("[sandbox]\n{key} = [{}]\n", paths(count));
    for key in ["read_only", "read_write", "hide"] {
        assert_eq!(sandbox("", &list(key, 64)).flaw(), None);
        let (_, problems) = answer(&mut judge(""), &list(key, 65), true);
        let expected = format!(
            "2:{} impossible: `sandbox.{key}` has 65 entries; at most 64 are possible",
            key.len() + 4
        );
        assert_eq!(reported(&problems), [expected]);
    }
    let watched = list("read_only", 64) + "[[file]]\npath = \"/opt/in\"\n";
    assert_eq!(reported(&answer(&mut judge(""), &watched, true).1).len(), 1);
    let rules: String = (0..65).map(|n| format!("[[file]]\npath = \"/srv/{n}\"\n")).collect();
    let (_, problems) = answer(&mut judge(""), &rules, true);
    assert_eq!(
        reported(&problems),
        ["impossible: `sandbox.read_only` has 65 entries from `[[file]]`; at most 64 are possible"]
    );
}

#[test]
fn keys_without_an_effect_are_warnings() {
    let keys = "devices = [\"/dev/fuse\"]\nread_only = [\"/home/a\"]\nread_write = [\"/srv\"]\nproc = \"full\"\n[limits]\ntmp = \"1M\"\n";
    let off = format!("[sandbox]\nprofile = \"off\"\n{keys}");
    let (sandbox, problems) = answer(&mut judge(""), &off, true);
    assert!(sandbox.is_some() && problems.len() == 5);
    snapshot!(shown(&problems));
    let (_, problems) = answer(&mut judge(""), "[sandbox]\nprofile = \"off\"\nread_only = []\n", true);
    assert_eq!(reported(&problems), [""; 0]);
    let (_, problems) = answer(&mut judge(""), &format!("[sandbox]\n{keys}"), true);
    assert_eq!(reported(&problems), [""; 0]);
}

#[test]
fn only_files_of_root_widen() {
    let hidden = [
        "/home/a",
        "/root",
        "/run/x",
        "/srv/in",
        "/mnt",
        "/media",
        "/etc/fnd",
        "/var/lib/fnd/x",
        "/boot",
        "/var/spool/x",
        "/var/mail",
        "/var/log",
        "/tmp/in",
        "/var/tmp",
    ];
    for path in hidden {
        let manifest = format!("[[file]]\npath = \"{path}\"\n");
        let (sandbox, problems) = answer(&mut judge(""), &manifest, false);
        assert!(
            sandbox.is_none() && problems[0].code == "not-trusted",
            "{path}: {problems:?}"
        );
        assert!(
            answer(&mut judge("[sandbox]\nprofile = \"off\"\n"), &manifest, false)
                .0
                .is_some(),
            "{path}"
        );
    }
    let refused = [
        refused(
            "",
            &[
                "[sandbox]\nprofile = \"standard\"\nsyscalls = \"off\"\n",
                "[sandbox]\nproc = \"full\"\nread_only = [\"/srv\"]\nread_write = [\"/opt\"]\ndevices = [\"/dev/fuse\"]\n",
                "[sandbox]\ngroups = [\"adm\"]\n",
                "[[file]]\npath = \"/srv/in\"\n",
                "[[file]]\npath = \"/opt/in\"\nthen = \"delete\"\n",
                "[[file]]\npath = \"/var\"\nrecursive = true\n",
                "[sandbox]\nhide = [\"/opt\"]\n[[file]]\npath = \"/opt/in\"\n",
            ],
            false,
        ),
        refused(
            "[defaults.sandbox]\nread_only = [\"/home/ada/.pyenv\"]\nnetwork = \"none\"\nhide = [\"/opt\"]\n",
            &["[sandbox]\nnetwork = \"loopback\"\nhide = []\n"],
            false,
        ),
    ];
    snapshot!(refused.concat());
    for (settings, manifest) in [
        (
            "",
            "[sandbox]\nhide = [\"/opt\"]\nnetwork = \"none\"\nsyscalls = \"strict\"\nprofile = \"strict\"\n",
        ),
        ("[sandbox]\nprofile = \"off\"\n", "[sandbox]\nprofile = \"standard\"\n"),
        (
            "[sandbox]\nprofile = \"standard\"\n",
            "[sandbox]\nprofile = \"strict\"\nsyscalls = \"standard\"\n",
        ),
        (
            "[defaults.sandbox]\nprofile = \"off\"\n",
            "[sandbox]\nprofile = \"off\"\n",
        ),
        (
            "[defaults.sandbox]\nread_only = [\"/home/a\"]\n",
            "[sandbox]\nread_only = []\n",
        ),
        (
            "[defaults.sandbox]\nhide = [\"/opt/a\"]\n",
            "[sandbox]\nhide = [\"/opt\"]\n",
        ),
        ("", "[[file]]\npath = \"/opt/in\"\n"),
    ] {
        let (sandbox, problems) = answer(&mut judge(settings), manifest, false);
        assert!(sandbox.is_some(), "{manifest}: {:?}", reported(&problems));
    }
}

/// Of files of root, and of what `[users] capabilities` allows: the spawner finds them beside the groups.
#[test]
fn capabilities_are_those_that_root_allows_in_files_of_root() {
    let allowed = "[users]\nallow = [\"adm\"]\nallow_root = true\ncapabilities = [\"chown\", \"kill\"]\n";
    let manifest = "[sandbox]\nprofile = \"off\"\ngroups = [\"adm\"]\ncapabilities = [\"chown\"]\n";
    let judged = judge(allowed).function(&single(file("/f/x.sh", b"echo\n"), Some(manifest)));
    assert_eq!(judged.plan.unwrap().groups, ["adm", "capability:chown"]);
    let found = sandbox(allowed, manifest);
    assert_eq!((found.profile, found.syscalls), (Profile::Off, Profile::Standard));
    assert_eq!(found.asked, ["seccomp"]);
    let inside = sandbox(allowed, "[sandbox]\ncapabilities = [\"kill\"]\n");
    assert_eq!(inside.asked, ["mounts", "pid", "seccomp"]);
    let request = JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml", allowed.as_bytes())],
        runtimes: vec![],
    };
    let JudgeReply::Settings(reply) = judge("").answer(&JudgeRequest::Settings(request)) else {
        panic!("another answer");
    };
    let policy = reply.verdict.policy.unwrap();
    assert_eq!(policy.allow_users, ["adm", "capability:chown", "capability:kill"]);
    for (settings, keys, trusted, said) in [
        (allowed, "capabilities = [\"chown\"]", false, "chown root:root"),
        (
            "",
            "capabilities = [\"chown\"]",
            true,
            "add `chown` to `capabilities` in `[users]`",
        ),
        (
            allowed,
            "capabilities = [\"chown\", \"fowner\"]",
            true,
            "add `fowner` to `capabilities`",
        ),
        (
            "[users]\ncapabilities = [\"net_raw\"]\n",
            "capabilities = [\"net_raw\"]\nnetwork = [\"connect:443\"]",
            true,
            "`connect:` would close no port",
        ),
        (allowed, "capabilities = [\"sys_admin\"]", true, "is never given"),
        (allowed, "capabilities = [\"CAP_CHOWN\"]", true, "write `chown`"),
        (allowed, "groups = [\"capability:kill\"]", true, "expected a name"),
        (
            allowed,
            "capabilities = [\"chown\"]\nsyscalls = \"off\"",
            true,
            "always has a filter of system calls",
        ),
    ] {
        let found = refused(settings, &[&format!("[sandbox]\n{keys}\n")], trusted);
        assert!(found.contains(said), "{found}");
    }
    let mut other = Judge::new();
    let request = JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml", b"[users]\ncapabilities = [\"chown\"]\n")],
        runtimes: shipped_runtimes(),
    };
    let (_, document) = other.settings(&request);
    let found = &document.diagnostics;
    assert!(
        found.len() == 1 && found[0].message.contains("no function gets `chown`"),
        "{found:?}"
    );
    let code = file("/f/x.sh", b"echo\n");
    let judged = other.function(&single(code, Some("[sandbox]\ncapabilities = [\"chown\"]\n")));
    let helps: Vec<_> = judged
        .verdict
        .diagnostics
        .iter()
        .filter_map(|problem| problem.help.as_deref())
        .collect();
    assert!(
        helps
            .iter()
            .any(|help| help.contains("set `allow_root = true` in `[users]`")),
        "{helps:?}"
    );
    for name in ["sys_admin", "setuid", "chwon"] {
        let text = format!("[users]\ncapabilities = [\"{name}\"]\n");
        let problems = crate::settings::resolve::configuration([("fnd.toml", text.as_bytes())]).unwrap_err();
        assert!(problems[0].message.contains(name), "{problems:?}");
    }
    let text = "[users]\nallow = [\"capability:kill\"]\n";
    let problems = crate::settings::resolve::configuration([("fnd.toml", text.as_bytes())]).unwrap_err();
    assert!(problems[0].message.contains("expected a name"), "{problems:?}");
}

/// Returns what a bash script has of `[defaults]`, and the keys that it does without.
#[track_caller]
fn with_defaults(settings: &str, manifest: &str, trusted: bool) -> (Manifest, Vec<String>) {
    let mut function = single(file("/f/x.sh", b"echo\n"), Some(manifest));
    function.files.iter_mut().for_each(|file| file.trusted = trusted);
    let verdict = judge(settings).function(&function).verdict;
    let manifest = verdict
        .manifest
        .unwrap_or_else(|| panic!("{:?}", reported(&verdict.diagnostics)));
    let left_out = manifest.left_out.clone();
    (manifest, left_out)
}

/// `[defaults]` of root's configuration asks for nothing in the name of people who do not own their files as root does.
#[test]
fn defaults_for_functions_of_root_are_left_out_for_others() {
    let settings = "[users]\nallow = [\"adm\", \"www-data\"]\ncapabilities = [\"kill\"]\n[defaults]\nbindings = [\"db\"]\n[defaults.secrets]\nKEY = \"key\"\n\
        [defaults.env]\nA = \"1\"\n[defaults.limits]\nmemory = \"64M\"\n[defaults.access]\ninvoke = [\"*\"]\nstate = []\n\
        [defaults.build]\nsecrets = [\"npmrc\"]\n[defaults.sandbox]\nuser = \"www-data\"\ngroups = [\"adm\"]\n\
        read_only = [\"/home/ada\"]\nread_write = [\"/srv/out\"]\ndevices = [\"/dev/fuse\"]\nproc = \"full\"\nsyscalls = \"standard\"\n\
        hide = [\"/opt/x\"]\nnetwork = \"none\"\ncapabilities = [\"kill\"]\n";
    let (of_root, nothing) = with_defaults(settings, "", true);
    assert!(nothing.is_empty() && of_root.sandbox.user.is_some() && !of_root.secrets.is_empty());
    let (of_others, left_out) = with_defaults(settings, "", false);
    assert_eq!(
        left_out,
        [
            "access",
            "bindings",
            "build.secrets",
            "sandbox.capabilities",
            "sandbox.devices",
            "sandbox.groups",
            "sandbox.proc",
            "sandbox.read_only",
            "sandbox.read_write",
            "sandbox.syscalls",
            "sandbox.user",
            "secrets"
        ]
    );
    assert_eq!((of_others.limits.memory, of_others.env["A"].as_str()), (64 << 20, "1"));
    // Keys that take something away hold for everybody.
    assert_eq!(of_others.sandbox.hide, ["/opt/x"]);
    assert_eq!(of_others.sandbox.network, crate::function::network::Network::None);
    // Nothing to leave out: an empty list, and words that open no more than the profile.
    let narrow = "[defaults.sandbox]\nprofile = \"standard\"\nread_only = []\nsyscalls = \"strict\"\n";
    assert!(with_defaults(narrow, "", false).1.is_empty());
    // A directory that the function's own file asks for is refused as before.
    let (refused, problems) = answer(&mut judge(settings), "[sandbox]\nread_only = [\"/home/ada\"]\n", false);
    assert!(refused.is_none() && problems[0].code == "not-trusted", "{problems:?}");
}

/// Returns a strategy of one of these lines.
fn line(lines: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(lines).prop_map(|line| format!("{line}\n"))
}

/// Returns a strategy of lines below `[sandbox]`, each key at most once.
fn keys() -> impl Strategy<Value = String> {
    (
        line(&[
            "",
            "profile = \"strict\"",
            "profile = \"standard\"",
            "profile = \"off\"",
        ]),
        line(&[
            "",
            "syscalls = \"strict\"",
            "syscalls = \"standard\"",
            "syscalls = \"off\"",
        ]),
        line(&["", "proc = \"full\""]),
        line(&["", "read_only = []", "read_only = [\"/home/a\"]"]),
        line(&["", "", "read_write = [\"/srv/out\"]"]),
        line(&["", "", "devices = [\"/dev/fuse\"]"]),
    )
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].concat())
}

/// Returns a strategy of `[[file]]` rules.
fn rules() -> impl Strategy<Value = String> {
    let paths = line(&["path = \"/opt/in\"", "path = \"/srv/in\"", "path = \"/var\""]);
    let more = line(&[
        "",
        "then = \"delete\"",
        "failed = \"move:/opt/failed\"",
        "recursive = true",
    ]);
    let rule = (paths, more).prop_map(|(path, more)| format!("[[file]]\n{path}{more}"));
    proptest::collection::vec(rule, 0..3).prop_map(|rules| rules.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The judge and the spawner agree about what only files of root may widen: what the judge accepts of others the
    /// spawner does not refuse, and what the judge refuses as widening is widening for the spawner too.
    #[test]
    fn judge_and_spawner_agree(
        profile in line(&["", "profile = \"strict\"", "profile = \"standard\"", "profile = \"off\""]),
        defaults in keys(),
        own in keys(),
        rules in rules(),
    ) {
        let settings = format!("[sandbox]\n{profile}[defaults.sandbox]\n{defaults}");
        let mut judge = judge(&settings);
        let configured = judge.configuration().profile().into();
        let manifest = format!("[sandbox]\n{own}{rules}");
        let (of_others, refused) = answer(&mut judge, &manifest, false);
        match of_others {
            Some(sandbox) => {
                prop_assert_eq!(sandbox.flaw(), None);
                prop_assert_eq!(sandbox.widens(configured), None);
            }
            None => prop_assert!(refused.iter().any(|problem| problem.code == "not-trusted")),
        }
        let keys = format!("[sandbox]\n{own}");
        // Of `[defaults]`, only the profile reaches files that do not belong to root and can make a key of theirs wider.
        let kept = defaults.lines().filter(|line| line.starts_with("profile"));
        let settings = format!("[sandbox]\n{profile}[defaults.sandbox]\n{}\n", kept.collect::<String>());
        let (without_rules, _) = answer(&mut super::judge(&settings), &keys, true);
        let is_widening = |problem: &Diagnostic| {
            problem.code == "not-trusted" && problem.message.starts_with("`sandbox.")
        };
        let widens = without_rules.unwrap().widens(configured);
        prop_assert_eq!(widens.is_some(), refused.iter().any(is_widening), "{:?} {:?}", widens, refused);
    }

    /// The spawner refuses no sandbox of a function that the judge accepts.
    #[test]
    fn no_accepted_sandbox_has_a_flaw(keys in keys(), rules in rules()) {
        let (sandbox, _) = answer(&mut judge(""), &format!("[sandbox]\n{keys}{rules}"), true);
        prop_assert_eq!(sandbox.and_then(|sandbox| sandbox.flaw()), None);
    }
}
