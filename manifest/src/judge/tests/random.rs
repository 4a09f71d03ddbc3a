//! Arbitrary bytes get a verdict and never cause a panic.

use super::*;
use crate::function::{detect, env_file, forms, inline};
use crate::runtime::shebang::Shebang;
use fnd_wire::form::Wire as _;
use proptest::prelude::*;

/// Text with more meaningful words than random text has.
fn toml() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("[limits]\n".to_owned()),
        Just("timeout = ".to_owned()),
        Just("\"30s\"\n".to_owned()),
        Just("[[http]]\n".to_owned()),
        Just("[pool]\nmin = ".to_owned()),
        Just("mode = \"handler\"\n".to_owned()),
        Just("def handler(e, c):\n".to_owned()),
        Just("[sizes]\nM = {".to_owned()),
        Just("\"\"\"".to_owned()),
        Just("# /// fnd\n".to_owned()),
        Just("# ///\n".to_owned()),
        Just("# ".to_owned()),
        Just("\r\n".to_owned()),
        "[a-z.]{1,8} = [\\[\\]{}\"'0-9a-z,.-]{0,12}\n",
        "\\PC{0,8}",
    ];
    prop_oneof![
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_manifest_and_code_get_a_verdict(code in toml(), manifest in proptest::option::of(toml()), mode in any::<u32>()) {
        for name in ["/f/x.sh", "/f/x.py", "/f/x.js", "/f/x"] {
            let mut function = single(JudgedFile { mode, ..file(name, &code) }, None);
            function.manifest = manifest.as_deref().map(|bytes| file("/f/x.toml", bytes));
            let judged = judge("").function(&function);
            let refused = judged.verdict.diagnostics.iter().any(Diagnostic::is_error);
            prop_assert_eq!(judged.plan.is_none(), refused, "a plan, or an error that says why not");
            prop_assert_eq!(judged.verdict.manifest.is_none(), refused);
            for problem in &judged.verdict.diagnostics {
                let _ = problem.render(crate::diagnostic::Colour::Plain);
                prop_assert!(!problem.line().contains('\n'));
            }
        }
    }

    #[test]
    fn any_configuration_gets_a_verdict(one in toml(), two in toml()) {
        let mut judge = Judge::new();
        let files = vec![file("a", &one), file("b", &two)];
        let (policy, document) = judge.settings(&JudgeSettings { files, runtimes: vec![file("r", &two)] });
        prop_assert_eq!(policy.is_none(), document.settings.is_none());
    }

    #[test]
    fn any_bytes_are_judged(bytes in toml()) {
        for runtime in ["python", "deno", "bash", "java"] {
            let _ = detect::handler(runtime, &bytes);
        }
        let _ = detect::is_commonjs(&bytes);
        let _ = inline::block("f", &bytes);
        let _ = env_file::read("f", &bytes);
        let _ = JudgeRequest::from_wire(&bytes);
        let _ = Shebang::of(&bytes);
        let _ = forms::file(&bytes, &forms::Claims::default());
        let _ = forms::directory(&bytes);
    }
}
