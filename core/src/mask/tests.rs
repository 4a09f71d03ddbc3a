//! The masker against a model that knows the values.

use super::*;
use fnd_wire::mask::LENGTH_MIN;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const RANDOM: u64 = 0x9e37_79b9_7f4a_7c15;

fn mask(values: &[&[u8]]) -> Arc<Mask> {
    Arc::new(Mask::new(Masks::of(RANDOM, values.iter().copied()).unwrap()))
}

/// Masks with the values at hand: marks the bytes of each value, then replaces each run of marked bytes.
fn model(values: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
    let lines = values.iter().flat_map(|value| value.split(|byte| *byte == b'\n'));
    let lines: Vec<&[u8]> = lines
        .map(<[u8]>::trim_ascii)
        .filter(|line| line.len() >= LENGTH_MIN)
        .collect();
    let mut marked = vec![false; text.len()];
    for line in lines {
        for start in 0..=text.len().saturating_sub(line.len()) {
            if text[start..].starts_with(line) {
                marked[start..start + line.len()].fill(true);
            }
        }
    }
    let mut out = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match (marked[at], at > 0 && marked[at - 1]) {
            (false, _) => out.push(*byte),
            (true, false) => out.extend_from_slice(MASKED.as_bytes()),
            (true, true) => {}
        }
    }
    out
}

/// Masks a text in pieces; `restored` says before which pieces the masker is made again of what it holds.
fn streamed(mask: &Arc<Mask>, text: &[u8], cuts: &[usize], restored: bool) -> Vec<u8> {
    let mut masker = Masker::new(Arc::clone(mask));
    let mut out = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([text.len()]) {
        masker.feed(&text[from..cut], &mut out);
        from = cut;
        assert!(
            masker.held().bytes.len() < mask.longest().max(1),
            "more is held than a value"
        );
        if restored {
            masker = Masker::restore(Arc::clone(mask), &masker.held());
        }
    }
    masker.end(&mut out);
    assert!(!masker.holds());
    out
}

#[track_caller]
fn check(values: &[&str], text: &str, expected: &str) {
    let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
    let mask = mask(&values);
    assert_eq!(mask.text(text), expected);
    let cuts: Vec<usize> = (1..text.len()).collect();
    for restored in [false, true] {
        let out = streamed(&mask, text.as_bytes(), &cuts, restored);
        assert_eq!(String::from_utf8_lossy(&out), expected, "one byte at a time");
    }
}

#[test]
fn values_are_masked_wherever_they_are() {
    let values = &["hunter22", "s3cret-key"];
    check(values, "", "");
    check(values, "nothing here\n", "nothing here\n");
    check(values, "hunter22", "***");
    check(values, "a=hunter22&b=s3cret-key\n", "a=***&b=***\n");
    check(
        values,
        "\u{e4}hunter22\u{e4}\nhunter2\nhunter22\n\n",
        "\u{e4}***\u{e4}\nhunter2\n***\n\n",
    );
}

#[test]
fn values_that_touch_or_overlap_are_one() {
    check(&["hunter22"], "hunter22hunter22!", "***!");
    check(&["abcabc"], "xabcabcabcabcy", "x***y");
    check(&["abcdefgh", "efghijkl"], "_abcdefghijkl_", "_***_");
    check(
        &["abcdef", "abcdefghij"],
        "abcdef abcdefghi abcdefghij",
        "*** ***ghi ***",
    );
    check(&["aaaaaa"], "aaaaa aaaaaaa", "aaaaa ***");
    check(&["hunter22"], "hunter22\nhunter22", "***\n***");
}

#[test]
fn each_line_of_a_value_is_a_value() {
    let key = "-----BEGIN-----\nabcdefgh\r\nshort\n-----END-----\n";
    check(&[key], &format!("{key}."), "***\n***\r\nshort\n***\n.");
    check(&[key], r"-----BEGIN-----\nabcdefgh\r\nshort", r"***\n***\r\nshort");
}

#[test]
fn a_value_that_is_too_short_is_not_masked() {
    check(&["12345", ""], "12345", "12345");
    assert_eq!(mask(&[b"12345"]).bytes(b"12345"), None);
}

