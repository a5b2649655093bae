//! The copying tools: `laio cp` with each back end, GNU cp, and other tools where they are installed.

use laio::BackendKind;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    name: String,
    program: Program,
    options: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Cp,
    Laio,
    /// `laio cp` without the attributes that cpz does not preserve either.
    Bare,
    /// The separate program `laio-cp`.
    Alone,
    Xcp,
    Cpz,
    Rsync,
}

/// GNU cp, the reference of all ratios.
const REFERENCE: &str = "cp";

/// The variants of the published report, as closely as `laio cp` can reproduce them: buffers of a page, space
/// preallocated and reads announced before the copy, reads and writes both asynchronous.
const PUBLISHED: [(&str, &str, &[&str]); 3] = [
    ("laio as posix", "posix-aio", &[]),
    ("laio as k-N", "linux-aio", &[]),
    ("laio as k-D", "linux-aio", &["--direct"]),
];
const AS_PUBLISHED: [&str; 7] = [
    "--backend-writes",
    "--method",
    "read-write",
    "--buffer",
    "4K",
    "--fallocate",
    "--fadvise",
];

impl Subject {
    /// Returns all subjects. A trial finds out which of them work here.
    pub fn all() -> Vec<Subject> {
        let plain = |name: &str, program| Subject {
            name: name.to_owned(),
            program,
            options: Vec::new(),
        };
        let mut all = vec![plain(REFERENCE, Program::Cp)];
        for kind in BackendKind::ALL {
            all.push(Subject {
                name: format!("laio {kind}"),
                program: Program::Laio,
                options: vec!["--backend".to_owned(), kind.name().to_owned()],
            });
        }
        for (name, backend, more) in PUBLISHED {
            let named = ["--backend", backend];
            let words = named.iter().chain(&AS_PUBLISHED).chain(more);
            all.push(Subject {
                name: name.to_owned(),
                program: Program::Laio,
                options: words.map(|word| (*word).to_owned()).collect(),
            });
        }
        all.extend([
            plain("laio -r", Program::Bare),
            plain("laio-cp", Program::Alone),
            plain("xcp", Program::Xcp),
            plain("cpz", Program::Cpz),
            plain("rsync", Program::Rsync),
        ]);
        all
    }

    /// Returns the subjects with these names, and the reference. Without names all, in a quick run only the default
    /// back end of ours.
    pub fn chosen(quick: bool, names: &[String]) -> Vec<Subject> {
        let default = format!("laio {}", BackendKind::Lazy);
        let is_few = |one: &Subject| {
            let is_ours = matches!(one.program, Program::Laio | Program::Bare | Program::Alone);
            !quick || !is_ours || one.name == default
        };
        let mut all = Subject::all();
        all.retain(|one| match names {
            [] => is_few(one),
            names => one.name == REFERENCE || names.iter().any(|name| one.is_named(name)),
        });
        all
    }

    /// Whether this is its name; for `laio lazy`, `lazy` is too.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.name.strip_prefix("laio ") == Some(name)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it preserves attributes on request, so that they are compared.
    pub(super) fn keeps_attributes(&self) -> bool {
        matches!(
            self.program,
            Program::Cp | Program::Laio | Program::Alone | Program::Rsync
        )
    }

    fn program(&self, laio: &Path) -> PathBuf {
        match self.program {
            Program::Cp => "cp".into(),
            Program::Laio | Program::Bare => laio.into(),
            Program::Alone => alone(laio),
            Program::Xcp => "xcp".into(),
            Program::Cpz => "cpz".into(),
            Program::Rsync => "rsync".into(),
        }
    }

    /// Returns the command that copies a directory to a new name, with attributes or without.
    pub(super) fn command(&self, laio: &Path, attributes: bool, from: &Path, to: &Path) -> Command {
        let mut command = Command::new(self.program(laio));
        // The caller's environment must not change a subject.
        command.env_remove(laio::Options::ENV_BACKEND);
        command
            .args(self.arguments(attributes))
            .args(match self.program {
                // With the slash rsync copies the contents of the source directory.
                Program::Rsync => [from.join(""), to.to_owned()],
                _ => [from.to_owned(), to.to_owned()],
            });
        command
    }

    fn arguments(&self, attributes: bool) -> Vec<String> {
        let own: &[&str] = match (self.program, attributes) {
            (Program::Cp | Program::Alone, false) => &["-r"],
            (Program::Cp | Program::Alone, true) => &["-a"],
            (Program::Laio, false) | (Program::Bare, _) => &["cp", "-r"],
            (Program::Laio, true) => &["cp", "-a"],
            (Program::Xcp, _) => &["--recursive", "--no-progress"],
            (Program::Cpz, _) => &[],
            (Program::Rsync, false) => &["-rl"],
            // These options preserve what `cp -a` preserves.
            (Program::Rsync, true) => &["-aHAXS"],
        };
        let own = own.iter().map(|word| (*word).to_owned());
        own.chain(self.options.iter().cloned()).collect()
    }

    /// Returns the words of the command, without the names of the trees.
    pub(super) fn words(&self, attributes: bool) -> Vec<String> {
        let program = self.program(Path::new("laio")).display().to_string();
        std::iter::once(program)
            .chain(self.arguments(attributes))
            .collect()
    }

    /// Returns the first line of its `--version`.
    pub(super) fn version(&self, laio: &Path) -> Option<String> {
        let output = Command::new(self.program(laio))
            .arg("--version")
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().next()?.trim().to_owned())
    }
}

/// Returns the program `laio-cp`, which is installed in the same directory as `laio`.
pub(super) fn alone(laio: &Path) -> PathBuf {
    laio.with_file_name("laio-cp")
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_reference_is_first() {
        let all = Subject::all();
        assert_eq!(all[0].name(), REFERENCE);
        let mut names: Vec<_> = all.iter().map(Subject::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(
            Subject::chosen(true, &[])
                .iter()
                .any(|one| one.name() == "laio lazy")
        );
    }
}
