//! Sizes and bounds of messages.

/// Returns a size in the largest unit that divides it: `256 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let (shift, name) = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .unwrap_or((0, "bytes"));
    format!("{} {name}", bytes >> shift)
}

/// Longest message of a record, in bytes (contract, section 4).
const MESSAGE_MAX: usize = 4 << 10;

/// Cuts a message to [`MESSAGE_MAX`] at the border of a character.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > MESSAGE_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_MAX));
    }
    text
}
