use super::*;
use std::os::unix::fs::PermissionsExt as _;
use tokio::net::{TcpStream, UnixStream};

fn tcp(text: &str) -> Address {
    Address::Tcp(text.parse().unwrap())
}

/// Returns a port that is free.
fn free() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn accepted(listeners: &Listeners) -> Peer {
    let accepted = tokio::time::timeout(Duration::from_secs(10), listeners.accept()).await;
    accepted.unwrap().unwrap().peer
}

#[tokio::test]
async fn every_address_is_served_and_its_peers_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("http.sock");
    let inherited = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let third = inherited.local_addr().unwrap();
    let (first, second) = (free(), free());
    let listeners = Listeners::new();
    listeners.inherit(inherited.into()).unwrap();
    let wanted = [
        tcp(&format!("127.0.0.1:{first}")),
        tcp(&format!("[::]:{second}")),
        Address::Unix(path.clone()),
        // Listed although it was inherited.
        Address::Tcp(third),
    ];
    assert_eq!(listeners.apply(&wanted), []);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    for port in [first, second, third.port()] {
        let caller = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let peer = accepted(&listeners).await;
        let own = caller.local_addr().unwrap();
        assert_eq!(
            (peer.address, peer.port, peer.local_port),
            (Some(own.ip()), Some(own.port()), Some(port))
        );
    }
    let _caller = UnixStream::connect(&path).await.unwrap();
    assert_eq!(accepted(&listeners).await, Peer::default());
}

#[tokio::test]
async fn an_address_that_stays_keeps_its_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("http.sock");
    let (stays, goes, comes) = (free(), free(), free());
    let address = |port: u16| tcp(&format!("127.0.0.1:{port}"));
    let listeners = Listeners::new();
    assert_eq!(
        listeners.apply(&[address(stays), address(goes), Address::Unix(path.clone())]),
        []
    );
    // It waits in the socket while the addresses change.
    let waiting = TcpStream::connect(("127.0.0.1", stays)).await.unwrap();
    // The accept loop waits for what is bound later.
    assert_eq!(
        accepted(&listeners).await.port,
        Some(waiting.local_addr().unwrap().port())
    );
    let other = listeners.clone();
    let apply = async {
        assert_eq!(other.apply(&[address(comes), address(stays)]), []);
        TcpStream::connect(("127.0.0.1", comes)).await.unwrap()
    };
    let (peer, caller) = tokio::join!(accepted(&listeners), apply);
    assert_eq!(peer.port, Some(caller.local_addr().unwrap().port()));
    assert!(TcpStream::connect(("127.0.0.1", goes)).await.is_err() && !path.exists());
    listeners.close();
    assert!(TcpStream::connect(("127.0.0.1", stays)).await.is_err());
}

#[tokio::test]
async fn an_address_that_cannot_be_used_says_why_and_the_others_serve() {
    let directory = tempfile::tempdir().unwrap();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let path = directory.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    let both = free();
    let wanted = [
        tcp(&format!("127.0.0.1:{port}")),
        tcp("192.0.2.1:80"),
        Address::Unix(path.clone()),
        tcp(&format!("[::]:{both}")),
        tcp(&format!("0.0.0.0:{both}")),
    ];
    let listeners = Listeners::new();
    let whys: Vec<String> = listeners
        .apply(&wanted)
        .into_iter()
        .map(|unbound| unbound.why)
        .collect();
    let [used, missing, file] = whys.as_slice() else {
        panic!("{whys:?}")
    };
    assert!(
        used.contains(&format!("another program listens on port {port}")),
        "{used}"
    );
    assert!(
        missing.contains("this machine does not have the address 192.0.2.1"),
        "{missing}"
    );
    assert!(file.contains("it exists and is not a socket"), "{file}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    let why = reason("0.0.0.0:443".parse().unwrap(), &denied);
    assert!(why.contains("port 443") && why.contains("fnd-http.socket"), "{why}");
    for host in ["127.0.0.1", "::1"] {
        let _caller = TcpStream::connect((host, both)).await.unwrap();
        accepted(&listeners).await;
    }
    drop(held);
    listeners.bind_missing();
    assert_eq!(listeners.unbound().len(), 2);
    let _caller = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    accepted(&listeners).await;
}

#[tokio::test]
async fn a_descriptor_that_does_not_listen_is_refused() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(Listeners::new().inherit(socket.into()).is_err());
    assert!(
        Listeners::new()
            .inherit(std::fs::File::open("/dev/null").unwrap().into())
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_taken_is_tried_until_it_is_free() {
    let listeners = Listeners::new();
    let (trying, fewer) = (listeners.clone(), Cell::new(0));
    let test = async {
        for round in 1..=2 {
            // Nothing is missing for a long time.
            tokio::time::sleep(100 * AGAIN).await;
            let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = Address::Tcp(taken.local_addr().unwrap());
            assert_eq!(listeners.apply(std::slice::from_ref(&address)).len(), 1);
            tokio::time::sleep(3 * AGAIN).await;
            assert_eq!(listeners.unbound().len(), 1);
            drop(taken);
            tokio::time::sleep(2 * AGAIN).await;
            assert_eq!((listeners.unbound().len(), fewer.get()), (0, round));
        }
    };
    tokio::select! {
        () = trying.keep_trying(|| fewer.set(fewer.get() + 1)) => {}
        () = test => {}
    }
}
