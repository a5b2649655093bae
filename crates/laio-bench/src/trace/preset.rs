//! Traces of known shapes.

use super::shape::{Web, uniform, web};
use super::{Entry, Trace};

/// A shape of a file set and of the requests for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// Requests, data set and transfer of the Rice trace.
    Rice,
    /// The data set of the Berkeley trace.
    Berkeley,
    /// lighttpd's small files.
    LighttpdSmall,
    /// lighttpd's large files.
    LighttpdLarge,
    /// lighttpd's one file.
    LighttpdOne,
    /// A tree of `workload.py`.
    Tree {
        /// The number of levels.
        depth: u32,
        /// The number of files in each directory.
        files: u64,
        /// The size of each file in bytes.
        size: u64,
    },
}

/// Rice and Berkeley: the publication gives 245,820 requests, a set of 1.1 GB and 8 GB transferred for Rice,
/// and a set of 6.4 GB for Berkeley. The traces themselves are not public, nor are their distributions of
/// sizes and popularity.
const RICE: Web = Web {
    requests: 245_820,
    set: 1_100_000_000,
    transferred: 8_000_000_000,
};
const BERKELEY: Web = Web {
    // Proportional to the set, as in Rice: the publication gives only the size of the set.
    requests: 1_430_225,
    set: 6_400_000_000,
    transferred: 46_545_454_545,
};
/// The argument of `http_load -fetches`.
const FETCHES: usize = 10_000;

impl Preset {
    /// The names, and descriptions of their shapes.
    #[rustfmt::skip]
    pub const NAMES: [(&str, &str); 6] = [
        ("rice", "245,820 requests, 1.1 GB of files, 8 GB transferred"),
        ("berkeley", "1,430,225 requests, 6.4 GB of files, 46.5 GB transferred"),
        ("lighttpd-small", "1,000 directories of 100 files of 100 KiB; 10,000 requests, at random"),
        ("lighttpd-large", "1,000 files of 10 MB; 10,000 requests, at random"),
        ("lighttpd-one", "one file of 700 MB; 10 requests"),
        (
            "tree",
            "a binary tree of directories (--depth, --files, --size); as many requests as files, at random",
        ),
    ];

    /// Returns the trace of this shape. `scale` multiplies the numbers of requests and files.
    pub fn trace(self, seed: u64, scale: f64) -> Trace {
        let scaled = |number: f64| ((number * scale).round() as u64).max(1);
        let mut trace = match self {
            Preset::Rice => web("rice", RICE, seed, scale),
            Preset::Berkeley => web("berkeley", BERKELEY, seed, scale),
            Preset::LighttpdSmall => {
                let directories = scaled(1000.0);
                let file = |number: u64| Entry {
                    name: format!("dir{:04}/file{:02}.bin", number / 100, number % 100),
                    size: Some(100 << 10),
                };
                let files = (0..directories * 100).map(file).collect();
                uniform("lighttpd-small", files, scaled(FETCHES as f64), seed)
            }
            Preset::LighttpdLarge => {
                let file = |number| Entry {
                    name: format!("file{number:04}.bin"),
                    size: Some(10_000_000),
                };
                let files = (0..scaled(1000.0)).map(file).collect();
                uniform("lighttpd-large", files, scaled(FETCHES as f64), seed)
            }
            Preset::LighttpdOne => {
                let file = Entry {
                    name: "file-700M.bin".to_owned(),
                    size: Some(scaled(700e6)),
                };
                uniform("lighttpd-one", vec![file], 10, seed)
            }
            Preset::Tree { depth, files, size } => {
                let names = tree(depth, scaled(files as f64));
                let file = |name| Entry {
                    name,
                    size: Some(size),
                };
                let files: Vec<_> = names.into_iter().map(file).collect();
                let requests = files.len() as u64;
                uniform("tree", files, requests, seed)
            }
        };
        trace.about.push(format!("seed {seed}, scale {scale}"));
        trace
    }
}

/// Returns the names of [`crate::trees::Shape::Binary`].
fn tree(depth: u32, files: u64) -> Vec<String> {
    let mut names = Vec::new();
    let mut level = vec![String::new()];
    for _ in 0..depth.clamp(1, crate::trees::DEPTH_MAX) {
        for directory in &level {
            names.extend((0..files).map(|number| format!("{directory}f{number:05}")));
        }
        level = level
            .iter()
            .flat_map(|one| [format!("{one}a/"), format!("{one}b/")])
            .collect();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rice_has_the_published_numbers() {
        let trace = Preset::Rice.trace(1, 0.1);
        assert_eq!(trace.requests.len(), 24_582);
        let near = |found: u64, wanted: f64| (found as f64 / wanted - 1.0).abs() < 0.01;
        assert!(
            near(trace.set_bytes(), 110e6),
            "{} bytes",
            trace.set_bytes()
        );
        assert!(
            near(trace.transferred(), 800e6),
            "{} bytes",
            trace.transferred()
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        for preset in [Preset::Rice, Preset::LighttpdSmall, Preset::LighttpdOne] {
            assert_eq!(preset.trace(9, 0.01), preset.trace(9, 0.01));
        }
        assert_ne!(Preset::Rice.trace(9, 0.01), Preset::Rice.trace(8, 0.01));
    }

    #[test]
    fn sets_are_as_published() {
        let small = Preset::LighttpdSmall.trace(1, 1.0);
        assert_eq!(
            (small.files.len(), small.set_bytes()),
            (100_000, 10_240_000_000)
        );
        let large = Preset::LighttpdLarge.trace(1, 0.01);
        assert_eq!((large.files.len(), large.set_bytes()), (10, 100_000_000));
        let (depth, files, size) = (3, 2, 10);
        let tree = Preset::Tree { depth, files, size }.trace(1, 1.0);
        assert_eq!((tree.files.len(), tree.requests.len()), (14, 14));
        assert!(tree.files.iter().any(|file| file.name == "a/b/f00001"));
    }
}
