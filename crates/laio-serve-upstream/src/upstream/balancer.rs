//! The choice of one of several upstreams.

use laio_serve_base::options::Balance;
use std::cell::Cell;

/// What a worker knows of the upstreams of a group in order to choose one.
pub(super) struct Balancer {
    balance: Balance,
    /// The state of the smooth weighted round-robin.
    credits: Vec<Cell<f64>>,
}

/// An upstream that can be chosen.
pub(super) struct Choice<'a> {
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) weight: f64,
    pub(super) in_flight: usize,
}

impl Balancer {
    pub(super) fn new(balance: &Balance, members: usize) -> Balancer {
        Balancer {
            balance: balance.clone(),
            credits: vec![Cell::new(0.0); members],
        }
    }

    /// Returns the index of one of the choices, if there are any. `key` is the hash of the request, if it
    /// has one.
    pub(super) fn choose<'a, I>(&self, choices: I, key: Option<u64>) -> Option<usize>
    where
        I: Iterator<Item = Choice<'a>> + Clone,
    {
        match (&self.balance, key) {
            (Balance::Hash(_), Some(key)) => by_hash(choices, key),
            (Balance::RoundRobin, _) => self.in_turn(choices),
            (Balance::LeastConnections | Balance::Hash(_), _) => {
                let load = |choice: &Choice<'_>| choice.in_flight as f64 / choice.weight;
                let least = choices.clone().map(|it| load(&it)).min_by(f64::total_cmp)?;
                self.in_turn(choices.filter(move |it| load(it) <= least))
            }
        }
    }

    /// The smooth weighted round-robin of nginx (`ngx_http_upstream_round_robin.c`): every choice earns
    /// its weight, the richest is chosen and pays what all have earned.
    fn in_turn<'a>(&self, choices: impl Iterator<Item = Choice<'a>>) -> Option<usize> {
        let mut all = 0.0;
        let mut richest: Option<(usize, f64)> = None;
        for choice in choices {
            let credit = self.credits[choice.index].get() + choice.weight;
            self.credits[choice.index].set(credit);
            all += choice.weight;
            if richest.is_none_or(|(_, most)| credit > most) {
                richest = Some((choice.index, credit));
            }
        }
        let (index, credit) = richest?;
        self.credits[index].set(credit - all);
        Some(index)
    }
}

/// Rendezvous hashing (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996) with
/// the logarithmic method for weights (Schindelhauer and Schomaker, "Weighted distributed hash tables",
/// 2005): if an upstream disappears, only its own keys move.
fn by_hash<'a>(choices: impl Iterator<Item = Choice<'a>>, key: u64) -> Option<usize> {
    let score = |choice: &Choice<'_>| {
        let mixed = mix(hash(choice.name.as_bytes()) ^ key);
        // Between 0 and 1, both excluded.
        let unit = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -choice.weight / unit.ln()
    };
    let best = choices
        .map(|choice| (score(&choice), choice.index))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, index)| index)
}

/// Returns a hash that is the same in all processes and releases: FNV-1a with 64 bits, mixed, because
/// FNV alone leaves the high bits of short keys alike.
pub fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(fnv)
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_serve_base::options::HashKey;

    const NAMES: [&str; 4] = ["http://a", "http://b", "http://c", "http://d"];

    fn choices<'a>(
        weights: &'a [f64],
        in_flight: &'a [usize],
    ) -> impl Iterator<Item = Choice<'a>> + Clone {
        weights.iter().enumerate().map(|(index, &weight)| Choice {
            index,
            name: NAMES[index],
            weight,
            in_flight: in_flight[index],
        })
    }

    #[test]
    fn in_turn_by_weight() {
        let balancer = Balancer::new(&Balance::RoundRobin, 3);
        let next = || balancer.choose(choices(&[5.0, 1.0, 1.0], &[0; 3]), None);
        let order: Vec<_> = (0..7).map(|_| next().unwrap()).collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(balancer.choose(choices(&[], &[]), None), None);
    }

    #[test]
    fn the_least_loaded_for_its_weight() {
        let balancer = Balancer::new(&Balance::LeastConnections, 3);
        let choose = |in_flight: &[usize]| {
            balancer
                .choose(choices(&[1.0, 1.0, 4.0], in_flight), None)
                .unwrap()
        };
        assert_eq!(choose(&[1, 0, 1]), 1);
        assert_eq!(choose(&[1, 1, 3]), 2);
        assert_eq!(choose(&[1, 2, 5]), 0);
        // Equals get requests in turn, by weight.
        let mut counts = [0; 3];
        (0..60).for_each(|_| counts[choose(&[0; 3])] += 1);
        assert!(
            counts[2] > counts[0] && counts[0] > 5 && counts[1] > 5,
            "{counts:?}"
        );
    }

    #[test]
    fn a_hash_spreads_by_weight_and_moves_only_the_keys_of_what_is_missing() {
        let balancer = Balancer::new(&Balance::Hash(HashKey::Client), 4);
        let weights = [1.0, 1.0, 1.0, 2.0];
        let all = choices(&weights, &[0; 4]);
        let mut counts = [0; 4];
        for number in 0..10_000 {
            let key = Some(hash(
                format!("10.0.{}.{}", number / 256, number % 256).as_bytes(),
            ));
            let first = balancer.choose(all.clone(), key).unwrap();
            counts[first] += 1;
            let without = all.clone().filter(|choice| choice.index != 1);
            let second = balancer.choose(without, key).unwrap();
            assert!(second == first || first == 1);
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            let share = f64::from(count) / (2_000.0 * weight);
            assert!((0.9..1.1).contains(&share), "{counts:?}");
        }
    }

    #[test]
    fn a_request_without_a_key_goes_to_the_least_loaded() {
        let balancer = Balancer::new(&Balance::Hash(HashKey::Uri), 2);
        let choice = balancer.choose(choices(&[1.0; 2], &[1, 0]), None);
        assert_eq!(choice, Some(1));
    }

    #[test]
    fn the_hash_never_changes() {
        // Other values would move all sessions when the server is updated.
        assert_eq!(hash(b""), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(hash(b"127.0.0.1"), 0x360f_a4ad_e68d_5ada);
    }
}
