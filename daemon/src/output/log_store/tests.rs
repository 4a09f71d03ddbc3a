use super::*;
use crate::ledger::Retention;
use fnd_core::api::{LogLine, LogStream};

impl Keeper {
    /// Returns a handle without a thread, with a limit for one function.
    fn of(function: &FunctionName, keep_bytes: u64) -> Self {
        let of = KeepOutput {
            keep_bytes,
            ..KeepOutput::default()
        };
        let keeper = Self::default();
        keeper.keep(Retention {
            functions: [(function.clone(), of)].into_iter().collect(),
            ..Retention::default()
        });
        keeper
    }
}

impl LogStore {
    fn append(
        &mut self,
        function: &FunctionName,
        invocation: InvocationId,
        attempt: Attempt,
        lines: &mut LogLinesReader,
    ) -> io::Result<()> {
        self.append_all(function, [(invocation, attempt, lines)])
    }
}

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
    read(root, &[name()], query).map(|line| line.text).collect()
}

/// Returns a query for everything, with a change.
fn query(change: impl FnOnce(&mut Query)) -> Query {
    let mut query = Query::default();
    change(&mut query);
    query
}

#[test]
fn output_is_found_by_invocation_time_and_tail() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().join("logs"), SEGMENT, Keeper::default());
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
        texts(&path, &query(|query| query.invocation = Some(InvocationId(1)))),
        ["a", "b", "d"]
    );
    assert_eq!(
        texts(
            &path,
            &query(|query| (query.since_ms, query.until_ms) = (Some(2000), Some(3000)))
        ),
        ["c"]
    );
    assert_eq!(texts(&path, &query(|query| query.tail = Some(2))), ["c", "d"]);
    assert_eq!(texts(&path, &query(|query| query.end = end)), ["a", "b"]);
    let first = read(&path, &[name()], &Query::default()).next().unwrap();
    assert_eq!(
        (first.time.as_str(), first.attempt, first.stream.as_str()),
        ("1970-01-01T00:00:01.000Z", 1, "stdout")
    );
}

#[test]
fn a_torn_tail_hides_nothing_and_writing_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), SEGMENT, Keeper::default());
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
        let mut store = LogStore::new(root.path().into(), SEGMENT, Keeper::default());
        store
            .append(&name(), InvocationId(2), Attempt(1), &mut lines(&["next"], 2))
            .unwrap();
        assert_eq!(texts(root.path(), &Query::default()), ["whole", "next"]);
        std::fs::remove_file(segment_path(&directory(root.path(), &name()), 1)).unwrap();
    }
}

#[test]
fn damage_in_the_middle_is_said_and_hides_no_other_output() {
    let root = tempfile::tempdir().unwrap();
    let path = segment_path(&directory(root.path(), &name()), 0);
    let mut store = LogStore::new(root.path().into(), SEGMENT, Keeper::default());
    let mut ends = Vec::new();
    for (id, text) in [(1, "a"), (2, "b"), (1, "c")] {
        let time_ms = 1000 * (ends.len() as u64 + 1);
        store
            .append(&name(), InvocationId(id), Attempt(1), &mut lines(&[text], time_ms))
            .unwrap();
        ends.push(usize::try_from(path.metadata().unwrap().len()).unwrap());
    }
    let whole = std::fs::read(&path).unwrap();
    let damage = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
    };
    let note = |bytes: usize| format!("output that is kept here is damaged: {bytes} bytes of it cannot be read");
    let (second, rest) = (note(ends[1] - ends[0]), note(ends[2] - ends[0]));
    let of = |query: Query| texts(root.path(), &query);

    damage(ends[1] - 1);
    assert_eq!(of(Query::default()), ["a", second.as_str(), "c"]);
    let tail = |tail| query(|query| query.tail = Some(tail));
    assert_eq!(
        (of(tail(1)), of(tail(2))),
        (vec!["c".to_owned()], vec![second.clone(), "c".to_owned()])
    );
    let of_run = |id| query(|query| query.invocation = Some(InvocationId(id)));
    assert_eq!(
        (of(of_run(1)), of(of_run(2))),
        (vec!["a".to_owned(), "c".to_owned()], vec![second.clone()])
    );
    let since = |since| query(|query| query.since_ms = Some(since));
    assert_eq!(
        (of(since(3000)), of(since(3001))),
        (vec![second.clone(), "c".to_owned()], vec![])
    );
    let until = |until| query(|query| query.until_ms = Some(until));
    assert_eq!(
        (of(until(1001)), of(until(1000))),
        (vec!["a".to_owned(), second.clone()], vec![])
    );
    // The lines after it are counted, too: otherwise a restart would store them again.
    let mut counts = HashMap::from([((InvocationId(1), Attempt(1)), 0)]);
    store.count(&name(), &mut counts).unwrap();
    assert_eq!(counts[&(InvocationId(1), Attempt(1))], 1);

    damage(ends[0] + 3);
    assert_eq!(
        of(Query::default()),
        ["a", rest.as_str()],
        "nothing says where the next record begins"
    );
    damage(3);
    assert_eq!(of(Query::default()), [note(whole.len())]);

    damage(ends[1] - 1);
    let mut store = LogStore::new(root.path().into(), SEGMENT, Keeper::default());
    store
        .append(&name(), InvocationId(3), Attempt(1), &mut lines(&["d"], 4000))
        .unwrap();
    assert_eq!(of(Query::default()), ["a", second.as_str(), "c", "d"]);
    assert_eq!(
        std::fs::read(&path).unwrap().len(),
        whole.len(),
        "nothing was destroyed"
    );
}

