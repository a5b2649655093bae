#![forbid(unsafe_code)]
//! `cargo xtask`: arguments and exit codes; what is done is in the library.

use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xtask::install::{Parts, Place};
use xtask::kernels::Request;
use xtask::library::{Kinds, build};
use xtask::programs::{cannot_run, cargo};
use xtask::{Failure, VERSION, advice, install, program};

/// Builds and installs the command and the C library, and tests the library.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build and install the command with its completions, and the C library: header, liblaio.so, liblaio.a,
    /// laio.pc; with manual pages
    Install(InstallArguments),
    /// Remove what install has put there; takes the same options
    Uninstall(InstallArguments),
    /// Run the C programs that test the library, for each back end
    TestC(TestArguments),
    /// Run the engine's suites, a served site and a copied tree under other kernels, in virtual machines
    ///
    /// Installs nothing, and says which programs are absent. Without --kvm qemu emulates the processor, some thirty
    /// times slower: a whole run of one kernel takes hours.
    Kernels(KernelArguments),
    /// Show what a run of the tests with LAIO_TEST_SKIPS=FILE has skipped, by what was missing
    Skips {
        /// What the tests have written; a file that is not there is a run without skips
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Args, Debug)]
struct KernelArguments {
    /// 5.10, 6.1, 6.12 or newest; all of them where none is given
    versions: Vec<String>,
    /// Download the kernels' packages from Debian's archive to target/kernels
    #[arg(long)]
    fetch: bool,
    /// Only this part: site, copy or suites (several times: these)
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<String>,
    /// Use KVM, where /dev/kvm works; without it qemu emulates the processor
    #[arg(long)]
    kvm: bool,
    /// Seconds that one virtual machine may run
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    limit: u64,
    /// Only tests whose name contains one of these
    #[arg(last = true)]
    filters: Vec<String>,
}

#[derive(Args, Debug)]
struct InstallArguments {
    /// What the other directories are below
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: String,
    /// Put everything below this directory, where it is not meant to stay: for making packages
    #[arg(long, value_name = "DIR")]
    destdir: Option<String>,
    /// For the command
    #[arg(long, value_name = "DIR", default_value = "bin")]
    bindir: String,
    /// For laio.h
    #[arg(long, value_name = "DIR", default_value = "include")]
    includedir: String,
    /// For the libraries and pkgconfig/laio.pc
    #[arg(long, value_name = "DIR", default_value = "lib")]
    libdir: String,
    /// For the completions of bash, zsh and fish, in the directories where they look
    #[arg(long, value_name = "DIR", default_value = "share")]
    datadir: String,
    /// For the manual pages
    #[arg(long, value_name = "DIR", default_value = "share/man")]
    mandir: String,
    /// For the licences and other documents
    #[arg(long, value_name = "DIR", default_value = "share/doc/laio")]
    docdir: String,
    /// Without the command
    #[arg(long, conflicts_with = "no_library")]
    no_program: bool,
    /// Without the C library, for which a C compiler is needed
    #[arg(long)]
    no_library: bool,
    /// Without liblaio.a
    #[arg(long, conflicts_with = "no_shared")]
    no_static: bool,
    /// Without liblaio.so
    #[arg(long)]
    no_shared: bool,
}

#[derive(Args, Debug)]
struct TestArguments {
    /// Everything: gcc and clang, C99, C17 and C++20, shared and static, sanitizers, valgrind
    #[arg(long)]
    full: bool,
    /// For the test program: a part of the tests' names, --list, ...
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

fn main() -> ExitCode {
    // Wrong arguments end here, with 2.
    let done = match Arguments::parse().command {
        Task::Install(arguments) => install(&arguments),
        Task::Uninstall(arguments) => uninstall(&arguments),
        Task::TestC(arguments) => test_c(&arguments),
        Task::Kernels(arguments) => kernels(arguments),
        Task::Skips { file } => skips(&file),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn install(arguments: &InstallArguments) -> Result<ExitCode, Failure> {
    let place = arguments.place()?;
    let kinds = Kinds {
        shared: !arguments.no_shared,
        archive: !arguments.no_static,
    };
    let library = (!arguments.no_library)
        .then(|| build(kinds, false))
        .transpose()?;
    let program = (!arguments.no_program).then(program::build).transpose()?;
    let parts = Parts {
        library: library.as_ref(),
        program: program.as_ref(),
    };
    let files = install::install(parts, &place)?;
    print!("laio {VERSION} is installed:\n{}", advice::summary(&files));
    if let (Some(library), None) = (&library, &place.destdir) {
        print!("To use the library:\n{}", advice::usage(&place, library));
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(arguments: &InstallArguments) -> Result<ExitCode, Failure> {
    let files = install::uninstall(&arguments.place()?)?;
    print!("laio is removed:\n{}", advice::summary(&files));
    Ok(ExitCode::SUCCESS)
}

fn test_c(arguments: &TestArguments) -> Result<ExitCode, Failure> {
    let mut test = cargo();
    test.args(["test", "--package", "laio-capi", "--test", "c", "--"]);
    test.args(&arguments.rest);
    if arguments.full {
        test.env("LAIO_TEST_C", "full");
    }
    let status = test.status().map_err(|error| cannot_run(&test, &error))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn kernels(arguments: KernelArguments) -> Result<ExitCode, Failure> {
    let passed = xtask::kernels::run(&Request {
        versions: arguments.versions,
        fetch: arguments.fetch,
        parts: arguments.parts,
        filters: arguments.filters,
        limit: arguments.limit,
        kvm: arguments.kvm,
    })?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn skips(file: &Path) -> Result<ExitCode, Failure> {
    let lines = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        lines => lines.map_err(|error| format!("cannot read {}: {error}", file.display()))?,
    };
    print!("{}", xtask::skips::summary(&lines));
    Ok(ExitCode::SUCCESS)
}

impl InstallArguments {
    fn place(&self) -> Result<Place, Failure> {
        let prefix = absolute(&self.prefix)?;
        // An absolute path stays as it is.
        let below = |directory: &String| prefix.join(directory);
        Ok(Place {
            destdir: self.destdir.as_deref().map(absolute).transpose()?,
            bindir: below(&self.bindir),
            includedir: below(&self.includedir),
            libdir: below(&self.libdir),
            datadir: below(&self.datadir),
            mandir: below(&self.mandir),
            docdir: below(&self.docdir),
            prefix,
        })
    }
}

fn absolute(path: &str) -> Result<PathBuf, Failure> {
    if path.starts_with('~') {
        // As in --prefix=~/.local: shells replace it only at the beginning of a word.
        return Err(
            format!("`{path}`: the shell has not replaced ~; write \"$HOME\" instead").into(),
        );
    }
    let cannot = |error| format!("`{path}` is not a directory to install to: {error}").into();
    std::path::absolute(Path::new(path)).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
