//! The secrets that requests are checked with, and the files of `[http] tls`, as the spawner gave them.
//!
//! The spawner decides which of them fnd gets. This part opens no file and sends nothing: the driver sends its requests
//! and brings the answers. Values are overwritten before their memory is freed; no message and no document has them.

use fnd_manifest::function::Manifest;
use fnd_manifest::function::route::Credential;
use fnd_manifest::settings::HttpEvents;
use fnd_wire::frame::{CERTIFICATE, KEY, NAMED, Problem, Request, SecretAsked, TLS_FILE_MAX};
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The reason of a refusal if the running spawner cannot open secrets.
const OLD_SPAWNER: &str = "the running fnd-spawner is older than secrets: start it again (`systemctl stop fnd && systemctl start fnd`, \
     which ends running functions)";

/// Returns the requests for the secrets that versions of a function name.
pub(crate) fn of_function<'a>(
    function: &FunctionName,
    versions: impl Iterator<Item = &'a Manifest>,
) -> Vec<SecretAsked> {
    let names: BTreeSet<String> = versions.flat_map(Manifest::secrets).collect();
    let request = |name| SecretAsked {
        function: Some(function.clone()),
        name,
    };
    names.into_iter().map(request).collect()
}

/// Returns the requests for the files of `[http] tls`.
pub(crate) fn of_tls() -> [SecretAsked; 2] {
    [CERTIFICATE, KEY].map(|name| of_node(name.to_owned()))
}

/// Returns the request for a secret with this name that belongs to no function.
pub(crate) fn named(name: &str) -> SecretAsked {
    of_node(format!("{NAMED}{name}"))
}

fn of_node(name: String) -> SecretAsked {
    SecretAsked { function: None, name }
}

/// Returns the requests for the secrets of `[http] events`.
pub(crate) fn of_events(events: Option<&HttpEvents>) -> Vec<SecretAsked> {
    let credentials = events.into_iter().flat_map(|events| &events.auth.0);
    credentials.map(|credential| named(&credential.secret)).collect()
}

/// Returns the credentials that the routes of all versions and `[http] events` name.
pub(crate) fn credentials<'a>(
    versions: impl Iterator<Item = &'a Manifest>,
    events: Option<&HttpEvents>,
) -> BTreeSet<Credential> {
    let routes = versions.flat_map(|version| &version.http);
    let of_routes = routes.flat_map(|route| &route.auth.0);
    let of_events = events.into_iter().flat_map(|events| &events.auth.0);
    of_routes.chain(of_events).cloned().collect()
}

#[derive(Default, PartialEq, Eq)]
pub(crate) struct Secret {
    /// The lines of its file that are not empty, without their ends. Each of them is valid: while a secret is rotated,
    /// it has two.
    pub(crate) lines: Vec<Zeroizing<Vec<u8>>>,
}

impl Secret {
    fn read(bytes: &[u8]) -> Self {
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let lines = lines.filter(|line| !line.is_empty());
        Self {
            lines: lines.map(|line| Zeroizing::new(line.to_vec())).collect(),
        }
    }
}

/// Says nothing about the value.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret of {} lines", self.lines.len())
    }
}

/// The identity of an item: the name of a secret, or [`CERTIFICATE`] or [`KEY`] of `[http] tls`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SecretItem {
    Named(String),
    Tls(String),
}

impl From<&SecretAsked> for SecretItem {
    fn from(asked: &SecretAsked) -> Self {
        let name = asked.name.clone();
        if let Some(name) = asked.name.strip_prefix(NAMED) {
            Self::Named(name.to_owned())
        } else if asked.function.is_some() {
            Self::Named(name)
        } else {
            Self::Tls(name)
        }
    }
}

/// The last answers about an item.
#[derive(Default)]
struct KnownSecret {
    /// The secret's value.
    secret: Option<Rc<Secret>>,
    /// The whole file of `[http] tls`; empty: none.
    file: Zeroizing<Vec<u8>>,
    /// Why there is no value, or no newer one.
    problem: Option<String>,
    /// Whether a request waits for its answer.
    is_asked: bool,
    /// The request to send after that answer: the file may have changed since the first one was sent.
    again: Option<SecretAsked>,
}

/// All secrets that fnd has or waits for.
#[derive(Default)]
pub(crate) struct TriggerSecrets {
    items: BTreeMap<SecretItem, KnownSecret>,
    /// The purpose of each request, by its number.
    asked: HashMap<u32, SecretItem>,
    generation: u64,
    /// Whether a value may have changed since that was asked last.
    is_news: bool,
    /// When the files of TLS are asked for next: no event says that they have changed, see [`TLS_EVERY`].
    tls_due: Option<Duration>,
}

