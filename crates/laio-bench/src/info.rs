//! `laio info`: what this machine allows, as text and as JSON.

mod json;
pub mod probe;
mod table;

use laio::Errno;
use probe::{Choice, Directory, Machine};
use std::path::{Path, PathBuf};

/// The contents of the report.
#[derive(Debug)]
pub struct Info {
    machine: Machine,
    /// The default context's properties, or the reason why it cannot be created.
    choice: Result<Choice, String>,
    directories: Vec<(PathBuf, Result<Directory, Errno>)>,
}

impl Info {
    /// Probes the machine, and the file systems under `paths`. Without paths: those of the current directory,
    /// the temporary directory, `/dev/shm` and the home directory, each file system once.
    pub fn probe(paths: &[PathBuf]) -> Info {
        let machine = Machine::probe();
        let choice = machine.choice();
        let directories = if paths.is_empty() {
            usual_directories()
        } else {
            let probe = |path: &PathBuf| (path.clone(), Directory::probe(path));
            paths.iter().map(probe).collect()
        };
        Info {
            machine,
            choice,
            directories,
        }
    }

    /// Returns the report as text.
    pub fn table(&self) -> String {
        table::table(self)
    }

    /// Returns the report as one JSON object.
    pub fn json(&self) -> String {
        format!("{:#}\n", json::object(self))
    }
}

fn usual_directories() -> Vec<(PathBuf, Result<Directory, Errno>)> {
    let current = std::env::current_dir().ok();
    let temporary = Some(std::env::temp_dir());
    let shared_memory = Some(Path::new("/dev/shm").to_owned());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let mut found: Vec<(PathBuf, Result<Directory, Errno>)> = Vec::new();
    for path in [current, temporary, shared_memory, home]
        .into_iter()
        .flatten()
    {
        let Ok(directory) = Directory::probe(&path) else {
            continue;
        };
        let known = found.iter().flat_map(|(_, known)| known);
        if known
            .into_iter()
            .all(|known| known.device != directory.device)
        {
            found.push((path, Ok(directory)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_people_and_programs_the_same() {
        let missing = PathBuf::from("/nowhere/at/all");
        let info = Info::probe(&[std::env::temp_dir(), missing]);
        let table = info.table();
        let json: serde_json::Value = serde_json::from_str(&info.json()).unwrap();
        let kernel = json["kernel"].as_str().unwrap();
        assert!(table.contains(kernel));
        assert_eq!(json["directories"].as_array().unwrap().len(), 2);
        assert_eq!(json["directories"][1]["error"], "ENOENT");
        assert!(table.contains("/nowhere/at/all"), "{table}");
        let usable = json["io_uring"]["usable"].as_bool().unwrap();
        assert_eq!(usable, info.machine.io_uring.is_ok());
    }

    #[test]
    fn without_paths_each_file_system_is_shown_once() {
        let found = usual_directories();
        assert!(!found.is_empty());
        let mut devices: Vec<_> = found
            .iter()
            .map(|(_, one)| one.as_ref().unwrap().device)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        assert_eq!(devices.len(), found.len());
    }
}
