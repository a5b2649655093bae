//! Limits on the rate of requests: token buckets in a table of fixed size.

use laio_http::{Guard, Request, RequestPath};
use laio_serve_base::addresses::network;
use laio_serve_base::clients::Client;
use laio_serve_base::options::{Access, RateKey, RateRule};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The limits of a site, shared by all workers.
pub(crate) struct RateLimits {
    limits: Vec<RateLimit>,
    /// Times in the tables are nanoseconds since this one.
    since: Instant,
}

struct RateLimit {
    paths: Option<Guard>,
    by: Vec<RateKey>,
    buckets: Buckets,
}

impl RateLimits {
    /// # Errors
    /// When a glob is malformed.
    pub(crate) fn new(access: &Access) -> io::Result<RateLimits> {
        let limit = |rule: &RateRule| {
            let paths = rule.glob.as_deref().map(|glob| Guard::new([glob]));
            let paths = paths.transpose();
            Ok(RateLimit {
                paths: paths.map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, bad))?,
                by: rule.by.clone(),
                buckets: Buckets::new(rule, access.buckets),
            })
        };
        Ok(RateLimits {
            limits: access.rates.iter().map(limit).collect::<io::Result<_>>()?,
            since: Instant::now(),
        })
    }

    /// Takes a token for a request from each limit that fits it, or what it was before a rewrite. If one has none,
    /// returns the time after which it has.
    pub(crate) fn take(
        &self,
        request: &Request<'_>,
        before_rewrite: Option<&Request<'_>>,
        client: &Client,
        now: Instant,
    ) -> Result<(), Duration> {
        let now = now.saturating_duration_since(self.since).as_nanos() as u64;
        // A path that cannot be parsed is answered with an error, without work that a limit could spare.
        let path = request.path.as_ref().ok();
        let before = before_rewrite.and_then(|request| request.path.as_ref().ok());
        for limit in &self.limits {
            let mut asked = path.iter().chain(&before);
            let fits = match &limit.paths {
                None => true,
                Some(paths) => asked.any(|path| paths.guards_upstream(path)),
            };
            if fits {
                limit.buckets.take(limit.key(request, path, client), now)?;
            }
        }
        Ok(())
    }
}

impl RateLimit {
    /// Returns the keyed hash of what the bucket of a request is for.
    fn key(&self, request: &Request<'_>, path: Option<&RequestPath<'_>>, client: &Client) -> u64 {
        let mut hasher = self.buckets.hashes.build_hasher();
        for key in &self.by {
            let value = match key {
                RateKey::Client => None,
                RateKey::Path => path.map(|path| path.as_str().as_bytes()),
                RateKey::Header(name) => request.headers.get(name),
            };
            match value {
                Some(value) => value.hash(&mut hasher),
                None => client.address.map(network).hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

/// Buckets in sets: a bucket may be in any place of the set that its key chooses, so a full table forgets a
/// bucket by comparing the few of one set.
struct Buckets {
    sets: Vec<Mutex<[Bucket; PLACES]>>,
    hashes: RandomState,
    /// The time in which a bucket gets a token, in nanoseconds.
    interval: u64,
    /// The time in which an empty bucket gets full, in nanoseconds.
    capacity: u64,
}

/// The places of a set.
const PLACES: usize = 8;

#[derive(Clone, Copy, Default)]
struct Bucket {
    key: u64,
    /// When the bucket is full, in nanoseconds. This one number says how many tokens it has at any time:
    /// the generic cell rate algorithm (ITU-T I.371, annex A), there the theoretical arrival time.
    full_at: u64,
}

impl Buckets {
    fn new(rule: &RateRule, most: usize) -> Buckets {
        let interval = rule.period.as_nanos() as u64 / u64::from(rule.requests);
        let interval = interval.max(1);
        let sets = most.div_ceil(PLACES).clamp(1, SETS_MAX);
        Buckets {
            sets: std::iter::repeat_with(Mutex::default).take(sets).collect(),
            hashes: RandomState::new(),
            interval,
            capacity: interval.saturating_mul(u64::from(rule.burst)),
        }
    }

    /// Takes a token, or returns the time after which there is one.
    fn take(&self, key: u64, now: u64) -> Result<(), Duration> {
        let set = &self.sets[(key % self.sets.len() as u64) as usize];
        let mut set = set.lock().unwrap();
        let found = set.iter().position(|bucket| bucket.key == key);
        // The bucket that is full soonest says least about its client.
        let fullest = || (0..PLACES).min_by_key(|&at| set[at].full_at).unwrap_or(0);
        let at = found.unwrap_or_else(fullest);
        let full_at = match found {
            Some(at) => set[at].full_at.max(now),
            None => now,
        };
        let full_at = full_at.saturating_add(self.interval);
        match full_at.saturating_sub(now.saturating_add(self.capacity)) {
            0 => {
                set[at] = Bucket { key, full_at };
                Ok(())
            }
            left => Err(Duration::from_nanos(left)),
        }
    }
}

/// The most sets of a table: 512 MiB.
const SETS_MAX: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn buckets(text: &str, most: usize) -> Buckets {
        Buckets::new(&text.parse().unwrap(), most)
    }

    #[test]
    fn a_bucket_is_filled_at_its_rate() {
        let buckets = buckets("2/s,burst=3", 100);
        for _ in 0..3 {
            assert_eq!(buckets.take(1, SECOND), Ok(()));
        }
        assert_eq!(buckets.take(1, SECOND), Err(Duration::from_millis(500)));
        assert_eq!(buckets.take(2, SECOND), Ok(()), "another bucket");
        // A refused request takes nothing.
        let later = SECOND + SECOND / 2;
        assert_eq!(buckets.take(1, later), Ok(()));
        assert_eq!(buckets.take(1, later), Err(Duration::from_millis(500)));
        let much_later = 100 * SECOND;
        for _ in 0..3 {
            assert_eq!(buckets.take(1, much_later), Ok(()));
        }
        assert!(buckets.take(1, much_later).is_err());
    }

    #[test]
    fn a_full_table_forgets_the_fullest_bucket() {
        let buckets = buckets("1/s,burst=9", 1);
        assert_eq!(buckets.sets.len(), 1);
        for key in 1..=PLACES as u64 {
            for _ in 0..=key {
                assert_eq!(buckets.take(key, 0), Ok(()));
            }
        }
        assert_eq!(buckets.take(100, 0), Ok(()));
        let set = *buckets.sets[0].lock().unwrap();
        assert!(set.iter().all(|bucket| bucket.key != 1));
        assert!(buckets.take(8, 0).is_err(), "the emptiest bucket stays");
    }
}
