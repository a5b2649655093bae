//! The published figures: table 1 of "Implementing `cp -r` with Linux AIO" (M. Parikh and S. Surendran,
//! 2014).

/// The source of the figures.
pub(super) const SOURCE: &str = "M. Parikh, S. Surendran: Implementing `cp -r` with Linux AIO, 2014; Linux 3.5, \
     ext4 on a rotating disk, cold cache, mean of three runs";

/// The programs, in the order of [`SECONDS`]: GNU cp; kernel AIO with O_DIRECT and without; POSIX AIO.
pub(super) const PROGRAMS: [&str; 4] = ["cp", "k-D", "k-N", "posix"];

/// Depth, KiB of each file, and the seconds of the programs.
#[rustfmt::skip]
const SECONDS: [(u32, u64, [f64; 4]); 15] = [
    (2,  4, [0.194, 0.127, 0.181, 0.171]),
    (2,  8, [0.259, 0.267, 0.233, 0.190]),
    (2, 16, [0.406, 0.362, 0.332, 0.205]),
    (2, 32, [0.364, 0.527, 0.345, 0.258]),
    (2, 64, [0.377, 0.750, 0.4,   0.267]),
    (4,  4, [0.253, 0.315, 0.266, 0.265]),
    (4,  8, [0.514, 0.599, 0.417, 0.366]),
    (4, 16, [0.441, 0.687, 0.502, 0.329]),
    (4, 32, [0.465, 0.889, 0.511, 0.332]),
    (4, 64, [0.632, 1.45,  0.677, 0.440]),
    (8,  4, [1.14,  2.88,  0.798, 0.878]),
    (8,  8, [1.33,  3.12,  1.20,  1.35]),
    (8, 16, [1.78,  4.47,  1.31,  1.14]),
    (8, 32, [3.61,  7.74,  3.65,  2.81]),
    (8, 64, [3.72, 10.3,   3.59,  3.39]),
];

/// Returns the seconds of the programs for one tree.
pub(super) fn seconds(depth: u32, kib: u64) -> Option<[f64; 4]> {
    let found = SECONDS.iter().find(|row| (row.0, row.1) == (depth, kib));
    found.map(|row| row.2)
}
