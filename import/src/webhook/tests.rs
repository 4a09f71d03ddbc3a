//! Hooks as functions.

use super::*;
use crate::tests::testing::{check_refused, only, table};

fn made(text: &str) -> Imported {
    let documents = tree::parse("hooks.json", text.as_bytes()).unwrap();
    let read: ReadScript = |path| (path == "/opt/deploy.sh").then(|| b"#!/bin/sh\n".to_vec());
    hooks(&documents, "hooks.json", read)
}

fn hook(rest: &str) -> Imported {
    made(&format!(
        "[{{\"id\": \"deploy\", \"execute-command\": \"/opt/deploy.sh\"{rest}}}]"
    ))
}

fn rule(rule: &str) -> Imported {
    hook(&format!(", \"trigger-rule\": {rule}"))
}

#[track_caller]
fn route(imported: &Imported) -> toml::Table {
    table(only(imported))["http"][0].as_table().unwrap().clone()
}

fn code(imported: &Imported) -> String {
    String::from_utf8(imported.functions[0].files[0].bytes.clone()).unwrap()
}

const REF: &str = r#""parameter": {"source": "payload", "name": "ref"}"#;

#[test]
fn a_hook_is_a_function_with_a_route() {
    let imported = hook(
        r#", "command-working-directory": "/srv/app", "http-methods": ["post"], "include-command-output-in-response": true,
        "pass-arguments-to-command": [{"source": "payload", "name": "ref"}, {"source": "string", "name": "it's"},
            {"source": "header", "name": "X-GitHub-Event"}, {"source": "query", "name": "a"}],
        "pass-environment-to-command": [{"source": "payload", "name": "user", "envname": "WHO"}, {"source": "string", "name": "x"}]"#,
    );
    let table = route(&imported);
    assert_eq!(table["path"].as_str(), Some("/hooks/deploy"));
    assert_eq!(table["methods"][0].as_str(), Some("POST"));
    assert_eq!(table["auth"].as_str(), Some("none"));
    assert!(!table.contains_key("async"));
    let code = code(&imported);
    let end = "payload ref; _1=$REPLY\nheader HTTP_X_GITHUB_EVENT; _2=$REPLY\nfield a \"$QUERY_STRING\"; _3=$REPLY\n\
               payload user && _4=$REPLY\n[[ -v _4 ]] && export WHO=\"$_4\"\nexport HOOK_x=x\ncd /srv/app || exit\n\
               exec \"$code\"/deploy.sh \"$_1\" 'it'\\''s' \"$_2\" \"$_3\" 2>&1\n";
    assert!(code.ends_with(end), "{code}");
}

#[test]
fn rules_are_credentials_and_conditions() {
    let imported = rule(&format!(
        r#"{{"and": [
        {{"match": {{"type": "payload-hmac-sha256", "secret": "s3", "parameter": {{"source": "header", "name": "X-Hub-Signature-256"}}}}}},
        {{"or": [{{"match": {{"type": "value", "value": "a", {REF}}}}}, {{"match": {{"type": "value", "value": "b", {REF}}}}}]}},
        {{"not": {{"match": {{"type": "value", "value": "bot", "parameter": {{"source": "payload", "name": "pusher.name"}}}}}}}},
        {{"match": {{"type": "regex", "regex": "^x", "parameter": {{"source": "url", "name": "q"}}}}}},
        {{"match": {{"type": "ip-whitelist", "ip-range": "192.0.2.0/24 ::1"}}}}]}}"#
    ));
    let table = route(&imported);
    assert_eq!(table["auth"].as_str(), Some("github:deploy-hook"));
    assert_eq!(table["async"].as_bool(), Some(true));
    assert_eq!(
        imported.functions[0].secrets,
        [("deploy-hook".to_owned(), b"s3".to_vec())]
    );
    let when = table["when"].as_table().unwrap();
    assert_eq!(when["body.ref"].as_array().unwrap().len(), 2);
    // For webhook, a rule about a value that is not there fails, also below `not`.
    assert_eq!(when["body.pusher.name"]["not"].as_str(), Some("bot"));
    assert_eq!(when["body.pusher.name"]["matches"].as_str(), Some("^"));
    assert_eq!(when["query.q"]["matches"].as_str(), Some("^x"));
    assert_eq!(when["ip"].as_array().unwrap().len(), 2);
}

#[test]
fn values_and_expressions_in_one_place_are_one_expression() {
    let imported = rule(&format!(
        r#"{{"or": [{{"match": {{"type": "value", "value": "refs/heads/v1.0", {REF}}}}},
        {{"match": {{"type": "regex", "regex": "^refs/tags/|x", {REF}}}}}]}}"#
    ));
    let when = route(&imported)["when"].clone();
    let expected = r"^refs/heads/v1\.0$|(?:^refs/tags/|x)";
    assert_eq!(when["body.ref"]["matches"].as_str(), Some(expected));
}

