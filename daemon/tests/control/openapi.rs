//! The description of the API, as a client reads it. A change shows in the diff of `snapshots/openapi.json`;
//! `UPDATE_SNAPSHOTS=1` writes that file anew.

use crate::fake::Running;
use crate::http::get;
use std::path::Path;

#[test]
fn the_document_is_as_before() {
    let answer = get(&Running::start().socket, "/v1/openapi.json");
    // The fields of an object are sorted: their order has no meaning.
    let found = format!("{:#}\n", answer.json());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control/snapshots/openapi.json");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "line {}", number + 1);
    }
    assert_eq!(expected.lines().count(), found.lines().count());
}
