//! The places that a command line names and that the sandbox hides, and the programs in it for which a function has no rights.

use crate::names::lists;
use fnd_manifest::foreign::MadeManifest;
use fnd_manifest::function::sandbox::Profile;
use std::collections::BTreeSet;
use toml::Value;

/// Places that no manifest shows.
const NEVER: [&str; 3] = ["/dev", "/etc/fnd", "/var/lib/fnd"];

/// Places that a function has for itself: what a command writes there needs no other place.
const OWN: [&str; 2] = ["/tmp", "/var/tmp"];

/// Programs that write to each place that they name.
const WRITERS: &str = "mkdir mv rm rmdir tee touch truncate";

/// Programs that write to the last place that they name, unless it is one of another machine.
const COPIERS: &str = "cp install rsync";

/// Programs that change the system or the rights of a process. A function cannot.
const RIGHTS: &str = "\
    sudo su doas runuser pkexec systemctl service docker podman iptables nft ufw mount umount reboot shutdown \
    poweroff apt apt-get dnf yum modprobe logrotate run-parts";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownPlaces {
    pub(crate) read_only: BTreeSet<String>,
    pub(crate) read_write: BTreeSet<String>,
    /// Programs of [`RIGHTS`].
    rights: BTreeSet<String>,
    /// Whether the home of the user is named.
    home: bool,
    /// Whether one of [`OWN`] is named.
    own: bool,
}

impl ShownPlaces {
    /// Adds the hidden places that a command line of a shell names: for writing, if output goes there.
    pub(crate) fn of_command(&mut self, command: &str) {
        let words = command.split(|c: char| c.is_whitespace() || "\"'();|&`".contains(c));
        for word in words.filter(|word| !word.is_empty()) {
            let name = base_name(word);
            self.rights.extend(lists(RIGHTS, name).then(|| name.to_owned()));
            self.home |= word == "~" || word.starts_with("~/") || word.contains("$HOME") || word.contains("${HOME}");
        }
        let writes: BTreeSet<&str> = command
            .split([';', '|', '&', '(', ')', '\n'])
            .flat_map(written_by)
            .collect();
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
            if OWN.iter().any(|place| path.starts_with(place)) {
                self.own = true;
            } else {
                self.add(path, output || writes.contains(path));
            }
            (before, output) = ('/', false);
            rest = behind;
        }
    }

    /// Adds a path, if the sandbox hides it. Of a path with a pattern or a variable it is the directory above.
    pub(crate) fn add(&mut self, path: &str, written: bool) {
        let fixed = path.find(['*', '?', '[', '$', '~']).and_then(|at| path.get(..at));
        let whole = path.trim_end_matches('/');
        let above = |path: &str| path.rsplit_once('/').map_or(0, |(above, _)| above.len());
        // A file that is written may not exist yet, so its directory is opened.
        let end = match fixed {
            Some(start) => above(start),
            None if written => above(whole),
            None => whole.len(),
        };
        let path = path.get(..end).unwrap_or_default();
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
        if !self.rights.is_empty() {
            let verb = if self.rights.len() == 1 { "needs" } else { "need" };
            notes.push_str(&format!(
                "; {} {verb} rights that a function has only if root gives them (docs/run-as-another-user.md)",
                names(&self.rights)
            ));
        }
        if self.own {
            notes.push_str("; it has a `/tmp` of its own, without the files of others");
        }
        if self.home {
            notes.push_str("; `~` is the home of the function, and not that of the user");
        }
        notes
    }
}

/// Returns the name of a program.
fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the paths that a command writes to, as far as its name says so.
fn written_by(command: &str) -> Vec<&str> {
    let words = command.split(|c: char| c.is_whitespace() || "\"'`".contains(c));
    let words = words.filter(|word| !word.is_empty());
    // Files for output are found by themselves.
    let words: Vec<&str> = words.take_while(|word| !word.contains(['<', '>'])).collect();
    let mut paths = paths_behind(&words, WRITERS);
    let last = words.last();
    paths.extend(paths_behind(&words, COPIERS).pop().filter(|path| last == Some(path)));
    if packs(&words) {
        paths.extend(paths_behind(&words, "tar").first());
    }
    // The file of the lock, which `flock` makes.
    paths.extend(paths_behind(&words, "flock").first());
    if words.contains(&"-delete") {
        paths.extend(paths_behind(&words, "find"));
    }
    paths
}

/// Says whether `tar` writes an archive: `tar -czf FILE`, `tar cf FILE`.
fn packs(words: &[&str]) -> bool {
    let mut behind = words.iter().skip_while(|word| base_name(word) != "tar").skip(1);
    behind
        .next()
        .is_some_and(|options| options.contains('c') && options.ends_with('f'))
}

/// Returns the paths behind the first of these programs.
fn paths_behind<'a>(words: &[&'a str], programs: &str) -> Vec<&'a str> {
    let words = words.iter().copied();
    let behind = words.skip_while(|word| !lists(programs, base_name(word))).skip(1);
    behind.filter(|word| word.starts_with('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, read_only: &[&str], read_write: &[&str]) {
        let mut places = ShownPlaces::default();
        places.of_command(command);
        let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(
            (places.read_only, places.read_write),
            (set(read_only), set(read_write)),
            "{command}"
        );
    }

    #[test]
    fn what_a_function_may_not_do_is_in_the_note() {
        let note = |command: &str| {
            let mut places = ShownPlaces::default();
            places.of_command(command);
            places.put(&mut MadeManifest::new("x"))
        };
        assert_eq!(
            note("certbot renew && systemctl reload nginx; /usr/bin/sudo x"),
            "; sudo, systemctl need rights that a function has only if root gives them (docs/run-as-another-user.md)"
        );
        assert_eq!(
            note("cd / && run-parts --report /etc/cron.hourly"),
            "; run-parts needs rights that a function has only if root gives them (docs/run-as-another-user.md)"
        );
        assert_eq!(
            note("docker ps"),
            "; docker needs rights that a function has only if root gives them (docs/run-as-another-user.md)"
        );
        assert_eq!(
            note("find /tmp -mtime +7 -delete"),
            "; it has a `/tmp` of its own, without the files of others"
        );
        assert_eq!(
            note("~/bin/x >>$HOME/log"),
            "; `~` is the home of the function, and not that of the user"
        );
        assert_eq!(note("echo surprise ~x"), "");
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

    #[test]
    fn places_that_a_command_changes_are_opened() {
        check("/bin/mkdir -p /var/backups/shop || exit", &[], &["/var/backups"]);
        check(
            "/bin/cp /srv/in/a /srv/out/b; ls /mnt",
            &["/mnt", "/srv/in/a"],
            &["/srv/out"],
        );
        check(
            "flock -n -E 0 /run/lock/dump rm -rf /srv/old/*",
            &[],
            &["/run/lock", "/srv/old"],
        );
        check("find /var/log/shop -name '*.gz' -delete", &[], &["/var/log"]);
        check("tar czf /srv/home.tgz /home/ada", &["/home/ada"], &["/srv"]);
        check("tar -xzf /srv/home.tgz", &["/srv/home.tgz"], &[]);
        check("rsync -a /srv/a/ backup@host:/srv/a/ 2>/dev/null", &["/srv/a"], &[]);
        check("cp -r /srv/a/. /mnt/b 2>/dev/null", &[], &["/mnt"]);
        check("find /srv/shop -name '*.gz'", &["/srv/shop"], &[]);
        check("x >>/var/log/shop-$(date +%F).log", &[], &["/var/log"]);
    }
}
