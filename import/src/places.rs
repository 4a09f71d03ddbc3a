//! The places that a command line names and that the sandbox hides.

use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use fnd_manifest::function::sandbox::Profile;
use std::collections::BTreeSet;
use toml::Value;

/// Places that no manifest shows.
const NEVER: [&str; 3] = ["/dev", "/etc/fnd", "/var/lib/fnd"];

/// Places that a function has for itself: what a command writes there needs no other place.
const OWN: [&str; 2] = ["/tmp", "/var/tmp"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownPlaces {
    pub(crate) read_only: BTreeSet<String>,
    pub(crate) read_write: BTreeSet<String>,
}

impl ShownPlaces {
    /// Adds the hidden places that a command line of a shell names: for writing, if output goes there.
    pub(crate) fn of_command(&mut self, command: &str) {
        let mut before = ' ';
        // Whether the next word is a file for output.
        let mut output = false;
        let mut rest = command;
        while let Some(c) = rest.chars().next() {
            let starts = c == '/' && (before.is_whitespace() || "\"'=<>(:,&|".contains(before));
            if !starts {
                output = c == '>' || output && (c.is_whitespace() || c == '"' || c == '\'');
                before = c;
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                continue;
            }
            // A path between quotes may have blanks, and ends with the quote.
            let ends = |c: char| match before {
                '"' | '\'' => c == before,
                _ => c.is_whitespace() || "\"'=<>(){};|&,:`\\".contains(c),
            };
            let (path, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            if !OWN.iter().any(|place| path.starts_with(place)) {
                self.add(path, output);
            }
            (before, output) = ('/', false);
            rest = behind;
        }
    }

    /// Adds a path, if the sandbox hides it. Of a path with a pattern or a variable it is the directory above.
    pub(crate) fn add(&mut self, path: &str, written: bool) {
        let fixed = path.find(['*', '?', '[', '$', '~']).and_then(|at| path.get(..at));
        let path = match fixed {
            Some(start) => start.rsplit_once('/').map_or("", |(above, _)| above),
            None => path.trim_end_matches('/'),
        };
        let path = match path.rsplit_once('/') {
            // A file that is written may not exist yet, so its directory is opened.
            Some((above, _)) if written => above,
            _ => path,
        };
        let below = |place: &&str| {
            path.strip_prefix(*place)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // A path with such parts need not be the place that it seems to be.
        let strange = |part: &str| part.is_empty() || part == "." || part == "..";
        let strange = path.split('/').skip(1).any(strange) || path.chars().any(char::is_control);
        let hidden = Profile::Strict.hides().iter().any(&below);
        // An empty path is the root directory, which would show everything.
        if strange || path.matches('/').count() == 0 || NEVER.iter().any(below) || OWN.contains(&path) {
            return;
        }
        // The sandbox makes the whole system read-only: a place for writing is opened even if nothing hides it.
        if written {
            self.read_write.insert(path.to_owned());
        } else if hidden {
            self.read_only.insert(path.to_owned());
        }
    }

    /// Writes the places to `[sandbox]`; returns what a note says about them, or an empty text.
    pub(crate) fn put(self, made: &mut MadeManifest) -> String {
        let list = |paths: &BTreeSet<String>| Value::Array(paths.iter().cloned().map(Value::String).collect());
        let names = |paths: &BTreeSet<String>| paths.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut notes = String::new();
        // A place for writing is shown, too.
        let read_only: BTreeSet<String> = self.read_only.difference(&self.read_write).cloned().collect();
        if !read_only.is_empty() {
            made.manifest.set("sandbox.read_only", list(&read_only), None);
            notes.push_str(&format!("; `sandbox.read_only` shows {}", names(&read_only)));
        }
        if !self.read_write.is_empty() {
            made.manifest.set("sandbox.read_write", list(&self.read_write), None);
            notes.push_str(&format!(
                "; `sandbox.read_write` opens {}: its user needs the right to write there",
                names(&self.read_write)
            ));
        }
        notes
    }
}

/// Sets the user that a function runs as.
pub(crate) fn user(made: &mut MadeManifest, report: &mut ConversionReport, user: &str, field: &Field) {
    // Root is never taken over: only a person may write this into a manifest.
    if user == "root" || user == "0" {
        let note = "it runs as a user of its own, not as root; if it must be root, set `sandbox.user = \"root\"`, and \
                    `allow_root = true` in `[users]` of fnd.toml";
        report.differs(field, "", note);
        return;
    }
    let note = format!(
        "fnd.toml must allow the user: `allow = [\"{user}\"]` in `[users]`; without `sandbox.user` it runs as a user of its own"
    );
    made.differs(report, ("sandbox.user", user), field, &note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, read_only: &[&str], read_write: &[&str]) {
        let mut places = ShownPlaces::default();
        places.of_command(command);
        let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let expected = ShownPlaces {
            read_only: set(read_only),
            read_write: set(read_write),
        };
        assert_eq!(places, expected, "{command}");
    }

    #[test]
    fn places_that_the_sandbox_hides_are_found() {
        check("/usr/bin/true /etc/passwd https://example.com/srv/x", &[], &[]);
        check(
            "cd /srv/shop && ./x --in=/home/ada/a,/mnt/b",
            &["/home/ada/a", "/mnt/b", "/srv/shop"],
            &[],
        );
        check(
            "/opt/x >>/var/log/x.log 2>&1 </srv/in/*.csv",
            &["/srv/in"],
            &["/var/log"],
        );
        check("x > \"/srv/out/a b\" /srv/$DAY/x", &["/srv"], &["/srv/out"]);
        check("x >/dev/null /tmp/x /home/../x //", &[], &[]);
    }
}
