//! Which routes of functions can get the same requests, or stand in each other's way.
//!
//! A request goes to the most special path that it matches, and then to a method of that path. So a route takes requests
//! of a less special one, and with its methods it also decides which of them are answered at all (405).

use super::tree::{RouteTree, segments};
use super::{HttpRoute, Method, shape};
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

/// The routes of all functions, by host and path.
#[derive(Debug, Default)]
pub(super) struct Overlaps(BTreeMap<Option<String>, RouteTree<RouteOwners>>);

/// Functions, and the methods of their routes.
type RouteOwners = BTreeMap<FunctionName, BTreeSet<Method>>;

impl Overlaps {
    /// Adds a route of a function.
    pub(super) fn add(&mut self, function: &FunctionName, route: &HttpRoute) {
        let tree = self.0.entry(route.host.clone()).or_default();
        let owned = tree.place(&shape(&route.path));
        owned.entry(function.clone()).or_default().extend(methods(route));
    }

    /// Removes all routes of a function with the host and path of one of these.
    pub(super) fn remove(&mut self, function: &FunctionName, routes: &[(Option<String>, String)]) {
        for (host, shape) in routes {
            if let Some(root) = self.0.get_mut(host) {
                root.remove(function, &mut segments(shape));
                if root.is_empty() {
                    self.0.remove(host);
                }
            }
        }
    }

    /// Returns the functions with a route that overlaps with one.
    pub(super) fn of(&self, route: &HttpRoute) -> BTreeSet<&FunctionName> {
        let shape = shape(&route.path);
        let segments: Vec<&str> = segments(&shape).collect();
        let own = methods(route);
        let mut found = BTreeSet::new();
        for (host, root) in &self.0 {
            let same_host = *host == route.host;
            // Routes of two hosts never get the same request. A route of every host gets those of each host.
            if !same_host && host.is_some() && route.host.is_some() {
                continue;
            }
            root.overlapping(&segments, true, &mut |same_path, owned| {
                // On one host, a more special path hides the methods of the other one.
                let by_path = same_host && !same_path;
                let overlaps = owned.iter().filter(|(_, methods)| by_path || !own.is_disjoint(methods));
                found.extend(overlaps.map(|(function, _)| function));
            });
        }
        found
    }
}

impl RouteTree<RouteOwners> {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.rest.is_empty() && self.parameter.is_none() && self.fixed.is_empty()
    }

    fn remove<'a>(&mut self, function: &FunctionName, left: &mut impl Iterator<Item = &'a str>) {
        match left.next() {
            None => drop(self.here.remove(function)),
            Some("{*}") => drop(self.rest.remove(function)),
            Some("{}") => {
                if let Some(below) = &mut self.parameter {
                    below.remove(function, left);
                }
                // Empty nodes are removed, so that changes of routes do not let the tree grow.
                self.parameter.take_if(|below| below.is_empty());
            }
            Some(fixed) => {
                if let Some(below) = self.fixed.get_mut(fixed) {
                    below.remove(function, left);
                    if below.is_empty() {
                        self.fixed.remove(fixed);
                    }
                }
            }
        }
    }

    /// Calls `each` with the functions of every path that can match the same request, and whether that path is the same.
    /// It visits each segment at most once.
    fn overlapping<'a>(&'a self, left: &[&str], same: bool, each: &mut impl FnMut(bool, &'a RouteOwners)) {
        let Some((first, left)) = left.split_first() else {
            return each(same, &self.here);
        };
        // A `{*}` here matches all that is left, so it overlaps with every path below.
        each(same && *first == "{*}", &self.rest);
        match *first {
            "{*}" => {
                for below in self.below() {
                    below.everything(each);
                }
            }
            "{}" => {
                for below in self.fixed.values() {
                    below.overlapping(left, false, each);
                }
                if let Some(below) = &self.parameter {
                    below.overlapping(left, same, each);
                }
            }
            fixed => {
                if let Some(below) = self.fixed.get(fixed) {
                    below.overlapping(left, same, each);
                }
                if let Some(below) = &self.parameter {
                    below.overlapping(left, false, each);
                }
            }
        }
    }

    fn everything<'a>(&'a self, each: &mut impl FnMut(bool, &'a RouteOwners)) {
        each(false, &self.here);
        each(false, &self.rest);
        for below in self.below() {
            below.everything(each);
        }
    }

    fn below(&self) -> impl Iterator<Item = &Self> {
        self.fixed.values().chain(self.parameter.as_deref())
    }
}

/// Returns the methods of a route: GET answers HEAD as well.
fn methods(route: &HttpRoute) -> BTreeSet<Method> {
    let mut methods: BTreeSet<Method> = route.methods.iter().copied().collect();
    if methods.contains(&Method::Get) {
        methods.insert(Method::Head);
    }
    methods
}
