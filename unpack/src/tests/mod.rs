//! Archives of every format, good and hostile.
//!
//! Files:
//! - `build`: builds archives, with anything in them

mod build;

use crate::{Sink, UnpackStop, unpack};
use build::{Zipped, ended, packed, pax, tar, tar_entry, zip, zip_after, zipped};
use fnd_wire::archive::{ArchiveRefusal, BYTES_MAX, ENTRIES_MAX, Format, Why};
use fnd_wire::unpack::{Receiver, UnpackRecord, Unpacked};
use proptest::prelude::*;
use std::io::{self, Cursor};
use tar::EntryType;

const ALL: [Format; 6] = [
    Format::Zip,
    Format::Tar,
    Format::Gzip,
    Format::Xz,
    Format::Bzip2,
    Format::Zstd,
];
const FILES: [(&str, &[u8]); 2] = [("function.toml", b"entry = \"main.sh\"\n"), ("lib/a", b"text")];

/// The files of an archive: path, whether executable, content.
type Files = Vec<(String, bool, Vec<u8>)>;

#[derive(Default)]
struct Kept(Files);

impl Sink for Kept {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.0.push((file.path.clone(), file.executable, Vec::new()));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.last_mut().unwrap().2.extend(bytes);
        Ok(())
    }
}

/// Returns the files of an archive. What reaches a sink is always what the spawner accepts, and nothing of a refused one does.
fn files(format: Format, bytes: &[u8]) -> Result<Files, ArchiveRefusal> {
    let mut kept = Kept::default();
    match unpack(format, &mut Cursor::new(bytes), &mut kept) {
        Ok(()) => {
            accepted(&kept.0);
            Ok(kept.0)
        }
        Err(UnpackStop::Refused(refusal)) => {
            assert_eq!(kept.0, []);
            Err(refusal)
        }
        Err(UnpackStop::Sink(error)) => panic!("{error}"),
    }
}

fn accepted(files: &Files) {
    let (mut stream, mut receiver) = (Vec::new(), Receiver::default());
    for (path, executable, content) in files {
        let (path, executable, length) = (path.clone(), *executable, content.len() as u64);
        stream.extend(
            UnpackRecord::File(Unpacked {
                path,
                executable,
                length,
            })
            .framed(),
        );
        for part in content.chunks(1000) {
            stream.extend(UnpackRecord::Data(fnd_wire::form::Bytes(part.to_vec())).framed());
        }
    }
    let mut stream = &stream[..];
    while !stream.is_empty() {
        receiver.next(&mut stream).unwrap();
    }
}

fn names(found: Result<Files, ArchiveRefusal>) -> Vec<String> {
    found.unwrap().into_iter().map(|(path, ..)| path).collect()
}

/// Returns the archive of some files in a format.
fn archive(format: Format, files: &[(&str, &[u8])]) -> Vec<u8> {
    if format == Format::Zip {
        let entries: Vec<Zipped> = files
            .iter()
            .map(|(name, content)| zipped(name, 0o100_644, content))
            .collect();
        return zip(&entries);
    }
    packed(format, &tar(files))
}

fn refused(found: Result<Files, ArchiveRefusal>) -> (Option<String>, Why) {
    let ArchiveRefusal { entry, why } = found.unwrap_err();
    (entry, why)
}

fn refused_entry(entry: &str, why: Why) -> (Option<String>, Why) {
    (Some(entry.to_owned()), why)
}

#[test]
fn every_format_gives_its_files() {
    let expected: Files = FILES
        .iter()
        .map(|(name, content)| ((*name).to_owned(), false, content.to_vec()))
        .collect();
    for format in ALL {
        assert_eq!(files(format, &archive(format, &FILES)).unwrap(), expected, "{format:?}");
        // Content that no decoder has in one piece.
        let large: Vec<u8> = (0..1_000_000_u32)
            .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let found = files(format, &archive(format, &[("large", &large), ("b", b"")])).unwrap();
        assert_eq!((&found[0].2, found[1].2.len()), (&large, 0), "{format:?}");
    }
}

