//! The table of routes against a plain one.

use super::*;
use crate::access::Author;
use fnd_manifest::function::route::Credentials;
use proptest::prelude::*;

fn entry(path: &str, methods: &[Method], auth: &[&str]) -> HttpRoute {
    let auth = Credentials(auth.iter().map(|text| Credential::parse(text).unwrap()).collect());
    HttpRoute {
        methods: methods.to_vec(),
        r#async: false,
        ..HttpRoute::of_fnd(path.to_owned(), auth)
    }
}

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

fn table(routes: &[(&str, HttpRoute)]) -> Routes {
    Routes::new(
        routes
            .iter()
            .map(|(function, entry)| (name(function), entry.clone(), 100)),
    )
}

/// Returns the function and the parameters of a request, or the methods of its path.
fn found(routes: &Routes, host: &str, path: &str, method: Method) -> String {
    match routes.find(host, path, Some(method)) {
        RouteMatch::Route(route, params) => {
            let params: Vec<String> = params.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("{}{}", route.function, params.concat())
        }
        RouteMatch::Methods(methods) => {
            let methods: Vec<&str> = methods.into_iter().map(Method::as_str).collect();
            format!("405 {}", methods.join(","))
        }
        RouteMatch::Nothing => "404".to_owned(),
    }
}

#[test]
fn fixed_segments_win_over_parameters_and_these_over_the_rest() {
    const GET: &[Method] = &[Method::Get];
    let routes = table(&[
        ("one", entry("/users/{id}", GET, &[])),
        ("me", entry("/users/me", GET, &[])),
        ("posts", entry("/users/{user}/posts/{post}", GET, &[])),
        ("rest", entry("/users/{*rest}", GET, &[])),
        ("root", entry("/", &[Method::Post], &[])),
        ("umlaut", entry("/\u{e4}/{x}", GET, &[])),
    ]);
    for (path, expected) in [
        ("/users/7", "one id=7"),
        ("/users/me", "me"),
        ("/users/a%2Fb", "one id=a/b"),
        ("/users/7/posts/8", "posts user=7 post=8"),
        ("/users/7/posts", "rest rest=7/posts"),
        ("/users/me/x", "rest rest=me/x"),
        ("/users", "404"),
        ("/users/", "404"),
        ("/", "405 POST"),
        ("/%C3%A4/%20", "umlaut x= "),
        ("/Users/7", "404"),
    ] {
        assert_eq!(found(&routes, "h", path, Method::Get), expected, "{path}");
    }
}

#[test]
fn methods_of_one_path_may_be_of_several_functions() {
    let routes = table(&[
        ("read", entry("/things/{id}", &[Method::Get], &[])),
        ("write", entry("/things/{thing}", &[Method::Put, Method::Delete], &[])),
    ]);
    assert_eq!(found(&routes, "h", "/things/1", Method::Get), "read id=1");
    assert_eq!(found(&routes, "h", "/things/1", Method::Head), "read id=1");
    assert_eq!(found(&routes, "h", "/things/1", Method::Delete), "write thing=1");
    assert_eq!(
        found(&routes, "h", "/things/1", Method::Post),
        "405 GET,HEAD,PUT,DELETE"
    );
    assert!(
        matches!(routes.find("h", "/things/1", None), RouteMatch::Methods(_)),
        "a method that nobody has"
    );
}

