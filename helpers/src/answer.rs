//! One question on descriptor 0, one answer: what `fnd-helper --decrypt` and `fnd-helper --find-secret` have in common.
//!
//! A helper of the spawner starts such a child for one secret. Like the judge it loses every right before it reads anything.
//! Descriptor 0 is a stream socket; question and answer end with the stream.

use crate::confine::confine;
use fnd_wire::form::Wire;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use zeroize::Zeroizing;

/// Answers the question on descriptor 0, which has at most `max` bytes.
///
/// # Errors
/// There was no answer. The spawner sees only that the process ends.
pub fn run<Q: Wire>(max: u64, answer: impl FnOnce(&mut Q) -> Zeroizing<Vec<u8>>) -> io::Result<()> {
    confine()?;
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    serve(max, (&mut &socket, &mut &socket), answer)
}

/// Reads a question up to the end of the stream, and writes the answer.
///
/// # Errors
/// Reading or writing failed, or the bytes are no question of the expected form (`InvalidData`).
pub fn serve<Q: Wire>(
    max: u64,
    (input, output): (&mut impl Read, &mut impl Write),
    answer: impl FnOnce(&mut Q) -> Zeroizing<Vec<u8>>,
) -> io::Result<()> {
    // The buffer has its full size from the beginning. A buffer that grows is moved, and would leave copies of the secret in
    // freed memory.
    let mut question = Zeroizing::new(Vec::with_capacity(usize::try_from(max).unwrap_or(0) + 1));
    input.take(max + 1).read_to_end(&mut question)?;
    let mut asked = Q::from_wire(&question).map_err(|_| io::ErrorKind::InvalidData)?;
    output.write_all(&answer(&mut asked))
}
