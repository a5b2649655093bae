//! Programs in C and C++, and compiling them against the installed library.

use crate::execute::{Miss, skipped};
use crate::matrix::{Build, Language, Linkage};
use crate::tree::{Kind, target, tree};
use laio_testing::{INAPPLICABLE, Skip};
use std::fs::{create_dir_all, read_dir};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use xtask::Failure;
use xtask::compile::Compiler;
use xtask::programs::{output_of, run, succeeds};

/// Warnings are errors: the header and the examples must compile without warnings in strict programs.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
/// Random programs pass unaligned pointers on purpose.
const SANITIZERS: [&str; 3] = [
    "-fsanitize=address,undefined",
    "-fno-sanitize=alignment",
    "-fno-sanitize-recover=undefined",
];
/// GCC 12 warns of its own `std::stop_source`.
const GCC_CXX: &str = "-Wno-maybe-uninitialized";
/// clang 14 cannot compile a coroutine with this one.
const CLANG_CXX: &str = "-fno-sanitize=function";
/// Examples that use laio together with another library have a name, and the library has this one in pkg-config.
const LIBRARIES: [(&str, &str); 4] = [
    ("libuv", "libuv"),
    ("liburing", "liburing"),
    ("glib", "glib-2.0"),
    ("libevent", "libevent"),
];
/// What a compiler must be able to do for `laio.hpp`.
const COROUTINES: &str = "#include <coroutine>\n#include <stop_token>\nint main() {}\n";
/// musl has this since 1.2.4.
const STATX: &str = "#define _GNU_SOURCE\n#include <sys/stat.h>\nstruct statx status;\n";
/// Standalone Asio is only headers, without a package in pkg-config.
const ASIO: &str = "#include <asio.hpp>\nint main() {}\n";

/// A program in one file.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    source: PathBuf,
}

/// The tests of `laio.h`.
pub(crate) fn tests() -> Vec<Program> {
    programs(&xtask::capi().join("tests/c"), "c")
}

/// The tests of `laio.hpp`.
pub(crate) fn cxx_tests() -> Vec<Program> {
    programs(&xtask::capi().join("tests/cxx"), "cpp")
}

/// The examples in C.
pub(crate) fn examples() -> Vec<Program> {
    let directories = ["", "porting", "loops"];
    let of = |directory| programs(&examples_directory().join(directory), "c");
    directories.into_iter().flat_map(of).collect()
}

/// The examples in C++.
pub(crate) fn cxx_examples() -> Vec<Program> {
    let directories = ["", "porting", "loops"];
    let of = |directory| programs(&examples_directory().join(directory), "cpp");
    directories.into_iter().flat_map(of).collect()
}

pub(crate) fn examples_directory() -> PathBuf {
    xtask::capi().join("examples")
}

fn programs(directory: &Path, extension: &str) -> Vec<Program> {
    let files = read_dir(directory).into_iter().flatten().flatten();
    let sources = files.map(|file| file.path());
    let sources = sources.filter(|path| path.extension().is_some_and(|it| it == extension));
    let mut programs: Vec<_> = sources
        .map(|source| Program {
            name: source
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            source,
        })
        .collect();
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

impl Program {
    /// Whether it is written in C++.
    pub(crate) fn is_cxx(&self) -> bool {
        self.source.extension().is_some_and(|it| it == "cpp")
    }

    /// The program's arguments. The seed is fixed, so that a run tests the change and not another program;
    /// without a seed each run uses new programs.
    pub(crate) fn arguments(&self, is_slow: bool) -> &'static [&'static str] {
        match (self.name.as_str(), is_slow) {
            ("fuzz", false) => &["--seed", "2004", "--programs", "200"],
            ("fuzz", true) => &["--seed", "2004", "--programs", "10"],
            _ => &[],
        }
    }

    /// What the program needs of the machine: a name in `laio_testing::needs`.
    pub(crate) fn need(&self) -> Option<&'static str> {
        match self.name.as_str() {
            "fork" => Some("wipe-on-fork"),
            "limits" | "timeouts" => Some("nowait"),
            // They pass pointers that end an emulator, and arguments with which it changes other memory than the kernel.
            "fuzz" | "pointers" => Some("native"),
            _ => None,
        }
    }

    /// Whether it ends without freeing memory: in a signal handler, or in a child that had more
    /// threads before the fork.
    pub(crate) fn leaks(&self) -> bool {
        matches!(self.name.as_str(), "exits" | "fork")
    }
}

