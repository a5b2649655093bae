//! Random trees and options.
//!
//! `LAIO_TEST_SEED` selects other ones; a failure prints the tree and the command, which can become
//! a scenario.

use laio_testing::{Random, extent};

use crate::case::{Case, case};

/// All cases, and those that run by default.
const CASES: (u64, u64) = (120, 30);
const NAMES: [&str; 6] = ["a", "b", "c", "e", "f", "g"];
const OPTIONS: [&str; 23] = [
    "-p",
    "-d",
    "-H",
    "-P",
    "-f",
    "-n",
    "-u",
    "-b",
    "--backup=t",
    "-l",
    "-v",
    "--remove-destination",
    "--attributes-only",
    "-x",
    "--sparse=always",
    "--preserve=links",
    "--preserve=xattr",
    "--no-preserve=mode",
    "--preserve=timestamps",
    "-S .o",
    "--reflink=never",
    "--preserve=all",
    "--preserve=mode",
];

/// Options for sources and destinations of any type. Without `-L` and `--parents`, with which GNU's
/// cp does not copy extended attributes of directories.
const ANYWHERE: [&str; 4] = ["-T", "-s", "-v", "-u"];

pub(super) fn cases() -> Vec<Case> {
    let first = match std::env::var_os("LAIO_TEST_SEED") {
        Some(_) => Random::for_test().bits(),
        None => 1,
    };
    let seeds = || (0..extent::cases(CASES.0, CASES.1)).map(|index| first.wrapping_add(index));
    seeds().map(one).chain(seeds().map(anywhere)).collect()
}

/// Copies a directory into another.
fn one(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let mut lines = Lines {
        with_names: random.chance(1, 2),
        ..Lines::default()
    };
    lines.text.push("dir s".into());
    lines.fill("s", 0, &mut random);
    let (operands, at) = *random.pick(&[
        ("s d", "d/s"),
        ("-T s d", "d"),
        ("s/. d", "d"),
        ("s new", "x"),
        ("s/ d", "d/s"),
        ("-t d s", "d/s"),
        ("--parents s d", "d/s"),
    ]);
    lines.text.push("dir d".into());
    if at != "d" {
        lines.text.push(format!("dir {at}"));
    }
    let mut options = vec![*random.pick(&["-r", "-R", "-a"])];
    if lines.with_names {
        options = vec!["-a"];
    } else {
        lines.fill(at, 0, &mut random);
    }
    let options = with_others(options, &mut random);
    let command = format!("{options} {operands}");
    let case = case(format!("seed {seed}"), lines.text.join("; "), command);
    if random.chance(1, 4) {
        case.user()
    } else {
        case
    }
}

/// Copies anything to anything; most of these commands fail.
fn anywhere(seed: u64) -> Case {
    let mut random = Random::new(!seed);
    let mut lines = Lines {
        without_fifos: true,
        ..Lines::default()
    };
    lines.text.push("dir s d".into());
    lines.fill("s", 0, &mut random);
    lines.fill("d", 0, &mut random);
    let mut paths = vec!["s".to_owned(), "d".to_owned(), "n".to_owned()];
    let made = |line: &String| line.split(' ').nth(1).map(str::to_owned);
    let makes = |line: &&String| {
        ["file ", "dir ", "link "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    paths.extend(lines.text.iter().filter(makes).filter_map(made));
    let target = match random.below(8) {
        0 => "n/".to_owned(),
        1 => "n/n".to_owned(),
        2 => ".".to_owned(),
        _ => random.pick(&paths).clone(),
    };
    let options = match random.below(4) {
        0 => vec![],
        _ => vec![*random.pick(&["-r", "-R", "-a"]), *random.pick(&ANYWHERE)],
    };
    let mut sources = Vec::new();
    for _ in 0..*random.pick(&[1, 1, 1, 2, 3]) {
        let source = random.pick(&paths);
        // GNU's cp skips the entries after a directory that would be copied into itself.
        if !target.starts_with(source.as_str()) {
            let behind = *random.pick(&["", "", "", "", "", "/", "/.", "//"]);
            sources.push(format!("{source}{behind}"));
        }
    }
    let options = with_others(options, &mut random);
    let command = format!("{options} {} {target}", sources.join(" "));
    case(format!("anywhere {seed}"), lines.text.join("; "), command)
}

fn with_others(mut options: Vec<&str>, random: &mut Random) -> String {
    for _ in 0..random.below(4) {
        options.push(*random.pick::<&str>(&OPTIONS));
    }
    // These options exclude each other; another scenario tests the message.
    if options.contains(&"-n") {
        options.retain(|option| !["-b", "--backup=t", "-S .o"].contains(option));
    }
    options.join(" ")
}

#[derive(Default)]
struct Lines {
    text: Vec<String>,
    files: Vec<String>,
    /// The source has hard links. Then the destination is empty, and the names stay in one
    /// directory: otherwise the result would depend on their order.
    with_names: bool,
    /// A FIFO that is opened as a source or destination waits for its peer.
    without_fifos: bool,
}

impl Lines {
    /// Fills a directory with some of the names, so that two trees have names in common.
    fn fill(&mut self, directory: &str, depth: usize, random: &mut Random) {
        for name in NAMES {
            if random.chance(2, 5) {
                continue;
            }
            let path = format!("{directory}/{name}");
            match random.below(12) {
                0..=4 => self.file(&path, random),
                5..=7 if depth < 3 => {
                    self.text.push(format!("dir {path}"));
                    self.fill(&path, depth + 1, random);
                    self.attributes(&path, &["755", "700", "711"], random);
                }
                // In the destination it would be opened, and wait for a reader.
                8 if directory.starts_with('s') && !self.without_fifos => {
                    self.text.push(format!("fifo {path}"))
                }
                9 | 10 => {
                    let up = if depth > 0 && random.chance(1, 3) {
                        "../"
                    } else {
                        ""
                    };
                    // Not to itself, and not through a file, because the messages differ; in the
                    // destination not to another name that is written.
                    let target = match name {
                        _ if !directory.starts_with('s') => "nowhere",
                        "b" => "nowhere",
                        _ => *random.pick(&["b", "nowhere", "nowhere/f"]),
                    };
                    self.text.push(format!("link {path} {up}{target}"));
                }
                11 if self.with_names && !self.files.is_empty() => {
                    let old = random.pick(&self.files).clone();
                    self.text.push(format!("hard {path} {old}"));
                }
                _ => self.file(&path, random),
            }
        }
    }

    fn file(&mut self, path: &str, random: &mut Random) {
        let contents = *random.pick(&["", " =", " =short", " 5000", " 70000"]);
        self.text.push(format!("file {path}{contents}"));
        self.attributes(path, &["600", "755", "444", "711"], random);
        if random.chance(1, 8) {
            self.text
                .push(format!("time {} {path}", random.between(1000..1003)));
        }
        self.files.push(path.into());
    }

    fn attributes(&mut self, path: &str, modes: &[&str], random: &mut Random) {
        if random.chance(1, 3) {
            self.text
                .push(format!("mode {} {path}", random.pick(modes)));
        }
        if random.chance(1, 8) {
            self.text
                .push(format!("xattr {path} user.x {}", random.below(10)));
        }
    }
}
