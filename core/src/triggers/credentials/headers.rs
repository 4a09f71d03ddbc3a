//! Reads headers that must be there once.

use super::Denied;

/// The headers of a request.
pub trait Headers {
    /// Returns the values of all headers with a name, in their order; upper and lower case are the same.
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]>;
}

impl Headers for &[(&str, &[u8])] {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let found = self.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }
}

/// Returns the value of a header that must be there once.
pub(super) fn one<'h>(headers: &'h impl Headers, name: &'static str) -> Result<&'h [u8], Denied> {
    let mut values = headers.values(name);
    let first = values.next();
    // A proxy and fnd could each read another one of two.
    if values.next().is_some() {
        return Err(Denied::Repeated(name));
    }
    first.ok_or(Denied::Missing(name))
}

/// Says whether a header is there.
pub(super) fn has(headers: &impl Headers, name: &str) -> bool {
    headers.values(name).next().is_some()
}