/// A program compiled in one way, when it is first needed.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Program,
    build: Build,
    path: PathBuf,
    made: OnceLock<Result<(), Miss>>,
}

impl Compiled {
    pub(crate) fn new(program: Program, build: Build, directory: &Path) -> Compiled {
        Compiled {
            path: directory.join(build.to_string()).join(&program.name),
            program,
            build,
            made: OnceLock::new(),
        }
    }

    /// The compiled program.
    pub(crate) fn get(&self) -> Result<PathBuf, Miss> {
        let made = self.made.get_or_init(|| self.make());
        made.clone().map(|()| self.path.clone())
    }

    /// The directory of all programs that are compiled in this way.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn make(&self) -> Result<(), Miss> {
        let cannot = |error| Failure::from(format!("cannot make a directory: {error}"));
        create_dir_all(self.directory()).map_err(cannot)?;
        let mut compile = compiler(self.build)?.command();
        compile.args(["-O1", "-g", "-pthread"]).args(WARNINGS);
        compile.args(match self.build.language {
            Language::C99 => &["-std=c99"][..],
            Language::C17 => &["-std=c17"],
            Language::Cxx20 => &["-std=c++20", "-x", "c++"],
            Language::Cxx23 => &["-std=c++23", "-x", "c++"],
        });
        compile.args((self.build.compiler == "gcc" && self.build.is_cxx()).then_some(GCC_CXX));
        if self.build.sanitized {
            compile.args(SANITIZERS);
            compile
                .args((self.build.compiler == "clang" && self.build.is_cxx()).then_some(CLANG_CXX));
        }
        compile.arg("-o").arg(&self.path).arg(&self.program.source);
        if self.build.linkage == Linkage::Static {
            compile.arg("-static");
        }
        if !target()?.can_be_shared() {
            compile.args(kernel_headers());
        }
        compile.args(flags(self.build.linkage.kind())?);
        compile.args(self.library()?);
        run(&mut compile)?;
        Ok(())
    }

    /// The compiler options for the other library, if the program uses one.
    fn library(&self) -> Result<Vec<String>, Miss> {
        let name = self.program.name.as_str();
        if name == "walk" && !compiles(&compiler(self.build)?, "c", STATX) {
            let reason = "the headers of this C library have no statx";
            return Err(Miss::Skipped(Skip::inapplicable(reason)));
        }
        if name == "asio" && !compiles(&compiler(self.build)?, "c++", ASIO) {
            return Err(skipped(
                name,
                "the headers of standalone Asio are not installed",
            ));
        }
        let Some((_, package)) = LIBRARIES.iter().find(|(program, _)| *program == name) else {
            return Ok(Vec::new());
        };
        if target()?.is_other_processor() {
            let reason = format!("{package} is there for this machine only");
            return Err(Miss::Skipped(Skip::inapplicable(reason)));
        }
        if self.build.linkage == Linkage::Static {
            let reason = format!("{name} is used as a shared library only");
            return Err(Miss::Skipped(Skip::inapplicable(reason)));
        }
        let mut ask = Command::new("pkg-config");
        match output_of(ask.args(["--cflags", "--libs", package])) {
            Ok(flags) => Ok(flags.split_whitespace().map(str::to_owned).collect()),
            Err(_) => Err(skipped(name, format!("pkg-config does not know {package}"))),
        }
    }
}

