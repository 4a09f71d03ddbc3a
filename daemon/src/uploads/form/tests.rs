use super::*;

fn content_type(boundary: &str) -> String {
    format!("multipart/form-data; boundary={boundary}")
}

/// Stores a body, and returns the files with their contents, or why it is refused.
fn stored(content_type: &str, body: &[u8]) -> Result<Vec<(String, String)>, String> {
    let directory = tempfile::tempdir().unwrap();
    let form = UploadForm::of(Some(content_type))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let body = Bytes::copy_from_slice(body);
    let stored = runtime.block_on(store(&form, body, directory.path(), "f"));
    stored.map_err(|error| error.to_string())?;
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (
            name,
            String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
        )
    });
    let mut files: Vec<_> = entries.collect();
    files.sort();
    Ok(files)
}

fn part(head: &str, content: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
}

fn form(parts: &[String]) -> Vec<u8> {
    (parts.concat() + "--x--\r\n").into_bytes()
}

#[test]
fn the_suffix_alone_comes_from_the_client() {
    for (name, expected) in [
        ("hello.py", "f.py"),
        ("a.b.ts", "f.ts"),
        ("x.tar.gz", "f.tar.gz"),
        ("program", "f"),
        ("", "f"),
    ] {
        let body = form(&[part(&format!("name=\"source\"; filename=\"{name}\""), "code")]);
        let files = stored(&content_type("x"), &body).unwrap();
        assert_eq!(files, [(expected.to_owned(), "code".to_owned())], "{name}");
    }
    for name in [
        "../x.py",
        "/etc/x.py",
        "a/b.py",
        "..\\x.py",
        "x.toml",
        "x.age",
        "x.py~",
        "x.",
        "x.p y",
        "..",
        "x.swp",
        "x.averyveryverylongsuffix",
        "x\u{1}.py",
        "x.\u{fffd}",
    ] {
        let body = form(&[part(&format!("name=\"source\"; filename=\"{name}\""), "code")]);
        let refused = stored(&content_type("x"), &body).unwrap_err();
        let is_said = refused.contains("of the part `source`") || refused.contains("failed to read headers");
        assert!(is_said, "{name}: {refused}");
    }
}

#[test]
fn parts_are_what_they_are_called() {
    let source = || part("name=\"source\"; filename=\"a.py\"", "code\r\n--y");
    let manifest = || part("name=\"manifest\"", "size = \"L\"\n");
    let files = stored(&content_type("x"), &form(&[manifest(), source()])).unwrap();
    let expected = [("f.py", "code\r\n--y"), ("f.toml", "size = \"L\"\n")];
    assert_eq!(
        files,
        expected.map(|(name, content)| (name.to_owned(), content.to_owned()))
    );
    for (parts, expected) in [
        (vec![], "the part `source` is missing"),
        (vec![manifest()], "the part `source` is missing"),
        (vec![source(), source()], "the part `source` appears more than once"),
        (
            vec![source(), manifest(), manifest()],
            "the part `manifest` appears more than once",
        ),
        (vec![source(), part("name=\"../x\"", "")], "the part `../x` is unknown"),
        (vec![part("filename=\"a.py\"", "code")], "the part `` is unknown"),
        (
            vec![part("name=\"source\"; filename=\"a.py\"", "")],
            "the part `source` is empty",
        ),
    ] {
        let refused = stored(&content_type("x"), &form(&parts)).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn what_is_not_complete_is_refused() {
    let whole = form(&[part("name=\"source\"; filename=\"a.py\"", "code")]);
    for end in 0..whole.len() - 4 {
        assert!(stored(&content_type("x"), &whole[..end]).is_err(), "{end}");
    }
    assert!(
        stored(&content_type("other"), &whole)
            .unwrap_err()
            .contains("no complete")
    );
}

#[test]
fn the_content_type_says_what_a_body_is() {
    let files = stored("application/gzip", b"bytes").unwrap();
    assert_eq!(files, [("f.tar.gz".to_owned(), "bytes".to_owned())]);
    assert_eq!(
        UploadForm::of(Some("Application/X-Tar; a=b")),
        Ok(UploadForm::Archive(".tar"))
    );
    assert_eq!(stored("application/zip", b"").unwrap_err(), "the body is empty");
    for wrong in [
        None,
        Some("text/plain"),
        Some("application/json"),
        Some("multipart/mixed; boundary=x"),
    ] {
        assert!(
            UploadForm::of(wrong)
                .unwrap_err()
                .starts_with("the content type must be"),
            "{wrong:?}"
        );
    }
    assert!(
        UploadForm::of(Some("multipart/form-data"))
            .unwrap_err()
            .contains("no `boundary`")
    );
}

#[test]
fn a_program_is_executable() {
    use std::os::unix::fs::PermissionsExt as _;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (content, mode) in [("#!/bin/sh\n", 0o750), ("print()", 0o640)] {
        let directory = tempfile::tempdir().unwrap();
        let body = form(&[part("name=\"source\"; filename=\"a.py\"", content)]);
        let form = UploadForm::of(Some(&content_type("x"))).unwrap();
        runtime
            .block_on(store(&form, body.into(), directory.path(), "f"))
            .unwrap();
        let about = std::fs::metadata(directory.path().join("f.py")).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, mode, "{content}");
    }
}
