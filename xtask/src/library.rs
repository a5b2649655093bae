//! Builds the two libraries that C programs link.
//!
//! Cargo builds one archive of the crate, the engine and the Rust library. C programs cannot use it as it is:
//! every Rust function in it is a global symbol, which would be exported, and would clash with those of any
//! other Rust archive in the same program. So this links it again, and only the names in `laio.map` stay
//! global.

mod target;

pub use target::Target;

use crate::compile::Compiler;
use crate::files::{failure, replace};
use crate::programs::{cannot_run, cargo, line, run};
use crate::repository::{Failure, VERSION, capi};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;

/// The kind of library.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    /// `liblaio.so`.
    pub shared: bool,
    /// `liblaio.a`.
    pub archive: bool,
}

/// The built files, in the target directory.
#[derive(Debug)]
pub struct Library {
    /// `liblaio.so.0.1.0`, without debugging information, which is in a separate file in the parent
    /// directory.
    pub shared: Option<PathBuf>,
    /// `liblaio.a`, without debugging information.
    pub archive: Option<PathBuf>,
    /// The libraries that a program linked with the archive needs.
    pub needed: Vec<String>,
}

impl Library {
    /// The libraries that a program must link in addition to the archive. The unwinder is not among them:
    /// every C compiler adds it, under the right name for programs without shared libraries.
    pub fn private(&self) -> Vec<&str> {
        let needed = self.needed.iter().map(String::as_str);
        needed.filter(|&library| library != "-lgcc_s").collect()
    }
}

/// The soname, by which programs find the shared library when they start.
pub fn soname() -> String {
    let major = VERSION.split('.').next().unwrap_or_default();
    format!("liblaio.so.{major}")
}

/// The file name of the shared library.
pub fn file_name() -> String {
    format!("liblaio.so.{VERSION}")
}

/// Builds the library for a target. Cargo prints its progress on standard error, unless `quiet`.
///
/// # Errors
/// If a tool is missing or fails; the error names it.
pub fn build(target: &Target, kinds: Kinds, quiet: bool) -> Result<Library, Failure> {
    // Checked first, because building takes a while.
    let compiler = target.compiler(kinds)?;
    let crude = build_crate(target, quiet)?;
    let made = Workshop {
        directory: crude.archive.with_file_name("liblaio"),
        names: exported()?,
        unwinder: target.musl_unwinder()?,
        compiler,
        crude,
    };
    std::fs::create_dir_all(made.directory.join("stripped"))
        .map_err(|error| failure("make", &made.directory, &error))?;
    Ok(Library {
        shared: kinds.shared.then(|| made.shared()).transpose()?,
        archive: kinds.archive.then(|| made.archive()).transpose()?,
        needed: made.crude.needed,
    })
}

/// The output of cargo for the crate.
struct Crude {
    archive: PathBuf,
    needed: Vec<String>,
}

fn build_crate(target: &Target, quiet: bool) -> Result<Crude, Failure> {
    let mut cargo = cargo();
    cargo.args([
        "rustc",
        "--package",
        "laio-capi",
        "--lib",
        "--profile",
        "capi",
    ]);
    cargo.args([
        "--crate-type",
        "staticlib",
        "--locked",
        "--message-format",
        "json",
    ]);
    cargo.args(target.option());
    cargo.args(quiet.then_some("--quiet"));
    cargo.args(["--", "--print", "native-static-libs"]);
    cargo.args(target.static_option());
    let output = cargo
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| cannot_run(&cargo, &error))?;

    let mut archive = None;
    let mut needed = None;
    for message in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(message)?;
        let is_ours = message["target"]["name"] == "laio_capi";
        match message["reason"].as_str() {
            Some("compiler-artifact") if is_ours => {
                archive = message["filenames"][0].as_str().map(PathBuf::from);
            }
            Some("compiler-message") => {
                let message = &message["message"];
                let text = message["message"].as_str().unwrap_or_default();
                if let Some(libraries) = text.strip_prefix("native-static-libs: ") {
                    needed = Some(libraries.split_whitespace().map(str::to_owned).collect());
                } else if message["level"] != "note" {
                    eprint!("{}", message["rendered"].as_str().unwrap_or_default());
                }
            }
            _ => {}
        }
    }
    if !output.status.success() {
        return Err(format!("`{}` failed ({})", line(&cargo), output.status).into());
    }
    match (archive, needed) {
        (Some(archive), Some(needed)) => Ok(Crude { archive, needed }),
        _ => Err(format!("`{}` did not say what it made", line(&cargo)).into()),
    }
}

