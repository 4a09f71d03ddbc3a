//! Computes the hashes of callers' passwords, on a thread of its own: a hash takes up to a second on purpose, and
//! meanwhile the main thread serves others.
//!
//! A login that held is recognized for five minutes by a keyed hash, so that a page with many requests costs one hash.
//! A wrong one is not remembered. An unknown user costs as much as a known one.

use crate::clock::monotonic;
use crate::http::connections::ConnectionOwner;
use argon2::{Algorithm, Params, Version};
use fnd_core::triggers::credentials::{Argon2, Denied, Login, PasswordHash};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Logins that wait for the thread. Each may take a second, so that more would only wait in vain: they are refused. A caller
/// with few logins takes the place of one with many, so that nobody locks out the others.
const WAITING_MAX: usize = 16;
/// How long a login that held is recognized.
const REMEMBER: Duration = Duration::from_mins(5);
/// More logins are not remembered at once: they are computed each time.
const REMEMBERED_MAX: usize = 10_000;

/// Why a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginRefusal {
    /// User or password is wrong: 401.
    Denied(Denied),
    /// Too many logins wait: 503 with `Retry-After`.
    Busy,
}

/// Verifies logins; clones share one thread, which ends when the last clone is dropped.
#[derive(Clone)]
pub struct Passwords {
    jobs: Arc<LoginEnd>,
    verified: Arc<Mutex<Verified>>,
    /// Of this process, so that the marks say nothing to others.
    key: [u8; 32],
}

struct PasswordJob {
    login: Login,
    mark: [u8; 32],
    from: ConnectionOwner,
    answer: oneshot::Sender<bool>,
}

/// The logins that wait.
#[derive(Default)]
struct Jobs {
    waiting: Mutex<WaitingLogin>,
    more: Condvar,
}

#[derive(Default)]
struct WaitingLogin {
    jobs: VecDeque<PasswordJob>,
    /// The caller whose login was taken last.
    last: Option<ConnectionOwner>,
    /// No more logins come.
    is_over: bool,
}

impl WaitingLogin {
    /// Adds a login; where there is no room, in place of the newest one of the caller with the most.
    fn add(&mut self, job: PasswordJob) -> Result<(), LoginRefusal> {
        if self.is_over {
            return Err(LoginRefusal::Busy);
        }
        // A caller that has gone away takes no place.
        self.jobs.retain(|waiting| !waiting.answer.is_closed());
        if self.jobs.len() >= WAITING_MAX {
            let count = |from: ConnectionOwner| self.jobs.iter().filter(|job| job.from == from).count();
            let greedy = self.jobs.iter().map(|job| job.from).max_by_key(|from| count(*from));
            // With its new one a caller has no more than the other one has left.
            let greedy = greedy.filter(|greedy| count(*greedy) > count(job.from) + 1);
            let newest = greedy.and_then(|greedy| self.jobs.iter().rposition(|job| job.from == greedy));
            // Its caller hears that too many wait.
            drop(
                newest
                    .and_then(|newest| self.jobs.remove(newest))
                    .ok_or(LoginRefusal::Busy)?,
            );
        }
        self.jobs.push_back(job);
        Ok(())
    }

    /// Takes the oldest login of another caller than the last one, or else the oldest.
    fn take(&mut self) -> Option<PasswordJob> {
        let other = self.jobs.iter().position(|job| Some(job.from) != self.last);
        let job = self.jobs.remove(other.unwrap_or(0))?;
        self.last = Some(job.from);
        Some(job)
    }
}

impl Jobs {
    /// Waits for a login; nothing if no more come.
    fn next(&self) -> Option<PasswordJob> {
        let is_idle = |waiting: &mut WaitingLogin| waiting.jobs.is_empty() && !waiting.is_over;
        let waiting = self.more.wait_while(lock(&self.waiting), is_idle);
        waiting.unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ends the thread when the last clone of [`Passwords`] is dropped, and refuses all logins when the thread has panicked.
struct LoginEnd(Arc<Jobs>);

impl Drop for LoginEnd {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.waiting);
        waiting.is_over = true;
        // This drops the senders of the answers, so that every waiting caller is refused at once.
        waiting.jobs.clear();
        drop(waiting);
        self.0.more.notify_one();
    }
}

