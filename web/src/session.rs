//! Only the holder of the cookie may see the page. The cookie is given for the token, which the starter of the page gets, and
//! which is used up by that. Both are random; neither is stored anywhere else.

use rustix::rand::{GetRandomFlags, getrandom};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use subtle::ConstantTimeEq as _;

/// The token of the page and its sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Cookies have no port, so two pages at 127.0.0.1 must not have the same name.
    cookie: String,
    /// Absent once it was used.
    token: RefCell<Option<String>>,
    /// Absent until the token was used.
    session: RefCell<Option<String>>,
}

impl Sessions {
    /// Returns sessions, and the token for the first one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub(crate) fn new() -> io::Result<(Self, String)> {
        let token = random()?;
        let sessions = Self {
            cookie: format!("fnd-{}", &random()?[..8]),
            token: RefCell::new(Some(token.clone())),
            session: RefCell::new(None),
        };
        Ok((sessions, token))
    }

    /// Returns the value of `Set-Cookie` for the token; nothing where the token is wrong or was used before.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub(crate) fn exchange(&self, token: &str) -> io::Result<Option<String>> {
        if !is_same(self.token.borrow().as_deref(), token) {
            return Ok(None);
        }
        let session = random()?;
        *self.token.borrow_mut() = None;
        let cookie = format!("{}={session}; HttpOnly; SameSite=Strict; Path=/", self.cookie);
        *self.session.borrow_mut() = Some(session);
        Ok(Some(cookie))
    }

    /// Returns whether the values of `Cookie` headers have the session.
    pub(crate) fn has<'a>(&self, cookies: impl Iterator<Item = &'a str>) -> bool {
        let pairs = cookies.flat_map(|cookies| cookies.split(';'));
        let mut own = pairs.filter_map(|pair| pair.trim().strip_prefix(self.cookie.as_str())?.strip_prefix('='));
        own.any(|value| is_same(self.session.borrow().as_deref(), value))
    }
}

/// Compares in a time that depends on the lengths only.
fn is_same(expected: Option<&str>, given: &str) -> bool {
    expected.is_some_and(|expected| bool::from(expected.as_bytes().ct_eq(given.as_bytes())))
}

/// Returns 32 random bytes in hexadecimal.
fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    // A request of at most 256 bytes is answered whole (getrandom(2)).
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // A text takes all that is written to it.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_one_session() {
        let (sessions, token) = Sessions::new().unwrap();
        assert_eq!(token.len(), 64);
        for wrong in ["", "a", &token[1..], &format!("{token}0")] {
            assert_eq!(sessions.exchange(wrong).unwrap(), None, "{wrong}");
        }
        let cookie = sessions.exchange(&token).unwrap().unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        assert_eq!(sessions.exchange(&token).unwrap(), None);
        let pair = cookie.split(';').next().unwrap();
        assert!(sessions.has([format!("a=b; {pair}; c").as_str()].into_iter()));
        let (name, value) = pair.split_once('=').unwrap();
        for wrong in [
            value,
            name,
            &format!("{name}="),
            &format!("{name}={token}"),
            &format!("x{pair}"),
        ] {
            assert!(!sessions.has([wrong].into_iter()), "{wrong}");
        }
    }

    #[test]
    fn two_pages_of_one_host_keep_their_sessions() {
        let pages = [(); 2].map(|()| Sessions::new().unwrap());
        let cookies = pages
            .each_ref()
            .map(|(page, token)| page.exchange(token).unwrap().unwrap());
        let [first, second] = cookies.each_ref().map(|cookie| cookie.split(';').next().unwrap());
        let name = |pair: &str| pair.split_once('=').unwrap().0.to_owned();
        // A browser keeps one cookie of a name, and sends all of a host to each of its ports.
        assert_ne!(name(first), name(second));
        let sent = format!("{first}; {second}");
        for ((page, _), other) in pages.iter().zip([second, first]) {
            assert!(page.has([sent.as_str()].into_iter()));
            assert!(!page.has([other].into_iter()), "{other}");
        }
    }

    #[test]
    fn no_session_is_open_before_the_token_was_used() {
        let (sessions, _) = Sessions::new().unwrap();
        let empty = format!("{}=", sessions.cookie);
        assert!(!sessions.has([empty.as_str()].into_iter()));
    }
}
