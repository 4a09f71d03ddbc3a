//! Any host and path against a table of routes: a path has one normal form, and the parameters of a route put back into its
//! pattern give the path again.
//!
//! The input is the host, a line end, and the path.
#![no_main]

use fnd_core::triggers::route::{RouteMatch, Routes, path};
use fnd_manifest::function::HttpRoute;
use fnd_manifest::function::route::{Credentials, Method};
use libfuzzer_sys::fuzz_target;

fn table() -> Routes {
    let patterns = [
        "/",
        "/a",
        "/a/{x}",
        "/a/{x}/b/{y}",
        "/a/{*rest}",
        "/{one}",
        "/{*all}",
        "/a/b/c",
    ];
    let route = |(number, pattern): (usize, &&str)| {
        let entry = HttpRoute {
            host: (number % 3 == 2).then(|| "example.com".to_owned()),
            methods: vec![Method::Get, Method::Post],
            r#async: false,
            ..HttpRoute::of_fnd((*pattern).to_owned(), Credentials(Vec::new()))
        };
        let function = format!("f{number}").parse().expect("a name");
        (function, entry, 100)
    };
    Routes::new(patterns.iter().enumerate().map(route))
}

thread_local! {
    static ROUTES: Routes = table();
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (host, raw) = text.split_once('\n').unwrap_or(("", &text));
    let Ok(normal) = path::normal(raw) else { return };
    assert_eq!(path::normal(&normal).as_ref(), Ok(&normal), "{raw}");
    ROUTES.with(|routes| match routes.find(host, &normal, Some(Method::Get)) {
        RouteMatch::Route(route, parameters) => {
            let mut parameters = parameters.iter();
            let mut value = || parameters.next().map(|(_, value)| value.as_str()).unwrap_or_default();
            let parts = route.entry.path.split('/').map(|part| match part {
                part if part.starts_with('{') => value().to_owned(),
                fixed => fixed.to_owned(),
            });
            let again = parts.collect::<Vec<_>>().join("/");
            assert_eq!(again, path::decode(&normal), "{}", route.entry.path);
            assert!(parameters.next().is_none());
        }
        // Every route takes GET.
        RouteMatch::Methods(methods) => panic!("405 with {methods:?}"),
        RouteMatch::Nothing => {}
    });
});