/// Every bit of an archive is covered by a sum or a rule; only texts for people, times and the like may differ.
#[test]
fn an_archive_that_is_cut_off_or_goes_on_is_refused() {
    for format in ALL {
        let whole = archive(format, &FILES);
        for length in 0..whole.len() {
            assert!(files(format, &whole[..length]).is_err(), "{format:?} {length}");
        }
        for more in [&b"x"[..], b"PK\x05\x06", &[0xff; 600]] {
            let why = refused(files(format, &[&whole[..], more].concat())).1;
            assert_eq!(why, Why::Damaged, "{format:?} {more:?}");
        }
    }
}

#[test]
fn a_changed_byte_changes_no_file_without_notice() {
    for format in ALL.into_iter().filter(|format| *format != Format::Tar) {
        let whole = archive(format, &FILES);
        let expected = files(format, &whole).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            // The fast compressor of the tests writes no checksum for zstd.
            if let Ok(found) = files(format, &changed)
                && format != Format::Zstd
            {
                let bare = |files: &Files| {
                    files
                        .iter()
                        .map(|(path, _, text)| (path.clone(), text.clone()))
                        .collect()
                };
                let (found, expected): (Vec<_>, Vec<_>) = (bare(&found), bare(&expected));
                assert_eq!(found, expected, "{format:?} {at}");
            }
        }
    }
}

#[test]
fn the_content_is_of_the_format_that_the_name_says() {
    for format in ALL {
        for other in ALL.into_iter().filter(|other| *other != format) {
            let why = refused(files(format, &archive(other, &FILES))).1;
            assert_eq!(why, Why::OtherFormat, "{other:?} as {format:?}");
        }
        for text in [&b""[..], b"#!/bin/sh\necho\n", &[b'x'; 3000]] {
            assert!(files(format, text).is_err(), "{format:?}");
        }
    }
}

#[test]
fn paths_are_made_plain_and_the_only_directory_at_the_top_is_left_out() {
    for format in ALL {
        for (given, expected) in [
            (&["a", "b/c"][..], &["a", "b/c"][..]),
            (&["./a", "./b/./c"], &["a", "b/c"]),
            (&["b//c", "a"], &["b/c", "a"]),
            (&["top/a", "top/b/c"], &["a", "b/c"]),
            (&["./top/a"], &["a"]),
            (&["one/a", "two/a"], &["one/a", "two/a"]),
            (&["top/a", "b"], &["top/a", "b"]),
            (&["top/.git/config", "top/a"], &["a"]),
            (&[".git/config", "top/a"], &["a"]),
            (&["a", "__pycache__/a.pyc", "b/__pycache__/c"], &["a"]),
            (&["top/a", "__MACOSX/top/._a"], &["a"]),
        ] {
            let given: Vec<(&str, &[u8])> = given.iter().map(|name| (*name, &b"x"[..])).collect();
            assert_eq!(
                names(files(format, &archive(format, &given))),
                expected,
                "{format:?} {given:?}"
            );
        }
        assert_eq!(
            refused(files(format, &archive(format, &[]))).1,
            Why::Empty,
            "{format:?}"
        );
        let hidden = archive(format, &[(".git/a", b"")]);
        assert_eq!(refused(files(format, &hidden)).1, Why::Empty, "{format:?}");
    }
}

