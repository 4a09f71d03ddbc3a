//! A reader of the stream: its start, its filter, and the task that sends it events.

use super::ring::Ring;
use fnd_core::access::Permissions;
use fnd_core::api::stream::{Kind, Seq, StreamEvent};
use fnd_wire::ids::FunctionName;
use std::rc::Rc;
use tokio::sync::mpsc;

/// Most happenings read from the ring at once, and most between a reader and its connection: when that is full the ring
/// goes on without it.
const BATCH: usize = 64;

/// The filter and the range of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamQuery {
    /// Only events of this function; absent means all.
    pub function: Option<FunctionName>,
    /// Only these kinds; empty means all.
    pub kinds: Vec<Kind>,
    /// Where to begin.
    pub from: Since,
    /// Of the kept events that pass the filter, only the last so many.
    pub limit: Option<u32>,
    /// Whether to go on with new events.
    pub follow: bool,
    /// Only events of functions that the reader may view; those of the node only for a role for the node.
    pub reach: Permissions,
}

/// The start of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// With the oldest event that is kept.
    Kept,
    /// With new events.
    Now,
    /// After the last event it has read.
    After(Seq),
}

impl StreamQuery {
    fn wants(&self, function: Option<&FunctionName>, kind: Kind) -> bool {
        self.function.as_ref().is_none_or(|wanted| Some(wanted) == function)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && self.reach.views_any(function)
    }
}

/// Waits until there is a happening after a number.
async fn news(ring: &Ring, after: u64) {
    loop {
        // Made before the look at the number: it hears of what comes from its creation on, also unpolled.
        let more = ring.more.notified();
        if ring.last() > after {
            return;
        }
        more.await;
    }
}

/// Returns the events that a reader asked for, and the task that sends them until the reader drops the receiver.
pub(crate) fn subscribe(
    ring: &Rc<Ring>,
    query: StreamQuery,
    now_ms: u64,
) -> (mpsc::Receiver<StreamEvent>, impl Future<Output = ()> + use<>) {
    let (sender, receiver) = mpsc::channel(BATCH);
    (receiver, go_on(Rc::clone(ring), query, now_ms, sender))
}

async fn go_on(ring: Rc<Ring>, query: StreamQuery, now_ms: u64, into: mpsc::Sender<StreamEvent>) {
    let missed = |missed, last: u64, why: &str| StreamEvent {
        missed,
        message: Some(why.to_owned()),
        ..StreamEvent::new(ring.seq(last), now_ms, Kind::Missed)
    };
    let end = ring.last();
    let mut at = match query.from {
        Since::Kept => ring.before_oldest(),
        Since::Now => end,
        // A number that this fnd has not given yet counts like one of another fnd.
        Since::After(seq) if seq.epoch == ring.seq(0).epoch && seq.number <= end => seq.number,
        Since::After(_) => {
            let before = ring.before_oldest();
            let why = "fnd was restarted since: `fndctl history` shows the runs before that";
            if into.send(missed(None, before, why)).await.is_err() {
                return;
            }
            before
        }
    };
    let mut skip = skipped(&ring, &query, at);
    loop {
        let taken = ring.take(at, BATCH);
        match taken.oldest.map(|oldest| oldest - 1) {
            Some(last) => {
                let why = "they came faster than they were read, or are no longer kept";
                if into.send(missed(Some(last - at), last, why)).await.is_err() {
                    return;
                }
                at = last;
            }
            None if taken.happenings.is_empty() && !query.follow => return,
            None if taken.happenings.is_empty() => tokio::select! {
                // Cancel-safe: it only checks the number.
                () = news(&ring, at) => {}
                // Cancel-safe: only waits until the reader has gone.
                () = into.closed() => return,
            },
            None => {
                for (number, happening) in taken.happenings {
                    at = number;
                    if !query.wants(happening.function.as_ref(), happening.kind()) {
                        continue;
                    }
                    if skip > 0 {
                        skip -= 1;
                    } else if into.send(happening.view(ring.seq(number))).await.is_err() {
                        return;
                    }
                }
                // Without `follow`, events that come meanwhile are not waited for.
                if !query.follow && at >= end {
                    return;
                }
            }
        }
    }
}

