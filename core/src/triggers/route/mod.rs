//! The routes of the public listener (`[[http]]`): which one a request is for.
//!
//! A path is compared in its normal form ([`path`]). Fixed segments win over `{name}`, and `{name}` over `{*rest}`. A
//! route of a host wins over a route of every host.
//!
//! Files:
//! - `body_budget`: how many bytes of bodies callers without a credential may have
//! - `cors`: what pages of other origins may do
//! - `forwarded`: the caller behind a proxy
//! - `overlap`: routes that can get the same requests
//! - `path`: the normal form of paths
//! - `rate`: how many requests are accepted per time
//! - `tree`: paths by segments

pub mod body_budget;
pub mod cors;
pub mod forwarded;
mod overlap;
pub mod path;
pub mod rate;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::places::conditions;

use crate::access::Author;
use crate::interned::digest;
use fnd_manifest::function::HttpRoute;
use fnd_manifest::function::route::{Credential, Method, Scheme};
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A route of a function.
#[derive(Debug)]
pub struct Route {
    /// The function that the route calls.
    pub function: FunctionName,
    /// A number that the route keeps in every table: of its function, host and path.
    pub identity: u64,
    /// The entry of the manifest.
    pub entry: HttpRoute,
    /// `limits.body` of the function.
    pub body: u64,
    /// The conditions, with their expressions compiled.
    pub conditions: Vec<conditions::Test>,
    /// Names of the parameters, in order.
    names: Vec<String>,
}

impl Route {
    fn new((function, entry, body): (FunctionName, HttpRoute, u64)) -> Self {
        let identity = digest((function.as_str(), &entry.host, &entry.path));
        let segments = entry.path.split('/').filter_map(parameter);
        Self {
            names: segments.map(str::to_owned).collect(),
            conditions: entry.when.iter().map(conditions::Test::new).collect(),
            identity,
            function,
            entry,
            body,
        }
    }

    /// Returns the route for events (`[http] events`), which no table has and no function owns.
    ///
    /// # Panics
    /// Never: the name that stands for a function is one.
    #[must_use]
    pub fn of_events(entry: HttpRoute, body: u64) -> Self {
        let name = FunctionName::new("events").expect("it is a name of a function");
        Self::new((name, entry, body))
    }

    /// Returns the fixed beginning of a path that the route matches: `/files` for `/files/{*rest}`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        let path = &self.entry.path;
        let end = path.find("/{").unwrap_or(path.len());
        path.get(..end).unwrap_or_default()
    }

    /// Returns what is left of the path of a request without the segments of [`Self::prefix`]; the path is as it was sent,
    /// where a segment may be longer than in the route, because its characters are escaped.
    #[must_use]
    pub fn rest<'p>(&self, raw_path: &'p str) -> &'p str {
        let segments = self.prefix().matches('/').count();
        let rest = raw_path.match_indices('/').nth(segments);
        rest.and_then(|(at, _)| raw_path.get(at..)).unwrap_or("/")
    }

    /// Says whether some credential covers the body.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.entry.auth.0.iter().any(|credential| credential.scheme.signs())
    }

    /// Says whether everybody may call.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.entry.auth.0.is_empty()
    }

    /// Says whether it answers a method: GET includes HEAD.
    #[must_use]
    pub fn takes(&self, method: Method) -> bool {
        let methods = &self.entry.methods;
        methods.contains(&method) || (method == Method::Head && methods.contains(&Method::Get))
    }
}

/// Returns the name of a parameter, if a segment is one.
fn parameter(segment: &str) -> Option<&str> {
    let name = segment.strip_prefix('{')?.strip_suffix('}')?;
    Some(name.strip_prefix('*').unwrap_or(name))
}

/// Returns a route's path in normal form, without the names of its parameters: they make no difference to what it
/// matches.
#[must_use]
pub fn shape(path: &str) -> String {
    let segments = path.split('/').map(|segment| match parameter(segment) {
        Some(_) if segment.starts_with("{*") => "{*}".to_owned(),
        Some(_) => "{}".to_owned(),
        None => path::encode(segment),
    });
    segments.collect::<Vec<_>>().join("/")
}

