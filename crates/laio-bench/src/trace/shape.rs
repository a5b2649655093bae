//! Making up requests and files so that their numbers come out.

use super::{Entry, Request, Sizes, Trace, Zipf};
use crate::content::Random;

/// What is known of a web site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Web {
    pub(super) requests: u64,
    /// Bytes of all files.
    pub(super) set: u64,
    /// Bytes of all answers.
    pub(super) transferred: u64,
}

/// Popularity on web servers, as measured on many: a little less steep than 1.
const EXPONENT: f64 = 0.8;
/// Files in each directory.
const TOGETHER: usize = 100;

/// A site with these numbers: sizes are drawn until the set is full, requests by rank; then files change their
/// ranks until the bytes transferred come out.
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

/// Exchanges sizes between ranks until the answers have `wanted` bytes, or nearly.
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

/// Files that are all asked for alike, at random.
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
