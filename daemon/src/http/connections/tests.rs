use super::*;
use crate::control::limits::{CONNECTIONS_FOR_ROOT, CONNECTIONS_MAX, CONNECTIONS_OF_ONE, PLACES};
use futures_util::FutureExt as _;

const ADA: ConnectionOwner = ConnectionOwner::User(1000);
const BOB: ConnectionOwner = ConnectionOwner::User(1001);

fn evicted(connection: &HttpConnection) -> bool {
    connection.evicted().now_or_never().is_some()
}

#[test]
fn the_longest_idle_makes_room_and_busy_ones_stay() {
    let all = Rc::new(Connections::new("the control socket", PLACES));
    let mut open: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| all.admit(ConnectionOwner::ROOT).unwrap())
        .collect();
    let first_busy = open[0].busy();
    let newcomer = all.admit(ConnectionOwner::ROOT).unwrap();
    assert!(!evicted(&open[0]));
    assert!(evicted(&open[1]));
    drop(open.remove(1));
    // All connections are busy: none makes room until one is done.
    let mut busy: Vec<_> = open
        .iter()
        .skip(1)
        .chain([&newcomer])
        .map(HttpConnection::busy)
        .collect();
    assert_eq!(all.admit(ConnectionOwner::ROOT).err(), Some(Full::All));
    drop(first_busy);
    let another = all.admit(ConnectionOwner::ROOT).unwrap();
    assert!(evicted(&open[0]));
    busy.clear();
    drop((open, newcomer, another));
    assert_eq!((all.open.get(), all.yielding.borrow().len()), (0, 0));
    assert_eq!((all.by_owner(), all.refused.get()), (Vec::new(), 1));
}

#[test]
fn one_user_has_half_of_the_places_and_root_keeps_some() {
    let all = Rc::new(Connections::new("the control socket", PLACES));
    let held: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
    let busy: Vec<_> = held.iter().map(HttpConnection::busy).collect();
    assert_eq!(all.admit(ADA).err(), Some(Full::One(ADA)));
    let problem = all.problem().unwrap();
    assert!(problem.contains("500 of them by the user 1000"), "{problem}");
    let rest = CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT - CONNECTIONS_OF_ONE;
    let others: Vec<_> = (0..rest).map(|_| all.admit(BOB).unwrap()).collect();
    let others_busy: Vec<_> = others.iter().map(HttpConnection::busy).collect();
    assert_eq!(all.admit(BOB).err(), Some(Full::All));
    let roots: Vec<_> = (0..CONNECTIONS_FOR_ROOT)
        .map(|_| all.admit(ConnectionOwner::ROOT).unwrap())
        .collect();
    assert_eq!(
        all.by_owner(),
        [
            (ConnectionOwner::ROOT, CONNECTIONS_FOR_ROOT),
            (ADA, CONNECTIONS_OF_ONE),
            (BOB, rest)
        ]
    );
    // Root's are idle, and make way for nobody but root.
    assert_eq!(all.admit(BOB).err(), Some(Full::All));
    assert!(all.admit(ConnectionOwner::ROOT).is_ok());
    assert!(evicted(&roots[0]));
    drop((busy, others_busy, others, roots));
    assert!(all.problem().is_some());
    drop(held);
    assert_eq!(all.problem(), None);
}

#[test]
fn followers_give_way_after_idle_ones_and_for_their_own_user_first() {
    let all = Rc::new(Connections::new("the control socket", PLACES));
    let held: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
    let busy: Vec<_> = held.iter().map(HttpConnection::busy).collect();
    busy[3].follows();
    busy[2].follows();
    let other = all.admit(BOB).unwrap();
    assert!(all.admit(ADA).is_ok());
    assert!(evicted(&held[3]) && !evicted(&held[2]) && !evicted(&other));
    assert!(all.admit(ADA).is_ok());
    assert!(evicted(&held[2]));
    assert_eq!(all.admit(ADA).err(), Some(Full::One(ADA)));
}

#[test]
fn at_the_limit_of_all_the_user_with_the_most_gives_way() {
    let all = Rc::new(Connections::new("the control socket", PLACES));
    let few = all.admit(BOB).unwrap();
    let many: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
    let rest = CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT - CONNECTIONS_OF_ONE - 1;
    let _rest: Vec<_> = (0..rest)
        .map(|n| {
            all.admit(ConnectionOwner::User(2000 + u32::try_from(n).unwrap()))
                .unwrap()
        })
        .collect();
    assert!(all.admit(ConnectionOwner::User(3000)).is_ok());
    assert!(evicted(&many[0]) && !evicted(&few));
}

#[test]
fn an_address_has_its_part_and_trusted_proxies_share_only_the_limit_of_all() {
    let places = SocketPlaces {
        all: 10,
        of_one: 3,
        for_root: 0,
    };
    let all = Rc::new(Connections::new("the listener", places));
    let owner = |text: &str| ConnectionOwner::of(text.parse().unwrap());
    assert_eq!(owner("::ffff:192.0.2.1"), owner("192.0.2.1"));
    assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:1"));
    assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
    let hostile = owner("2001:db8::7");
    let held: Vec<_> = (0..3).map(|_| all.admit(hostile).unwrap()).collect();
    let busy: Vec<_> = held.iter().map(HttpConnection::busy).collect();
    for _ in 0..20_000 {
        assert_eq!(all.admit(hostile).err(), Some(Full::One(hostile)));
    }
    assert_eq!((all.open.get(), all.refused.get(), all.problem()), (3, 20_000, None));
    let proxied: Vec<_> = (0..7).map(|_| all.admit(ConnectionOwner::Exempt).unwrap()).collect();
    let problem = all.problem().unwrap();
    assert!(problem.contains("7 of them by trusted proxies"), "{problem}");
    let _proxied_busy: Vec<_> = proxied.iter().map(HttpConnection::busy).collect();
    assert_eq!(all.admit(owner("192.0.2.1")).err(), Some(Full::All));
    all.set_places(SocketPlaces { all: 11, ..places });
    assert!(all.admit(owner("192.0.2.1")).is_ok());
    drop(busy);
    assert!(all.admit(hostile).is_ok());
    assert!(evicted(&held[0]));
}

#[test]
fn a_connection_with_several_requests_rests_when_the_last_is_answered() {
    let all = Rc::new(Connections::new("the listener", PLACES));
    let connection = all.admit(ADA).unwrap();
    let (first, second) = (connection.busy(), connection.busy());
    let is_yielding = || !all.yielding.borrow().is_empty();
    drop(first);
    assert!(connection.idle_since().is_none() && !is_yielding());
    second.follows();
    second.follows();
    assert!(connection.is_answering() && is_yielding());
    let third = connection.busy();
    assert!(!is_yielding());
    drop(third);
    assert!(is_yielding());
    drop(second);
    assert!(connection.idle_since().is_some() && is_yielding());
}
