//! `[input]` and `mcp`: the schema of payloads, and the payloads that the manifest has itself.

use super::*;

const SCHEMA: &[u8] = br#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#;

/// Judges a directory with the schema in `input.schema.json` and a script.
fn judged(manifest: &str, schema: &[u8]) -> Verdict {
    let files = vec![file("main.sh", b"echo\n"), file("input.schema.json", schema)];
    judge("").function(&directory(files, manifest)).verdict
}

const FILE: &str = "[input]\nschema = \"input.schema.json\"\n";

#[test]
fn the_manifest_carries_the_schema_of_a_file_or_of_a_table() {
    let table = "[input.schema]\ntype = \"object\"\nrequired = [\"n\"]\nproperties.n.type = \"integer\"\n";
    let of_file = judged(FILE, SCHEMA).manifest.unwrap();
    let of_table = judged(table, b"").manifest.unwrap();
    let expected: serde_json::Value = serde_json::from_slice(SCHEMA).unwrap();
    assert_eq!(of_file.input_schema.as_ref(), Some(&expected));
    assert_eq!(of_table.input_schema.as_ref(), Some(&expected));
    assert!(
        !of_file.on_load && !of_table.on_load,
        "it is called, so it does not run by itself"
    );
    let text = serde_json::to_string(&of_file).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), of_file);
    // A table needs no file beside the code.
    let alone = judge("")
        .function(&single(file("/f/x.sh", b"echo\n"), Some(table)))
        .verdict;
    assert_eq!(alone.manifest.unwrap().input_schema, Some(expected));
}

#[test]
fn agents_may_call_a_function_where_its_manifest_says_so() {
    let with = |text: &str| {
        judge("")
            .function(&single(file("/f/x.sh", b"echo\n"), Some(text)))
            .verdict
    };
    let manifest = with("mcp = true\n").manifest.unwrap();
    assert!(manifest.mcp && !manifest.on_load);
    assert!(!with("").manifest.unwrap().mcp);
    assert_eq!(
        reported(&with("mcp = true\n[service]\n").diagnostics),
        ["1:7 impossible: `mcp` has no effect on a service, which is kept running and never invoked"]
    );
}

#[test]
fn a_schema_that_fnd_cannot_use_is_refused_at_its_place() {
    for (manifest, schema, expected) in [
        (
            FILE,
            &b"{"[..],
            "2:10 bad-schema: `input.schema.json` is no JSON Schema that fnd can use: it is not JSON",
        ),
        (FILE, br#"{"type": "objekt"}"#, "(at `/type`)"),
        (
            FILE,
            br#"{"$ref": "https://example.com/a.json"}"#,
            "https://example.com/a.json",
        ),
        (FILE, br#"{"pattern": "(a)\\1"}"#, "bad-schema"),
        (FILE, &[b' '; (64 << 10) + 1], "it is larger than 64 KiB"),
        (
            "[input]\nschema = \"other.json\"\n",
            SCHEMA,
            "2:10 no-schema: `schema`: there is no file `other.json` in the directory",
        ),
        (
            "[input.schema]\ntype = \"objekt\"\n",
            SCHEMA,
            "bad-schema: `[input.schema]` is no JSON Schema",
        ),
        ("[input]\n", SCHEMA, "missing-key: `input`: the key `schema` is missing"),
        ("[input]\nschema = 3\n", SCHEMA, "wrong-type"),
        (
            "[input]\nschema = \"input.schema.json\"\n[service]\n",
            SCHEMA,
            "impossible: `input` has no effect on a service, which is kept running and never invoked",
        ),
        (
            "[input]\nschema = \"input.schema.json\"\n[http_server]\n",
            SCHEMA,
            "impossible: `input` has no effect on an HTTP program, which reads its requests itself",
        ),
    ] {
        let verdict = judged(manifest, schema);
        let all = reported(&verdict.diagnostics).join("\n");
        assert!(
            verdict.manifest.is_none() && all.contains(expected),
            "{manifest}: {all}"
        );
    }
}

#[test]
fn payloads_of_the_manifest_are_checked_at_their_place() {
    for (before, after, expected) in [
        ("data = { n = 1 }\n", "[[schedule]]\nevery = \"1h\"\n", &[][..]),
        ("", "[[schedule]]\nevery = \"1h\"\ndata = { n = 1 }\n", &[]),
        (
            "data = { n = \"x\" }\n",
            "[[schedule]]\nevery = \"1h\"\n",
            &["1:8 bad-data: `data` does not match the `[input]` schema: `/n`: the value is not of type \"integer\""],
        ),
        (
            "",
            "[[schedule]]\nevery = \"1h\"\ndata = { n = \"x\" }\n",
            &[
                "5:8 bad-data: `data` of the schedule does not match the `[input]` schema: `/n`: the value is not of type \"integer\"",
            ],
        ),
        (
            "",
            "[[schedule]]\nevery = \"1h\"\n",
            &[
                "bad-data: the schedule runs the function, but it has no `data`, and the `[input]` schema asks for a payload",
            ],
        ),
        (
            "on_load = true\n",
            "",
            &[
                "1:11 bad-data: `on_load` runs the function, but it has no `data`, and the `[input]` schema asks for a payload",
            ],
        ),
    ] {
        let verdict = judged(&format!("{before}{FILE}{after}"), SCHEMA);
        let all = reported(&verdict.diagnostics);
        assert_eq!(all.len(), expected.len(), "{all:?}");
        for (line, expected) in all.iter().zip(expected) {
            assert!(line.ends_with(expected), "{line}");
        }
    }
}