/// How often the files of `[http] tls` are read. fnd itself can often not even see their directory, and a watch would
/// fall between the two files of a renewal.
const TLS_EVERY: Duration = Duration::from_secs(10);

/// The spawner's answer to a request.
#[derive(Debug)]
pub(crate) enum SecretsAnswer {
    /// The value, in a memory file.
    Value(OwnedFd),
    /// There is no value.
    Refused(Problem),
    /// The spawner could not read it now.
    Failed(String),
}

impl TriggerSecrets {
    /// Returns a secret. It is absent while the spawner has not answered yet, and if the spawner refuses it.
    pub(crate) fn get(&self, name: &str) -> Option<Rc<Secret>> {
        self.items.get(&SecretItem::Named(name.to_owned()))?.secret.clone()
    }

    /// Returns certificates and private key, PEM, if the spawner gave both.
    pub(crate) fn tls(&self) -> Option<(Vec<u8>, Zeroizing<Vec<u8>>)> {
        let file = |name: &str| Some(&self.items.get(&SecretItem::Tls(name.to_owned()))?.file);
        let (certificate, key) = (file(CERTIFICATE)?, file(KEY)?);
        (!certificate.is_empty() && !key.is_empty()).then(|| (certificate.to_vec(), key.clone()))
    }

    /// Returns a number that changes whenever a value does.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Sets when the files of TLS are asked for next: after a while from `now`, the monotonic time; absent: never.
    pub(crate) fn ask_for_tls_after(&mut self, now: Option<Duration>) {
        self.tls_due = now.map(|now| now + TLS_EVERY);
    }

    /// Returns when the files of TLS are asked for next, as a monotonic time.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.tls_due
    }

    /// Returns whether a value may have changed since this was asked last. The files of TLS are mostly what they were.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Returns whether an answer is awaited.
    pub(crate) fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Returns whether a secret is on its way: what it says is not known yet, or not its newest value.
    pub(crate) fn awaits_secret(&self) -> bool {
        self.asked.values().any(|key| matches!(key, SecretItem::Named(_)))
    }

    /// Returns the problems: the code of each, the name of its item, and a text for people.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.items.iter().filter_map(|(key, item)| {
            let problem = item.problem.as_deref()?;
            Some(match key {
                SecretItem::Named(name) => ("secret", name.as_str(), problem),
                SecretItem::Tls(name) => ("tls", name.as_str(), problem),
            })
        })
    }

    /// Keeps only these secrets, and the files of TLS only if they are configured. Answers that are on their way are
    /// dropped when they come.
    pub(crate) fn retain(&mut self, names: &BTreeSet<String>, has_tls: bool) {
        let before = self.items.len();
        self.items.retain(|key, _| match key {
            SecretItem::Named(name) => names.contains(name),
            SecretItem::Tls(_) => has_tls,
        });
        self.generation += u64::from(self.items.len() < before);
    }

    /// Asks for secrets with `send`, which returns the number of a request, or nothing without a connection. A spawner of fnd
    /// 0.1 opens no secrets.
    pub(crate) fn ask(
        &mut self,
        asked: impl IntoIterator<Item = SecretAsked>,
        is_of_0_1: bool,
        mut send: impl FnMut(&Request) -> Option<u32>,
    ) {
        for asked in asked {
            if is_of_0_1 {
                let item = self.items.entry(SecretItem::from(&asked)).or_default();
                item.problem = Some(OLD_SPAWNER.to_owned());
            } else if let Some(asked) = self.needs(asked) {
                let request = Request::Secret(asked.clone());
                if let Some(number) = send(&request) {
                    self.sent(number, &asked);
                }
            }
        }
    }

    /// Returns the request to send now, which [`sent`](Self::sent) then records; none if one is on its way, after which
    /// the value is asked for again.
    fn needs(&mut self, asked: SecretAsked) -> Option<SecretAsked> {
        let item = self.items.entry(SecretItem::from(&asked)).or_default();
        if item.is_asked {
            item.again = Some(asked);
            return None;
        }
        Some(asked)
    }

    /// Records a request that was sent, by its number.
    fn sent(&mut self, number: u32, asked: &SecretAsked) {
        let key = SecretItem::from(asked);
        self.items.entry(key.clone()).or_default().is_asked = true;
        self.asked.insert(number, key);
    }

    /// Handles the answer to a request. Returns whether it was one for a secret, and the request to send next.
    pub(crate) fn answered(&mut self, number: u32, answer: SecretsAnswer) -> Option<Option<SecretAsked>> {
        let key = self.asked.remove(&number)?;
        // Absent: no function names it any more.
        let Some(item) = self.items.get_mut(&key) else {
            return Some(None);
        };
        item.is_asked = false;
        self.is_news |= matches!(key, SecretItem::Named(_));
        let read = match answer {
            SecretsAnswer::Value(memory) => {
                read(memory).map_err(|error| format!("failed to read its memory file: {error}"))
            }
            // A secret that was withdrawn admits nobody any more. The last good pair of TLS serves on.
            SecretsAnswer::Refused(refused) => {
                if matches!(key, SecretItem::Named(_)) && item.secret.take().is_some() {
                    self.generation += 1;
                }
                Err(format!("{}: {} ({})", refused.file, refused.message, refused.help))
            }
            // The failure says nothing about the secret, so its last value stays in use.
            SecretsAnswer::Failed(why) => Err(why),
        };
        match (read, &key) {
            (Err(why), _) => item.problem = Some(why),
            (Ok(bytes), SecretItem::Named(_)) => {
                let secret = Secret::read(&bytes);
                item.problem = secret
                    .lines
                    .is_empty()
                    .then(|| "its file has no line with a value".to_owned());
                if item.secret.as_deref() != Some(&secret) {
                    item.secret = Some(Rc::new(secret));
                    self.generation += 1;
                }
            }
            (Ok(bytes), SecretItem::Tls(_)) => {
                item.problem = None;
                if item.file != bytes {
                    item.file = bytes;
                    self.is_news = true;
                    self.generation += 1;
                }
            }
        }
        Some(item.again.take())
    }
}

