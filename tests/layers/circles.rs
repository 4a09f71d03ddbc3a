//! No import circle between the folders of a crate: whoever reads a folder needs only those below it.
//!
//! The imports are read as text: every path that begins with `crate` or `super`. Files of tests and fuzzing are left out. A file
//! that uses what a module around it defines is no import, because both are one room.

use super::{code, files};
use fnd_tests::programs::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CRATES: [&str; 12] = [
    "client",
    "core",
    "ctl",
    "daemon",
    "helpers",
    "import",
    "manifest",
    "packaging",
    "spawner",
    "unpack",
    "web",
    "wire",
];

/// The most files that may import each other inside a folder: they are read as one file.
const FILES_MAX: usize = 2;

/// The path of a module in its crate; empty for `lib.rs` and `main.rs`.
type Module = Vec<String>;

/// Modules or folders, each with those that it imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Returns the module that a file is, by its path below `src`.
fn module_of(file: &Path) -> Module {
    let names = file.with_extension("");
    let mut module: Module = names.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    let last = module.last().map(String::as_str);
    if last == Some("mod") || (module.len() == 1 && matches!(last, Some("lib" | "main"))) {
        module.pop();
    }
    module
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Adds the paths that a text begins with, those of its braces one by one, and returns the rest of the text.
fn read_path<'a>(mut text: &'a str, mut path: Module, paths: &mut Vec<Module>) -> &'a str {
    loop {
        let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
        path.extend((end > 0).then(|| text[..end].to_owned()));
        text = &text[end..];
        match text.strip_prefix("::") {
            Some(rest) if rest.starts_with('{') => {
                text = rest;
                break;
            }
            Some(rest) if !rest.starts_with(['*', '<']) => text = rest,
            _ => {
                paths.push(path);
                return text;
            }
        }
    }
    // After the brace and after each comma is a path, up to the brace that closes.
    while let Some(rest) = text.strip_prefix(['{', ',']) {
        text = read_path(rest.trim_start(), path.clone(), paths);
        text = &text[text.find([',', '}']).unwrap_or(text.len())..];
    }
    text.strip_prefix('}').unwrap_or(text)
}

/// Returns the paths of a text that begin with `crate` or `super`.
fn paths(text: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    let mut rest = text;
    while let Some(at) = ["crate::", "super::"].iter().filter_map(|word| rest.find(word)).min() {
        let is_inside = rest[..at].ends_with(|c| is_of_name(c) || c == ':');
        rest = match is_inside {
            true => &rest[at + "crate::".len()..],
            false => read_path(&rest[at..], Module::new(), &mut paths),
        };
    }
    paths
}

/// Returns the module that a path in `module` is of; nothing where it is of `module` itself or of one around it.
fn target(module: &Module, path: &Module, is_known: impl Fn(&Module) -> bool) -> Option<Module> {
    let supers = path.iter().filter(|name| *name == "super").count();
    let up = if supers == 0 { module.len() } else { supers };
    let mut target = module[..module.len().saturating_sub(up)].to_vec();
    let is_name = |name: &&String| !["crate", "self", "super"].contains(&name.as_str());
    target.extend(path.iter().filter(is_name).cloned());
    while !is_known(&target) {
        target.pop()?;
    }
    (!module.starts_with(&target)).then_some(target)
}

/// Returns the imports between the modules of a crate.
fn imports(name: &str) -> Imports {
    let source = repository().join(name).join("src");
    let mut texts: BTreeMap<Module, String> = BTreeMap::new();
    files(&source, &mut |file| {
        let module = module_of(file.strip_prefix(&source).unwrap());
        if module.iter().any(|name| name == "fuzzing") {
            return;
        }
        let text = texts.entry(module).or_default();
        code(&fs::read_to_string(file).unwrap(), |_, line| {
            text.extend([line.split("//").next().unwrap_or_default(), "\n"]);
        });
    });
    let of = |(module, text): (&Module, &String)| {
        let of_path = |path| target(module, &path, |known| texts.contains_key(known));
        (module.clone(), paths(text).into_iter().filter_map(of_path).collect())
    };
    texts.iter().map(of).collect()
}

/// Returns the imports between the folders of a crate. A file beside `lib.rs` counts as a folder.
fn between_folders(imports: &Imports) -> Imports {
    let mut folders = Imports::new();
    for (module, targets) in imports {
        for target in targets {
            if let (Some(from), Some(to)) = (module.first(), target.first())
                && from != to
            {
                folders.entry(vec![from.clone()]).or_default().insert(vec![to.clone()]);
            }
        }
    }
    folders
}

/// Returns all that one imports, directly or through others.
fn reached<'a>(imports: &'a Imports, from: &'a Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        let targets = imports.get(next).into_iter().flatten();
        open.extend(targets.filter(|target| reached.insert(*target)));
    }
    reached
}

/// Returns the circles: sets in which each one imports every other, directly or through others.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&Module>> {
    let all: BTreeMap<&Module, BTreeSet<&Module>> = imports.keys().map(|one| (one, reached(imports, one))).collect();
    let mut circles = BTreeSet::new();
    for (one, reached) in &all {
        let is_mutual = |other: &&Module| all.get(other).is_some_and(|back| back.contains(one));
        circles.insert(reached.iter().copied().filter(is_mutual).collect());
    }
    circles.retain(|circle: &BTreeSet<&Module>| circle.len() > 1);
    circles
}

#[test]
fn paths_are_read_with_their_braces() {
    let text = "use crate::a::{self, b::{C, D as E}, f};\nlet x = super::g::H { i: $crate::j() };\nmy_crate::k(self::crate::l)\n";
    let found: Vec<String> = paths(text).iter().map(|path| path.join("::")).collect();
    let expected = "crate::a::self crate::a::b::C crate::a::b::D crate::a::f super::g::H crate::j";
    assert_eq!(found.join(" "), expected);
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let known = ["a", "a::b", "g"].map(module);
    let is_known = |one: &Module| one.is_empty() || known.contains(one);
    let target = |path: &str| target(&module("a::b"), &module(path), is_known);
    assert_eq!(target("crate::g::H"), Some(module("g")));
    assert_eq!(target("super::super::g"), Some(module("g")));
    assert_eq!(
        [target("crate::a::C"), target("super::C"), target("crate::X")],
        [None, None, None]
    );
}

#[test]
fn no_folders_of_a_crate_are_in_a_circle() {
    let (mut in_circles, mut largest, mut wrong) = (0, 0, Vec::new());
    for name in CRATES {
        let imports = imports(name);
        let of_files = circles(&imports).iter().map(BTreeSet::len).max().unwrap_or_default();
        largest = largest.max(of_files);
        if of_files > FILES_MAX {
            wrong.push(format!("{name}: {of_files} files import each other, {FILES_MAX} may"));
        }
        let folders = between_folders(&imports);
        for circle in circles(&folders) {
            in_circles += circle.len();
            let names: Vec<String> = circle.iter().map(|folder| folder.concat()).collect();
            wrong.push(format!("{name}: these import each other: {}", names.join(" ")));
        }
    }
    let mut driver = 0;
    files(&repository().join("daemon/src/driver"), &mut |_| driver += 1);
    println!("folders in circles: {in_circles}; largest circle of files: {largest}; files of the driver: {driver}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