#[test]
fn hostile_names_are_refused_by_name() {
    let deep = vec!["d"; 33].join("/");
    for format in ALL {
        for (name, why) in [
            ("../evil", Why::Outside),
            ("a/../../evil", Why::Outside),
            (".git/../../evil", Why::Outside),
            ("/etc/cron.d/evil", Why::Absolute),
            ("a\\..\\evil", Why::BadName),
            ("a\nb", Why::BadName),
            (deep.as_str(), Why::TooDeep),
        ] {
            let found = refused(files(format, &archive(format, &[("good", b""), (name, b"x")])));
            assert_eq!(found, refused_entry(name, why), "{format:?}");
        }
        for (one, two, why) in [
            ("a", "a", Why::Twice),
            ("a", "./a", Why::Twice),
            ("a", "a/b", Why::Twice),
            ("a", "A", Why::Alike),
            ("Lib/a", "lib/b", Why::Alike),
            ("caf\u{e9}", "cafe\u{301}", Why::Alike),
        ] {
            let found = refused(files(format, &archive(format, &[(one, b"1"), (two, b"2")])));
            assert_eq!(found, refused_entry(two, why), "{format:?}");
        }
    }
    let bad = |name: &[u8]| {
        let mut entry = zipped("a", 0o100_644, b"x");
        (entry.name, entry.local_name) = (name.to_vec(), name.to_vec());
        let tar = ended(&[tar_entry(name, EntryType::Regular, 0o644, b"x")]);
        [files(Format::Zip, &zip(&[entry])), files(Format::Tar, &tar)].map(|found| refused(found).1)
    };
    assert_eq!(bad(b"caf\xe9"), [Why::BadName; 2]);
    let long = zipped(&vec!["n".repeat(200); 6].join("/"), 0o100_644, b"x");
    assert_eq!(refused(files(Format::Zip, &zip(&[long]))).1, Why::TooLong);
    // A NUL ends a name in tar; in zip it is part of it.
    assert_eq!(
        refused(files(Format::Zip, &archive(Format::Zip, &[("a\0b", b"")]))).1,
        Why::BadName
    );
}

#[test]
fn only_files_and_directories_are_accepted() {
    for (kind, why) in [
        (EntryType::Symlink, Why::SymbolicLink),
        (EntryType::Link, Why::HardLink),
        (EntryType::Char, Why::Device),
        (EntryType::Block, Why::Device),
        (EntryType::Fifo, Why::Fifo),
        (EntryType::Continuous, Why::OtherType),
        (EntryType::GNUSparse, Why::OtherType),
        (EntryType::new(b'Z'), Why::OtherType),
    ] {
        let entry = tar_entry(b"it", kind, 0o644, b"");
        let found = refused(files(Format::Tar, &ended(&[entry])));
        assert_eq!(found, refused_entry("it", why), "{kind:?}");
    }
    for (kind, why) in [
        (0o120_777, Why::SymbolicLink),
        (0o020_644, Why::Device),
        (0o060_644, Why::Device),
        (0o010_644, Why::Fifo),
        (0o140_644, Why::Socket),
        (0o150_644, Why::OtherType),
        (0o104_755, Why::SpecialBits),
    ] {
        let found = refused(files(Format::Zip, &zip(&[zipped("it", kind, b"/etc/passwd")])));
        assert_eq!(found, refused_entry("it", why), "{kind:o}");
    }
    for bits in [0o4755, 0o2755, 0o1644] {
        let entry = tar_entry(b"it", EntryType::Regular, bits, b"");
        let found = refused(files(Format::Tar, &ended(&[entry])));
        assert_eq!(found, refused_entry("it", Why::SpecialBits), "{bits:o}");
    }
    let directory = tar_entry(b"d/", EntryType::Directory, 0o2775, b"");
    let old = tar_entry(b"old/", EntryType::new(0), 0o755, b"");
    let entries = vec![directory, old, tar_entry(b"a", EntryType::Regular, 0o755, b"")];
    assert_eq!(
        files(Format::Tar, &ended(&entries)).unwrap(),
        [("a".to_owned(), true, vec![])]
    );
    let entries = [
        zipped("d/", 0o040_755, b""),
        zipped("old/", 0, b""),
        zipped("a", 0o100_755, b""),
    ];
    assert_eq!(
        files(Format::Zip, &zip(&entries)).unwrap(),
        [("a".to_owned(), true, vec![])]
    );
}

