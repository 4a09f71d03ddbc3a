//! The promise of the report: no field is dropped silently.

use super::item::Item;
use super::objects::{ObjectKind, Objects};
use super::yaml::{Document, documents};
use super::{ConversionReport, FieldVerdict, function, functions, listed};
use crate::function::listing::ListedYaml;
use proptest::prelude::*;
use std::path::Path;

/// Returns all values below an item that have no values below themselves.
fn leaves<'d>(item: &Item<'d>) -> Vec<Item<'d>> {
    let below: Vec<Item<'d>> = item
        .items()
        .into_iter()
        .chain(item.entries().into_iter().map(|(_, item)| item))
        .collect();
    if below.is_empty() {
        return vec![item.clone()];
    }
    below.iter().flat_map(leaves).collect()
}

/// Returns the fields of functions and triggers that no row is about.
fn dropped(found: &[Document], report: &ConversionReport) -> Vec<String> {
    let quiet = [
        "apiVersion",
        "kind",
        "metadata.name",
        "spec.deployment.kind",
        "spec.deployment.apiVersion",
    ];
    let objects = Objects::of(found);
    let own = objects.0.iter().filter(|object| {
        !matches!(
            object.kind,
            ObjectKind::ConfigMap | ObjectKind::Secret | ObjectKind::GitRepository
        )
    });
    let all = own.flat_map(|object| leaves(&object.root));
    let has_row = |item: &Item<'_>| {
        let field = item.field();
        report.rows.iter().any(|row| {
            let rest = field.name.strip_prefix(row.field.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let missing = all.filter(|item| !quiet.contains(&item.path()) && !has_row(item));
    missing
        .map(|item| format!("{}:{} {}", item.file(), item.field().line, item.path()))
        .collect()
}

#[test]
fn each_field_of_the_suite_has_a_row() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/foreign");
    let mut count = 0;
    for entry in std::fs::read_dir(suite).unwrap() {
        let path = entry.unwrap().path();
        let found = documents(path.to_str().unwrap(), &std::fs::read(&path).unwrap()).unwrap();
        let (_, report) = functions(&found);
        if !report.is_refused() {
            assert_eq!(dropped(&found, &report), Vec::<String>::new(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

/// Words that fields have, and some that none has.
fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "handler",
        "runtime",
        "timeout",
        "deps",
        "deployment",
        "spec",
        "template",
        "containers",
        "env",
        "name",
        "strange",
        "labels",
        "replicas",
        "image",
        "valueFrom",
        "service",
        "deno",
        "inline",
        "retries",
        "source",
        "config",
        "function",
        "status",
    ])
    .prop_map(str::to_owned)
}

/// YAML in flow style: any values of any types at any names.
fn values() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("true".to_owned()),
        Just("'text'".to_owned()),
        Just("null".to_owned()),
        Just("m.f".to_owned()),
        Just("python3.7".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let map = prop::collection::btree_map(names(), inner.clone(), 0..5);
        let map = map.prop_map(|map| {
            let entries: Vec<String> = map
                .into_iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            format!("{{{}}}", entries.join(", "))
        });
        let list = prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", ")));
        prop_oneof![map, list]
    })
}

proptest! {
    #[test]
    fn no_field_of_any_function_is_dropped(
        (api, kind) in prop::sample::select(vec![
            ("kubeless.io/v1beta1", "Function"),
            ("serverless.kyma-project.io/v1alpha2", "Function"),
            ("lifecycle.keptn.sh/v1", "KeptnTaskDefinition"),
            ("lifecycle.keptn.sh/v1", "KeptnTask"),
            ("eaas.envmgmt.io/v1", "Driver"),
        ]),
        spec in values(),
    ) {
        let text = format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: f}}\nspec: {spec}\n");
        let found = documents("f.yaml", text.as_bytes()).unwrap();
        let (made, report) = functions(&found);
        prop_assert_eq!(made.is_empty(), report.is_refused());
        if !made.is_empty() {
            prop_assert_eq!(dropped(&found, &report), Vec::<String>::new(), "{}", text);
        }
        for function in made {
            let (text, origins) = function.manifest.render("x");
            prop_assert_eq!(text.lines().count(), origins.len());
            prop_assert!(text.parse::<toml::Table>().is_ok(), "{}", text);
        }
    }
}

