//! Who copies: `laio cp` by each back end, GNU cp, and other tools where they are installed.

use super::ground::Ground;
use super::{Settings, compare};
use crate::child;
use crate::error::Error;
use crate::record::Record;
use crate::stop::Stop;
use crate::trees::Shape;
use laio::BackendKind;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    name: String,
    program: Program,
    options: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Cp,
    Laio,
    /// Without the attributes that cpz does not keep either.
    Bare,
    /// The command that is the copy alone.
    Alone,
    Xcp,
    Cpz,
    Rsync,
}

/// GNU cp: what all are compared with.
pub(super) const REFERENCE: &str = "cp";

/// The variants of the published report, as near as `laio cp` comes to them: buffers of a page, room reserved
/// and reads announced before data is moved, reads and writes both asynchronous.
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

impl Contestant {
    /// All of them; which are there is found out when they are tried.
    pub fn all() -> Vec<Contestant> {
        let plain = |name: &str, program| Contestant {
            name: name.to_owned(),
            program,
            options: Vec::new(),
        };
        let mut all = vec![plain(REFERENCE, Program::Cp)];
        for kind in BackendKind::ALL {
            all.push(Contestant {
                name: format!("laio {kind}"),
                program: Program::Laio,
                options: vec!["--backend".to_owned(), kind.name().to_owned()],
            });
        }
        for (name, backend, more) in PUBLISHED {
            let named = ["--backend", backend];
            let words = named.iter().chain(&AS_PUBLISHED).chain(more);
            all.push(Contestant {
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

    /// Those that a short run can do with: no back end but the default.
    pub fn few() -> Vec<Contestant> {
        let default = format!("laio {}", BackendKind::Lazy);
        let mut all = Contestant::all();
        all.retain(|one| {
            let is_ours = matches!(one.program, Program::Laio | Program::Bare | Program::Alone);
            !is_ours || one.name == default
        });
        all
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it keeps attributes when asked to, so that a copy can be held to it.
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

    /// Copies a directory to a name that is not there yet, with attributes or without.
    pub(super) fn command(&self, laio: &Path, attributes: bool, from: &Path, to: &Path) -> Command {
        let mut command = Command::new(self.program(laio));
        // What the caller's environment asks of one contestant is not what is compared.
        command.env_remove(laio::Options::ENV_BACKEND);
        command
            .args(self.arguments(attributes))
            .args(match self.program {
                // Its source is a directory whose contents are meant.
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
            // With what `cp -a` keeps besides.
            (Program::Rsync, true) => &["-aHAXS"],
        };
        let own = own.iter().map(|word| (*word).to_owned());
        own.chain(self.options.iter().cloned()).collect()
    }

    /// The words of the command, without the names of the trees.
    pub(super) fn words(&self, attributes: bool) -> Vec<String> {
        let program = self.program(Path::new("laio")).display().to_string();
        std::iter::once(program)
            .chain(self.arguments(attributes))
            .collect()
    }

    /// The first line of what it says of its version.
    fn version(&self, laio: &Path) -> Option<String> {
        let output = Command::new(self.program(laio))
            .arg("--version")
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().next()?.trim().to_owned())
    }
}

/// The copy alone, which is installed beside the command.
pub(super) fn alone(laio: &Path) -> PathBuf {
    laio.with_file_name("laio-cp")
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// Lets each copy a small tree, and leaves out those that cannot, with a word.
pub(super) fn try_all(
    settings: &Settings,
    ground: &Ground,
    stop: &Stop,
    record: &mut Record,
) -> Result<Vec<Contestant>, Error> {
    let source = ground.path("trial");
    let (depth, files, size) = (2, 2, 5000);
    Shape::Binary { depth, files, size }.make(&source, stop)?;
    let mut able = Vec::new();
    for contestant in &settings.contestants {
        let copy = ground.path("trial-copy");
        let mut command = contestant.command(&settings.laio, false, &source, &copy);
        let reason = match child::run(&mut command, stop) {
            Err(error) => {
                stop.check()?;
                Some(error.to_string())
            }
            Ok(ran) if !ran.status.success() => Some(ran.complaint()),
            Ok(_) => compare::trees(&source, &copy, false, stop)?,
        };
        ground.done(copy)?;
        match reason {
            Some(reason) => record.note(format!("{contestant} left out: {reason}")),
            None => {
                let version = contestant.version(&settings.laio);
                record
                    .settings
                    .extend(version.map(|version| (contestant.name.clone(), version)));
                able.push(contestant.clone());
            }
        }
    }
    ground.done(source)?;
    Ok(able)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_reference_is_first() {
        let all = Contestant::all();
        assert_eq!(all[0].name(), REFERENCE);
        let mut names: Vec<_> = all.iter().map(Contestant::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(
            Contestant::few()
                .iter()
                .any(|one| one.name() == "laio lazy")
        );
    }
}