/// A route that a function cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The method that both routes have.
    pub method: Method,
    /// The path of the new route.
    pub path: String,
    /// The host of the new route; absent: every host.
    pub host: Option<String>,
    /// The function or the part of fnd that has the route.
    pub owner: RouteOwner,
    /// Whether it has the very same route, and not one that overlaps.
    pub is_same: bool,
}

/// The owner of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOwner {
    /// A function, by an entry of `[[http]]` in its manifest.
    Function(FunctionName),
    /// `[http] events` of the configuration: on every host, with every method.
    Events,
}

/// Which function has which method, host and path. Two functions never have the same.
///
/// Root's functions come first: a function of another author gets no route that overlaps with one of theirs, so it neither
/// takes their requests (with bodies and tokens) nor keeps them from having a route. Authors other than root must not do that to each
/// other either; there the route that was there first stays.
#[derive(Debug, Default)]
pub struct Owners {
    /// Shape of the path of `[http] events`.
    events: Option<String>,
    owner: BTreeMap<RouteKey, FunctionName>,
    functions: BTreeMap<FunctionName, Owned>,
    overlaps: overlap::Overlaps,
}

/// The routes of a function.
#[derive(Debug)]
struct Owned {
    author: Author,
    places: BTreeSet<RouteKey>,
    /// Hosts and shapes of all its routes, also of those that others have.
    paths: Vec<(Option<String>, String)>,
}

/// The consequences for other functions when one gets other routes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Whether a route has become free.
    pub freed: bool,
    /// Functions that lose a route to it.
    pub displaced: BTreeSet<FunctionName>,
}

/// Host, shape of the path, and method.
type RouteKey = (Option<String>, String, Method);

fn places(routes: &[HttpRoute]) -> impl Iterator<Item = (RouteKey, &HttpRoute)> {
    routes.iter().flat_map(|route| {
        let shape = shape(&route.path);
        let place = move |method: &Method| ((route.host.clone(), shape.clone(), *method), route);
        route.methods.iter().map(place)
    })
}

impl Owners {
    /// Sets the path of `[http] events`. Returns whether it is another one than before.
    pub fn set_events(&mut self, path: Option<&str>) -> bool {
        let events = path.map(|path| path::normal(path).unwrap_or_else(|_| path.to_owned()));
        std::mem::replace(&mut self.events, events.clone()) != events
    }

    /// Says whether a route has the path of `[http] events`, so that it would get no request.
    #[must_use]
    pub fn is_of_events(&self, route: &HttpRoute) -> bool {
        self.events.as_ref().is_some_and(|events| *events == shape(&route.path))
    }

    /// Returns the first route that `[http] events` or another function has already, or that overlaps with a route of
    /// another author.
    #[must_use]
    pub fn conflict(&self, function: &FunctionName, author: Author, routes: &[HttpRoute]) -> Option<Conflict> {
        places(routes).find_map(|(place, route)| {
            let (owner, is_same) = if self.is_of_events(route) {
                (RouteOwner::Events, true)
            } else {
                let same = self.owner.get(&place).filter(|owner| *owner != function);
                // Root's function gets it in any case.
                let same = same.filter(|owner| author != Author::Root || self.author(owner) == Some(Author::Root));
                let owner = same.or_else(|| self.overlapping(function, author, route))?;
                (RouteOwner::Function(owner.clone()), same.is_some())
            };
            Some(Conflict {
                method: place.2,
                path: route.path.clone(),
                host: place.0,
                owner,
                is_same,
            })
        })
    }

