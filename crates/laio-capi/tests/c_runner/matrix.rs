//! The combinations in which a program is compiled and run.

use crate::execute::{Miss, skipped};
use crate::program::Program;
use crate::tree::Kind;
use laio_testing::extent::Extent;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::process::Command;
use xtask::programs::succeeds;

/// A back end, on a machine with or without io_uring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackEnd {
    pub(crate) label: &'static str,
    pub(crate) name: &'static str,
    pub(crate) without_ring: bool,
}

impl BackEnd {
    const fn new(name: &'static str) -> BackEnd {
        BackEnd {
            label: name,
            name,
            without_ring: false,
        }
    }

    /// What the machine must have for it: a name in `laio_testing::needs`.
    pub(crate) fn need(self) -> Option<&'static str> {
        match self.name {
            // Without the ring by a filter.
            _ if self.without_ring => Some("seccomp"),
            "uring" => Some("io_uring"),
            "linux-aio" | "activations" => Some(self.name),
            _ => None,
        }
    }

    /// memcheck does not know the memory that the kernel writes for a ring.
    fn suits_valgrind(self) -> bool {
        self.without_ring || !matches!(self.name, "uring" | "lazy" | "linux-aio" | "activations")
    }
}

pub(crate) const LAZY: BackEnd = BackEnd::new("lazy");
const ACTIVATIONS: BackEnd = BackEnd::new("activations");

pub(crate) const BACK_ENDS: [BackEnd; 9] = [
    BackEnd::new("sync"),
    BackEnd::new("threads"),
    BackEnd::new("hybrid"),
    BackEnd::new("posix-aio"),
    BackEnd::new("linux-aio"),
    BackEnd::new("uring"),
    ACTIVATIONS,
    LAZY,
    BackEnd {
        label: "lazy-without-ring",
        name: "lazy",
        without_ring: true,
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C99,
    C17,
    Cxx20,
    Cxx23,
}

/// How a program links the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// `liblaio.so`.
    Shared,
    /// `liblaio.a`, and the C library shared.
    Archive,
    /// `liblaio.a`, and the C library static too.
    Static,
}

impl Linkage {
    /// The installation that contains this library.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Linkage::Shared => Kind::Shared,
            Linkage::Archive | Linkage::Static => Kind::Archive,
        }
    }
}

/// How a program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    /// `gcc`, `clang`, or `cc` for the one that has linked the library.
    pub(crate) compiler: &'static str,
    pub(crate) language: Language,
    pub(crate) linkage: Linkage,
    /// With the address sanitizer and the undefined-behaviour sanitizer.
    pub(crate) sanitized: bool,
}

/// The build that runs every C program with every back end, where `liblaio.so` exists.
const MAIN: Build = Build::new("cc", Language::C99, Linkage::Shared);

/// The same where `liblaio.a` is the only library.
const MAIN_STATIC: Build = Build::new("cc", Language::C99, Linkage::Static);

/// The build that runs every C++ program with every back end.
pub(crate) const MAIN_CXX: Build = Build::new("gcc", Language::Cxx20, Linkage::Shared);

impl Build {
    const fn new(compiler: &'static str, language: Language, linkage: Linkage) -> Build {
        Build {
            compiler,
            language,
            linkage,
            sanitized: false,
        }
    }

    fn sanitized(mut self) -> Build {
        self.sanitized = true;
        self
    }

    /// Whether it runs every C program with every back end.
    pub(crate) fn is_main(self) -> bool {
        self == MAIN || self == MAIN_STATIC
    }

    pub(crate) fn is_cxx(self) -> bool {
        matches!(self.language, Language::Cxx20 | Language::Cxx23)
    }
}

impl Display for Build {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let language = match self.language {
            Language::C99 => "c99",
            Language::C17 => "c17",
            Language::Cxx20 => "c++20",
            Language::Cxx23 => "c++23",
        };
        let linkage = match self.linkage {
            Linkage::Shared => "shared",
            Linkage::Archive => "archive",
            Linkage::Static => "static",
        };
        let sanitized = if self.sanitized { "-sanitized" } else { "" };
        write!(f, "{}-{language}-{linkage}{sanitized}", self.compiler)
    }
}

/// How a compiled program is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) back_end: BackEnd,
    pub(crate) valgrind: bool,
}

impl Run {
    /// The command that runs a program.
    pub(crate) fn command(self, path: &Path, program: &Program) -> Result<Command, Miss> {
        let mut command = if self.valgrind {
            valgrind(path, program)?
        } else {
            Command::new(path)
        };
        // Options of the sanitizers.
        if program.leaks() {
            command.env("ASAN_OPTIONS", "detect_leaks=0");
        }
        Ok(command)
    }
}

