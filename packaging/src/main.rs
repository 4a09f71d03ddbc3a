//! `fnd-packaging DIR`: writes the files that the Debian package has beside programs, from the sources of the programs
//! themselves. `fnd-packaging --picture` draws the terminal output on its standard input as SVG (scripts/pictures.sh);
//! `fnd-packaging --reference` writes docs/reference.md.
//!
//! Man pages and HTML come from the command lines, the table of keys and the documents, completions from the command line of
//! fndctl, schemas from the table of keys, the configuration from `config/fnd.toml`, the changelog from CHANGELOG.md. These
//! files are not committed.

mod changelog;
mod command;
mod conffile;
mod html;
mod keys;
mod markdown;
mod reference;
mod roff;

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use fnd_daemon::cli::DaemonCli as Daemon;
use roff::ManPage;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

const CONFIGURATION: &str = include_str!("../../docs/configuration.md");
const FUNCTIONS: &str = include_str!("../../docs/writing-functions.md");
/// Pages of section 7: file, description, document.
const CONCEPTS: [(&str, &str, &str); 7] = [
    (
        "fnd-reasons.7",
        "why runs of the functions of fnd fail, and exit codes",
        include_str!("../../docs/errors-and-reasons.md"),
    ),
    (
        "fnd-handlers.7",
        "functions of fnd that are loaded once",
        include_str!("../../docs/handlers.md"),
    ),
    (
        "fnd-http.7",
        "functions of fnd that serve HTTP",
        include_str!("../../docs/http-functions.md"),
    ),
    (
        "fnd-secrets.7",
        "secrets with which fnd checks requests",
        include_str!("../../docs/secrets.md"),
    ),
    (
        "fnd-services.7",
        "programs that fnd keeps running",
        include_str!("../../docs/services.md"),
    ),
    (
        "fnd-history.7",
        "past runs of the functions of fnd",
        include_str!("../../docs/history.md"),
    ),
    (
        "fnd-operations.7",
        "upgrade, backup, tuning and restarts of fnd",
        include_str!("../../docs/operations.md"),
    ),
];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        bail!("usage: fnd-packaging DIR");
    };
    match directory.to_str() {
        Some("--picture") => return picture(),
        Some("--reference") => return Ok(std::io::stdout().write_all(reference::page().as_bytes())?),
        _ => {}
    }
    let directory = Path::new(&directory);
    fs::create_dir_all(directory.join("html")).context("failed to make its directory `html`")?;
    for (name, text) in files()? {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Draws the terminal output on standard input, with its colours.
fn picture() -> anyhow::Result<()> {
    let mut output = String::new();
    std::io::stdin().read_to_string(&mut output)?;
    let svg = anstyle_svg::Term::new().render_svg(&output);
    Ok(std::io::stdout().write_all(svg.as_bytes())?)
}

/// Returns the content of every file, by name.
fn files() -> anyhow::Result<Vec<(String, String)>> {
    let built_at = changelog::built_at()?;
    let date = built_at.strftime("%Y-%m-%d").to_string();
    let mut files: Vec<(String, String)> = pages(&date)
        .into_iter()
        .map(|(name, page)| (name.to_owned(), page.text()))
        .collect();
    // Each shell looks for the completion of a command in a file of this name.
    for (shell, name) in [("bash", "fndctl"), ("zsh", "_fndctl"), ("fish", "fndctl.fish")] {
        files.push((name.to_owned(), String::from_utf8(fndctl::completion(shell)?)?));
    }
    files.push((
        "fnd.toml".to_owned(),
        conffile::installed(include_str!("../../config/fnd.toml")),
    ));
    files.extend(fndctl::schemas().map(|(name, text)| (name.to_owned(), text)));
    let html = html::files()?;
    files.extend(html.into_iter().map(|(name, text)| (format!("html/{name}"), text)));
    let changes = include_str!("../../CHANGELOG.md");
    files.push(("changelog".to_owned(), changelog::debian(changes, built_at)));
    Ok(files)
}

/// Returns the man pages.
fn pages(date: &str) -> Vec<(&'static str, ManPage)> {
    let mut fnd = ManPage::new("fnd", 8, date, "daemon that turns files into supervised functions");
    command::write(&mut fnd, Daemon::command());
    markdown::write(&mut fnd, include_str!("../man/fnd.8.md"));

    let mut fndctl = ManPage::new("fndctl", 1, date, "see and use the functions of fnd");
    command::write(&mut fndctl, fndctl::command());
    markdown::write(&mut fndctl, include_str!("../man/fndctl.1.md"));

    let mut spawner = ManPage::new("fnd-spawner", 8, date, "starts, limits and kills the functions of fnd");
    markdown::write(&mut spawner, include_str!("../man/fnd-spawner.8.md"));
    spawner.section("Usage");
    // Before its fourth line the help says what the page has said already.
    spawner.verbatim(include_str!("../../spawner/src/help.txt").lines().skip(3));

    let mut settings = ManPage::new("fnd.toml", 5, date, "configuration of fnd");
    settings.section("Description");
    markdown::write(&mut settings, CONFIGURATION);
    keys::write(&mut settings, "fnd.toml");
    markdown::write(&mut settings, include_str!("../man/see-also.md"));

    let mut function = ManPage::new("fnd-function", 5, date, "functions of fnd and their manifest");
    markdown::write(&mut function, FUNCTIONS);
    keys::write(&mut function, "function.toml");
    markdown::write(&mut function, include_str!("../man/see-also.md"));

    let mut pages = vec![
        ("fnd.8", fnd),
        ("fndctl.1", fndctl),
        ("fnd-spawner.8", spawner),
        ("fnd.toml.5", settings),
        ("fnd-function.5", function),
    ];
    for (file, about, document) in CONCEPTS {
        let name = file.trim_end_matches(".7");
        let mut page = ManPage::new(name, 7, date, about);
        page.section("Description");
        markdown::write(&mut page, document);
        markdown::write(&mut page, include_str!("../man/see-also.md"));
        pages.push((file, page));
    }
    pages
}