    /// Says whether a route of a version that serves gets requests: it was free when the version was installed, but root's
    /// functions and `[http] events` may have got it since. `author` is that of its function.
    #[must_use]
    pub fn serves(&self, author: Author, route: &HttpRoute) -> bool {
        // Nothing but `[http] events` takes a route from a function of root.
        let is_roots = |other: &FunctionName| self.author(other) == Some(Author::Root);
        let is_taken = || self.overlaps.of(route).into_iter().any(is_roots);
        !self.is_of_events(route) && (author == Author::Root || !is_taken())
    }

    fn author(&self, function: &FunctionName) -> Option<Author> {
        self.functions.get(function).map(|owned| owned.author)
    }

    /// Returns a function of another author whose route overlaps with one.
    fn overlapping(&self, function: &FunctionName, author: Author, route: &HttpRoute) -> Option<&FunctionName> {
        // A function of root takes the routes of other authors, so it has no conflict with them.
        if author == Author::Root {
            return None;
        }
        let mut others = self.overlaps.of(route).into_iter().filter(|other| *other != function);
        others.find(|other| self.author(other).is_some_and(|other| other != author))
    }

    /// Gives a function its routes in place of those that it had. Routes of other functions stay with them, but those of
    /// other authors do not stay if root is the author.
    pub fn set(&mut self, function: &FunctionName, author: Author, routes: &[HttpRoute]) -> Moved {
        let before = self.functions.remove(function);
        let (before, paths) = before.map(|owned| (owned.places, owned.paths)).unwrap_or_default();
        // The earlier routes of the function leave first: the new ones may overlap with them.
        self.overlaps.remove(function, &paths);
        for place in &before {
            self.owner.remove(place);
        }
        let mut moved = Moved::default();
        if author == Author::Root {
            let overlapping = routes.iter().flat_map(|route| self.overlaps.of(route));
            let others = overlapping.filter(|other| self.author(other) != Some(Author::Root));
            moved.displaced = others.cloned().collect();
        }
        let mut own = BTreeSet::new();
        for (place, _) in places(routes) {
            let other = self.owner.get(&place).filter(|other| !moved.displaced.contains(*other));
            if other.is_none() {
                // A displaced function loses its place here: otherwise its next change would remove the new owner.
                if let Some(other) = self.owner.insert(place.clone(), function.clone())
                    && let Some(owned) = self.functions.get_mut(&other)
                {
                    owned.places.remove(&place);
                }
                own.insert(place);
            }
        }
        moved.freed = !before.is_subset(&own);
        if !routes.is_empty() {
            for route in routes {
                self.overlaps.add(function, route);
            }
            let owned = Owned {
                author,
                places: own,
                paths: routes
                    .iter()
                    .map(|route| (route.host.clone(), shape(&route.path)))
                    .collect(),
            };
            self.functions.insert(function.clone(), owned);
        }
        moved
    }
}

/// A table of routes.
#[derive(Debug, Default)]
pub struct Routes {
    all: Vec<Rc<Route>>,
    hosts: BTreeMap<String, Host>,
    every: Host,
}

/// The routes of one host, or of every host.
#[derive(Debug, Default)]
struct Host {
    /// Paths, each with its place in `patterns`.
    paths: tree::RouteTree<Option<usize>>,
    patterns: Vec<Vec<Rc<Route>>>,
    admits: Admits,
}

/// The sum of what the routes of a host admit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admits {
    /// Whether some route needs no credential.
    pub everybody: bool,
    /// The credentials of headers alone that some route accepts.
    pub credentials: BTreeSet<Credential>,
    /// The credentials that cover the body.
    pub signatures: BTreeSet<Credential>,
    /// The largest body of a route whose credential covers the body; absent: there is no such route.
    pub signed_body: Option<u64>,
}

impl Admits {
    /// Says whether some route accepts a user and a password.
    #[must_use]
    pub fn asks_for_passwords(&self) -> bool {
        self.credentials
            .iter()
            .any(|credential| credential.scheme == Scheme::Basic)
    }

    /// Returns what they admit together with another route.
    #[must_use]
    pub fn with(&self, route: &Route) -> Self {
        let mut with = self.clone();
        with.add(route);
        with
    }

