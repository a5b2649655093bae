//! The targets, and the tools that each needs.

use crate::programs::{output_of, succeeds};
use crate::repository::Failure;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A target that the suites can be built for.
#[derive(Debug)]
pub struct Target {
    /// What the user calls it.
    pub name: &'static str,
    /// What the compiler calls it.
    pub triple: &'static str,
    /// The processor, as `std::env::consts::ARCH` names it.
    arch: &'static str,
    /// The C compiler for it on a machine with another processor or C library, and Debian's package of it.
    compiler: Option<(&'static str, &'static str)>,
    /// Where Debian's package of the compiler has the target's shared libraries.
    libraries: Option<&'static str>,
    /// Flags for the compiler of Rust.
    flags: &'static str,
}

/// All targets.
pub const TARGETS: [Target; 2] = [
    Target {
        name: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        arch: "aarch64",
        compiler: Some(("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")),
        libraries: Some("/usr/aarch64-linux-gnu"),
        flags: "",
    },
    Target {
        name: "musl",
        triple: musl(),
        arch: std::env::consts::ARCH,
        // It compiles the C code of dependencies; Rust's standard library contains the C library itself.
        compiler: Some(("musl-gcc", "musl-tools")),
        libraries: None,
        flags: "",
    },
];

const fn musl() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "aarch64-unknown-linux-musl"
    } else {
        "x86_64-unknown-linux-musl"
    }
}

/// The emulators of programs, in the order in which they are looked for.
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];

/// How programs of a target are started.
#[derive(Debug)]
pub struct Runner {
    emulator: Option<PathBuf>,
    libraries: Option<&'static str>,
}

impl Target {
    /// Whether this machine's processor runs its programs.
    fn is_native(&self) -> bool {
        self.arch == std::env::consts::ARCH
    }

    /// Where the target's shared libraries are.
    pub fn libraries(&self) -> &Path {
        Path::new(self.libraries.unwrap_or("/"))
    }

    /// Sets the compilers of a run of cargo.
    pub fn prepare(&self, cargo: &mut Command) {
        let Some((compiler, _)) = self.compiler.filter(|(program, _)| is_there(program)) else {
            return;
        };
        let triple = self.triple.replace('-', "_");
        let unless_set = |cargo: &mut Command, name: String, value: &str| {
            if std::env::var_os(&name).is_none() {
                cargo.env(name, value);
            }
        };
        unless_set(cargo, format!("CC_{triple}"), compiler);
        let triple = triple.to_uppercase();
        if !self.is_native() {
            unless_set(cargo, format!("CARGO_TARGET_{triple}_LINKER"), compiler);
        }
        if !self.flags.is_empty() {
            unless_set(
                cargo,
                format!("CARGO_TARGET_{triple}_RUSTFLAGS"),
                self.flags,
            );
        }
    }
}

impl Runner {
    /// Returns the command that starts a program.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = match &self.emulator {
            Some(emulator) => Command::new(emulator),
            None => Command::new(program),
        };
        if self.emulator.is_some() {
            command.arg(program);
        }
        if let Some(libraries) = self.libraries {
            // Also for the programs that this one starts.
            command.env("QEMU_LD_PREFIX", libraries);
        }
        command
    }

    /// Whether the processor is emulated.
    pub fn emulates(&self) -> bool {
        self.emulator.is_some()
    }
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.emulator {
            Some(emulator) => write!(f, "in {}", emulator.display()),
            None => write!(f, "on this processor"),
        }
    }
}

/// Returns the target with this name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static Target, Failure> {
    let found = TARGETS
        .iter()
        .find(|target| target.name == name || target.triple == name);
    let known = TARGETS.map(|target| target.name).join(", ");
    found.ok_or_else(|| format!("target `{name}` is not one of {known}").into())
}

/// Checks that everything is there that a target needs.
///
/// # Errors
/// Says for each missing tool how to install it.
pub fn check(target: &Target) -> Result<Runner, Failure> {
    let mut missing = Vec::new();
    if !has_library(target) {
        missing.push(format!(
            "the standard library: rustup target add {}",
            target.triple
        ));
    }
    if let Some((program, package)) = target.compiler
        && !is_there(program)
    {
        missing.push(format!("{program} (Debian: apt install {package})"));
    }
    let emulator = if target.is_native() {
        None
    } else {
        EMULATORS.iter().find_map(|name| which(name))
    };
    if !target.is_native() && emulator.is_none() {
        let name = EMULATORS[0];
        missing.push(format!("{name} (Debian: apt install qemu-user-static)"));
    }
    if !missing.is_empty() {
        let triple = target.triple;
        return Err(format!("absent, but needed for {triple}: {}", missing.join("; ")).into());
    }
    Ok(Runner {
        emulator,
        libraries: target.libraries.filter(|path| Path::new(path).is_dir()),
    })
}

/// Whether the compiler has the standard library of the target.
fn has_library(target: &Target) -> bool {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--print", "target-libdir", "--target", target.triple]);
    let Ok(directory) = output_of(rustc.current_dir(crate::repository::root())) else {
        return false;
    };
    let entries = std::fs::read_dir(directory.trim()).into_iter().flatten();
    let mut names = entries.flatten().map(|entry| entry.file_name());
    names.any(|name: OsString| name.to_string_lossy().starts_with("libstd-"))
}

fn is_there(program: &str) -> bool {
    which(program).is_some()
}

fn which(program: &str) -> Option<PathBuf> {
    let mut look = Command::new("sh");
    look.args(["-c", "command -v \"$0\"", program]);
    if !succeeds(&mut look) {
        return None;
    }
    let path = output_of(&mut look).ok()?;
    Some(PathBuf::from(path.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_by_either_name() {
        for target in &TARGETS {
            assert_eq!(find(target.name).expect("known").triple, target.triple);
            assert_eq!(find(target.triple).expect("known").name, target.name);
        }
        let unknown = find("sparc").expect_err("unknown").to_string();
        assert_eq!(unknown, "target `sparc` is not one of aarch64, musl");
    }

    #[test]
    fn an_emulated_program_is_an_argument_of_the_emulator() {
        let runner = Runner {
            emulator: Some("/bin/emulator".into()),
            libraries: Some("/libraries"),
        };
        let command = runner.command(Path::new("/a/program"));
        assert_eq!(command.get_program(), "/bin/emulator");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["/a/program"]);
        assert_eq!(command.get_envs().count(), 1);
    }
}
