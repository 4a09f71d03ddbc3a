//! The walks of docs/design/walks.md: each file that they name exists, and the two that matter most pass few rooms.

use fnd_tests::programs::repository;
use std::collections::BTreeSet;
use std::fs;

/// Most rooms that a walk may pass, by the beginning of its title.
const MOST: [(&str, usize); 2] = [("A file until", 20), ("A call of a warm", 15)];

/// Returns the parts of a line in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the room of a folder: its crate, and the first folder below `src`.
fn room(folder: &str) -> String {
    folder.split('/').take(3).collect::<Vec<_>>().join("/")
}

#[test]
fn the_walks_name_files_that_exist_and_pass_few_rooms() {
    let text = fs::read_to_string(repository().join("docs/design/walks.md")).unwrap();
    let mut walks = 0;
    for walk in text.split("\n## ").skip(1) {
        let (title, rows) = walk.split_once('\n').unwrap();
        let (mut rooms, mut files) = (BTreeSet::new(), 0);
        for row in rows.lines().filter(|row| row.starts_with("| `")) {
            let cells: Vec<_> = row.split('|').collect();
            let folder = quoted(cells[1]).next().unwrap();
            rooms.insert(room(folder));
            for name in quoted(cells[2]) {
                let path = repository().join(folder).join(name);
                let exists = path.is_dir() || path.with_extension("rs").is_file();
                assert!(exists, "{title}: {folder} has no {name}");
                files += 1;
            }
        }
        println!("{title}: {} rooms, {files} files", rooms.len());
        let most = MOST.iter().find(|(begin, _)| title.starts_with(begin));
        assert!(most.is_none_or(|(_, most)| rooms.len() <= *most), "{title}: {rooms:?}");
        walks += 1;
    }
    assert_eq!(walks, 7);
}