    fn add(&mut self, route: &Route) {
        self.everybody |= route.is_open();
        for credential in &route.entry.auth.0 {
            let kind = if credential.scheme.signs() {
                &mut self.signatures
            } else {
                &mut self.credentials
            };
            kind.insert(credential.clone());
        }
        if route.is_signed() {
            self.signed_body = self.signed_body.max(Some(route.body));
        }
    }

    fn join(&mut self, other: &Self) {
        self.everybody |= other.everybody;
        self.credentials.extend(other.credentials.iter().cloned());
        self.signatures.extend(other.signatures.iter().cloned());
        self.signed_body = self.signed_body.max(other.signed_body);
    }
}

/// The route of a request.
#[derive(Debug)]
pub enum RouteMatch<'a> {
    /// A route, and the values of its parameters, decoded.
    Route(&'a Rc<Route>, Vec<(String, String)>),
    /// The path has routes for these methods only.
    Methods(BTreeSet<Method>),
    /// The path has no route.
    Nothing,
}

impl Routes {
    /// Returns the table of routes: function, entry of its manifest, and its `limits.body`.
    #[must_use]
    pub fn new(routes: impl IntoIterator<Item = (FunctionName, HttpRoute, u64)>) -> Self {
        let all: Vec<Rc<Route>> = routes.into_iter().map(|route| Rc::new(Route::new(route))).collect();
        let mut table = Self::default();
        for route in &all {
            let host = match route.entry.host.as_deref() {
                Some(name) => table.hosts.entry(name.to_owned()).or_default(),
                None => &mut table.every,
            };
            host.admits.add(route);
            let new = host.patterns.len();
            let place = *host.paths.place(&shape(&route.entry.path)).get_or_insert(new);
            if place == new {
                host.patterns.push(Vec::new());
            }
            if let Some(pattern) = host.patterns.get_mut(place) {
                pattern.push(Rc::clone(route));
            }
        }
        // A request to a named host may also match a route without a host. So the table of each host gets the
        // credentials of those routes, too.
        for host in table.hosts.values_mut() {
            host.admits.join(&table.every.admits);
        }
        table.all = all;
        table
    }

    /// Says whether a function has a route in the table.
    #[must_use]
    pub fn has(&self, function: &FunctionName) -> bool {
        self.all.iter().any(|route| route.function == *function)
    }

    /// Returns all routes, in the order in which they were given.
    #[must_use]
    pub fn all(&self) -> &[Rc<Route>] {
        &self.all
    }

    /// Returns the route for a host (lower case, without a port), a path in normal form and a method.
    #[must_use]
    pub fn find<'a>(&'a self, host: &str, path: &str, method: Option<Method>) -> RouteMatch<'a> {
        let hosts = self.hosts.get(host).into_iter().chain([&self.every]);
        let matched = hosts.filter_map(|host| {
            let (place, values) = host.paths.find(path)?;
            Some((host.patterns.get(place)?, values))
        });
        let mut methods = BTreeSet::new();
        for (routes, values) in matched {
            let named = |method| routes.iter().find(|route| route.entry.methods.contains(&method));
            // A route that names HEAD wins over GET's.
            let takes = |method| named(method).or_else(|| routes.iter().find(|route| route.takes(method)));
            if let Some(route) = method.and_then(takes) {
                let values = values.iter().map(|value| path::decode(value));
                return RouteMatch::Route(route, route.names.iter().cloned().zip(values).collect());
            }
            methods.extend(Method::ALL.into_iter().filter(|method| takes(*method).is_some()));
        }
        if methods.is_empty() {
            RouteMatch::Nothing
        } else {
            RouteMatch::Methods(methods)
        }
    }

    /// Returns what the routes of a host admit, those of every host included.
    #[must_use]
    pub fn admits(&self, host: &str) -> &Admits {
        &self.hosts.get(host).unwrap_or(&self.every).admits
    }
}
