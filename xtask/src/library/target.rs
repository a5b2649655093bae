//! What the C library is built for, and the compiler of C for it.

use super::Kinds;
use crate::compile::Compiler;
use crate::programs::output_of;
use crate::repository::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A target of Rust's compiler.
#[derive(Clone, Debug)]
pub struct Target {
    triple: String,
    host: String,
}

impl Target {
    /// The target that `CARGO_BUILD_TARGET` names to cargo; without the variable that of this machine.
    ///
    /// # Errors
    /// If Rust's compiler does not run.
    pub fn of_cargo() -> Result<Target, Failure> {
        Target::named(std::env::var("CARGO_BUILD_TARGET").ok().as_deref())
    }

    /// The target that Rust's compiler calls so, or that of this machine.
    ///
    /// # Errors
    /// If Rust's compiler does not run.
    pub fn named(triple: Option<&str>) -> Result<Target, Failure> {
        let host = host()?;
        let triple = triple.map_or_else(|| host.clone(), str::to_owned);
        Ok(Target { triple, host })
    }

    /// The same processor, with musl as C library.
    pub fn with_musl(&self) -> Target {
        Target {
            triple: self.triple.replace("-gnu", "-musl"),
            host: self.host.clone(),
        }
    }

    /// The target with this processor and this C library (`gnu` or `musl`): that of this machine if it has both.
    ///
    /// # Errors
    /// If Rust's compiler does not run.
    pub fn of_programs(processor: &str, c_library: &str) -> Result<Target, Failure> {
        let host = host()?;
        let is_host = processor_of(&host) == processor && host.ends_with(c_library);
        let triple = format!("{processor}-unknown-linux-{c_library}");
        Target::named((!is_host).then_some(triple.as_str()))
    }

    /// What Rust's compiler calls it.
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// Its processor, as Rust's compiler and the packages of Fedora call it.
    pub fn processor(&self) -> &str {
        processor_of(&self.triple)
    }

    /// Whether it is that of this machine.
    pub fn is_host(&self) -> bool {
        self.triple == self.host
    }

    /// The option of cargo and rustc for this target, which a build for this machine does without.
    pub fn option(&self) -> Option<String> {
        (!self.is_host()).then(|| format!("--target={}", self.triple))
    }

    /// The further option of rustc for a static library that C programs of this target link.
    pub fn static_option(&self) -> Option<&'static str> {
        // Otherwise the archive contains musl itself. Its functions would be hidden beside those of the program, which
        // then has two allocators and two lists of threads, of which only its own are initialized.
        self.is_musl().then_some("-Ctarget-feature=-crt-static")
    }

    /// Whether its programs are for another processor than this machine's.
    pub fn is_other_processor(&self) -> bool {
        self.processor() != processor_of(&self.host)
    }

    /// Whether its C library is musl.
    fn is_musl(&self) -> bool {
        self.triple.ends_with("-musl")
    }

    /// Whether `liblaio.so` can be built. For musl it needs a shared unwinder, which only a machine with musl has.
    pub fn can_be_shared(&self) -> bool {
        !self.is_musl() || self.host.ends_with("-musl")
    }

    /// Returns the C compiler: `$CC`, or one for the target, if this machine's own compilers build for another.
    ///
    /// # Errors
    /// If there is none, or it cannot build these kinds.
    pub fn compiler(&self, kinds: Kinds) -> Result<Compiler, Failure> {
        if kinds.shared && !self.can_be_shared() {
            return Err(
                "liblaio.so for musl needs a shared unwinder, which is there only on a machine with musl: \
                 --no-shared makes liblaio.a alone"
                    .into(),
            );
        }
        if std::env::var_os("CC").is_some_and(|name| !name.is_empty()) {
            return Compiler::find();
        }
        if self.is_other_processor() {
            let name = self.compiler_for("gcc");
            return Compiler::named(&name).ok_or_else(|| {
                format!(
                    "{name} is not there, which the C library for {} needs (Debian: apt install gcc-{}). Or name yours: \
                     CC=/path/to/cc",
                    self.triple,
                    name.trim_end_matches("-gcc")
                )
                .into()
            });
        }
        if self.can_be_shared() {
            return Compiler::find();
        }
        Compiler::named("musl-gcc").ok_or_else(|| {
            "musl-gcc is not there, which liblaio.a for musl needs (Debian: apt install musl-tools)"
                .into()
        })
    }

    /// The name of a compiler that builds for another processor, such as `aarch64-linux-gnu-gcc` for `gcc`. clang builds for
    /// all.
    pub fn compiler_for(&self, name: &str) -> String {
        let prefix = self.triple.replace("-unknown-", "-");
        if name.starts_with("clang") {
            format!("{name} --target={prefix}")
        } else {
            format!("{prefix}-{name}")
        }
    }

    /// The unwinder that Rust has for musl, if the library is built for that. The one of a compiler for the GNU C library,
    /// which `musl-gcc` calls, needs functions of that library.
    pub(super) fn musl_unwinder(&self) -> Result<Option<PathBuf>, Failure> {
        if !self.is_musl() {
            return Ok(None);
        }
        let mut ask = rustc();
        ask.args(["--print", "target-libdir", "--target", &self.triple]);
        let directory = output_of(&mut ask)?;
        let unwinder = Path::new(directory.trim()).join("self-contained/libunwind.a");
        // A distribution's own compiler for musl has its unwinder elsewhere, where its C compiler finds it.
        Ok(unwinder.is_file().then_some(unwinder))
    }
}

/// The target that Rust's compiler builds for by itself.
fn host() -> Result<String, Failure> {
    let about = output_of(rustc().arg("-vV"))?;
    let mut lines = about.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".into())
}

fn processor_of(triple: &str) -> &str {
    triple.split('-').next().unwrap_or_default()
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(triple: &str) -> Target {
        Target {
            triple: triple.to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
        }
    }

    #[test]
    fn another_processor_has_compilers_of_its_own() {
        let arm = target("aarch64-unknown-linux-gnu");
        assert!(arm.is_other_processor() && arm.can_be_shared());
        assert_eq!(arm.compiler_for("g++"), "aarch64-linux-gnu-g++");
        assert_eq!(
            arm.compiler_for("clang"),
            "clang --target=aarch64-linux-gnu"
        );
        let option = "--target=aarch64-unknown-linux-gnu";
        assert_eq!(arm.option().as_deref(), Some(option));
    }

    #[test]
    fn musl_has_no_shared_library_on_this_machine() {
        let musl = target("x86_64-unknown-linux-musl");
        assert!(!musl.is_other_processor() && !musl.can_be_shared());
        let both = Kinds {
            shared: true,
            archive: true,
        };
        assert!(musl.compiler(both).is_err());
    }

    #[test]
    fn the_machine_itself_needs_no_option() {
        assert_eq!(target("x86_64-unknown-linux-gnu").option(), None);
    }
}
