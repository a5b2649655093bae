//! The trees that are copied.

use crate::trees::Shape;
use std::path::PathBuf;

/// A tree to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A tree of the published table 1.
    Published {
        /// The number of levels.
        depth: u32,
        /// The size of each file in KiB.
        kib: u64,
    },
    /// A generated tree.
    Made(&'static str, Shape),
    /// An existing tree.
    Given(PathBuf),
}

/// The names, and descriptions of their trees.
#[rustfmt::skip]
const NAMES: [(&str, &str); 6] = [
    ("table1", "the trees of the published table 1: files of 4 to 64 KiB, depth 2, 4 and 8"),
    ("flat", "100,000 files of 1 KiB in one directory"),
    ("deep", "100,254 files of 1 KiB in a binary tree of 1,023 directories"),
    ("big", "one file of 4 GiB"),
    ("sparse", "an image of 4 GiB, of which 256 MiB are allocated"),
    ("usr", "/usr"),
];

/// The depths of table 1, and the number of files in each directory there: the more directories, the fewer.
const DEPTHS: [(u32, u64); 3] = [(2, 8), (4, 4), (8, 2)];
/// The sizes of table 1, in KiB.
const SIZES: [u64; 5] = [4, 8, 16, 32, 64];

impl Workload {
    /// Returns the names that [`Workload::named`] knows, with descriptions.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMES.into_iter()
    }

    /// Returns the trees of a name. Generated trees other than the published ones are scaled.
    ///
    /// # Errors
    /// If there is no such name.
    pub fn named(name: &str, scale: f64) -> Result<Vec<Workload>, String> {
        let scaled = |number: u64| ((number as f64 * scale).round() as u64).max(1);
        let whole_pages = |size: u64| scaled(size).next_multiple_of(4096);
        let one = |name, shape| vec![Workload::Made(name, shape)];
        Ok(match name {
            "table1" => Workload::table1(&SIZES),
            "flat" => {
                let files = scaled(100_000);
                one("flat", Shape::Flat { files, size: 1024 })
            }
            "deep" => {
                let (depth, files, size) = (10, scaled(98), 1024);
                one("deep", Shape::Binary { depth, files, size })
            }
            "big" => {
                let size = whole_pages(4 << 30);
                one("big", Shape::Flat { files: 1, size })
            }
            "sparse" => {
                let (size, piece) = (whole_pages(4 << 30), 256 << 10);
                let pieces = scaled(1024);
                one(
                    "sparse",
                    Shape::Sparse {
                        size,
                        pieces,
                        piece,
                    },
                )
            }
            "usr" => vec![Workload::Given("/usr".into())],
            _ => {
                let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                return Err(format!("there is no tree `{name}`; the trees are {names}"));
            }
        })
    }

    /// Returns the trees of table 1 with files of these sizes, in KiB.
    pub fn table1(sizes: &[u64]) -> Vec<Workload> {
        let of_depth = |(depth, _)| {
            sizes
                .iter()
                .map(move |kib| Workload::Published { depth, kib: *kib })
        };
        DEPTHS.into_iter().flat_map(of_depth).collect()
    }

    /// Returns the name of the tree.
    pub fn name(&self) -> String {
        match self {
            Workload::Published { depth, kib } => format!("depth {depth}, {kib} KiB"),
            Workload::Made(name, _) => (*name).to_owned(),
            Workload::Given(path) => path.display().to_string(),
        }
    }

    /// Returns a description with numbers.
    pub(super) fn description(&self) -> String {
        match self.shape() {
            Some(shape) => {
                let (files, bytes) = (shape.files(), shape.bytes() as f64 / f64::from(1 << 20));
                let directories = shape.directories();
                format!("{files} files, {bytes:.1} MiB, {directories} directories")
            }
            None => "an existing tree".to_owned(),
        }
    }

    /// How it is made, if it is.
    pub(super) fn shape(&self) -> Option<Shape> {
        match self {
            Workload::Published { depth, kib } => {
                let found = DEPTHS.iter().find(|(other, _)| other == depth);
                Some(Shape::Binary {
                    depth: *depth,
                    files: found.map_or(2, |(_, files)| *files),
                    size: kib << 10,
                })
            }
            Workload::Made(_, shape) => Some(*shape),
            Workload::Given(_) => None,
        }
    }

    /// Whether copies are to keep attributes. The published ones were made by `cp -r`.
    pub(super) fn with_attributes(&self) -> bool {
        !matches!(self, Workload::Published { .. })
    }
}

/// Returns the depth, and the size of the files in KiB, if this is the name of a tree of table 1.
pub(crate) fn depth_and_size(name: &str) -> Option<(u32, u64)> {
    let mut trees = Workload::table1(&SIZES).into_iter();
    match trees.find(|tree| tree.name() == name)? {
        Workload::Published { depth, kib } => Some((depth, kib)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_scales() {
        for (name, _) in Workload::names() {
            assert!(!Workload::named(name, 1.0).unwrap().is_empty());
        }
        assert!(Workload::named("nothing", 1.0).is_err());
        let deep = &Workload::named("deep", 1.0).unwrap()[0];
        assert_eq!(deep.shape().unwrap().files(), 100_254);
        let flat = &Workload::named("flat", 0.001).unwrap()[0];
        assert_eq!(flat.shape().unwrap().files(), 100);
        assert_eq!(Workload::named("table1", 1.0).unwrap().len(), 15);
        let tiny = &Workload::named("sparse", 1e-9).unwrap()[0];
        assert_eq!(tiny.shape().unwrap().files(), 1);
    }
}
