//! TLS sessions that a client may resume with early data (0-RTT).
//!
//! Early data that was recorded can be sent again, so each session is resumed at most once: it is
//! stored here, not in the ticket, and the first handshake with its ticket takes it out. A repeated first
//! flight then finds no session, whichever worker gets it, and its early data cannot be decrypted (RFC 8446,
//! section 8.1).

use rustls::server::{ProducesTickets, StoresServerSessions};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The sessions of a process: of all workers, and of all generations of workers.
#[derive(Debug)]
pub(super) struct EarlySessions {
    most: usize,
    time: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<Vec<u8>, Session>,
    /// The names of all sessions, the oldest first, also of those that were taken.
    names: VecDeque<(Instant, Vec<u8>)>,
}

#[derive(Debug)]
struct Session {
    since: Instant,
    secrets: Vec<u8>,
    promise: Promise,
}

/// What a client may rely on in early data, because the connection that made its session had it: limits must
/// not become smaller (RFC 9000, section 7.4.1; RFC 9114, section 7.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    /// Requests at the same time.
    pub(super) streams: u64,
    /// Bytes of a head.
    pub head_bytes: u64,
}

impl Promise {
    fn includes(self, other: Promise) -> bool {
        self.streams >= other.streams && self.head_bytes >= other.head_bytes
    }
}

impl EarlySessions {
    pub(super) fn new(most: usize, time: Duration) -> Arc<EarlySessions> {
        Arc::new(EarlySessions {
            most,
            time,
            state: Mutex::default(),
        })
    }

    fn put(&self, name: Vec<u8>, session: Session) {
        let now = session.since;
        let mut state = self.state.lock().unwrap();
        let State { sessions, names } = &mut *state;
        while names.len() >= self.most
            || names
                .front()
                .is_some_and(|(since, _)| now.saturating_duration_since(*since) >= self.time)
        {
            let Some((_, oldest)) = names.pop_front() else {
                return;
            };
            sessions.remove(&oldest);
        }
        names.push_back((now, name.clone()));
        sessions.insert(name, session);
    }

    /// Takes a session, if it is there and what it promised still holds.
    fn take(&self, now: Instant, name: &[u8], present: Promise) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap();
        let session = state.sessions.remove(name)?;
        let is_recent = now.saturating_duration_since(session.since) < self.time;
        (is_recent && present.includes(session.promise)).then_some(session.secrets)
    }
}

/// The sessions, as a configuration of TLS uses them.
#[derive(Debug)]
pub(super) struct WithPromise {
    pub(super) sessions: Arc<EarlySessions>,
    pub(crate) promise: Promise,
}

impl StoresServerSessions for WithPromise {
    fn put(&self, name: Vec<u8>, secrets: Vec<u8>) -> bool {
        let session = Session {
            since: Instant::now(),
            secrets,
            promise: self.promise,
        };
        self.sessions.put(name, session);
        true
    }

    /// Only TLS 1.2 asks for a session without taking it.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.sessions.take(Instant::now(), name, self.promise)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Makes no tickets that contain the session, because those could be used repeatedly.
#[derive(Debug)]
pub(super) struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: Promise = Promise {
        streams: 100,
        head_bytes: 8192,
    };
    const HOUR: Duration = Duration::from_secs(3600);

    fn session(since: Instant) -> Session {
        Session {
            since,
            secrets: b"secret".to_vec(),
            promise: PROMISE,
        }
    }

    #[test]
    fn a_session_is_taken_once_and_in_time() {
        let sessions = EarlySessions::new(10, HOUR);
        let start = Instant::now();
        let take = |name: &[u8], after| sessions.take(start + after, name, PROMISE);
        sessions.put(b"one".to_vec(), session(start));
        sessions.put(b"two".to_vec(), session(start));
        assert_eq!(take(b"one", HOUR / 2), Some(b"secret".to_vec()));
        assert_eq!(take(b"one", HOUR / 2), None);
        assert_eq!(take(b"two", HOUR), None);
        assert_eq!(take(b"three", HOUR), None);
    }

    #[test]
    fn the_oldest_sessions_are_forgotten() {
        let sessions = EarlySessions::new(3, HOUR);
        let start = Instant::now();
        for number in 0..10 {
            sessions.put(vec![number], session(start));
        }
        let kept = |number| sessions.take(start, &[number], PROMISE).is_some();
        assert_eq!([6, 7, 8, 9].map(kept), [false, true, true, true]);
        for number in 0..3 {
            sessions.put(vec![number], session(start + HOUR * u32::from(number)));
        }
        let state = sessions.state.lock().unwrap();
        assert_eq!((state.sessions.len(), state.names.len()), (1, 1));
    }

    #[test]
    fn a_session_promises_limits() {
        let sessions = EarlySessions::new(10, HOUR);
        let start = Instant::now();
        let kept = |streams, head_bytes| {
            sessions.put(b"one".to_vec(), session(start));
            let present = Promise {
                streams,
                head_bytes,
            };
            sessions.take(start, b"one", present).is_some()
        };
        assert!(kept(100, 8192) && kept(101, 8193));
        assert!(!kept(99, 8193) && !kept(101, 8191));
    }
}
