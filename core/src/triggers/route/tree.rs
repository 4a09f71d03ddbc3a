//! Paths by segments. At each segment a fixed one wins over `{}`, and `{}` over `{*}`; if the winner leads to no path,
//! the next one is tried. A search visits each node at most once.
//!
//! The crate matchit has the same rules, but refuses `{}` and `{*}` in one place (`/users/{id}` beside `/{*rest}`).

use std::collections::HashMap;

/// The paths below a segment, each with its value.
#[derive(Debug, Default)]
pub(super) struct RouteTree {
    here: Option<usize>,
    fixed: HashMap<String, RouteTree>,
    parameter: Option<Box<RouteTree>>,
    rest: Option<usize>,
}

impl RouteTree {
    /// Returns the value of a shape, which begins with `/`; `new` gives that of a new one.
    pub(super) fn insert(&mut self, shape: &str, new: usize) -> usize {
        let mut node = self;
        for segment in segments(shape) {
            node = match segment {
                "{*}" => return *node.rest.get_or_insert(new),
                "{}" => node.parameter.get_or_insert_default(),
                fixed => node.fixed.entry(fixed.to_owned()).or_default(),
            };
        }
        *node.here.get_or_insert(new)
    }

    /// Returns the value of the shape that a path has, and the values of its parameters.
    pub(super) fn find<'a>(&self, path: &'a str) -> Option<(usize, Vec<&'a str>)> {
        let mut values = Vec::new();
        let value = self.below(path.strip_prefix('/'), &mut values)?;
        values.reverse();
        Some((value, values))
    }

    /// Searches for the segments that are left; absent: the path is over. The last value comes first.
    fn below<'a>(&self, left: Option<&'a str>, values: &mut Vec<&'a str>) -> Option<usize> {
        let Some(left) = left else {
            return self.here;
        };
        let (segment, after) = left
            .split_once('/')
            .map_or((left, None), |(first, after)| (first, Some(after)));
        if let Some(found) = self.fixed.get(segment).and_then(|node| node.below(after, values)) {
            return Some(found);
        }
        let parameter = self.parameter.as_deref().filter(|_| !segment.is_empty());
        if let Some(found) = parameter.and_then(|node| node.below(after, values)) {
            values.push(segment);
            return Some(found);
        }
        let rest = self.rest.filter(|_| !left.is_empty());
        if rest.is_some() {
            values.push(left);
        }
        rest
    }
}

fn segments(path: &str) -> std::str::Split<'_, char> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}
