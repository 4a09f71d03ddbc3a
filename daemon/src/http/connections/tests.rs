use super::*;
use crate::control::limits::{CONNECTIONS_FOR_ROOT, CONNECTIONS_MAX, CONNECTIONS_OF_ONE, PLACES};
use futures_util::FutureExt as _;

const ADA: u32 = 1000;
const BOB: u32 = 1001;

fn evicted(connection: &Connection) -> bool {
    connection.evicted().now_or_never().is_some()
}

#[test]
fn the_longest_idle_makes_room_and_busy_ones_stay() {
    let all = Rc::new(Connections::new(PLACES));
    let mut open: Vec<_> = (0..CONNECTIONS_MAX).map(|_| all.admit(0).unwrap()).collect();
    let first_busy = open[0].busy();
    let newcomer = all.admit(0).unwrap();
    assert!(!evicted(&open[0]));
    assert!(evicted(&open[1]));
    drop(open.remove(1));
    // All connections are busy: none makes room until one is done.
    let mut busy: Vec<_> = open.iter().skip(1).chain([&newcomer]).map(Connection::busy).collect();
    assert_eq!(all.admit(0).err(), Some(Full::All));
    drop(first_busy);
    let another = all.admit(0).unwrap();
    assert!(evicted(&open[0]));
    busy.clear();
    drop((open, newcomer, another));
    assert_eq!((all.open.get(), all.yielding.borrow().len()), (0, 0));
    assert_eq!((all.by_user(), all.refused()), (Vec::new(), 1));
}

#[test]
fn one_user_has_half_of_the_places_and_root_keeps_some() {
    let all = Rc::new(Connections::new(PLACES));
    let held: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
    let busy: Vec<_> = held.iter().map(Connection::busy).collect();
    assert_eq!(all.admit(ADA).err(), Some(Full::User(ADA)));
    let problem = all.problem().unwrap();
    assert!(problem.contains("500 of them by the user 1000"), "{problem}");
    let rest = CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT - CONNECTIONS_OF_ONE;
    let others: Vec<_> = (0..rest).map(|_| all.admit(BOB).unwrap()).collect();
    let others_busy: Vec<_> = others.iter().map(Connection::busy).collect();
    assert_eq!(all.admit(BOB).err(), Some(Full::All));
    let roots: Vec<_> = (0..CONNECTIONS_FOR_ROOT).map(|_| all.admit(0).unwrap()).collect();
    assert_eq!(
        all.by_user(),
        [(0, CONNECTIONS_FOR_ROOT), (ADA, CONNECTIONS_OF_ONE), (BOB, rest)]
    );
    // Root's are idle, and make way for nobody but root.
    assert_eq!(all.admit(BOB).err(), Some(Full::All));
    assert!(all.admit(0).is_ok());
    assert!(evicted(&roots[0]));
    drop((busy, others_busy, others, roots));
    assert!(all.problem().is_some());
    drop(held);
    assert_eq!(all.problem(), None);
}

#[test]
fn followers_give_way_after_idle_ones_and_for_their_own_user_first() {
    let all = Rc::new(Connections::new(PLACES));
    let held: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
    let busy: Vec<_> = held.iter().map(Connection::busy).collect();
    busy[3].follows();
    busy[2].follows();
    let other = all.admit(BOB).unwrap();
    assert!(all.admit(ADA).is_ok());
    assert!(evicted(&held[3]) && !evicted(&held[2]) && !evicted(&other));
    assert!(all.admit(ADA).is_ok());
    assert!(evicted(&held[2]));
    assert_eq!(all.admit(ADA).err(), Some(Full::User(ADA)));
}

#[test]
fn at_the_limit_of_all_the_user_with_the_most_gives_way() {
    let all = Rc::new(Connections::new(PLACES));
    let few = all.admit(BOB).unwrap();
    let many: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
    let rest = CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT - CONNECTIONS_OF_ONE - 1;
    let _rest: Vec<_> = (0..rest)
        .map(|n| all.admit(2000 + u32::try_from(n).unwrap()).unwrap())
        .collect();
    assert!(all.admit(3000).is_ok());
    assert!(evicted(&many[0]) && !evicted(&few));
}