impl Passwords {
    /// # Errors
    /// If the thread cannot be started, or the kernel gives no random bytes.
    pub fn start() -> io::Result<Self> {
        let mut key = [0; 32];
        // 256 bytes and less are given whole (getrandom(2)).
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        let jobs = Arc::new(Jobs::default());
        let waiting = Arc::clone(&jobs);
        let verified = Arc::new(Mutex::new(Verified::default()));
        let own = Arc::clone(&verified);
        std::thread::Builder::new().name("passwords".into()).spawn(move || {
            let _ending = LoginEnd(Arc::clone(&waiting));
            run(&waiting, &own);
        })?;
        Ok(Self {
            jobs: Arc::new(LoginEnd(jobs)),
            verified,
            key,
        })
    }

    /// Returns what has no thread: it refuses all logins.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn detached() -> Self {
        let jobs = Arc::new(Jobs::default());
        lock(&jobs.waiting).is_over = true;
        Self {
            jobs: Arc::new(LoginEnd(jobs)),
            verified: Arc::default(),
            key: [0; 32],
        }
    }

    /// Verifies a login of a caller.
    ///
    /// # Errors
    /// [`LoginRefusal`].
    pub async fn check(&self, login: Login, from: ConnectionOwner) -> Result<(), LoginRefusal> {
        let mark = login.mark(&self.key);
        if lock(&self.verified).has(&mark, monotonic()) {
            return Ok(());
        }
        let (answer, holds) = oneshot::channel();
        let Jobs { waiting, more } = &*self.jobs.0;
        lock(waiting).add(PasswordJob {
            login,
            mark,
            from,
            answer,
        })?;
        more.notify_one();
        match holds.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(LoginRefusal::Denied(Denied::WrongPassword)),
            // Another caller's login has taken the place of this one, or the thread has ended.
            Err(_) => Err(LoginRefusal::Busy),
        }
    }
}

