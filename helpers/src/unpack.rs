//! `fnd-helper --unpack`: an archive in, its files out; or files of another system in, the files of a function out.
//!
//! A helper of the spawner starts this child for one archive or function. Like the judge the child loses every right before it
//! reads anything. So an archive that takes the child over can lie about its own files, and about nothing else; the helper checks
//! what the child says. Descriptor 0 is the archive, which can only be read; its files go to descriptor 1, as records of
//! [`fnd_wire::unpack`].

use crate::confine::confine_with;
use fnd_manifest::foreign::placed;
use fnd_unpack::{Sink, UnpackStop, unpack};
use fnd_wire::archive::{Format, Why};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::unpack::{DATA_MAX, Foreign, UnpackRecord, Unpacked};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::AsFd as _;

/// Most CPU time in seconds. The helper ends the child earlier; this holds even if the helper was killed.
const CPU: u64 = 120;

/// Unpacks descriptor 0 to descriptor 1.
///
/// # Errors
/// Nothing was unpacked. The helper sees only that the process ends.
pub fn run(suffix: &str) -> io::Result<()> {
    let foreign = Some(Format::Foreign).filter(|format| format.suffix() == suffix);
    let format = foreign
        .or_else(|| Format::of(suffix))
        .ok_or(io::ErrorKind::InvalidInput)?;
    let descriptor = |descriptor: io::Result<_>| descriptor.map(File::from);
    let mut archive = descriptor(io::stdin().as_fd().try_clone_to_owned())?;
    let output = descriptor(io::stdout().as_fd().try_clone_to_owned())?;
    // If the helper is killed, nobody else would end this child.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A process without rights can only lower its hard limit (setrlimit(2)).
    let maximum = getrlimit(Resource::Cpu).maximum.map_or(CPU, |maximum| maximum.min(CPU));
    let limit = Rlimit {
        current: Some(maximum),
        maximum: Some(maximum),
    };
    setrlimit(Resource::Cpu, limit)?;
    // A zip file is read from its end.
    confine_with(&[libc::SYS_lseek])?;
    serve(format, &mut archive, output)
}

/// Writes the files of an archive as records, or the reason why the archive is refused.
///
/// # Errors
/// If writing fails.
pub fn serve(format: Format, archive: &mut (impl Read + Seek), output: impl Write) -> io::Result<()> {
    // The buffer holds the largest record, so that a record is one write.
    let mut records = Records(BufWriter::with_capacity(DATA_MAX + 64, output));
    let done = match format {
        Format::Foreign => make(archive, &mut records),
        _ => unpack(format, archive, &mut records),
    };
    let last = match done {
        Ok(()) => UnpackRecord::End,
        Err(UnpackStop::Refused(refusal)) => UnpackRecord::Refused(refusal),
        Err(UnpackStop::Sink(error)) => return Err(error),
    };
    records.0.write_all(&last.framed())?;
    records.0.flush()
}

/// Makes the files of a function of another system.
fn make(set: &mut impl Read, sink: &mut dyn Sink) -> Result<(), UnpackStop> {
    let mut bytes = Vec::new();
    set.read_to_end(&mut bytes).map_err(|_| Why::Unreadable)?;
    let set = Foreign::from_wire(&bytes).map_err(|_| Why::Damaged)?;
    for file in placed::files(set) {
        let length = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
        let (path, executable) = (file.path, file.executable);
        sink.file(&Unpacked {
            path,
            executable,
            length,
        })
        .map_err(UnpackStop::Sink)?;
        for part in file.bytes.chunks(DATA_MAX) {
            sink.data(part).map_err(UnpackStop::Sink)?;
        }
    }
    Ok(())
}

struct Records<W: Write>(BufWriter<W>);

impl<W: Write> Sink for Records<W> {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.0.write_all(&UnpackRecord::File(file.clone()).framed())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(&UnpackRecord::Data(Bytes(bytes.to_vec())).framed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::archive::Why;
    use fnd_wire::unpack::{Received, Receiver, Stopped};
    use std::io::Cursor;

    /// Returns a tar file with these entries: name and content.
    fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, content) in entries {
            // An old header: name, mode, size, sum; numbers are octal.
            let mut header = [0_u8; 512];
            let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
            put(0, name);
            put(100, "0000644");
            put(124, &format!("{:011o}", content.len()));
            put(148, "        ");
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            bytes.extend(header);
            bytes.extend(*content);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        [bytes, vec![0; 1024]].concat()
    }

    #[test]
    fn files_become_records_and_a_refusal_is_one() {
        let written = |bytes: Vec<u8>| {
            let mut output = Vec::new();
            serve(Format::Tar, &mut Cursor::new(bytes), &mut output).unwrap();
            output
        };
        let large = vec![7; 100_000];
        let sent = written(tar(&[("a", b"text"), ("large", &large)]));
        let (mut input, mut receiver, mut found) = (&sent[..], Receiver::default(), Vec::<(String, Vec<u8>)>::new());
        loop {
            match receiver.next(&mut input).unwrap() {
                Received::File(file) => found.push((file.path, Vec::new())),
                Received::Data(bytes) => found.last_mut().unwrap().1.extend(bytes),
                Received::End => break,
            }
        }
        assert_eq!(found, [("a".to_owned(), b"text".to_vec()), ("large".to_owned(), large)]);
        assert!(input.is_empty());
        let sent = written(tar(&[("a", b""), ("../evil", b"")]));
        let stopped = Receiver::default().next(&mut &sent[..]).unwrap_err();
        assert!(matches!(stopped, Stopped::Refused(refusal) if refusal.why == Why::Outside));
    }
}
