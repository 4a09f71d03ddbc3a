//! `Environment=` and `EnvironmentFile=`.

use super::parse::{UnitSetting, words};
use super::unit::UnitImport;

/// Takes the variables of a line over.
pub(super) fn environment(maker: &mut UnitImport<'_>, item: &UnitSetting) {
    let words = match words(&item.value) {
        Ok(words) => words,
        Err(why) => return maker.report.refused(&item.field, &why),
    };
    for word in words {
        match maker.specifiers.fill(&word) {
            Ok(pair) => variable(maker, item, &pair),
            Err(why) => maker.report.refused(&item.field, &why),
        }
    }
}

fn variable(maker: &mut UnitImport<'_>, item: &UnitSetting, pair: &str) {
    let valid = |name: &str| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    match pair.split_once('=').filter(|(name, _)| !name.is_empty() && valid(name)) {
        Some((name, _)) if name.starts_with("FND_") => maker
            .report
            .refused(&item.field, "fnd itself sets variables with names like this"),
        Some((name, value)) => {
            maker.made.manifest.set_in("env", name, value, Some(&item.field));
            maker.report.works(&item.field, &format!("env.{name}"));
        }
        None => maker.report.refused(
            &item.field,
            &format!("`{}` is no `NAME=VALUE`", pair.chars().take(40).collect::<String>()),
        ),
    }
}

/// Reads the file now: its variables become `[env]`, or secrets, if not everybody may read the file.
pub(super) fn environment_file(maker: &mut UnitImport<'_>, item: &UnitSetting) {
    // With `-` the unit starts without the file, too (systemd.exec(5)).
    let lenient = item.value.starts_with('-');
    let path = match maker.specifiers.fill(item.value.trim_start_matches('-')) {
        Ok(path) => path,
        Err(why) => return maker.report.refused(&item.field, &why),
    };
    let Some((text, public)) = (maker.read)(&path) else {
        return if lenient {
            maker.report.differs(
                &item.field,
                "",
                "the file is not there now; fnd does not look for it again",
            );
        } else {
            maker.report.refused(&item.field, &format!("`{path}` cannot be read"));
        };
    };
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let value = words(value.trim()).map(|words| words.join(" "));
        match value {
            Ok(value) if public => variable(maker, item, &format!("{}={value}", name.trim())),
            // Everybody may read a manifest, but not this file.
            Ok(value) => maker.secret(item, name.trim(), &value),
            Err(why) => maker.report.refused(&item.field, &format!("`{path}`: {why}")),
        }
    }
}