fn run(waiting: &Jobs, verified: &Mutex<Verified>) {
    while let Some(PasswordJob {
        login, mark, answer, ..
    }) = waiting.next()
    {
        // The caller has gone.
        if answer.is_closed() {
            continue;
        }
        // The same login may have waited more than once.
        let known = lock(verified).has(&mark, monotonic());
        let holds = known || holds(&login);
        if holds && !known {
            lock(verified).add(mark, monotonic());
        }
        let _gone = answer.send(holds);
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Computes the hash of each line of the user, also after one holds.
fn holds(login: &Login) -> bool {
    let (lines, is_known) = login.users.lines(&login.user);
    let holds = |held, hash: &PasswordHash| computed(hash, &login.password) | held;
    lines.iter().map(|line| &line.hash).fold(false, holds) && is_known
}

fn computed(hash: &PasswordHash, password: &[u8]) -> bool {
    match hash {
        PasswordHash::Bcrypt { cost, salt, .. } => {
            // bcrypt takes a zero byte at the end, and at most 72 bytes with it.
            let mut text = [password, b"\0"].concat();
            text.truncate(72);
            let bytes = bcrypt::bcrypt(*cost, *salt, &text);
            bytes.split_last().is_some_and(|(_, bytes)| hash.is(bytes))
        }
        PasswordHash::Argon2(argon2) => derived(argon2, password).is_ok_and(|bytes| hash.is(&bytes)),
    }
}

fn derived(hash: &Argon2, password: &[u8]) -> argon2::Result<Vec<u8>> {
    let params = Params::new(hash.memory_kib, hash.passes, hash.lanes, Some(hash.hash.len()))?;
    let version = if hash.is_13 { Version::V0x13 } else { Version::V0x10 };
    let argon2 = argon2::Argon2::new(Algorithm::new(hash.variant)?, version, params);
    let mut bytes = vec![0; hash.hash.len()];
    argon2.hash_password_into(password, &hash.salt, &mut bytes)?;
    Ok(bytes)
}

/// Marks of logins that held, and when they are forgotten.
#[derive(Default)]
struct Verified(HashMap<[u8; 32], Instant>);

impl Verified {
    fn has(&self, mark: &[u8; 32], now: Instant) -> bool {
        self.0.get(mark).is_some_and(|until| now < *until)
    }

    fn add(&mut self, mark: [u8; 32], now: Instant) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() < REMEMBERED_MAX {
            self.0.insert(mark, now + REMEMBER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::triggers::credentials::{Proof, Verifier};
    use fnd_manifest::function::route::Credential;
    use futures_util::FutureExt as _;

    /// Test vectors of jBCrypt and of the reference implementation of Argon2; their passwords are in the test.
    const USERS: &str = "\
        empty:$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s.\n\
        a:$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe\n\
        new:$2b$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i\n\
        php:$2y$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i\n\
        id:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n\
        i:$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8\n\
        old:$argon2i$m=256,t=2,p=1$c29tZXNhbHQ$/U3YPXYsSb3q9XxHvc0MLxur+GP960kN9j7emXX8zwY\n\
        two:$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s.\n\
        two:$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe\n";

    fn login(content: &str, user: &str, password: &str) -> Login {
        let credential = Credential::parse("basic:users").unwrap();
        let verifier = Verifier::new(&credential, content.as_bytes()).unwrap();
        // `a:b`
        let headers: &[(&str, &[u8])] = &[("authorization", b"Basic YTpi")];
        match verifier.verify(&headers, b"", 0) {
            Ok(Proof::Password(login)) => Login {
                user: user.into(),
                password: password.into(),
                ..login
            },
            other => panic!("{other:?}"),
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    const WRONG: Result<(), LoginRefusal> = Err(LoginRefusal::Denied(Denied::WrongPassword));

    #[test]
    fn passwords_of_every_kind_of_hash_hold() {
        let passwords = Passwords::start().unwrap();
        runtime().block_on(async {
            for (user, password) in [
                ("empty", ""),
                ("a", "a"),
                ("new", "abc"),
                ("php", "abc"),
                ("id", "password"),
                ("i", "password"),
                ("old", "password"),
                ("two", ""),
                ("two", "a"),
            ] {
                // The second time without a hash.
                for _ in 0..2 {
                    assert_eq!(
                        passwords
                            .check(login(USERS, user, password), ConnectionOwner::Exempt)
                            .await,
                        Ok(()),
                        "{user}"
                    );
                }
            }
            for (user, password) in [
                ("empty", "a"),
                ("a", ""),
                ("a", "A"),
                ("new", "abcd"),
                ("id", "Password"),
                ("i", ""),
                ("two", "b"),
                ("eve", ""),
                ("", ""),
                ("Empty", ""),
            ] {
                for _ in 0..2 {
                    assert_eq!(
                        passwords
                            .check(login(USERS, user, password), ConnectionOwner::Exempt)
                            .await,
                        WRONG,
                        "{user}"
                    );
                }
            }
        });
        assert_eq!(lock(&passwords.verified).0.len(), 9, "wrong logins are not remembered");
    }

    #[test]
    fn a_login_is_recognized_until_its_line_changes() {
        let passwords = Passwords::start().unwrap();
        let (users, other) = USERS.split_once("new:").unwrap();
        let changed = users.replace("a:$2a$06$m0", "a:$2a$06$m1");
        runtime().block_on(async {
            assert_eq!(
                passwords.check(login(users, "a", "a"), ConnectionOwner::Exempt).await,
                Ok(())
            );
            assert_eq!(
                passwords
                    .check(login(&changed, "a", "a"), ConnectionOwner::Exempt)
                    .await,
                WRONG
            );
            let without = format!("new:{other}");
            assert_eq!(
                passwords
                    .check(login(&without, "a", "a"), ConnectionOwner::Exempt)
                    .await,
                WRONG
            );
            assert_eq!(
                passwords.check(login(users, "a", "a"), ConnectionOwner::Exempt).await,
                Ok(())
            );
        });
    }

    #[test]
    fn a_login_is_remembered_for_five_minutes_and_not_without_bound() {
        let (mut verified, now) = (Verified::default(), monotonic());
        let mark = |n: usize| {
            let mut mark = [0; 32];
            mark[..8].copy_from_slice(&n.to_le_bytes());
            mark
        };
        verified.add(mark(0), now);
        assert!(verified.has(&mark(0), now + Duration::from_secs(299)));
        assert!(!verified.has(&mark(0), now + Duration::from_secs(300)));
        for n in 0..=REMEMBERED_MAX {
            verified.add(mark(n), now);
        }
        assert_eq!(verified.0.len(), REMEMBERED_MAX);
        assert!(!verified.has(&mark(REMEMBERED_MAX), now));
        verified.add(mark(REMEMBERED_MAX), now + REMEMBER);
        assert_eq!(verified.0.len(), 1);
    }

    fn address(n: u8) -> ConnectionOwner {
        ConnectionOwner::of([192, 0, 2, n].into())
    }

    #[test]
    fn logins_beyond_those_that_wait_are_refused() {
        // Nothing takes the jobs.
        let jobs = Arc::new(Jobs::default());
        let waiting = Arc::clone(&jobs);
        let passwords = Passwords {
            jobs: Arc::new(LoginEnd(jobs)),
            verified: Arc::default(),
            key: [7; 32],
        };
        {
            let check = |n: usize, from| Box::pin(passwords.check(login(USERS, "a", &n.to_string()), from));
            let mut checks: Vec<_> = (0..=WAITING_MAX).map(|n| check(n, address(1))).collect();
            let last = checks.pop().unwrap();
            for check in &mut checks {
                assert_eq!(check.now_or_never(), None);
            }
            assert_eq!(last.now_or_never(), Some(Err(LoginRefusal::Busy)));
        }
        // All callers have gone: the thread ends without a hash.
        drop(passwords);
        let verified = Mutex::default();
        run(&waiting, &verified);
        assert!(lock(&verified).0.is_empty());
    }

    /// One caller with many logins does not lock out the others.
    #[test]
    fn a_caller_with_few_logins_takes_the_place_of_one_with_many() {
        let mut waiting = WaitingLogin::default();
        let mut answers = Vec::new();
        let mut add = |waiting: &mut WaitingLogin, from| {
            let (answer, answered) = oneshot::channel();
            let added = waiting.add(PasswordJob {
                login: login(USERS, "a", "a"),
                mark: [0; 32],
                from,
                answer,
            });
            answers.push(answered);
            added
        };
        for _ in 0..WAITING_MAX {
            assert_eq!(add(&mut waiting, address(1)), Ok(()));
        }
        assert_eq!(add(&mut waiting, address(1)), Err(LoginRefusal::Busy));
        assert_eq!(add(&mut waiting, address(2)), Ok(()));
        assert_eq!(add(&mut waiting, address(3)), Ok(()));
        assert_eq!(waiting.jobs.len(), WAITING_MAX);
        // They come next, not behind all of the first one.
        let taken: Vec<_> = (0..4).map(|_| waiting.take().unwrap().from).collect();
        assert_eq!(taken, [1, 2, 1, 3].map(address));
        // Callers with equally many do not push each other out.
        let mut waiting = WaitingLogin::default();
        for n in 0..WAITING_MAX {
            assert_eq!(add(&mut waiting, address(u8::try_from(n).unwrap())), Ok(()));
        }
        assert_eq!(add(&mut waiting, address(99)), Err(LoginRefusal::Busy));
    }
}