fn valgrind(path: &Path, program: &Program) -> Result<Command, Miss> {
    if !succeeds(Command::new("valgrind").arg("--version")) {
        return Err(skipped("valgrind", "valgrind is not installed"));
    }
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99"]);
    if !program.leaks() {
        command.args(["--leak-check=full", "--show-leak-kinds=definite"]);
        command.arg("--errors-for-leak-kinds=definite");
    }
    command.arg(path);
    Ok(command)
}

impl Display for Run {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.valgrind { "+valgrind" } else { "" })
    }
}

/// The back ends that run every program: by default one of each kind, because no function of the C library
/// knows its back end.
pub(crate) fn back_ends(extent: Extent) -> Vec<BackEnd> {
    let all = BACK_ENDS.into_iter();
    let is_usual =
        |it: &BackEnd| ["threads", "activations", "lazy", "lazy-without-ring"].contains(&it.label);
    all.filter(|it| extent > Extent::Usual || is_usual(it))
        .collect()
}

/// The builds of the tests of `laio.hpp`, and their runs.
pub(crate) fn cxx_matrix(extent: Extent) -> Vec<(Build, Vec<Run>)> {
    let plain = |back_end| Run {
        back_end,
        valgrind: false,
    };
    let every: Vec<Run> = back_ends(extent).into_iter().map(plain).collect();
    if extent == Extent::Usual {
        return vec![(MAIN_CXX, every)];
    }
    let is_full = extent == Extent::Full;
    let some = if is_full {
        every.clone()
    } else {
        vec![plain(LAZY)]
    };
    // With C++23 results are those of the standard library, which clang 14 does not have.
    let mut all = vec![
        (MAIN_CXX, every),
        (
            Build::new("gcc", Language::Cxx23, Linkage::Shared).sanitized(),
            some.clone(),
        ),
        (
            Build::new("clang", Language::Cxx20, Linkage::Shared).sanitized(),
            some.clone(),
        ),
    ];
    if is_full {
        for compiler in ["gcc", "clang"] {
            for language in [Language::Cxx20, Language::Cxx23] {
                all.push((
                    Build::new(compiler, language, Linkage::Archive),
                    some.clone(),
                ));
            }
        }
    }
    all
}

/// The only build for a C library that cannot have `liblaio.so`, and its runs.
pub(crate) fn static_matrix(extent: Extent) -> Vec<(Build, Vec<Run>)> {
    let plain = |back_end| Run {
        back_end,
        valgrind: false,
    };
    vec![(
        MAIN_STATIC,
        back_ends(extent).into_iter().map(plain).collect(),
    )]
}

/// The builds of the C programs, and their runs.
pub(crate) fn matrix(extent: Extent) -> Vec<(Build, Vec<Run>)> {
    let plain = |back_end| Run {
        back_end,
        valgrind: false,
    };
    let every: Vec<Run> = back_ends(extent).into_iter().map(plain).collect();
    if extent < Extent::Full {
        let mut most = vec![(MAIN, every)];
        if extent == Extent::Usual {
            return most;
        }
        for build in [
            Build::new("clang", Language::C17, Linkage::Archive),
            Build::new("gcc", Language::Cxx20, Linkage::Shared),
            Build::new("gcc", Language::C99, Linkage::Static),
            Build::new("gcc", Language::C99, Linkage::Shared).sanitized(),
        ] {
            // The back end whose stacks a sanitizer might misunderstand.
            let carried = build.sanitized.then(|| plain(ACTIVATIONS));
            most.push((build, std::iter::once(plain(LAZY)).chain(carried).collect()));
        }
        return most;
    }

    let valgrind = BACK_ENDS.into_iter().filter(|it| it.suits_valgrind());
    let valgrind = valgrind.map(|back_end| Run {
        back_end,
        valgrind: true,
    });
    let mut all = vec![(MAIN, every.iter().copied().chain(valgrind).collect())];
    for compiler in ["gcc", "clang"] {
        for language in [Language::C99, Language::C17, Language::Cxx20] {
            for linkage in [Linkage::Shared, Linkage::Archive] {
                all.push((Build::new(compiler, language, linkage), every.clone()));
            }
        }
        for build in [
            Build::new(compiler, Language::C99, Linkage::Static),
            Build::new(compiler, Language::C99, Linkage::Shared).sanitized(),
        ] {
            all.push((build, every.clone()));
        }
    }
    all
}
