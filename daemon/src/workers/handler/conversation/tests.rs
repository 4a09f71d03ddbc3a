//! Real socket pairs; the worker's end is written and read by the test.

use super::*;
use fnd_core::data::Data;
use fnd_core::records::protocol::{FRAME_MAX, InvokeHead, invoke, stop};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, future).await.expect("within the limit") })
}

fn buffers() -> Arc<Buffers> {
    Buffers::new(1 << 30, "/nonexistent".into())
}

/// Needs a runtime.
fn talk(calls_max: usize) -> (Conversation, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    theirs.set_write_timeout(Some(LIMIT)).unwrap();
    (
        Conversation::new(ours.into(), 1 << 20, calls_max, buffers()).unwrap(),
        theirs,
    )
}

fn frame(kind: u8, flags: u8, call: u64, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    [
        &length.to_le_bytes()[..],
        &[kind, flags, 0, 0],
        &call.to_le_bytes(),
        content,
    ]
    .concat()
}

fn answer(call: u64, body: &[u8]) -> Vec<u8> {
    let head = format!(r#"{{"data":{}}}"#, body.len());
    let size = u32::try_from(head.len()).unwrap().to_le_bytes();
    frame(4, 0, call, &[&size[..], head.as_bytes(), body].concat())
}

fn log(text: &str) -> Vec<u8> {
    let record = format!(r#"{{"time_ms":1,"level":"info","message":"{text}"}}"#);
    frame(6, 0, 0, record.as_bytes())
}

fn calls(messages: &[WorkerMessage]) -> Vec<u64> {
    messages
        .iter()
        .map(|message| match message {
            WorkerMessage::Result { call, .. }
            | WorkerMessage::Part { call, .. }
            | WorkerMessage::Error { call, .. }
            | WorkerMessage::Log { call, .. } => *call,
            WorkerMessage::Ready(_) => 0,
        })
        .collect()
}

#[test]
fn torn_messages_come_whole_and_in_order_and_the_end_is_reported() {
    block(async {
        let (talk, mut worker) = talk(2);
        let writer = std::thread::spawn(move || {
            for byte in [answer(1, b"one"), answer(2, b"two"), answer(1, b"again")].concat() {
                worker.write_all(&[byte]).unwrap();
            }
        });
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        writer.join().unwrap();
        // That the third answers nothing is for who gets it to see.
        assert_eq!(calls(&messages), [1, 2, 1]);
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
    });
}

#[test]
fn garbage_ends_it_after_what_came_before() {
    block(async {
        let (talk, mut worker) = talk(1);
        worker
            .write_all(&[answer(1, b"fine"), b"garbage, and more of it".into()].concat())
            .unwrap();
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        assert_eq!(calls(&messages), [1]);
        assert!(matches!(end, ConversationEnd::Protocol(_)), "{end:?}");
    });
}

#[test]
fn what_is_sent_arrives_in_order_however_slowly_it_is_read() {
    block(async {
        let (talk, mut worker) = talk(8);
        let messages: Vec<Vec<u8>> = (1..=8_u8).map(|n| vec![n; 300_000]).collect();
        for message in &messages {
            talk.send(OutgoingMessage::Whole(message.clone()));
        }
        assert!(!talk.is_flushed() && !talk.is_between());
        let expected = messages.concat();
        let reader = std::thread::spawn(move || {
            let mut read = vec![0; expected.len()];
            for piece in read.chunks_mut(7001) {
                worker.read_exact(piece).unwrap();
            }
            assert!(read == expected);
            worker
        });
        talk.stop();
        let end = talk.run(|_| ()).await;
        assert!(matches!(end, ConversationEnd::Stopped) && talk.is_between(), "{end:?}");
        drop(reader.join().unwrap());
    });
}

#[test]
fn a_worker_that_never_reads_keeps_nobody_waiting_and_is_still_heard() {
    block(async {
        let (talk, mut worker) = talk(1);
        talk.send(OutgoingMessage::Whole(vec![7; 4 << 20]));
        talk.send(stop());
        worker.write_all(&answer(1, b"early")).unwrap();
        let end = talk.run(|_| talk.hang_up()).await;
        assert!(matches!(end, ConversationEnd::HungUp) && talk.is_flushed(), "{end:?}");
        talk.send(stop());
        assert!(talk.is_flushed(), "nothing is kept for one that was hung up on");
    });
}

#[test]
fn a_worker_that_is_gone_is_reported_once_and_its_last_messages_are_read() {
    block(async {
        let (talk, mut worker) = talk(1);
        worker.write_all(&answer(1, b"last words")).unwrap();
        drop(worker);
        talk.send(OutgoingMessage::Whole(vec![7; 100]));
        assert!(talk.is_flushed());
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        assert_eq!(calls(&messages), [1]);
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
    });
}

#[test]
fn a_flood_lets_others_have_their_turn() {
    block(async {
        let (talk, mut worker) = talk(1);
        let flood = std::thread::spawn(move || {
            let piece = log("again").repeat(1000);
            // Until nobody reads any more.
            while worker.write_all(&piece).is_ok() {}
        });
        let heard = std::cell::Cell::new(0_u64);
        let mut turns = 0;
        {
            let mut run = std::pin::pin!(talk.run(|_| heard.set(heard.get() + 1)));
            // Only what comes after the first message tells anything: the thread may start late.
            while turns < 100 {
                tokio::select! {
                    biased;
                    end = &mut run => panic!("{end:?}"),
                    () = tokio::task::yield_now() => turns += u32::from(heard.get() > 0),
                }
            }
        }
        drop(talk);
        flood.join().unwrap();
    });
}

#[test]
fn stopping_takes_no_byte_of_the_next_message() {
    block(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let duplicate = ours.try_clone().unwrap();
        let talk = Conversation::new(ours.into(), 1 << 20, 2, buffers()).unwrap();
        let mut worker = theirs;
        let first = answer(1, &vec![b'x'; 200_000]);
        let (begun, rest) = first.split_at(100_000);
        worker.write_all(begun).unwrap();
        // Read what there is of it, and go away: nothing is lost.
        let run = talk.run(|message| panic!("{message:?}"));
        assert!(tokio::time::timeout(Duration::from_millis(50), run).await.is_err());
        assert!(!talk.is_between());
        let next = [answer(2, b"next"), log("and more")].concat();
        let all = [rest, &next].concat();
        let writer = std::thread::spawn(move || {
            worker.write_all(&all).unwrap();
            worker
        });
        talk.stop();
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        assert!(matches!(end, ConversationEnd::Stopped) && talk.is_between(), "{end:?}");
        assert_eq!(calls(&messages), [1]);
        drop(talk);
        drop(writer.join().unwrap());
        // For another fnd, with the duplicate.
        let talk = Conversation::new(duplicate.into(), 1 << 20, 2, buffers()).unwrap();
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        assert_eq!(calls(&messages), [2, 0]);
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
    });
}

#[test]
fn a_stop_with_nothing_under_way_is_at_once() {
    block(async {
        let (talk, mut worker) = talk(1);
        worker.write_all(&log("unread")).unwrap();
        talk.stop();
        let end = talk.run(|message| panic!("{message:?}")).await;
        assert!(matches!(end, ConversationEnd::Stopped), "{end:?}");
    });
}

/// Not asserted: how long a call takes through the socket, to an echo on a thread and back.
#[test]
fn a_call_and_its_answer_are_quick() {
    block(async {
        let (talk, mut worker) = talk(1);
        let echo = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut call = 0;
            while worker.read(&mut buffer).is_ok_and(|count| count > 0) {
                call += 1;
                if worker.write_all(&answer(call, b"{}")).is_err() {
                    break;
                }
            }
        });
        let head = InvokeHead {
            invocation: "01934567-89ab-7def-8123-456789abcdef".into(),
            attempt: 1,
            trigger: "manual".into(),
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
            ..InvokeHead::default()
        };
        let mut times = Vec::new();
        let mut begun = crate::clock::monotonic();
        talk.send(invoke(1, head.clone(), Some(&Data::from(b"{}")), None).unwrap());
        let end = talk
            .run(|message| {
                let WorkerMessage::Result { call, .. } = message else {
                    panic!("{message:?}")
                };
                times.push(begun.elapsed());
                if call == 2000 {
                    return talk.hang_up();
                }
                begun = crate::clock::monotonic();
                talk.send(invoke(call + 1, head.clone(), Some(&Data::from(b"{}")), None).unwrap());
            })
            .await;
        assert!(matches!(end, ConversationEnd::HungUp), "{end:?}");
        times.sort_unstable();
        println!("call and answer: p50 {:?}, p99 {:?}", times[1000], times[1980]);
        drop(talk);
        echo.join().unwrap();
    });
}

