//! More new connections than places: those that must close do so in time.

use super::*;
use tokio::task::LocalSet;

/// Places of one address.
const OF_ONE: usize = 64;
/// Connections that are made at once; the kernel keeps them until they are accepted.
const MADE: usize = 2000;

/// How many connections there are, and were at most.
#[derive(Default)]
struct Alive {
    now: Cell<usize>,
    peak: Cell<usize>,
    all: Cell<usize>,
}

struct Counting(Rc<Connections>, Rc<Alive>);

struct Caller(Rc<Alive>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.now.set(self.0.now.get() - 1);
    }
}

impl HttpService for Counting {
    type Caller = Caller;

    const LIMITS: HttpLimits = Single::LIMITS;

    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Caller, Rc<HttpConnection>), Option<Refusal>> {
        let alive = &self.1;
        alive.all.set(alive.all.get() + 1);
        let owner = accepted
            .peer
            .address
            .map_or(ConnectionOwner::Exempt, ConnectionOwner::of);
        let place = self.0.admit(owner).map_err(|_| None)?;
        alive.now.set(alive.now.get() + 1);
        alive.peak.set(alive.peak.get().max(alive.now.get()));
        Ok((Caller(Rc::clone(alive)), place))
    }

    async fn answer(&self, _: &Caller, _: Request<Incoming>) -> Answered {
        whole("text/plain", "fine")
    }

    fn ended(&self, _: &Caller, _: &hyper::Error) {}
}

#[tokio::test]
async fn a_storm_of_connections_leaves_all_others_their_turn() {
    let listener = TcpListener::from_std({
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 4096).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    });
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let alive = Rc::new(Alive::default());
    let places = SocketPlaces {
        all: 1024,
        of_one: OF_ONE,
        for_root: 0,
    };
    let service = Counting(Rc::new(Connections::new("a test", places)), Rc::clone(&alive));
    let (server, stop) = serve("a test".to_owned(), Listeners::from(listener), service);
    // As the daemon does, the loop runs beside the tasks and not as one of them.
    let test = async {
        let mut kept = Vec::new();
        for _ in 0..MADE {
            kept.push(std::net::TcpStream::connect(address).unwrap());
        }
        while alive.all.get() < MADE {
            yield_now().await;
        }
        stop.now();
    };
    LocalSet::new().run_until(async { tokio::join!(server, test) }).await;
    let peak = alive.peak.get();
    assert!(peak <= 2 * OF_ONE, "{peak} at once");
}