#[test]
fn old_segments_go_and_the_newest_lines_stay() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), 1000, Keeper::of(&name(), 3000));
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
    let mut store = LogStore::new(root.path().into(), 300, Keeper::default());
    for i in 0..50_u64 {
        let text = format!("line {i}");
        store
            .append(&name(), InvocationId(1), Attempt(1), &mut lines(&[&text], i))
            .unwrap();
    }
    let all = texts(root.path(), &Query::default());
    assert!(segments(&directory(root.path(), &name())).unwrap().len() > 5);
    for tail in 0..=51 {
        let query = query(|query| query.tail = Some(tail));
        assert_eq!(texts(root.path(), &query), all[50 - tail.min(50)..], "{tail}");
    }
}

#[test]
fn lines_of_an_attempt_are_counted_even_where_the_first_were_rotated_away() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), 1000, Keeper::of(&name(), 2000));
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
    let mut store = LogStore::new(root.path().into(), SEGMENT, Keeper::default());
    let long = "x".repeat(16 << 10);
    let mut many = lines(&vec![long.as_str(); 100], 5);
    store.append(&name(), InvocationId(1), Attempt(1), &mut many).unwrap();
    assert_eq!(texts(root.path(), &Query::default()).len(), 100);
}

#[test]
fn as_many_lines_are_read_as_the_query_wants() {
    let root = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(root.path().into(), SEGMENT, Keeper::default());
    let mut many = lines(&vec!["x"; 30_000], 5);
    store.append(&name(), InvocationId(1), Attempt(1), &mut many).unwrap();
    for (tail, found) in [(20_000, 20_000), (100_000, 30_000)] {
        let query = query(|query| query.tail = Some(tail));
        assert_eq!(texts(root.path(), &query).len(), found);
    }
}

#[test]
fn lines_of_several_functions_are_merged_by_time_and_only_the_newest_are_read() {
    let root = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c"].map(|name| FunctionName::new(name).unwrap());
    let mut store = LogStore::new(root.path().into(), 100, Keeper::default());
    let mut all = Vec::new();
    for time_ms in 0..40_u64 {
        // `c` prints at the same time as `b`, and comes after it.
        for function in if time_ms % 2 == 0 { &names[..1] } else { &names[1..] } {
            let text = format!("{function} {time_ms}");
            let mut lines = lines(&[&text], time_ms);
            store.append(function, InvocationId(1), Attempt(1), &mut lines).unwrap();
            all.push(text);
        }
    }
    for tail in 1..=70 {
        let query = query(|query| query.tail = Some(tail));
        let found: Vec<String> = read(root.path(), &names, &query).map(|line| line.text).collect();
        assert_eq!(found, all[60 - tail.min(60)..], "{tail}");
    }
}

/// Stores a line in each of three segments; returns the path of the one in the middle.
fn three_segments(root: &Path) -> PathBuf {
    let mut store = LogStore::new(root.into(), 1, Keeper::default());
    for text in ["first", "second", "third"] {
        store
            .append(&name(), InvocationId(1), Attempt(1), &mut lines(&[text], 1))
            .unwrap();
    }
    segment_path(&directory(root, &name()), 1)
}

#[test]
fn a_line_of_fnd_is_in_the_place_of_output_that_cannot_be_read() {
    let root = tempfile::tempdir().unwrap();
    let second = three_segments(root.path());
    std::fs::remove_file(&second).unwrap();
    std::fs::create_dir(&second).unwrap(); // it can be opened, but not read
    let found: Vec<LogLine> = read(root.path(), &[name()], &Query::default()).collect();
    let texts: Vec<&str> = found.iter().map(|line| line.text.as_str()).collect();
    let note = "output that is kept here cannot be read: Is a directory (os error 21)";
    assert_eq!(texts, ["first", note, "third"]);
    assert_eq!(
        (found[1].stream, found[1].invocation),
        (LogStream::Fnd, InvocationId(0))
    );

    // Neither does a directory that cannot be listed hide the output of other functions.
    let other = FunctionName::new("other").unwrap();
    std::fs::write(directory(root.path(), &other), "").unwrap();
    let found: Vec<LogLine> = read(root.path(), &[other.clone(), name()], &Query::default()).collect();
    assert_eq!(found.iter().filter(|line| line.stream == LogStream::Fnd).count(), 2);
    assert_eq!(found.iter().filter(|line| line.function == other).count(), 1);
}

#[test]
fn output_that_is_forgotten_while_it_is_read_is_named_once() {
    let root = tempfile::tempdir().unwrap();
    let second = three_segments(root.path());
    let mut found = read(root.path(), &[name()], &Query::default());
    assert_eq!(found.next().unwrap().text, "first");
    std::fs::remove_file(&second).unwrap();
    let texts: Vec<String> = found.map(|line| line.text).collect();
    let note = "output that is kept here cannot be read: No such file or directory (os error 2)";
    assert_eq!(texts, [note, "third"]);

    // A segment that was begun anew has other lines in the same places.
    let found = read(root.path(), &[name()], &Query::default());
    let other = tempfile::tempdir().unwrap();
    let mut store = LogStore::new(other.path().into(), SEGMENT, Keeper::default());
    store
        .append(&name(), InvocationId(2), Attempt(1), &mut lines(&["other"], 1))
        .unwrap();
    let segment = |root: &Path, number| segment_path(&directory(root, &name()), number);
    std::fs::copy(segment(other.path(), 0), segment(root.path(), 2)).unwrap();
    let texts: Vec<String> = found.map(|line| line.text).collect();
    assert_eq!(
        texts.last().unwrap(),
        "output that is kept here cannot be read: it was forgotten meanwhile"
    );
}