#[test]
fn a_large_payload_and_a_large_answer_arrive_whole() {
    block(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let talk = Conversation::new(ours.into(), 8 << 20, 2, buffers()).unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(5_000_001).collect();
        let message = invoke(1, InvokeHead::default(), Some(&Data::from(content.clone())), None).unwrap();
        let expected = message.clone().joined();
        talk.send(message);
        // The other call's answer comes between two frames of the large one.
        let head = format!("{{\"data\":{}}}", content.len());
        let size = u32::try_from(head.len()).unwrap().to_le_bytes();
        let all = [&size[..], head.as_bytes(), &content].concat();
        let last = all.len().div_ceil(FRAME_MAX) - 1;
        let mut frames = Vec::new();
        for (at, part) in all.chunks(FRAME_MAX).enumerate() {
            frames.extend(frame(if at == 0 { 4 } else { 3 }, u8::from(at < last), 1, part));
            if at == 1 {
                frames.extend(answer(2, b"small"));
            }
        }
        let worker = std::thread::spawn(move || {
            let mut worker = theirs;
            let mut read = vec![0; expected.len()];
            worker.read_exact(&mut read).unwrap();
            assert!(read == expected, "the payload is the same");
            worker.write_all(&frames).unwrap();
        });
        let mut answers = Vec::new();
        let end = talk.run(|message| answers.push(message)).await;
        worker.join().unwrap();
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
        assert_eq!(calls(&answers), [2, 1]);
        let Some(WorkerMessage::Result { data: Some(data), .. }) = answers.pop() else {
            panic!("it has a body");
        };
        assert!(data == content, "the answer is the same");
    });
}