#[test]
fn long_names_come_from_headers_before_the_entry() {
    let long = vec!["n".repeat(100); 5].join("/");
    let file = || tar_entry(b"short", EntryType::Regular, 0o644, b"x");
    let of = |before: Vec<Vec<u8>>| files(Format::Tar, &ended(&[before, vec![file()]].concat()));
    let other = || tar_entry(b"z", EntryType::Regular, 0o644, b"");
    let gnu = || {
        tar_entry(
            b"././@LongLink",
            EntryType::GNULongName,
            0o644,
            format!("{long}\0").as_bytes(),
        )
    };
    assert_eq!(names(of(vec![other(), gnu()])), ["z", &long]);
    assert_eq!(names(of(vec![other(), pax("path", &long)])), ["z", &long]);
    let comment = tar_entry(
        b"pax_global_header",
        EntryType::XGlobalHeader,
        0o644,
        b"16 comment=12345\n",
    );
    assert_eq!(names(of(vec![comment])), ["short"]);
    assert_eq!(
        refused(of(vec![pax("path", "../evil")])),
        refused_entry("../evil", Why::Outside)
    );
    assert_eq!(refused(of(vec![gnu(), gnu()])).1, Why::Damaged);
    assert_eq!(refused(of(vec![pax("size", "1")])).1, Why::Unsupported);
    assert_eq!(refused(of(vec![pax("GNU.sparse.major", "1")])).1, Why::OtherType);
    let huge = tar_entry(b"x", EntryType::XHeader, 0o644, &vec![b'x'; 70_000]);
    assert_eq!(refused(of(vec![huge])).1, Why::Unsupported);
    // Nothing follows the description.
    assert_eq!(refused(files(Format::Tar, &ended(&[file(), gnu()]))).1, Why::Damaged);
}

#[test]
fn a_zip_file_has_nothing_that_its_directory_does_not_show() {
    let one = || zipped("a", 0o100_644, b"first");
    let two = || zipped("b", 0o100_644, b"second");
    assert_eq!(
        names(files(Format::Zip, &zip_after(b"", &[one()], b"a comment"))),
        ["a"]
    );
    // A program in front (`#!`), and a second archive there.
    assert_eq!(
        refused(files(Format::Zip, &zip_after(b"#!/bin/sh\n", &[one()], b""))).1,
        Why::OtherFormat
    );
    assert_eq!(
        refused(files(Format::Zip, &zip_after(&zip(&[two()]), &[one()], b""))).1,
        Why::Damaged
    );
    let check = |change: fn(&mut Zipped), expected: (Option<String>, Why)| {
        let mut entry = one();
        change(&mut entry);
        assert_eq!(refused(files(Format::Zip, &zip(&[entry, two()]))), expected);
    };
    let about_a = |why: Why| refused_entry("a", why);
    check(|entry| entry.local_name = b"c".to_vec(), about_a(Why::Damaged));
    check(|entry| entry.flags |= 1, about_a(Why::Encrypted));
    check(|entry| entry.flags |= 1 << 13, about_a(Why::Encrypted));
    for method in [1, 9, 12, 14, 93, 99] {
        let found = refused(files(Format::Zip, &zip(&[Zipped { method, ..one() }])));
        assert_eq!(found, about_a(Why::Method), "{method}");
    }
    check(|entry| entry.sum ^= 1, about_a(Why::Damaged));
    check(|entry| entry.length += 1, about_a(Why::Damaged));
    check(|entry| entry.length -= 1, about_a(Why::Damaged));
    check(|entry| entry.packed.push(0), about_a(Why::Damaged));
    check(|entry| entry.behind = vec![0], (None, Why::Damaged));
    check(|entry| entry.behind = vec![0; 16], (None, Why::Damaged));
    check(|entry| entry.length = u32::MAX, (None, Why::Unsupported));
    // Two entries that share their bytes: how the largest bombs are made.
    let shared = Zipped {
        offset: Some(0),
        local_name: b"a".to_vec(),
        ..two()
    };
    assert_eq!(refused(files(Format::Zip, &zip(&[one(), shared]))).1, Why::Damaged);
    // With a record behind the data, as programs write that can't seek.
    let streamed = Zipped {
        flags: 1 << 3,
        behind: vec![0; 16],
        ..one()
    };
    assert_eq!(names(files(Format::Zip, &zip(&[streamed.clone(), two()]))), ["a", "b"]);
    assert_eq!(names(files(Format::Zip, &zip(&[two(), streamed]))), ["b", "a"]);
}

