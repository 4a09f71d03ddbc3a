//! Paths by segments. At each segment a fixed one wins over `{}`, and `{}` over `{*}`; if the winner leads to no path,
//! the next one is tried. A search visits each node at most once.
//!
//! The crate matchit has the same rules, but refuses `{}` and `{*}` in one place (`/users/{id}` beside `/{*rest}`).

use std::collections::BTreeMap;

/// The paths below a segment, each with its value.
#[derive(Debug, Default)]
pub(super) struct RouteTree<T> {
    pub(super) here: T,
    pub(super) rest: T,
    pub(super) parameter: Option<Box<RouteTree<T>>>,
    pub(super) fixed: BTreeMap<String, RouteTree<T>>,
}

impl<T: Default> RouteTree<T> {
    /// Returns the place of a shape, which begins with `/`.
    pub(super) fn place(&mut self, shape: &str) -> &mut T {
        let mut node = self;
        for segment in segments(shape) {
            node = match segment {
                "{*}" => return &mut node.rest,
                "{}" => node.parameter.get_or_insert_default(),
                fixed => node.fixed.entry(fixed.to_owned()).or_default(),
            };
        }
        &mut node.here
    }
}

impl RouteTree<Option<usize>> {
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

/// Returns the segments of a path or of a shape.
pub(super) fn segments(path: &str) -> std::str::Split<'_, char> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}
