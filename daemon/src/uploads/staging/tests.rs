use super::*;

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

/// Returns the files below a directory with their contents, without the staging directory's own name.
fn tree(root: &Path) -> Vec<String> {
    fn add(at: &Path, prefix: &str, found: &mut Vec<String>) {
        for name in names(at).unwrap() {
            let (path, shown) = (at.join(&name), format!("{prefix}{name}"));
            match path.is_dir() {
                true => add(&path, &format!("{shown}/"), found),
                false => found.push(format!("{shown}={}", fs::read_to_string(&path).unwrap())),
            }
        }
    }
    let mut found = Vec::new();
    add(root, "", &mut found);
    found
}

fn staged(root: &Path, function: &str, files: &[(&str, &str)]) -> Staged {
    let staged = Staged::begin(root, &name(function), None).unwrap();
    for (file, content) in files {
        fs::write(staged.files().join(file), content).unwrap();
    }
    staged
}

fn placed(root: &Path, function: &str, files: &[(&str, &str)]) {
    let staged = staged(root, function, files);
    staged.swap().unwrap();
    staged.commit().unwrap();
}

#[test]
fn files_are_exchanged_as_a_whole() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    placed(root, "a", &[("a.py", "1"), ("a.toml", "1")]);
    placed(root, "ab", &[("ab.py", "other")]);
    placed(root, "a", &[("a.sh", "2")]);
    assert_eq!(tree(root), ["a.sh=2", "ab.py=other"]);
    let third = staged(root, "a", &[("a.tar.gz", "3"), ("a.toml", "3")]);
    assert_eq!(third.swap().unwrap(), [root.join("a.tar.gz"), root.join("a.toml")]);
    assert_eq!(third.take_back().unwrap(), [root.join("a.sh")]);
    assert_eq!(tree(root), ["a.sh=2", "ab.py=other"]);
}

#[test]
fn a_group_comes_and_goes_with_its_functions() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    placed(root, "ops/a", &[("a.sh", "1")]);
    placed(root, "ops", &[("ops.sh", "is no group")]);
    assert_eq!(tree(root), ["ops/a.sh=1", "ops.sh=is no group"]);
    let gone = staged(root, "ops/a", &[]);
    assert!(gone.swap().unwrap().is_empty());
    gone.commit().unwrap();
    assert!(!root.join("ops").exists());
    let refused = staged(root, "web/b", &[("b.sh", "1")]);
    refused.swap().unwrap();
    refused.take_back().unwrap();
    assert_eq!(
        (tree(root), root.join("web").exists()),
        (vec!["ops.sh=is no group".to_owned()], false)
    );
}

/// A kill between any two renames leaves a state from which the files before are put back whole, also if the recovery is
/// killed.
#[test]
fn an_interrupted_upload_is_taken_back() {
    let before = [("f.py", "1"), ("f.toml", "1")];
    for moved in 0..=2 {
        for new in 0..=2 {
            let root = tempfile::tempdir().unwrap();
            let root = root.path();
            placed(root, "f", &before);
            let upload = staged(root, "f", &[("f.py", "2"), ("f.toml", "2")]);
            let part = upload.place.join("old.part");
            fs::create_dir(&part).unwrap();
            for (file, _) in &before[..moved] {
                fs::rename(root.join(file), part.join(file)).unwrap();
            }
            if moved == 2 {
                fs::rename(&part, upload.place.join("old")).unwrap();
                for (file, _) in &before[..new] {
                    fs::rename(upload.files().join(file), root.join(file)).unwrap();
                }
            }
            recover(root);
            assert_eq!(tree(root), ["f.py=1", "f.toml=1"], "{moved} {new}");
            recover(root);
            assert_eq!(tree(root), ["f.py=1", "f.toml=1"], "{moved} {new}");
        }
    }
}

#[test]
fn what_is_over_stays_over() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let upload = staged(root, "g/f", &[("f.py", "2")]);
    upload.swap().unwrap();
    fs::rename(&upload.place, upload.place.with_file_name("g.f~")).unwrap();
    fs::create_dir(root.join(STAGING).join("No Name")).unwrap();
    recover(root);
    assert_eq!(tree(root), ["g/f.py=2"]);
    assert_eq!(names(&root.join(STAGING)).unwrap(), [""; 0]);
}

/// The next upload begins only after the files before are in place again.
#[test]
fn an_upload_that_could_not_be_ended_is_ended_by_the_next_one() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    placed(root, "f", &[("f.py", "1")]);
    staged(root, "f", &[("f.sh", "2")]).swap().unwrap();
    let third = staged(root, "f", &[("f.py", "3")]);
    assert_eq!(in_place(root, &name("f")).unwrap(), [root.join("f.py")]);
    assert_eq!(fs::read_to_string(root.join("f.py")).unwrap(), "1");
    third.swap().unwrap();
    third.take_back().unwrap();
    assert_eq!(tree(root), ["f.py=1"]);
}
