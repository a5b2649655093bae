//! The locks of a server (RFC 4918, section 6), in memory: they end with the server.

use crate::uploads::change_extension::Submitted;
use crate::uploads::problem::Problem;
use laio_http::Status;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The locks that all workers of a server share.
#[derive(Default)]
pub(crate) struct Locks(Mutex<Vec<Lock>>);

/// The device and the inode of a site's root.
pub(super) type Root = (u64, u64);

/// A lock of a file, or of a directory and with it what is in it.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    root: Root,
    name: Box<[u8]>,
    /// The lock covers everything below the name.
    pub(super) infinite: bool,
    pub(super) exclusive: bool,
    /// The URI of the lock.
    pub(super) token: String,
    /// What the client says about its user: a text, or an address.
    pub(super) owner: Option<Owner>,
    /// The user who alone can use the token.
    user: Option<Vec<u8>>,
    pub(super) time: Duration,
    until: Instant,
}

/// What a client says about the owner of its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Text(String),
    Address(String),
}

/// A lock that a client asks for.
pub(super) struct Wanted<'a> {
    pub(super) root: Root,
    pub(super) name: &'a [u8],
    pub(super) infinite: bool,
    pub(super) exclusive: bool,
    pub(super) owner: Option<Owner>,
    pub(super) user: Option<Vec<u8>>,
    pub(super) time: Duration,
}

impl Locks {
    /// Locks that exist at a time; more are 503.
    const MOST: usize = 1024;
    /// The longest time of a lock; its client refreshes it.
    pub(super) const LONGEST: Duration = Duration::from_secs(3600);
    /// Bytes of a text about an owner.
    pub(super) const OWNER_BYTES: usize = 1024;

    /// Makes a lock.
    pub(super) fn lock(&self, wanted: Wanted<'_>) -> Result<Lock, Problem> {
        let mut locks = self.present();
        let conflicts = |lock: &&Lock| {
            let meets = lock.covers(wanted.root, wanted.name)
                || (wanted.infinite && lock.is_below(wanted.root, wanted.name));
            meets && (wanted.exclusive || lock.exclusive)
        };
        if locks.iter().any(|lock| conflicts(&lock)) {
            return Err(Problem::LOCKED);
        }
        if locks.len() >= Self::MOST {
            return Err(Problem::new(
                Status::SERVICE_UNAVAILABLE,
                "There are too many locks at the moment; try again.",
            ));
        }
        let random = || RandomState::new().hash_one(0);
        let (high, low) = (random(), random());
        let lock = Lock {
            root: wanted.root,
            name: wanted.name.into(),
            infinite: wanted.infinite,
            exclusive: wanted.exclusive,
            token: uuid(high, low),
            owner: wanted.owner,
            user: wanted.user,
            time: wanted.time,
            until: Instant::now() + wanted.time,
        };
        locks.push(lock.clone());
        Ok(lock)
    }

    /// Gives a lock more time. Returns `None` if the submitted tokens are not those of a lock of the name.
    pub(super) fn refresh(
        &self,
        root: Root,
        name: &[u8],
        submitted: &Submitted,
        time: Duration,
    ) -> Option<Lock> {
        let mut locks = self.present();
        let lock = locks
            .iter_mut()
            .find(|lock| lock.covers(root, name) && lock.is_held_by(submitted))?;
        lock.time = time;
        lock.until = Instant::now() + time;
        Some(lock.clone())
    }

    /// Ends a lock. Returns whether the submitted token is that of a lock of the name.
    pub(super) fn unlock(&self, root: Root, name: &[u8], submitted: &Submitted) -> bool {
        let mut locks = self.present();
        let before = locks.len();
        locks.retain(|lock| !(lock.covers(root, name) && lock.is_held_by(submitted)));
        locks.len() < before
    }

    /// Whether there is no lock at all.
    pub(super) fn is_empty(&self) -> bool {
        self.present().is_empty()
    }

    /// Ends a lock whose file could not be created.
    pub(super) fn forget_token(&self, token: &str) {
        self.present().retain(|lock| lock.token != token);
    }

    /// Ends the locks of a name, and of everything below it, after it was deleted or moved.
    pub(in crate::uploads) fn forget(&self, root: Root, name: &[u8]) {
        self.present()
            .retain(|lock| !lock.is_at_or_below(root, name));
    }

    /// Checks that no lock of another client forbids a change of the name; `with_all`: and of everything below it.
    pub(in crate::uploads) fn check(
        &self,
        root: Root,
        name: &[u8],
        with_all: bool,
        submitted: &Submitted,
    ) -> Result<(), Problem> {
        let locks = self.present();
        let concerns =
            |lock: &Lock| lock.covers(root, name) || (with_all && lock.is_below(root, name));
        self.held(locks.iter().filter(|lock| concerns(lock)), submitted)
    }

    /// Checks that no lock of another client forbids a new or removed name in a directory.
    pub(in crate::uploads) fn check_member(
        &self,
        root: Root,
        name: &[u8],
        submitted: &Submitted,
    ) -> Result<(), Problem> {
        let slash = name.iter().rposition(|&byte| byte == b'/');
        let directory = &name[..slash.unwrap_or(0)];
        let locks = self.present();
        let concerns = |lock: &Lock| lock.covers(root, directory);
        self.held(locks.iter().filter(|lock| concerns(lock)), submitted)
    }