#[test]
fn addresses_of_which_one_is_enough_are_one_list() {
    let address = |range: &str| format!(r#"{{"match": {{"type": "ip-whitelist", "ip-range": "{range}"}}}}"#);
    let either = |one: &str, other: &str| rule(&format!(r#"{{"or": [{}, {}]}}"#, address(one), address(other)));
    let imported = either("192.0.2.0/24", "2001:db8::/32 ::1");
    let ranges = route(&imported)["when"]["ip"].as_array().unwrap().clone();
    assert_eq!(ranges.len(), 3);
    for (one, other, why) in [
        ("192.0.2.0/24", "192.0.2.x", "`192.0.2.x` is no address"),
        ("192.0.2.0/33", "::1", "`192.0.2.0/33` is no address"),
        ("::1", " ", "`ip-range` is missing"),
    ] {
        check_refused(&either(one, other).report, why, why);
    }
    let mixed = format!(
        r#"{{"or": [{}, {{"match": {{"type": "value", "value": "a", {REF}}}}}]}}"#,
        address("::1")
    );
    check_refused(&rule(&mixed).report, "a script cannot test addresses", &mixed);
}

/// Keys without which webhook does something else, and hooks of one name.
#[test]
fn what_a_hook_does_not_say_is_in_the_report() {
    let imported = hook("");
    let verdict = |name: &str| crate::tests::testing::row(&imported.report, name).verdict;
    assert_eq!(verdict("http-methods"), FieldVerdict::Differs);
    assert_eq!(verdict("command-working-directory"), FieldVerdict::Differs);
    assert_eq!(verdict("trigger-rule"), FieldVerdict::Works);
    let twice = made(r#"[{"id": "a", "execute-command": "x"}, {"id": "a", "execute-command": "y"}]"#);
    check_refused(&twice.report, "another hook has this id", "");
    let file = hook(r#", "pass-file-to-command": [{"source": "payload", "name": "logo", "base64decode": true}]"#);
    let line = "payload logo && { _1=$TMPDIR/HOOK_LOGO; printf %s \"$REPLY\" | base64 -d >\"$_1\"; }\n\
                [[ -v _1 ]] && export HOOK_LOGO=\"$_1\"\n";
    assert!(code(&file).contains(line), "{}", code(&file));
    let address = hook(r#", "pass-arguments-to-command": [{"source": "request", "name": "Remote-Addr"}]"#);
    let row = crate::tests::testing::row(&address.report, "pass-arguments-to-command");
    assert!(row.note.as_ref().unwrap().contains("without the port"), "{row:?}");
}

#[test]
fn a_rule_that_no_route_has_is_tested_by_the_script() {
    let imported = rule(&format!(
        r#"{{"or": [{{"match": {{"type": "value", "value": "a", {REF}}}}},
        {{"not": {{"match": {{"type": "value", "value": "ping", "parameter": {{"source": "header", "name": "X-GitHub-Event"}}}}}}}}]}}"#
    ));
    let expected = "missing=; if { { payload ref || ! missing=1; } && [[ $REPLY == a ]]; } || ! missing= || \
                    ! { { header HTTP_X_GITHUB_EVENT || ! missing=1; } && [[ $REPLY == ping ]]; }; then missing=; \
                    else ! missing=; fi && [[ -z $missing ]] || { echo 'Hook rules";
    assert!(code(&imported).contains(expected), "{}", code(&imported));
}

#[test]
fn an_answer_with_headers_is_that_of_a_cgi_script() {
    let imported = hook(
        r#", "include-command-output-in-response": true, "success-http-response-code": 201, "response-headers": [{"name": "X-A", "value": "it works"}]"#,
    );
    assert_eq!(route(&imported)["response"].as_str(), Some("cgi"));
    assert!(
        code(&imported).contains("'Status: 201\nX-A: it works\nContent-Type: text/plain"),
        "{}",
        code(&imported)
    );
}

#[test]
fn an_answer_that_waits_for_nothing_has_the_message() {
    let imported = hook(
        r#", "response-message": "on its way", "success-http-response-code": 201, "response-headers": [{"name": "X-A", "value": "a: b"}]"#,
    );
    let table = route(&imported);
    assert_eq!(table["async"].as_bool(), Some(true));
    let answer = table["answer"].as_table().unwrap();
    assert_eq!(
        (
            answer["status"].as_integer(),
            answer["body"].as_str(),
            answer["headers"]["X-A"].as_str()
        ),
        (Some(201), Some("on its way"), Some("a: b"))
    );
    let plain = route(&hook(""));
    assert_eq!(plain["answer"].to_string(), "{ status = 200 }");
}

/// As webhook does, which looks for the command with `exec.LookPath` of the joined path.
#[test]
fn a_command_without_a_path_is_one_of_the_directory() {
    for (command, directory, expected) in [
        (
            "deploy.sh",
            "/srv/app/",
            "cd /srv/app/ || exit\nexec /srv/app/deploy.sh 2>&1\n",
        ),
        (
            "./bin/deploy",
            "/srv/app",
            "cd /srv/app || exit\nexec /srv/app/bin/deploy 2>&1\n",
        ),
        ("make", "", "exec make 2>&1\n"),
    ] {
        let imported = made(&format!(
            r#"[{{"id": "a", "execute-command": "{command}", "command-working-directory": "{directory}"}}]"#
        ));
        assert!(code(&imported).ends_with(expected), "{}", code(&imported));
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let signature = |kind: &str, header: &str| {
        format!(
            r#"{{"match": {{"type": "{kind}", "secret": "s", "parameter": {{"source": "header", "name": "{header}"}}}}}}"#
        )
    };
    for (imported, why) in [
        (rule(&signature("payload-hmac-sha1", "X-Hub-Signature")), "SHA-256 only"),
        (rule(&signature("payload-hmac-sha512", "X-Signature")), "SHA-256 only"),
        (
            rule(&signature("payload-hmac-sha256", "X-Signature")),
            "no form of `auth`",
        ),
        (rule(&signature("scalr-signature", "x")), "Scalr"),
        (
            rule(&format!(
                r#"{{"or": [{}, {}]}}"#,
                signature("payload-hmac-sha256", "X-Hub-Signature-256"),
                signature("value", "a")
            )),
            "only `value`",
        ),
        (rule(r#"{"and": [], "or": []}"#), "is one of"),
        (rule("[1]"), "is one of"),
        (rule(r#"{"odd": []}"#), "is one of"),
        (hook(r#", "trigger-rul": {}"#), "would run for everybody"),
        (hook(r#", "http-methods": "POST""#), "a list of texts"),
        (hook(r#", "pass-arguments-to-command": "x""#), "expected a list"),
        (rule(r#"{"match": {"type": "odd"}}"#), "no type of a match"),
        (
            hook(r#", "parse-parameters-as-json": [{"source": "payload", "name": "x"}]"#),
            "JSON inside",
        ),
        (
            hook(r#", "pass-arguments-to-command": [{"source": "entire-headers"}]"#),
            "no single value",
        ),
        (
            hook(r#", "pass-arguments-to-command": [{"source": "template", "name": "{{.ID}}"}]"#),
            "no templates of Go",
        ),
        (
            hook(r#", "incoming-payload-content-type": "application/xml""#),
            "reads no XML",
        ),
        (
            hook(r#", "pass-environment-to-command": [{"source": "payload", "name": "a.b"}]"#),
            "write `envname`",
        ),
        (
            hook(r#", "pass-environment-to-command": [{"source": "payload", "name": "a", "envname": "UID"}]"#),
            "`UID` is no name",
        ),
        (
            hook(r#", "pass-file-to-command": [{"source": "payload", "name": "a", "envname": "_2"}]"#),
            "`_2` is no name",
        ),
        (
            hook(r#", "include-command-output-in-response": "maybe""#),
            "`true` or `false`",
        ),
        (hook(r#", "success-http-response-code": 99"#), "from 200 to 599"),
        (hook(r#", "response-message": ["x"]"#), "it is a list"),
        (
            rule(
                r#"{"match": {"type": "value", "value": "{{ getenv `TOKEN` }}", "parameter": {"source": "header", "name": "X-Token"}}}"#,
            ),
            "a template of Go",
        ),
        (made(r#"[{"id": "x"}]"#), "the hook has none"),
        (made(r#"[{"id": "a b", "execute-command": "x"}]"#), "no path"),
        (made(r#"[{"id": "a", "execute-command": "./x"}]"#), "an absolute path"),
        (hook(r#", "command-working-directory": "app""#), "an absolute path"),
        (made(r#"["x"]"#), "expected a hook"),
        (made(r#"{"id": "x"}"#), "a list of hooks"),
        (made("[]"), "there is no hook"),
        (made(""), "there is no hook"),
    ] {
        assert!(imported.functions.is_empty(), "{why}");
        check_refused(&imported.report, why, why);
    }
}
