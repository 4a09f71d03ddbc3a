use super::*;

fn name() -> FunctionName {
    FunctionName::new("ops/backup").unwrap()
}

fn lines(texts: &[&str], time_ms: u64) -> LogLinesReader {
    let mut lines = LogLinesReader::default();
    for text in texts {
        lines.push(&Line {
            time_ms,
            stream: Stream::Stdout,
            newline: true,
            text: text.as_bytes(),
        });
    }
    lines
}

fn texts(root: &Path, query: &Query) -> Vec<String> {
    let lines = read(root, &name(), query).unwrap();
    lines.map(|line| line.unwrap().text).collect()
}

#[test]
fn output_is_found_by_invocation_time_and_tail() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().join("logs"), SEGMENT, Bell::default());
    let path = root.path().join("logs");
    assert_eq!(texts(&path, &Query::default()), Vec::<String>::new());
    store
        .append(&name(), InvocationId(1), Attempt(1), &mut lines(&["a", "b\r"], 1000))
        .unwrap();
    let end = store.end(&name());
    store
        .append(&name(), InvocationId(2), Attempt(1), &mut lines(&["c"], 2000))
        .unwrap();
    store
        .append(&name(), InvocationId(1), Attempt(2), &mut lines(&["d"], 3000))
        .unwrap();
    assert_eq!(texts(&path, &Query::default()), ["a", "b", "c", "d"]);
    assert_eq!(
        texts(
            &path,
            &Query {
                invocation: Some(InvocationId(1)),
                ..Query::default()
            }
        ),
        ["a", "b", "d"]
    );
    assert_eq!(
        texts(
            &path,
            &Query {
                since_ms: Some(2000),
                until_ms: Some(3000),
                ..Query::default()
            }
        ),
        ["c"]
    );
    assert_eq!(
        texts(
            &path,
            &Query {
                tail: Some(2),
                ..Query::default()
            }
        ),
        ["c", "d"]
    );
    assert_eq!(
        texts(
            &path,
            &Query {
                end,
                ..Query::default()
            }
        ),
        ["a", "b"]
    );
    let first = read(&path, &name(), &Query::default())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (first.time.as_str(), first.attempt, first.stream.as_str()),
        ("1970-01-01T00:00:01.000Z", 1, "stdout")
    );
}

#[test]
fn a_torn_tail_hides_nothing_and_writing_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), SEGMENT, Bell::default());
    store
        .append(&name(), InvocationId(1), Attempt(1), &mut lines(&["whole"], 1))
        .unwrap();
    let file = segment_path(&directory(root.path(), &name()), 0);
    let whole = std::fs::read(&file).unwrap();
    for torn in [1, 7, 8, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes.extend(&whole[..torn]);
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(
            texts(root.path(), &Query::default()),
            ["whole"],
            "{torn} bytes of another record"
        );
        let mut store = LogStore::new(root.path().into(), SEGMENT, Bell::default());
        store
            .append(&name(), InvocationId(2), Attempt(1), &mut lines(&["next"], 2))
            .unwrap();
        assert_eq!(texts(root.path(), &Query::default()), ["whole", "next"]);
        std::fs::remove_file(segment_path(&directory(root.path(), &name()), 1)).unwrap();
    }
}

#[test]
fn old_segments_go_and_the_newest_lines_stay() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), 1000, Bell::of(&name(), 3000));
    for i in 0..200_u64 {
        let text = format!("line {i}");
        store
            .append(&name(), InvocationId(1), Attempt(1), &mut lines(&[&text], i))
            .unwrap();
    }
    let kept = texts(root.path(), &Query::default());
    assert_eq!(kept.last().unwrap(), "line 199");
    assert!(kept.len() > 20 && kept.len() < 70, "{} lines", kept.len());
    assert_eq!(segments(&directory(root.path(), &name())).unwrap().len(), 3);
}

#[test]
fn the_last_lines_come_from_as_many_segments_as_it_takes() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), 300, Bell::default());
    for i in 0..50_u64 {
        let text = format!("line {i}");
        store
            .append(&name(), InvocationId(1), Attempt(1), &mut lines(&[&text], i))
            .unwrap();
    }
    let all = texts(root.path(), &Query::default());
    assert!(segments(&directory(root.path(), &name())).unwrap().len() > 5);
    for tail in 0..=51 {
        let query = Query {
            tail: Some(tail),
            ..Query::default()
        };
        assert_eq!(texts(root.path(), &query), all[50 - tail.min(50)..], "{tail}");
    }
}

#[test]
fn lines_of_an_attempt_are_counted_even_where_the_first_were_rotated_away() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), 1000, Bell::of(&name(), 2000));
    let mut flooding = LogLinesReader::default();
    for i in 0..100_u64 {
        flooding.extend(Decoder::new(0, lines(&["one", "two"], i).encoded().1));
        store
            .append(&name(), InvocationId(1), Attempt(1), &mut flooding)
            .unwrap();
        flooding.clear();
    }
    store
        .append(&name(), InvocationId(1), Attempt(2), &mut lines(&["x"], 1))
        .unwrap();
    let key = |attempt| (InvocationId(1), Attempt(attempt));
    let mut counts = HashMap::from([(key(1), 0), (key(2), 0), (key(3), 0)]);
    store.count(&name(), &mut counts).unwrap();
    assert_eq!(counts, HashMap::from([(key(1), 200), (key(2), 1), (key(3), 0)]));
}

#[test]
fn much_output_becomes_several_records() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), SEGMENT, Bell::default());
    let long = "x".repeat(16 << 10);
    let mut many = lines(&vec![long.as_str(); 100], 5);
    store.append(&name(), InvocationId(1), Attempt(1), &mut many).unwrap();
    assert_eq!(texts(root.path(), &Query::default()).len(), 100);
}