/// Returns how many of the kept happenings after a number are skipped, so that only the last ones within the limit
/// remain.
fn skipped(ring: &Ring, query: &StreamQuery, after: u64) -> usize {
    let Some(limit) = query.limit else { return 0 };
    let kept = ring.take(after, usize::MAX).happenings;
    let wanted = kept
        .iter()
        .filter(|(_, happening)| query.wants(happening.function.as_ref(), happening.kind()));
    wanted
        .count()
        .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::happening::{EventKind, Happening};
    use super::*;
    use fnd_manifest::settings::Role;

    fn query() -> StreamQuery {
        StreamQuery {
            function: None,
            kinds: Vec::new(),
            from: Since::Kept,
            limit: None,
            follow: false,
            reach: Permissions::own(),
        }
    }

    fn push(ring: &Ring, name: &str, count: usize) {
        for _ in 0..count {
            ring.push(Happening {
                unix_ms: 0,
                function: FunctionName::new(name).ok(),
                what: EventKind::Removed,
            });
        }
    }

    fn subscribed(ring: &Rc<Ring>, query: StreamQuery) -> mpsc::Receiver<StreamEvent> {
        let (events, sending) = subscribe(ring, query, 0);
        tokio::task::spawn_local(sending);
        events
    }

    async fn all(ring: &Rc<Ring>, query: StreamQuery) -> Vec<StreamEvent> {
        let mut subscription = subscribed(ring, query);
        let mut events = Vec::new();
        while let Some(event) = subscription.recv().await {
            events.push(event);
        }
        events
    }

    fn local<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(tokio::task::LocalSet::new().run_until(test))
    }

    #[test]
    fn filters_limits_and_places() {
        local(async {
            let ring = Rc::new(Ring::new(5));
            push(&ring, "a", 3);
            push(&ring, "b", 2);
            let numbers = |events: Vec<StreamEvent>| events.iter().map(|event| event.seq.number).collect::<Vec<_>>();
            assert_eq!(numbers(all(&ring, query()).await), [1, 2, 3, 4, 5]);
            let function = FunctionName::new("a").ok();
            let only_a = StreamQuery { function, ..query() };
            assert_eq!(numbers(all(&ring, only_a.clone()).await), [1, 2, 3]);
            let limit = Some(2);
            assert_eq!(numbers(all(&ring, StreamQuery { limit, ..only_a }).await), [2, 3]);
            let kinds = vec![Kind::Started];
            assert!(all(&ring, StreamQuery { kinds, ..query() }).await.is_empty());
            let from = Since::After(Seq { epoch: 5, number: 3 });
            assert_eq!(numbers(all(&ring, StreamQuery { from, ..query() }).await), [4, 5]);
            let from = Since::Now;
            assert!(all(&ring, StreamQuery { from, ..query() }).await.is_empty());
        });
    }

    #[test]
    fn a_reader_gets_only_what_it_may_view_and_its_limit_counts_nothing_else() {
        local(async {
            let ring = Rc::new(Ring::new(5));
            push(&ring, "a", 3);
            ring.push(Happening {
                unix_ms: 0,
                function: None,
                what: EventKind::Removed,
            });
            push(&ring, "b", 2);
            let numbers = |events: Vec<StreamEvent>| events.iter().map(|event| event.seq.number).collect::<Vec<_>>();
            let reach = Permissions::of([(Role::Viewer, Some(&["a".to_owned()][..]))]);
            let limited = StreamQuery { reach, ..query() };
            assert_eq!(numbers(all(&ring, limited.clone()).await), [1, 2, 3]);
            let limit = Some(2);
            assert_eq!(numbers(all(&ring, StreamQuery { limit, ..limited }).await), [2, 3]);
            let reach = Permissions::everywhere(Role::Viewer);
            assert_eq!(
                numbers(all(&ring, StreamQuery { reach, ..query() }).await),
                [1, 2, 3, 4, 5, 6]
            );
            let reach = Permissions::default();
            assert!(all(&ring, StreamQuery { reach, ..query() }).await.is_empty());
        });
    }

    #[test]
    fn a_reader_from_another_epoch_is_informed_and_gets_what_is_kept() {
        local(async {
            let ring = Rc::new(Ring::new(5));
            push(&ring, "a", 2);
            for seq in [Seq { epoch: 4, number: 1 }, Seq { epoch: 5, number: 3 }] {
                let from = Since::After(seq);
                let events = all(&ring, StreamQuery { from, ..query() }).await;
                let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
                assert_eq!(kinds, [Kind::Missed, Kind::Removed, Kind::Removed], "{seq}");
                assert_eq!((events[0].missed, events[0].seq.number), (None, 0));
            }
        });
    }

    #[test]
    fn a_slow_reader_delays_nobody_and_learns_how_many_it_missed() {
        local(async {
            let ring = Rc::new(Ring::new(5));
            let follow = true;
            let mut subscription = subscribed(&ring, StreamQuery { follow, ..query() });
            push(&ring, "a", 200);
            // The task has read some happenings and waits for its connection.
            assert_eq!(subscription.recv().await.unwrap().seq.number, 1);
            push(&ring, "a", 20_000);
            let (mut last, mut missed) = (1, 0);
            while last < 20_200 {
                let event = subscription.recv().await.unwrap();
                // No event is left out without a report.
                assert_eq!(event.seq.number, last + event.missed.unwrap_or(1));
                missed += event.missed.unwrap_or(0);
                last = event.seq.number;
            }
            assert!(missed > 10_000, "{missed}");
            push(&ring, "b", 1);
            assert_eq!(subscription.recv().await.unwrap().seq.number, 20_201);
        });
    }
}
