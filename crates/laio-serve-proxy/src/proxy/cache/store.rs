//! The stored responses of a worker, within a limit of bytes. Those that were not used for longest are
//! dropped first.

use super::policy::{Freshness, values};
use crate::proxy::upstream_head::UpstreamHead;
use laio_http::Headers;
use laio_serve_base::options::UpstreamLimits;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Instant;

/// What a response answers: the site, the scheme, the host, the path and the query of a request.
pub(super) type Key = Rc<[u8]>;

/// A stored response.
pub(super) struct Stored {
    pub(super) head: UpstreamHead,
    pub(super) body: Rc<[u8]>,
    pub(super) freshness: Freshness,
    pub(super) age_on_arrival: u64,
    pub(super) arrived: Instant,
    /// The fields of the request that `Vary` names, with their values.
    pub(super) vary: Vec<(Box<[u8]>, Vec<u8>)>,
}

impl Stored {
    /// Returns its age in seconds.
    pub(super) fn age(&self) -> u64 {
        self.age_on_arrival + self.arrived.elapsed().as_secs()
    }

    /// Returns the value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&[u8]> {
        values(self.head.fields(), name).next()
    }

    /// Whether a request has the same values of the fields that `Vary` names.
    fn fits(&self, headers: &Headers<'_>) -> bool {
        self.vary
            .iter()
            .all(|(name, value)| *value == joined(headers, name))
    }

    fn cost(&self) -> usize {
        /// Bytes of the structures of an entry, roughly.
        const ENTRY: usize = 512;
        let vary = self
            .vary
            .iter()
            .map(|(name, value)| name.len() + value.len());
        ENTRY + self.body.len() + self.head.size() + vary.sum::<usize>()
    }
}

/// Returns the values of all fields of a request with a name, as one.
pub(super) fn joined(headers: &Headers<'_>, name: &[u8]) -> Vec<u8> {
    let fields = headers.iter();
    let values: Vec<_> = fields
        .filter(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect();
    values.join(&b", "[..])
}

/// The stored responses.
pub(super) struct Store {
    limit: usize,
    bytes: usize,
    /// Counts the uses.
    clock: u64,
    slots: HashMap<Key, Slot>,
    /// The keys by their last use.
    order: BTreeMap<u64, Key>,
}

/// The responses for a key: one for each combination of the fields that `Vary` names.
struct Slot {
    variants: Vec<Rc<Stored>>,
    used: u64,
    bytes: usize,
}

impl Store {
    pub(super) fn new(limit: usize) -> Store {
        Store {
            limit,
            bytes: 0,
            clock: 0,
            slots: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the response for a request.
    pub(super) fn get(&mut self, key: &Key, headers: &Headers<'_>) -> Option<Rc<Stored>> {
        let slot = self.slots.get_mut(key)?;
        let found = slot
            .variants
            .iter()
            .rev()
            .find(|it| it.fits(headers))?
            .clone();
        self.clock += 1;
        self.order.remove(&slot.used);
        slot.used = self.clock;
        self.order.insert(self.clock, key.clone());
        Some(found)
    }

    /// Adds a response, and replaces the one for the same values of the fields that `Vary` names.
    pub(super) fn insert(&mut self, key: &Key, stored: Rc<Stored>) {
        let mut variants = self.remove(key);
        variants.retain(|other| other.vary != stored.vary);
        if variants.len() >= UpstreamLimits::CACHED_VARIANTS {
            variants.remove(0);
        }
        variants.push(stored);
        let bytes = key.len() + variants.iter().map(|it| it.cost()).sum::<usize>();
        if bytes > self.limit {
            return;
        }
        while self.bytes + bytes > self.limit
            && let Some((_, oldest)) = self.order.pop_first()
        {
            if let Some(slot) = self.slots.remove(&oldest) {
                self.bytes -= slot.bytes;
            }
        }
        self.clock += 1;
        self.bytes += bytes;
        self.order.insert(self.clock, key.clone());
        let slot = Slot {
            variants,
            used: self.clock,
            bytes,
        };
        self.slots.insert(key.clone(), slot);
    }

    /// Removes and returns all responses for a key.
    pub(super) fn remove(&mut self, key: &Key) -> Vec<Rc<Stored>> {
        let Some(slot) = self.slots.remove(key) else {
            return Vec::new();
        };
        self.bytes -= slot.bytes;
        self.order.remove(&slot.used);
        slot.variants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{Limits, Parsed, Status, parse};

    fn stored(body: usize, vary: &[(&str, &str)]) -> Rc<Stored> {
        let vary = vary.iter();
        Rc::new(Stored {
            head: UpstreamHead::new(Status::OK, None, true),
            body: vec![b'x'; body].into(),
            freshness: Freshness {
                lifetime: 1,
                while_revalidate: 0,
                if_error: 0,
                always_validate: false,
                for_authorized: false,
            },
            age_on_arrival: 0,
            arrived: Instant::now(),
            vary: vary
                .map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()))
                .collect(),
        })
    }

    fn get(store: &mut Store, key: &str, fields: &str) -> Option<usize> {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let Ok(Parsed::Complete { request, .. }) = parse(head.as_bytes(), &Limits::DEFAULT) else {
            panic!("{fields}")
        };
        let found = store.get(&key.as_bytes().into(), &request.headers);
        found.map(|it| it.body.len())
    }

    fn put(store: &mut Store, key: &str, stored: Rc<Stored>) {
        store.insert(&key.as_bytes().into(), stored);
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut store = Store::new(3_700);
        for key in ["a", "b", "c"] {
            put(&mut store, key, stored(700, &[]));
        }
        assert_eq!(get(&mut store, "a", ""), Some(700));
        put(&mut store, "d", stored(700, &[]));
        let there = ["a", "b", "c", "d"].map(|key| get(&mut store, key, "").is_some());
        assert_eq!(there, [true, false, true, true]);
        put(&mut store, "e", stored(5_000, &[]));
        assert!(get(&mut store, "e", "").is_none() && get(&mut store, "a", "").is_some());
        for key in ["a", "c", "d", "e"] {
            store.remove(&key.as_bytes().into());
        }
        assert_eq!((store.bytes, store.order.len()), (0, 0));
    }

    #[test]
    fn variants() {
        let mut store = Store::new(1 << 20);
        put(&mut store, "k", stored(1, &[("Accept", "a, b")]));
        put(&mut store, "k", stored(2, &[("Accept", "")]));
        assert_eq!(get(&mut store, "k", "Accept: a\r\naccept: b\r\n"), Some(1));
        assert_eq!(get(&mut store, "k", ""), Some(2));
        assert_eq!(get(&mut store, "k", "Accept: c\r\n"), None);
        put(&mut store, "k", stored(3, &[("Accept", "")]));
        assert_eq!(get(&mut store, "k", ""), Some(3));
        for number in 0..100 {
            put(
                &mut store,
                "k",
                stored(4, &[("Accept", &number.to_string())]),
            );
        }
        assert_eq!(get(&mut store, "k", ""), None);
        assert_eq!(get(&mut store, "k", "Accept: 99\r\n"), Some(4));
        assert!(store.slots.values().all(|slot| slot.variants.len() <= 16));
    }
}