#[test]
fn an_archive_that_unpacks_to_too_much_is_stopped() {
    let zeros = vec![0; 20 << 20];
    for format in ALL.into_iter().filter(|format| *format != Format::Tar) {
        let bomb = archive(format, &[("a", &zeros)]);
        assert!(bomb.len() * 200 < zeros.len(), "{format:?} {}", bomb.len());
        assert_eq!(refused(files(format, &bomb)).1, Why::Bomb, "{format:?}");
        // One that is small may be any number of times larger.
        let small = archive(format, &[("a", &zeros[..500_000])]);
        assert_eq!(names(files(format, &small)), ["a"], "{format:?}");
    }
    // A size in a header is refused before the entry is unpacked.
    let large = Zipped {
        length: u32::try_from(BYTES_MAX).unwrap() + 1,
        ..zipped("a", 0o100_644, b"")
    };
    assert_eq!(refused(files(Format::Zip, &zip(&[large]))).1, Why::TooLarge);
    let many: Vec<String> = (0..=ENTRIES_MAX).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
    for format in [Format::Zip, Format::Tar] {
        assert_eq!(names(files(format, &archive(format, &many[1..]))).len(), ENTRIES_MAX);
        assert_eq!(
            refused(files(format, &archive(format, &many))),
            (None, Why::TooMany),
            "{format:?}"
        );
    }
    let mut headers = vec![tar_entry(b"g", EntryType::XGlobalHeader, 0o644, b""); ENTRIES_MAX + 1];
    headers.push(tar_entry(b"a", EntryType::Regular, 0o644, b""));
    assert_eq!(refused(files(Format::Tar, &ended(&headers))).1, Why::TooMany);
}

#[test]
fn a_compressed_stream_may_not_ask_for_much_memory() {
    // xz: the size of the dictionary is in the header of the block, which has a sum of its own.
    let mut xz = archive(Format::Xz, &FILES);
    assert_eq!(xz[14], 0x21, "the filter LZMA2");
    xz[16] = 40; // 4 GiB - 1
    let length = (usize::from(xz[12]) + 1) * 4;
    let sum = crc32fast::hash(&xz[12..12 + length - 4]).to_le_bytes();
    xz[12 + length - 4..12 + length].copy_from_slice(&sum);
    assert_eq!(refused(files(Format::Xz, &xz)).1, Why::Memory);
    // zstd: a window of 2 GiB.
    let zstd = [&b"\x28\xb5\x2f\xfd\x00\xa8"[..], &[1, 0, 0]].concat();
    assert_eq!(refused(files(Format::Zstd, &zstd)).1, Why::Memory);
}

#[test]
fn a_sink_that_fails_ends_it() {
    struct Full;
    impl Sink for Full {
        fn file(&mut self, _: &Unpacked) -> io::Result<()> {
            Ok(())
        }
        fn data(&mut self, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
    for format in ALL {
        let bytes = archive(format, &FILES);
        let ended = unpack(format, &mut Cursor::new(bytes), &mut Full);
        assert!(matches!(ended, Err(UnpackStop::Sink(error)) if error.kind() == io::ErrorKind::StorageFull));
    }
}

proptest! {
    /// No bytes make it panic, whatever the format.
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in 0..6_usize) {
        let _ = files(ALL[at], &bytes);
    }

    /// An archive with changes anywhere is refused, or its files are ones that the spawner accepts.
    #[test]
    fn changed_archives_are_refused_or_read(at in 0..6_usize, changes in proptest::collection::vec(any::<(u16, u8)>(), 1..8)) {
        let mut bytes = archive(ALL[at], &FILES);
        for (place, byte) in changes {
            let place = usize::from(place) % bytes.len();
            bytes[place] = byte;
        }
        let _ = files(ALL[at], &bytes);
    }

    #[test]
    fn files_come_out_as_they_went_in(
        at in 0..6_usize,
        contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 1..6),
    ) {
        let names: Vec<String> = (0..contents.len()).map(|number| format!("f{number}")).collect();
        let given: Vec<(&str, &[u8])> =
            names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
        let found = files(ALL[at], &archive(ALL[at], &given)).unwrap();
        let found: Vec<(&str, &[u8])> = found.iter().map(|(path, _, text)| (path.as_str(), text.as_slice())).collect();
        prop_assert_eq!(found, given);
    }
}