#[test]
fn a_host_narrows_and_wins() {
    let of_host = |mut entry: HttpRoute| {
        entry.host = Some("api.example.com".to_owned());
        entry
    };
    let routes = table(&[
        ("every", entry("/x", &[Method::Get, Method::Post], &["token:t"])),
        ("api", of_host(entry("/x", &[Method::Get], &["github:g"]))),
        ("only", of_host(entry("/only", &[Method::Get], &[]))),
    ]);
    assert_eq!(found(&routes, "api.example.com", "/x", Method::Get), "api");
    assert_eq!(found(&routes, "api.example.com", "/x", Method::Post), "every");
    assert_eq!(
        found(&routes, "api.example.com", "/x", Method::Put),
        "405 GET,HEAD,POST"
    );
    assert_eq!(found(&routes, "other", "/x", Method::Get), "every");
    assert_eq!(found(&routes, "other", "/only", Method::Get), "404");
    let admits = routes.admits("other");
    assert_eq!(
        (admits.everybody, admits.signed_body, admits.credentials.len()),
        (false, None, 1)
    );
    let admits = routes.admits("api.example.com");
    assert_eq!(
        (admits.everybody, admits.signed_body, admits.credentials.len()),
        (true, Some(100), 1)
    );
}

#[test]
fn a_route_keeps_its_identity_when_others_come() {
    let of = |routes: &Routes, path: &str| match routes.find("h", path, Some(Method::Get)) {
        RouteMatch::Route(route, _) => route.identity,
        other => panic!("{other:?}"),
    };
    let one = ("one", entry("/one", &[Method::Get], &[]));
    let before = of(&table(std::slice::from_ref(&one)), "/one");
    let both = table(&[("another", entry("/two", &[Method::Get], &[])), one]);
    assert_eq!(of(&both, "/one"), before);
    assert_ne!(of(&both, "/two"), before);
}

#[test]
fn what_is_left_of_a_path_has_whole_segments() {
    for (route, path, rest) in [
        ("/files/{*rest}", "/files/a/b", "/a/b"),
        ("/files/{*rest}", "/%66iles/a%2Fb", "/a%2Fb"),
        ("/\u{e4} b/{*rest}", "/%C3%A4%20b/x", "/x"),
        ("/\u{e4} b/{*rest}", "/%c3%a4%20b/x/", "/x/"),
        ("/a/b/{id}/c", "/a/%62/7/c", "/7/c"),
        ("/{*rest}", "/a/b", "/a/b"),
        ("/files", "/files", "/"),
        ("/files", "/%66%69les", "/"),
        ("/", "/", "/"),
    ] {
        let route = Route::new((name("f"), entry(route, &[Method::Get], &[]), 0));
        assert_eq!(route.rest(path), rest, "{path}");
    }
}

#[test]
fn two_functions_never_have_the_same_route() {
    let mut owners = Owners::default();
    let root = Author::Root;
    let first = [entry("/u/{id}", &[Method::Get, Method::Put], &[])];
    assert_eq!(owners.conflict(&name("first"), root, &first), None);
    assert_eq!(owners.set(&name("first"), root, &first), Moved::default());
    assert_eq!(owners.conflict(&name("first"), root, &first), None, "its own");
    let second = [entry("/u/{name}", &[Method::Post, Method::Put], &[])];
    let conflict = owners.conflict(&name("second"), root, &second).unwrap();
    assert_eq!(
        (conflict.method, conflict.path.as_str(), conflict.owner),
        (Method::Put, "/u/{name}", RouteOwner::Function(name("first")))
    );
    let mut of_host = second.clone();
    of_host[0].host = Some("h".to_owned());
    assert_eq!(
        owners.conflict(&name("second"), root, &of_host),
        None,
        "a host of its own"
    );
    assert!(!owners.set(&name("second"), root, &second).freed, "nothing is freed");
    assert!(owners.set(&name("first"), root, &[]).freed);
    assert_eq!(owners.conflict(&name("second"), root, &second), None, "it is free");
}

