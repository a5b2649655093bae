//! The mappings of a process, and how much of each is in memory.

use std::collections::HashSet;

/// The largest table that is read, in mappings. The kernel locks the table of the process while it is read.
const MAX_MAPPINGS: usize = 4096;

/// A mapping of a file or of anonymous memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its first address.
    pub(crate) start: u64,
    /// The address behind it.
    pub(crate) end: u64,
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Whether it has code.
    pub(crate) is_executable: bool,
    /// The file, or a name in brackets, or nothing.
    pub(crate) name: String,
    /// How many KiB of it are in memory, if that was asked for.
    pub(crate) resident: u64,
}

impl Mapping {
    /// Whether it shows a file.
    pub(crate) fn is_file(&self) -> bool {
        self.name.starts_with('/')
    }

    /// Whether the address is in it.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Reads the mappings, in the order of addresses.
pub(crate) fn read(pid: u32) -> Vec<Mapping> {
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_or_else(|_| Vec::new(), |text| parse(&text))
}

/// Reads the mappings with the amount of memory in each. Nothing if the process has so many that this
/// would hold it up.
pub(crate) fn read_resident(pid: u32) -> Vec<Mapping> {
    if read(pid).len() >= MAX_MAPPINGS {
        return Vec::new();
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps"));
    text.map_or_else(|_| Vec::new(), |text| parse(&text))
}

/// The file that a page fault was about, from a reading during the fault and one after it: the file that
/// has grown most, or else the only one that was not wholly in memory. Programs and libraries also grow
/// while a thread runs on, so that data comes first.
pub(crate) fn faulted(before: &[Mapping], after: &[Mapping]) -> Option<String> {
    let code: HashSet<&str> = before
        .iter()
        .chain(after)
        .filter(|mapping| mapping.is_executable)
        .map(|mapping| mapping.name.as_str())
        .collect();
    let is_data = |mapping: &&Mapping| mapping.is_file() && !code.contains(mapping.name.as_str());
    let grown = |mapping: &&Mapping| {
        let same = |old: &&Mapping| old.start == mapping.start && old.name == mapping.name;
        let old = before.iter().find(same).map_or(0, |old| old.resident);
        mapping.resident.saturating_sub(old)
    };
    let largest = |mappings: Vec<&Mapping>| {
        let largest = mappings.into_iter().max_by_key(grown);
        largest
            .filter(|mapping| grown(mapping) > 0)
            .map(|mapping| mapping.name.clone())
    };
    let is_partial = |mapping: &&Mapping| mapping.resident << 10 < mapping.end - mapping.start;
    let partial = before.iter().filter(is_data).filter(is_partial);
    let partial: HashSet<&str> = partial.map(|mapping| mapping.name.as_str()).collect();
    let only = (partial.len() == 1).then(|| partial.into_iter().next().map(str::to_owned));
    largest(after.iter().filter(is_data).collect())
        .or(only.flatten())
        .or_else(|| largest(after.iter().filter(|mapping| mapping.is_file()).collect()))
}

fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = header(line) {
            if mappings.len() == MAX_MAPPINGS {
                break;
            }
            mappings.push(mapping);
        } else if let Some(amount) = line.strip_prefix("Rss:")
            && let Some(last) = mappings.last_mut()
        {
            let amount = amount.trim().trim_end_matches(" kB");
            last.resident = amount.parse().unwrap_or(0);
        }
    }
    mappings
}

/// Parses `7f00-7f10 r-xp 00001000 fe:00 1234   /lib/libc.so.6`.
fn header(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after.trim_start();
        word
    };
    let (start, end) = word().split_once('-')?;
    let (rights, offset) = (word(), word());
    let _device_and_inode = (word(), word());
    let number = |word| u64::from_str_radix(word, 16).ok();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        is_executable: rights.contains('x'),
        name: rest.to_owned(),
        resident: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let text = "1000-3000 r-xp 00001000 fe:00 12    /usr/lib/a b.so\nSize:  8 kB\nRss:   4 kB\n\
                    4000-5000 rw-p 00000000 00:00 0 \nRss: 0 kB\n";
        let mappings = parse(text);
        assert_eq!(mappings.len(), 2);
        assert_eq!(mappings[0].name, "/usr/lib/a b.so");
        assert!(mappings[0].is_file() && mappings[0].is_executable && mappings[0].contains(0x2fff));
        assert_eq!((mappings[0].resident, mappings[0].offset), (4, 0x1000));
        let mut after = mappings.clone();
        assert_eq!(faulted(&mappings, &after), None);
        after[0].resident = 12;
        assert_eq!(faulted(&mappings, &after).unwrap(), "/usr/lib/a b.so");
        let data = parse("9000-b000 r--p 00000000 fe:00 13 /data\nRss: 4 kB\n");
        assert_eq!(faulted(&data, &[]).unwrap(), "/data");
        assert_eq!(faulted(&[], &data).unwrap(), "/data");
    }
}
