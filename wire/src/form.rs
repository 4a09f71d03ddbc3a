//! Little-endian encoding of the flat structures that cross a process boundary: spawner frames, plans, judge messages,
//! and the state that one fnd hands over to the next.
//!
//! A structure is its fields in order: a number in its own size, a boolean as a byte 0 or 1, text and bytes after a
//! `u32` length, an option after a presence byte, a list after a `u32` count, an enum after a tag byte. Decoding treats
//! its input as hostile: every length is checked against the bytes that remain before anything is allocated, and data
//! after the last field is an error.

/// Why bytes could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The data ends in the middle of a value.
    #[error("the data ends in the middle of a value")]
    Short,
    /// A field holds a value that it cannot have.
    #[error("a field holds a value it cannot have")]
    Value,
    /// There is data after the last field.
    #[error("there is data after the last field")]
    Trailing,
}

/// A value that can be encoded and decoded.
pub trait Wire: Sized {
    /// Appends the encoded value to `out`.
    ///
    /// # Panics
    /// If a text or list has 2^32 or more items. Callers keep what they send far below this.
    fn put(&self, out: &mut Vec<u8>);

    /// Decodes a value from the front of `from` and removes its bytes.
    ///
    /// # Errors
    /// [`WireError::Short`] if the data ends too early, [`WireError::Value`] if a field holds an impossible value.
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError>;

    /// Returns the encoded value.
    fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Decodes a value that takes up all of `bytes`.
    ///
    /// # Errors
    /// Any [`WireError`]; [`WireError::Trailing`] if bytes remain.
    fn from_wire(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Reader(bytes);
        let value = Self::get(&mut from)?;
        if from.0.is_empty() {
            Ok(value)
        } else {
            Err(WireError::Trailing)
        }
    }
}

/// The bytes that are not decoded yet.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(WireError::Short)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(WireError::Short)?;
        self.0 = tail;
        Ok(*head)
    }

    fn count(&mut self) -> Result<usize, WireError> {
        // Every item takes at least one byte, so a count above the number of remaining bytes is false.
        let count = usize::try_from(u32::get(self)?).map_err(|_| WireError::Short)?;
        if count > self.0.len() {
            Err(WireError::Short)
        } else {
            Ok(count)
        }
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    u32::try_from(count)
        .expect("fields are bounded far below 4 Gi")
        .put(out);
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                from.array().map(Self::from_le_bytes)
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 u128 i32 i64);

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(false),
            1 => Ok(true),
            // Each value has one form only, so that equal values have equal bytes.
            _ => Err(WireError::Value),
        }
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        from.array()
    }
}

/// Bytes after their length. This is a type of its own so that the bytes are not encoded one by one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.0.len(), out);
        out.extend_from_slice(&self.0);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = from.count()?;
        from.take(count).map(|bytes| Self(bytes.to_vec()))
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = from.count()?;
        std::str::from_utf8(from.take(count)?)
            .map(str::to_owned)
            .map_err(|_| WireError::Value)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::get(from)? {
            T::get(from).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        T::get(from).map(Self::new)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.len(), out);
        for item in self {
            item.put(out);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = from.count()?;
        // Results are collected without room for `count` of them: an item may be much larger in memory than its bytes
        // are.
        (0..count).map(|_| T::get(from)).collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::get(from)?, B::get(from)?))
    }
}

macro_rules! ids {
    ($($type:ident)*) => {$(
        impl Wire for crate::ids::$type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Wire::get(from).map(Self)
            }
        }
    )*};
}
ids!(FunctionId WorkerId Attempt Version InvocationId);

impl Wire for crate::ids::FunctionName {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(self.as_str().len(), out);
        out.extend_from_slice(self.as_str().as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        // Checked where it is read, so that no other code meets a name that is none.
        Self::new(&String::get(from)?).map_err(|_| WireError::Value)
    }
}

/// Declares structures that are encoded as their fields in order.
#[macro_export]
macro_rules! wire_structs {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }
        impl $crate::form::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::form::Wire::put(&self.$field, out);)*
            }
            fn get(from: &mut $crate::form::Reader<'_>) -> Result<Self, $crate::form::WireError> {
                $(let $field = $crate::form::Wire::get(from)?;)*
                Ok(Self { $($field,)* })
            }
        }
    )*};
}
pub use wire_structs;

/// Declares an enum that is encoded as a tag byte, then the variant's content (nothing or one value).
#[macro_export]
macro_rules! wire_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $tag:literal = $variant:ident $(($type:ty))?,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant $(($type))?,)* }
        impl $crate::form::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($crate::form::wire_enum!(@pattern $variant $(, $type, held)?) => {
                        out.push($tag);
                        $(<$type as $crate::form::Wire>::put(held, out);)?
                    })*
                }
            }
            fn get(from: &mut $crate::form::Reader<'_>) -> Result<Self, $crate::form::WireError> {
                match <u8 as $crate::form::Wire>::get(from)? {
                    // Each tag is written in the source and not counted: the peer may be another version, so a new
                    // variant changes no tag.
                    $($tag => Ok(Self::$variant $((<$type as $crate::form::Wire>::get(from)?))?),)*
                    _ => Err($crate::form::WireError::Value),
                }
            }
        }
    };
    (@pattern $variant:ident) => { Self::$variant };
    (@pattern $variant:ident, $type:ty, $held:ident) => { Self::$variant($held) };
}
pub use wire_enum;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_or_length_beyond_the_data_is_refused_before_allocating() {
        let huge = u32::MAX.to_le_bytes();
        assert_eq!(Bytes::from_wire(&huge), Err(WireError::Short));
        assert_eq!(Vec::<u8>::from_wire(&huge), Err(WireError::Short));
        assert_eq!(Vec::<Vec<u8>>::from_wire(&huge), Err(WireError::Short));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let value = (String::from("ä"), (Some(7u64), vec![(1u16, false), (2, true)]));
        assert_eq!(Wire::from_wire(&value.to_wire()), Ok(value));
        assert_eq!(u8::from_wire(&[1, 2]), Err(WireError::Trailing));
        assert_eq!(bool::from_wire(&[2]), Err(WireError::Value));
    }
}
