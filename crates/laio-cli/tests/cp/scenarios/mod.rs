//! The scenarios, by subject.

mod attributes;
mod backups;
mod corners;
mod destinations;
mod links;
mod messages;
mod names;
mod overwriting;
mod random;
mod recursion;
mod same_file;
mod sparse;
mod special_files;
mod users;

use crate::case::{Case, named};

pub(crate) fn all() -> Vec<Case> {
    let subjects = [
        ("destinations", destinations::cases()),
        ("recursion", recursion::cases()),
        ("same_file", same_file::cases()),
        ("links", links::cases()),
        ("overwriting", overwriting::cases()),
        ("backups", backups::cases()),
        ("attributes", attributes::cases()),
        ("sparse", sparse::cases()),
        ("special_files", special_files::cases()),
        ("names", names::cases()),
        ("users", users::cases()),
        ("messages", messages::cases()),
        ("corners", corners::cases()),
        ("random", random::cases()),
    ];
    let cases = subjects
        .into_iter()
        .flat_map(|(subject, cases)| named(subject, cases));
    cases.collect()
}