    /// Of each lock its client has submitted the token; of shared ones that cover a name one is enough.
    fn held<'l>(
        &self,
        locks: impl Iterator<Item = &'l Lock>,
        submitted: &Submitted,
    ) -> Result<(), Problem> {
        let mut shared = None;
        for lock in locks {
            let held = lock.is_held_by(submitted);
            match lock.exclusive {
                true if !held => return Err(Problem::LOCKED),
                true => {}
                false => shared = Some(held || shared == Some(true)),
            }
        }
        match shared {
            Some(false) => Err(Problem::LOCKED),
            _ => Ok(()),
        }
    }

    /// Returns the locks that cover a name.
    pub(super) fn of(&self, root: Root, name: &[u8]) -> Vec<Lock> {
        let locks = self.present();
        let covering = locks.iter().filter(|lock| lock.covers(root, name));
        covering.cloned().collect()
    }

    /// Whether a token is that of a lock that covers the name.
    pub(super) fn has(&self, root: Root, name: &[u8], token: &str) -> bool {
        let locks = self.present();
        locks
            .iter()
            .any(|lock| lock.token == token && lock.covers(root, name))
    }

    /// Returns the locks whose time is not over.
    fn present(&self) -> MutexGuard<'_, Vec<Lock>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !locks.is_empty() {
            let now = Instant::now();
            locks.retain(|lock| lock.until > now);
        }
        locks
    }
}

impl Lock {
    /// Returns the name that was locked.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    fn covers(&self, root: Root, name: &[u8]) -> bool {
        self.root == root && (*self.name == *name || (self.infinite && is_below(name, &self.name)))
    }

    fn is_below(&self, root: Root, name: &[u8]) -> bool {
        self.root == root && is_below(&self.name, name)
    }

    fn is_at_or_below(&self, root: Root, name: &[u8]) -> bool {
        self.is_below(root, name) || (self.root == root && *self.name == *name)
    }

    fn is_held_by(&self, submitted: &Submitted) -> bool {
        self.user == submitted.user && submitted.tokens.contains(&self.token)
    }
}

/// Whether a name is inside a directory.
pub(super) fn is_below(name: &[u8], directory: &[u8]) -> bool {
    match name.strip_prefix(directory) {
        Some(rest) if directory.is_empty() => !rest.is_empty(),
        Some(rest) => rest.first() == Some(&b'/'),
        None => false,
    }
}

/// Returns a random UUID (RFC 9562, version 4) as a URI.
fn uuid(high: u64, low: u64) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | (0b10 << 62);
    format!(
        "urn:uuid:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Root = (1, 2);

    fn wanted(name: &str, infinite: bool, exclusive: bool) -> Wanted<'_> {
        Wanted {
            root: ROOT,
            name: name.as_bytes(),
            infinite,
            exclusive,
            owner: None,
            user: None,
            time: Duration::from_secs(60),
        }
    }

    fn with(lock: &Lock) -> Submitted {
        Submitted {
            tokens: vec![lock.token.clone()],
            user: None,
        }
    }

    #[test]
    fn locks_and_those_who_hold_them() {
        let locks = Locks::default();
        let none = Submitted::default();
        let lock = locks.lock(wanted("d", true, true)).unwrap();
        for name in ["d", "d/a", "d/a/b"] {
            assert!(
                locks.check(ROOT, name.as_bytes(), false, &none).is_err(),
                "{name}"
            );
            assert!(
                locks
                    .check(ROOT, name.as_bytes(), false, &with(&lock))
                    .is_ok()
            );
            assert!(locks.lock(wanted(name, false, false)).is_err(), "{name}");
        }
        for name in ["", "e", "da", "D"] {
            assert!(
                locks.check(ROOT, name.as_bytes(), false, &none).is_ok(),
                "{name}"
            );
        }
        assert!(locks.check(ROOT, b"", true, &none).is_err(), "it is below");
        assert!(
            locks.check((3, 4), b"d", true, &none).is_ok(),
            "another root"
        );
        assert!(locks.check_member(ROOT, b"d/new", &none).is_err());
        assert!(locks.check_member(ROOT, b"d", &none).is_ok());
        let other = Submitted {
            user: Some(b"eve".to_vec()),
            ..with(&lock)
        };
        assert!(
            locks.check(ROOT, b"d", false, &other).is_err(),
            "another user"
        );
        assert!(!locks.unlock(ROOT, b"e", &with(&lock)));
        assert!(locks.unlock(ROOT, b"d/a", &with(&lock)));
        assert!(locks.check(ROOT, b"d", true, &none).is_ok());
    }

    #[test]
    fn shared_locks() {
        let locks = Locks::default();
        let one = locks.lock(wanted("a", false, false)).unwrap();
        let two = locks.lock(wanted("a", false, false)).unwrap();
        assert!(locks.lock(wanted("a", false, true)).is_err());
        assert!(locks.check(ROOT, b"a", false, &with(&one)).is_ok());
        assert!(locks.check(ROOT, b"a", false, &with(&two)).is_ok());
        assert!(
            locks
                .check(ROOT, b"a", false, &Submitted::default())
                .is_err()
        );
        locks.forget(ROOT, b"a");
        assert!(locks.of(ROOT, b"a").is_empty());
    }

    #[test]
    fn time_and_number() {
        let locks = Locks::default();
        let short = Wanted {
            time: Duration::ZERO,
            ..wanted("a", false, true)
        };
        locks.lock(short).unwrap();
        assert!(locks.of(ROOT, b"a").is_empty());
        let names: Vec<_> = (0..Locks::MOST).map(|number| number.to_string()).collect();
        for name in &names {
            locks.lock(wanted(name, false, true)).unwrap();
        }
        let refused = locks.lock(wanted("a", false, true)).unwrap_err();
        assert_eq!(refused.status, Status::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn tokens_are_uuids() {
        assert_eq!(uuid(0, 0), "urn:uuid:00000000-0000-4000-8000-000000000000");
        assert_eq!(
            uuid(u64::MAX, u64::MAX),
            "urn:uuid:ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
    }
}