/// One author's routes neither take the requests of another one nor keep them from being answered.
#[test]
fn routes_of_two_authors_do_not_overlap() {
    const GET: &[Method] = &[Method::Get];
    const POST: &[Method] = &[Method::Post];
    let on = |host: Option<&str>, path: &str, methods: &[Method]| HttpRoute {
        host: host.map(str::to_owned),
        ..entry(path, methods, &[])
    };
    for (ours, theirs, overlaps) in [
        (on(None, "/pay/{order}", POST), on(None, "/pay/1", POST), true),
        (on(None, "/pay/{order}", POST), on(None, "/pay/{id}", GET), false),
        // A path of its own hides the other methods: POST /pay/1 would be 405.
        (on(None, "/pay/{order}", POST), on(None, "/pay/1", GET), true),
        (on(None, "/pay/{*rest}", POST), on(None, "/pay/a/b", POST), true),
        (on(None, "/pay/{*rest}", POST), on(None, "/pay", POST), false),
        (on(None, "/pay/a/b", POST), on(None, "/{*rest}", POST), true),
        (on(None, "/pay/{a}/x", POST), on(None, "/pay/y/{b}", POST), true),
        (on(None, "/pay/{a}/x", POST), on(None, "/pay/y/z", POST), false),
        (on(None, "/pay", POST), on(Some("h"), "/pay", POST), true),
        (on(None, "/pay", POST), on(Some("h"), "/pay", GET), false),
        (on(None, "/pay/{*rest}", POST), on(Some("h"), "/pay/1", GET), false),
        (on(Some("h"), "/pay/{id}", POST), on(None, "/pay/1", POST), true),
        (on(Some("h"), "/pay", POST), on(Some("i"), "/pay", POST), false),
        (on(None, "/pay", GET), on(None, "/pay", &[Method::Head]), true),
        (on(None, "/pay", POST), on(None, "/sale", POST), false),
    ] {
        let words = format!("{} {:?} {} {:?}", ours.path, ours.host, theirs.path, theirs.host);
        let (ours, theirs) = ([ours], [theirs]);
        let (us, them) = (name("ours"), name("theirs"));
        for (one, two, is_refused) in [
            (Author::Root, Author::User(7), overlaps),
            (Author::User(7), Author::User(8), overlaps),
            (Author::Root, Author::Unknown, overlaps),
            (Author::User(7), Author::User(7), false),
        ] {
            let mut owners = Owners::default();
            owners.set(&us, one, &ours);
            let conflict = owners.conflict(&them, two, &theirs);
            // Two functions with the very same route are refused in any case.
            let is_refused = is_refused || conflict.as_ref().is_some_and(|conflict| conflict.is_same);
            assert_eq!(conflict.is_some(), is_refused, "{words} {one:?} {two:?}");
        }
        // Root's function comes later: it gets its routes, and the other one loses them.
        let mut owners = Owners::default();
        owners.set(&them, Author::User(7), &theirs);
        assert_eq!(owners.conflict(&us, Author::Root, &ours), None, "{words}");
        let displaced = owners.set(&us, Author::Root, &ours).displaced;
        assert_eq!(displaced.contains(&them), overlaps, "{words}");
        assert_eq!(owners.serves(Author::User(7), &theirs[0]), !overlaps, "{words}");
        assert!(owners.serves(Author::Root, &ours[0]), "{words}");
        // When root's function is gone, the route is free again.
        owners.set(&us, Author::Root, &[]);
        assert!(owners.serves(Author::User(7), &theirs[0]), "{words}");
        assert_eq!(owners.conflict(&name("third"), Author::User(7), &ours), None, "{words}");
    }
}

#[test]
fn the_address_of_events_belongs_to_no_function() {
    let mut owners = Owners::default();
    assert!(owners.set_events(Some("/in/a%62c")));
    assert!(!owners.set_events(Some("/in/abc")), "the same path");
    for (path, host, is_taken) in [
        ("/in/abc", None, true),
        ("/in/abc", Some("h"), true),
        ("/in/{name}", None, false),
        ("/in/{*rest}", None, false),
        ("/in/abc/", None, false),
    ] {
        let mut route = entry(path, &[Method::Get], &[]);
        route.host = host.map(str::to_owned);
        let conflict = owners.conflict(&name("f"), Author::Root, &[route]);
        assert_eq!(
            conflict.map(|conflict| conflict.owner),
            is_taken.then_some(RouteOwner::Events),
            "{path}"
        );
    }
    assert!(owners.set_events(None));
    assert_eq!(
        owners.conflict(&name("f"), Author::Root, &[entry("/in/abc", &[Method::Get], &[])]),
        None
    );
}

