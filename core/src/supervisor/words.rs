//! Bounds of messages.

/// Longest message of a record, in bytes.
const MESSAGE_MAX: usize = 4 << 10;

/// Cuts a message to [`MESSAGE_MAX`] at the border of a character.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > MESSAGE_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_MAX));
    }
    text
}