#[test]
fn a_stream_counts_until_its_result_or_an_error_comes() {
    block(async {
        let (ours, mut worker) = UnixStream::pair().unwrap();
        let buffers = buffers();
        let talk = Conversation::new(ours.into(), 1 << 20, 2, Arc::clone(&buffers)).unwrap();
        let head = br#"{"stream":true}"#;
        let size = u32::try_from(head.len()).unwrap().to_le_bytes();
        let begin = |call| frame(4, 1, call, &[&size[..], head, b"abc"].concat());
        let frames = [
            begin(1),
            begin(2),
            frame(3, 1, 1, b"de"),
            frame(5, 0, 2, br#"{"kind":"error","message":"m"}"#),
            frame(3, 0, 1, b"f"),
        ];
        worker.write_all(&frames.concat()).unwrap();
        drop(worker);
        let mut held = Vec::new();
        let end = talk.run(|_| held.push(buffers.held().0)).await;
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
        assert_eq!(held, [3, 6, 8, 5, 0]);
    });
}

#[test]
fn a_stream_gets_the_room_that_there_is() {
    block(async {
        let (ours, _worker) = UnixStream::pair().unwrap();
        let buffers = Buffers::new(8 << 20, "/nonexistent".into());
        let talk = Conversation::new(ours.into(), 1 << 20, 2, buffers).unwrap();
        let first = talk.room(1, Some(1 << 20));
        assert!(first.is_some() && talk.room(2, Some(1)).is_none());
        drop(first);
        assert!(talk.room(2, Some(1)).is_some() && talk.room(3, None).is_none());
    });
}

/// Returns a conversation whose worker has not connected yet, and where it connects. Needs a runtime.
fn listening() -> (Conversation, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    (Conversation::new(listener.into(), 1 << 20, 2, buffers()).unwrap(), dir)
}

fn connect(dir: &tempfile::TempDir) -> UnixStream {
    UnixStream::connect(dir.path().join("socket")).unwrap()
}

#[test]
fn a_worker_that_connects_gets_what_was_sent_before_and_is_heard() {
    block(async {
        let (talk, dir) = listening();
        talk.send(stop());
        assert!(!talk.is_flushed() && talk.connection().unwrap().is_none());
        let worker = std::thread::spawn(move || {
            let mut worker = connect(&dir);
            let mut read = [0; 16];
            worker.read_exact(&mut read).unwrap();
            worker.write_all(&answer(1, b"one")).unwrap();
            read
        });
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
        assert_eq!((worker.join().unwrap()[4], calls(&messages)), (7, vec![1]));
    });
}

#[test]
fn a_connection_is_handed_over_and_a_socket_where_nobody_has_connected_stays() {
    block(async {
        let (talk, dir) = listening();
        talk.stop();
        assert!(matches!(talk.run(|_| ()).await, ConversationEnd::Stopped) && talk.is_between());
        assert!(talk.connection().unwrap().is_none());

        let (talk, other) = listening();
        let mut worker = connect(&other);
        worker.write_all(&answer(1, b"one")).unwrap();
        let end = talk.run(|_| talk.stop()).await;
        assert!(matches!(end, ConversationEnd::Stopped), "{end:?}");
        let next = Conversation::new(talk.connection().unwrap().unwrap(), 1 << 20, 2, buffers()).unwrap();
        drop((talk, dir));
        assert!(next.connection().unwrap().is_none(), "whoever passed it has a copy");
        worker.write_all(&answer(2, b"two")).unwrap();
        let mut messages = Vec::new();
        let end = next
            .run(|one| {
                messages.push(one);
                next.stop();
            })
            .await;
        assert!(matches!(end, ConversationEnd::Stopped), "{end:?}");
        assert_eq!(calls(&messages), [2]);
    });
}

#[test]
fn the_last_words_of_a_worker_that_has_connected_and_ended_are_read() {
    block(async {
        let (talk, dir) = listening();
        let mut messages = Vec::new();
        talk.drain_messages(|one| messages.push(one));
        connect(&dir).write_all(&answer(1, b"one")).unwrap();
        talk.drain_messages(|one| messages.push(one));
        assert_eq!(calls(&messages), [1]);
    });
}

#[test]
fn who_connects_second_is_not_heard() {
    block(async {
        let (talk, dir) = listening();
        let (mut first, mut second) = (connect(&dir), connect(&dir));
        second.write_all(&answer(2, b"two")).unwrap();
        first.write_all(&answer(1, b"one")).unwrap();
        drop(first);
        let mut messages = Vec::new();
        let end = talk.run(|one| messages.push(one)).await;
        assert!(matches!(end, ConversationEnd::Closed), "{end:?}");
        assert_eq!(calls(&messages), [1]);
    });
}