/// Compares segments one by one; the pattern with the earliest fixed segment wins, then the one with a parameter.
fn naive<'a>(patterns: &'a [String], path: &str) -> Option<&'a str> {
    fn rank(pattern: &str, path: &str) -> Option<Vec<u8>> {
        let (mut rank, mut path) = (Vec::new(), path.split('/').skip(1).peekable());
        for segment in pattern.split('/').skip(1) {
            if segment.starts_with("{*") {
                rank.push(2);
                let rest: Vec<&str> = path.by_ref().collect();
                return (!rest.join("/").is_empty()).then_some(rank);
            }
            let found = path.next()?;
            match segment.starts_with('{') {
                true if found.is_empty() => return None,
                true => rank.push(1),
                false if segment == found => rank.push(0),
                false => return None,
            }
        }
        path.next().is_none().then_some(rank)
    }
    let ranked = patterns
        .iter()
        .filter_map(|pattern| Some((rank(pattern, path)?, pattern)));
    ranked
        .min_by_key(|(rank, _)| rank.clone())
        .map(|(_, pattern)| pattern.as_str())
}

fn pattern() -> impl Strategy<Value = String> {
    let segment = prop_oneof![Just("a"), Just("b"), Just("ab"), Just("{}")];
    (prop::collection::vec(segment, 0..4), any::<bool>()).prop_map(|(segments, rest)| {
        let named = segments.iter().enumerate().map(|(number, segment)| match *segment {
            "{}" => format!("/{{p{number}}}"),
            fixed => format!("/{fixed}"),
        });
        let path = named.collect::<String>();
        match (rest, path.is_empty()) {
            (true, _) => format!("{path}/{{*rest}}"),
            (false, true) => "/".to_owned(),
            (false, false) => path,
        }
    })
}

proptest! {
    /// Two routes overlap if they have a path in common; removing a route leaves nothing of it.
    #[test]
    fn routes_with_a_path_in_common_overlap(
        one in pattern(),
        two in pattern(),
        paths in prop::collection::vec("(/(a|b|ab|c|)){1,5}", 1..20),
    ) {
        let mut owners = Owners::default();
        let routes = |path: &str| [entry(path, &[Method::Get], &[])];
        owners.set(&name("one"), Author::User(1), &routes(&one));
        let conflict = owners.conflict(&name("two"), Author::User(2), &routes(&two));
        let matches = |pattern: &String, path: &str| naive(std::slice::from_ref(pattern), path).is_some();
        for path in &paths {
            let both = matches(&one, path) && matches(&two, path);
            prop_assert!(!both || conflict.is_some(), "{} and {} at {}", one, two, path);
        }
        owners.set(&name("one"), Author::User(1), &[]);
        prop_assert_eq!(owners.conflict(&name("two"), Author::User(2), &routes(&two)), None);
    }

    #[test]
    fn it_finds_what_a_plain_search_finds(
        mut patterns in prop::collection::vec(pattern(), 1..12),
        paths in prop::collection::vec("(/(a|b|ab|c|)){1,5}", 1..20),
    ) {
        patterns.sort();
        patterns.dedup_by_key(|pattern| shape(pattern));
        let routes: Vec<_> = patterns.iter().map(|pattern| ("f", entry(pattern, &[Method::Get], &[]))).collect();
        let routes = table(&routes);
        for path in &paths {
            let found = match routes.find("h", path, Some(Method::Get)) {
                RouteMatch::Route(route, _) => Some(route.entry.path.as_str()),
                RouteMatch::Methods(_) | RouteMatch::Nothing => None,
            };
            prop_assert_eq!(found, naive(&patterns, path), "{} among {:?}", path, patterns);
        }
    }
}