/// The options for compiling a program: those of pkg-config, if it is installed.
pub(crate) fn flags(kind: Kind) -> Result<Vec<String>, Miss> {
    let tree = tree()?;
    let is_static = kind == Kind::Archive;
    let mut flags: Vec<String> = Vec::new();
    if has_pkg_config() {
        let mut ask = Command::new("pkg-config");
        ask.args(is_static.then_some("--static"));
        ask.args(["--cflags", "--libs", "laio"]);
        let said = output_of(ask.env("PKG_CONFIG_PATH", tree.packages(kind)))?;
        flags.extend(said.split_whitespace().map(str::to_owned));
    } else {
        let prefix = tree.prefix(kind);
        flags.push(format!("-I{}/include", prefix.display()));
        flags.push(format!("-L{}/lib", prefix.display()));
        flags.push("-llaio".to_owned());
        if is_static {
            flags.extend(tree.library.private().into_iter().map(str::to_owned));
        }
    }
    Ok(flags)
}

pub(crate) fn has_pkg_config() -> bool {
    succeeds(Command::new("pkg-config").arg("--version"))
}

/// The compiler for this build, if it is installed and supports the options.
fn compiler(build: Build) -> Result<Compiler, Miss> {
    let name = match (build.compiler, build.is_cxx()) {
        ("cc", false) => return Ok(tree()?.compiler.clone()),
        ("cc", true) => "c++",
        ("gcc", true) => "g++",
        ("clang", true) => "clang++",
        (name, _) => name,
    };
    let target = target()?;
    let program = if target.is_other_processor() {
        target.compiler_for(name)
    } else {
        name.to_owned()
    };
    let Some(compiler) = Compiler::named(&program) else {
        let need = if target.is_other_processor() {
            INAPPLICABLE
        } else {
            name
        };
        return Err(skipped(need, format!("{program} is not installed")));
    };
    let can = |arguments: &[&str]| {
        let empty = "echo 'int main(void) { return 0; }' | exec \"$0\" \"$@\" -x c - -o /dev/null";
        let command = compiler.command();
        let mut try_it = Command::new("sh");
        try_it.args(["-c", empty]).arg(command.get_program());
        succeeds(try_it.args(command.get_args()).args(arguments))
    };
    if build.is_cxx() && !compiles(&compiler, "c++", COROUTINES) {
        return Err(skipped(
            "c++20",
            format!("{name} has no coroutines of C++20"),
        ));
    }
    if build.sanitized {
        // An emulator lets no program look at its own threads, as the leak checker does.
        Skip::unless_there("native").map_err(Miss::Skipped)?;
    }
    if build.sanitized && !can(&SANITIZERS) {
        return Err(skipped(
            "sanitizers",
            format!("{name} has no sanitizers here"),
        ));
    }
    if build.linkage == Linkage::Static && !can(&["-static"]) {
        return Err(skipped("static-libc", "there is no static C library"));
    }
    Ok(compiler)
}

/// The options by which a compiler for another C library finds the headers of the kernel behind its own, such as
/// `linux/futex.h`, which no C library has.
fn kernel_headers() -> Vec<String> {
    let asked = output_of(Command::new("cc").arg("-print-multiarch")).unwrap_or_default();
    [
        "/usr/include".to_owned(),
        format!("/usr/include/{}", asked.trim()),
    ]
    .map(|directory| format!("-idirafter{directory}"))
    .to_vec()
}

/// Whether a program in C (`c`) or C++ (`c++`) compiles.
fn compiles(compiler: &Compiler, language: &str, program: &str) -> bool {
    let standard = if language == "c" { "c99" } else { "c++20" };
    let read =
        format!("printf %s \"$0\" | exec \"$@\" -std={standard} -fsyntax-only -x {language} -");
    let command = compiler.command();
    let mut try_it = Command::new("sh");
    try_it
        .args(["-c", &read, program])
        .arg(command.get_program());
    succeeds(try_it.args(command.get_args()))
}