/// Reads a memory file whole. Its buffer never grows, since a copy of it would stay in freed memory.
fn read(memory: OwnedFd) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::from(memory);
    let length = file.metadata()?.len().min(TLS_FILE_MAX);
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(length).unwrap_or(0)]);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::function::route::Credentials;
    use rustix::fs::{MemfdFlags, memfd_create};

    fn asked(name: &str) -> SecretAsked {
        SecretAsked {
            function: Some(FunctionName::new("hello").unwrap()),
            name: name.to_owned(),
        }
    }

    fn file(name: &str) -> SecretAsked {
        SecretAsked {
            function: None,
            name: name.to_owned(),
        }
    }

    fn value(text: &str) -> SecretsAnswer {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(text.as_bytes(), 0).unwrap();
        SecretsAnswer::Value(file.into())
    }

    fn refused() -> SecretsAnswer {
        SecretsAnswer::Refused(Problem {
            file: "/etc/fnd/secrets/hook".to_owned(),
            message: "there is no such secret".to_owned(),
            help: "make it".to_owned(),
        })
    }

    /// Asks for an item and brings the answer.
    fn ask(secrets: &mut TriggerSecrets, number: u32, what: &SecretAsked, answer: SecretsAnswer) {
        assert_eq!(secrets.needs(what.clone()).as_ref(), Some(what));
        secrets.sent(number, what);
        assert!(secrets.is_asking());
        assert_eq!(secrets.awaits_secret(), what.function.is_some());
        assert_eq!(secrets.answered(number, answer), Some(None));
        assert!(!secrets.is_asking());
    }

    fn lines(secrets: &TriggerSecrets) -> Vec<String> {
        let item = &secrets.items[&SecretItem::Named("hook".to_owned())];
        let lines = item.secret.iter().flat_map(|secret| &secret.lines);
        lines.map(|line| String::from_utf8(line.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_sender_of_events_needs_the_secrets_that_it_proves_itself_with() {
        let parse = |text| Credential::parse(text).unwrap();
        let events = HttpEvents {
            path: "/events".to_owned(),
            auth: Credentials(vec![parse("token:b"), parse("token:a")]),
        };
        let names: Vec<_> = of_events(Some(&events)).into_iter().map(|asked| asked.name).collect();
        assert_eq!(names, [format!("{NAMED}b"), format!("{NAMED}a")]);
        let all = credentials(std::iter::empty(), Some(&events));
        assert_eq!(all.iter().map(|one| &*one.secret).collect::<Vec<_>>(), ["a", "b"]);
        assert!(of_events(None).is_empty() && credentials(std::iter::empty(), None).is_empty());
    }

    #[test]
    fn each_line_that_is_not_empty_is_a_value() {
        let mut secrets = TriggerSecrets::default();
        for (number, (text, expected)) in (1..).zip([
            ("one", vec!["one"]),
            ("one\n", vec!["one"]),
            ("new\r\n\r\n\nold\n", vec!["new", "old"]),
            ("# no comment\n a b \n", vec!["# no comment", " a b "]),
        ]) {
            ask(&mut secrets, number, &asked("hook"), value(text));
            assert_eq!(lines(&secrets), expected);
        }
        assert_eq!(secrets.generation, 3);
        assert_eq!(
            format!("{:?}", secrets.items[&SecretItem::Named("hook".to_owned())].secret),
            "Some(a secret of 2 lines)"
        );
        ask(&mut secrets, 9, &asked("hook"), value("\n\n"));
        assert_eq!(
            secrets
                .problems()
                .map(|(code, name, _)| (code, name))
                .collect::<Vec<_>>(),
            [("secret", "hook")]
        );
    }

    #[test]
    fn a_withdrawn_secret_has_no_value_and_a_failure_keeps_it() {
        let mut secrets = TriggerSecrets::default();
        ask(&mut secrets, 1, &asked("hook"), value("one"));
        ask(
            &mut secrets,
            2,
            &asked("hook"),
            SecretsAnswer::Failed("too many open files".to_owned()),
        );
        assert_eq!(lines(&secrets), ["one"]);
        assert_eq!(secrets.problems().count(), 1);
        ask(&mut secrets, 3, &asked("hook"), refused());
        assert_eq!(lines(&secrets), [""; 0]);
        let problems: Vec<_> = secrets.problems().collect();
        let text = "/etc/fnd/secrets/hook: there is no such secret (make it)";
        assert_eq!(problems, [("secret", "hook", text)]);
        ask(&mut secrets, 4, &asked("hook"), value("two"));
        assert_eq!(
            (lines(&secrets), secrets.problems().count()),
            (vec!["two".to_owned()], 0)
        );
        assert_eq!(secrets.answered(4, refused()), None);
    }

    #[test]
    fn the_last_good_pair_of_tls_stays() {
        let mut secrets = TriggerSecrets::default();
        let file_of =
            |secrets: &TriggerSecrets, name: &str| secrets.items[&SecretItem::Tls(name.to_owned())].file.to_vec();
        ask(&mut secrets, 1, &file(CERTIFICATE), value("certificate"));
        ask(&mut secrets, 2, &file(KEY), value("key"));
        ask(&mut secrets, 3, &file(KEY), refused());
        assert_eq!(file_of(&secrets, CERTIFICATE), b"certificate");
        assert_eq!(file_of(&secrets, KEY), b"key");
        assert_eq!(secrets.problems().next().unwrap().0, "tls");
        secrets.retain(&BTreeSet::new(), false);
        assert!(secrets.items.is_empty());
    }

    #[test]
    fn each_secret_is_asked_for_once_and_never_of_a_spawner_of_0_1() {
        let mut secrets = TriggerSecrets::default();
        let mut sent = 0;
        let mut send = |request: &Request| {
            assert!(matches!(request, Request::Secret(_)), "{request:?}");
            sent += 1;
            Some(sent)
        };
        secrets.ask([asked("hook"), asked("hook"), asked("other")], false, &mut send);
        assert_eq!(sent, 2);
        assert!(secrets.is_asking());
        let mut old = TriggerSecrets::default();
        old.ask([asked("hook")], true, |_| panic!("an old spawner is asked for nothing"));
        assert_eq!(old.problems().count(), 1);
        let mut broken = TriggerSecrets::default();
        broken.ask([asked("hook")], false, |_| None);
        assert!(!broken.is_asking());
    }

    /// The file may have changed after the spawner read it for the first request.
    #[test]
    fn what_is_wanted_during_a_request_is_asked_for_again_after_it() {
        let mut secrets = TriggerSecrets::default();
        secrets.needs(asked("hook"));
        secrets.sent(1, &asked("hook"));
        assert_eq!(secrets.needs(asked("hook")), None);
        assert_eq!(secrets.answered(1, value("one")), Some(Some(asked("hook"))));
        ask(&mut secrets, 2, &asked("hook"), value("two"));
        assert_eq!(lines(&secrets), ["two"]);
        secrets.needs(asked("hook"));
        secrets.sent(3, &asked("hook"));
        secrets.retain(&BTreeSet::new(), false);
        assert_eq!(secrets.answered(3, value("three")), Some(None));
        assert!(secrets.items.is_empty());
    }
}