#[test]
fn a_long_line_without_an_end_is_given_out_as_it_comes() {
    let value = "v".repeat(3000);
    let mask = mask(&[value.as_bytes(), b"hunter22"]);
    let mut masker = Masker::new(mask);
    let mut out = Vec::new();
    for _ in 0..200 {
        masker.feed(&[b'x'; 5000], &mut out);
    }
    assert!(out.len() > 1_000_000 - 3000 && out.iter().all(|byte| *byte == b'x'));
    out.clear();
    masker.feed(value.as_bytes(), &mut out);
    masker.feed(b"\n", &mut out);
    assert!(out.ends_with(b"x***\n"), "{} bytes", out.len());
}

#[test]
fn what_is_kept_of_a_result_is_masked_and_the_result_is_not() {
    let mask = mask(&[b"hunter22", b"12345678"]);
    let result = |content_type: &str, headers: &[(&str, &str)], data: &[u8]| {
        let response = Response {
            content_type: Some(content_type.to_owned()),
            status: None,
            headers: headers
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect(),
        };
        let mut result = RunResult::stated(response, bytes::Bytes::copy_from_slice(data));
        mask.result(&mut result);
        assert_eq!(&*result.data, data);
        result
    };
    let json = "application/json";
    assert_eq!(result(json, &[], b"{\"a\":1}").kept, None);
    let kept = result(json, &[], b"{\"a\":\"hunter22\"}").to_kept();
    assert_eq!((&*kept.data, kept.json), (&b"{\"a\":\"***\"}"[..], true));
    let kept = result(json, &[], b"{\"a\":12345678}").to_kept();
    assert_eq!((&*kept.data, kept.json), (&b"{\"a\":***}"[..], false));
    let kept = result("text/html", &[("x-key", "is hunter22")], b"<p>").to_kept();
    assert_eq!(
        kept.response.unwrap().headers,
        [("x-key".to_owned(), "is ***".to_owned())]
    );
    assert_eq!(&*kept.data, b"<p>");
}

#[test]
fn damaged_state_is_no_harm() {
    let mask = mask(&[b"hunter22"]);
    let held = PendingBytes {
        bytes: b"abc".to_vec(),
        run: Some(usize::MAX),
    };
    let mut masker = Masker::restore(Arc::clone(&mask), &held);
    let mut out = Vec::new();
    masker.feed(b"def", &mut out);
    masker.end(&mut out);
    assert_eq!(out, b"def");
    let masks = Masks {
        point: u64::MAX,
        fingerprints: vec![fnd_wire::mask::Fingerprint {
            length: 0,
            hash: u64::MAX,
        }],
    };
    assert_eq!(Mask::new(masks).bytes(b"abc"), None);
}

/// A value of few different bytes, so that values overlap and are prefixes of others.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![8 => prop::sample::select(&b"ab"[..]), 1 => any::<u8>()];
    vec(byte, 1..24)
}

#[derive(Debug, Clone)]
enum Part {
    Bytes(Vec<u8>),
    Value(Index),
    /// The beginning of a value.
    Begun(Index, Index),
}

fn part() -> impl Strategy<Value = Part> {
    let byte = prop_oneof![4 => prop::sample::select(&b"ab\n "[..]), 1 => any::<u8>()];
    prop_oneof![
        2 => vec(byte, 0..40).prop_map(Part::Bytes),
        3 => any::<Index>().prop_map(Part::Value),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(value, length)| Part::Begun(value, length)),
        1 => (0..3000_usize).prop_map(|count| Part::Bytes(vec![b'a'; count])),
    ]
}

proptest! {
    #[test]
    fn masked_as_if_the_values_were_known(
        random in any::<u64>(),
        values in vec(value(), 0..6),
        parts in vec(part(), 0..8),
        cuts in vec(any::<Index>(), 0..12),
        restored in any::<bool>(),
    ) {
        // A random number of a few bits would make different texts have the same hash.
        let random = random | 1 << 60;
        let masks = Masks::of(random, values.iter().map(Vec::as_slice)).unwrap();
        let mask = Arc::new(Mask::new(masks));
        let mut text = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(bytes) => text.extend(bytes),
                Part::Value(_) | Part::Begun(..) if values.is_empty() => {}
                Part::Value(index) => text.extend_from_slice(index.get::<Vec<u8>>(&values)),
                Part::Begun(index, length) => {
                    let value = index.get::<Vec<u8>>(&values);
                    text.extend_from_slice(&value[..length.index(value.len())]);
                }
            }
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let expected = model(&values, &text);
        prop_assert_eq!(mask.bytes(&text).unwrap_or_else(|| text.clone()), &*expected);
        prop_assert_eq!(streamed(&mask, &text, &cuts, restored), expected);
    }
}