/// Returns the names in `laio.map`.
fn exported() -> Result<Vec<String>, Failure> {
    let path = map();
    let text = std::fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'));
    let names = names.filter(|name| name.starts_with("laio_"));
    Ok(names.map(str::to_owned).collect())
}

fn map() -> PathBuf {
    capi().join("laio.map")
}

/// The directory and file in which the libraries are linked.
struct Workshop {
    compiler: Compiler,
    crude: Crude,
    /// An unwinder that the archive contains.
    unwinder: Option<PathBuf>,
    /// The names that stay global.
    names: Vec<String>,
    directory: PathBuf,
}

impl Workshop {
    fn shared(&self) -> Result<PathBuf, Failure> {
        let complete = self.directory.join(file_name());
        let stripped = self.directory.join("stripped").join(file_name());
        replace(&complete, |path| {
            let mut link = self.compiler.command();
            link.args(["-shared", "-o"]).arg(path);
            link.arg("-Wl,--whole-archive").arg(&self.crude.archive);
            link.arg("-Wl,--no-whole-archive,--gc-sections,--as-needed");
            link.args(&self.crude.needed);
            link.arg(format!("-Wl,--version-script={}", map().display()));
            link.arg(format!("-Wl,-soname,{}", soname()));
            // No undefined symbols, and no lazy binding. Threads and a signal handler run in the library, so
            // it must never be unloaded.
            link.arg("-Wl,-z,defs,-z,relro,-z,now,-z,nodelete");
            run(&mut link).map(drop)
        })?;
        replace(&stripped, |path| {
            let mut strip = self.compiler.tool("objcopy")?;
            run(strip.arg("--strip-debug").arg(&complete).arg(path)).map(drop)
        })?;
        Ok(stripped)
    }

    fn archive(&self) -> Result<PathBuf, Failure> {
        let stripped = self.directory.join("stripped/liblaio.a");
        // The archive records the object's name, so the directory distinguishes the objects.
        let scratch = self.directory.join(std::process::id().to_string());
        std::fs::create_dir_all(&scratch).map_err(|error| failure("make", &scratch, &error))?;
        let (all, object) = (scratch.join("all.o"), scratch.join("laio.o"));
        let made = replace(&stripped, |path| {
            // Only the archive members that define these names, and their dependencies.
            let mut link = self.compiler.command();
            link.args(["-r", "-nostdlib"]);
            link.args(self.names.iter().map(|name| format!("-Wl,-u,{name}")));
            link.arg(&self.crude.archive);
            link.args(&self.unwinder);
            run(link.arg("-o").arg(&all))?;

            let mut hide = self.compiler.tool("objcopy")?;
            hide.arg("--strip-debug");
            let keep = |name| format!("--keep-global-symbol={name}");
            hide.args(self.names.iter().map(keep));
            // A linker keeps only the first of several section groups with the same name. Other Rust archives
            // contain such a group too (for the personality function); the linker must not drop theirs for
            // ours, whose symbols they cannot see.
            hide.arg("--remove-section=.group");
            // Objects of Rust's library contain LLVM bitcode in addition to the code. If the binutils have
            // LLVM's plugin, `ar` and `nm` read the bitcode instead of the symbols, and an older LLVM finds
            // none.
            hide.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
            run(hide.args([&all, &object]))?;

            // D: no times and owners, so that the same source gives the same archive.
            let mut archive = self.compiler.tool("ar")?;
            run(archive.arg("rcsD").arg(path).arg(&object)).map(drop)
        });
        let _ = std::fs::remove_dir_all(&scratch);
        made.map(|()| stripped)
    }
}