#[test]
fn names_are_those_of_the_objects() {
    let kubeless = "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {name: NAME}\n";
    let of = |text: &str| listed("dir/file.yaml", text.as_bytes());
    let named = |name: &str| kubeless.replace("NAME", name);
    let names = |names: &[&str]| ListedYaml::Functions(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(of(&format!("{}---\n{}", named("b"), named("a"))), names(&["a", "b"]));
    assert_eq!(of("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"), names(&[]));
    assert_eq!(
        of("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: c}\n"),
        ListedYaml::Other
    );
    assert_eq!(of("a: b\n"), ListedYaml::Other);
    // So that somebody hears of the mistake.
    assert_eq!(of(&named("Not.A.Name")), names(&["file"]));
    assert_eq!(of("apiVersion: [\nkind: x\n"), ListedYaml::Broken);
    let found = documents("f.yaml", named("Not.A.Name").as_bytes()).unwrap();
    let (made, report) = function(&found, "f.yaml", "file");
    assert!(made.is_none() && report.is_refused());
}

#[test]
fn a_trigger_of_kubeless_has_the_paths_of_its_ingress() {
    let all = |path| super::ingress_paths(path);
    assert_eq!(all("hello"), ["/hello", "/hello/", "/hello/{*rest}"]);
    assert_eq!(all("/a/b/"), ["/a/b", "/a/b/", "/a/b/{*rest}"]);
    assert_eq!(
        (all(""), all("/")),
        (all("//"), vec!["/".to_owned(), "/{*rest}".to_owned()])
    );
    assert_eq!(all("a/{id}"), ["/a/{id}"]);
    let text = "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {name: f}\nspec: {runtime: python, handler: f.g, function: x}\n\
                ---\napiVersion: kubeless.io/v1beta1\nkind: HTTPTrigger\nmetadata: {name: t}\n\
                spec: {function-name: f, path: hello, host-name: a.example}\n";
    let (made, _) = functions(&documents("f.yaml", text.as_bytes()).unwrap());
    let manifest: toml::Table = made[0].manifest.render("").0.parse().unwrap();
    let routes = manifest["http"].as_array().unwrap();
    let paths: Vec<_> = routes
        .iter()
        .map(|route| route["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths, all("hello"));
    for route in routes {
        assert_eq!(route["host"].as_str(), Some("a.example"));
        assert_eq!(route["auth"].as_str(), Some("none"));
        assert_eq!(route["methods"].as_array().unwrap().len(), 5);
    }
}

/// A misspelt field is named, also below a value that is refused, and a version that Kyma never had is refused.
#[test]
fn a_misspelt_field_is_named() {
    let function =
        |api: &str, spec: &str| format!("apiVersion: {api}\nkind: Function\nmetadata: {{name: f}}\nspec:\n{spec}");
    let keptn = "apiVersion: lifecycle.keptn.sh/v1\nkind: KeptnTaskDefinition\nmetadata: {name: f}\nspec:\n";
    let kyma = "serverless.kyma-project.io/v1alpha2";
    for (text, field, verdict) in [
        (
            format!("{keptn}  deno:\n    inlineRef:\n      code: x\n"),
            "spec.deno.inlineRef",
            FieldVerdict::Unknown,
        ),
        (
            format!("{keptn}  deno:\n    inline:\n      coode: x\n"),
            "spec.deno.inline.coode",
            FieldVerdict::Unknown,
        ),
        (
            function(kyma, "  runtime: nodejs22\n  source:\n    inlin:\n      source: x\n"),
            "spec.source.inlin",
            FieldVerdict::Unknown,
        ),
        (
            function(
                kyma,
                "  runtime: nodejs5\n  source:\n    inline:\n      source: x\n  foo: bar\n",
            ),
            "spec.runtime",
            FieldVerdict::Refused,
        ),
        (
            function(
                "k8s.io/v1",
                "  handler: a.b\n  runtime: python3.7\n  function: x\n  type: HTTP\n",
            ),
            "spec.handler",
            FieldVerdict::Works,
        ),
    ] {
        let found = documents("f.yaml", text.as_bytes()).unwrap();
        let (_, report) = functions(&found);
        let row = report.rows.iter().find(|row| row.field == field);
        assert_eq!(row.map(|row| row.verdict), Some(verdict), "{text}{report:?}");
    }
}
