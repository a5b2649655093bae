//! Generates requests and files with given totals.

use super::{Entry, Request, Sizes, Trace, Zipf};
use crate::content::Random;

/// The known totals of a web site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Web {
    pub(super) requests: u64,
    /// The size of all files in bytes.
    pub(super) set: u64,
    /// The size of all responses in bytes.
    pub(super) transferred: u64,
}

/// The popularity on web servers, as often measured: an exponent slightly below 1.
const EXPONENT: f64 = 0.8;
/// The number of files in each directory.
const TOGETHER: usize = 100;

/// Returns a site with these totals: draws sizes until the set is full, and requests by rank; then exchanges
/// the ranks of files until the number of transferred bytes is right.
pub(super) fn web(name: &str, web: Web, seed: u64, scale: f64) -> Trace {
    let mut random = Random::new(seed);
    let scaled = |number: u64| (number as f64 * scale).round().max(1.0);
    let mut sizes = Vec::new();
    let mut left = scaled(web.set) as u64;
    while left > 0 {
        let size = Sizes::WEB.draw(&mut random).min(left);
        left -= size;
        sizes.push(size);
    }
    let zipf = Zipf::new(sizes.len(), EXPONENT);
    let requests = (0..scaled(web.requests) as u64).map(|_| Request {
        file: zipf.draw(&mut random) as u32,
        at: None,
    });
    let requests: Vec<Request> = requests.collect();
    let mut counts = vec![0u64; sizes.len()];
    for request in &requests {
        counts[request.file as usize] += 1;
    }
    settle(&mut sizes, &counts, scaled(web.transferred), &mut random);
    let file = |(number, size): (usize, u64)| Entry {
        name: format!("d{:04}/f{number:06}.bin", number / TOGETHER),
        size: Some(size),
    };
    Trace {
        name: name.to_owned(),
        about: vec![Sizes::WEB.to_string(), zipf.to_string()],
        files: sizes.into_iter().enumerate().map(file).collect(),
        requests,
    }
}

/// Exchanges sizes between ranks until the responses have approximately `wanted` bytes.
fn settle(sizes: &mut [u64], counts: &[u64], wanted: f64, random: &mut Random) {
    let bytes = sizes.iter().zip(counts).map(|(size, count)| size * count);
    let mut off = bytes.sum::<u64>() as f64 - wanted;
    for _ in 0..sizes.len() * 40 {
        if off.abs() < wanted / 1000.0 {
            return;
        }
        let mut rank = || random.below(sizes.len() as u64) as usize;
        let (one, other) = (rank(), rank());
        let count = counts[one] as f64 - counts[other] as f64;
        let change = count * (sizes[other] as f64 - sizes[one] as f64);
        if (off + change).abs() < off.abs() {
            sizes.swap(one, other);
            off += change;
        }
    }
}

/// Returns requests for files that are equally popular.
pub(super) fn uniform(name: &str, files: Vec<Entry>, requests: u64, seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let requests = (0..requests).map(|_| Request {
        file: random.below(files.len() as u64) as u32,
        at: None,
    });
    Trace {
        name: name.to_owned(),
        requests: requests.collect(),
        about: vec![format!("popularity: all {} files alike", files.len())],
        files,
    }
}
