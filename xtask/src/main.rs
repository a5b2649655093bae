#![forbid(unsafe_code)]
//! `cargo xtask`: arguments and exit codes. The library does the work.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xtask::install::{Directories, Parts};
use xtask::kernels::Request;
use xtask::library::{Kinds, Target, build};
use xtask::package::Kind;
use xtask::programs::{cannot_run, cargo};
use xtask::targets::boot::Machine;
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
    /// Remove the files that install has installed; takes the same options
    Uninstall(InstallArguments),
    /// Run the C programs that test the library, for each back end
    TestC(TestArguments),
    /// Run the suites on another processor or C library, in qemu-user where this machine cannot run them
    ///
    /// Installs nothing, and prints what is missing. Arguments of the test programs come after --.
    Test(TargetArguments),
    /// Run the engine's suites, a served site and a copied tree under other kernels, in virtual machines
    ///
    /// Installs nothing, and prints which programs are missing. Without --kvm qemu emulates the processor,
    /// some thirty times slower: a whole run of one kernel takes hours.
    Kernels(KernelArguments),
    /// Write the documentation that is generated from the code: docs/system-calls.md,
    /// docs/serve/options.md, the options in man/laio.1, and the tables of docs/modules.md
    Pages,
    /// Check the structure of the tree: circles of imports, lengths, words, the map of the modules
    ///
    /// Prints each place that breaks a rule, and what to do. xtask/tidy.txt lists the exceptions of today.
    Tidy {
        /// Remove exceptions that are no longer needed, lower the numbers of others, and generate the
        /// tables of docs/modules.md; after a merge too
        #[arg(long)]
        update: bool,
    },
    /// Make the book of the documentation in target/book/html, with mdBook, and check its links
    Book,
    /// Make packages in target/package: .deb, .rpm, a static tarball
    ///
    /// The same source and compiler give the same bytes. Needs cargo-deb and dpkg-deb, cargo-generate-rpm, and the
    /// target of musl; SOURCE_DATE_EPOCH, DEBFULLNAME, DEBEMAIL and DEB_REVISION are those of other tools.
    Package {
        /// The kinds of packages
        #[arg(value_enum, default_value = "all")]
        kinds: Vec<PackageKind>,
        /// The target of Rust's compiler, such as aarch64-unknown-linux-gnu; without it that of this machine
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
        /// Use the programs that were built the last time: for changes of the packages themselves
        #[arg(long)]
        no_build: bool,
    },
    /// Check that a version can be released; with --execute release it
    ///
    /// Without --execute nothing changes: the check prints what is missing.
    Release(ReleaseArguments),
    /// Summarize the skips of a test run with LAIO_TEST_SKIPS=FILE, by what was missing
    Skips {
        /// The file that the tests have written; a missing file means no skips
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PackageKind {
    Deb,
    Rpm,
    Tarball,
    All,
}

#[derive(Args, Debug)]
struct TargetArguments {
    /// aarch64 or musl
    #[arg(long, value_name = "TARGET")]
    target: String,
    /// Only the suites of this package; may be given several times
    #[arg(long = "package", short, value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Only check that the tools are there
    #[arg(long)]
    check: bool,
    /// Boot a kernel of Debian in qemu-system, and run the suites there (aarch64); without --package, or with --package
    /// laio-cli, also serve a site
    #[arg(long)]
    boot: bool,
    /// Download the kernel's package from Debian's archive to target/kernels
    #[arg(long, requires = "boot")]
    fetch: bool,
    /// Time limit of the virtual machine in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    limit: u64,
    /// Arguments of the test programs, such as parts of the tests' names
    #[arg(last = true)]
    arguments: Vec<String>,
}

#[derive(Args, Debug)]
struct KernelArguments {
    /// 5.10, 6.1, 6.12 or newest [default: all of them]
    versions: Vec<String>,
    /// Download the kernels' packages from Debian's archive to target/kernels
    #[arg(long)]
    fetch: bool,
    /// Only this part: site, copy or suites; may be given several times
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<String>,
    /// Use KVM, if /dev/kvm works; otherwise qemu emulates the processor
    #[arg(long)]
    kvm: bool,
    /// Time limit of one virtual machine in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    limit: u64,
    /// Only tests whose name contains one of these
    #[arg(last = true)]
    filters: Vec<String>,
}

#[derive(Args, Debug)]
struct InstallArguments {
    /// Parent of the other directories
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: String,
    /// Install everything below this staging directory: for making packages
    #[arg(long, value_name = "DIR")]
    destdir: Option<String>,
    /// Directory of the command
    #[arg(long, value_name = "DIR", default_value = "bin")]
    bindir: String,
    /// Directory of laio.h
    #[arg(long, value_name = "DIR", default_value = "include")]
    includedir: String,
    /// Directory of the libraries and of pkgconfig/laio.pc
    #[arg(long, value_name = "DIR", default_value = "lib")]
    libdir: String,
    /// Directory of the completions of bash, zsh and fish
    #[arg(long, value_name = "DIR", default_value = "share")]
    datadir: String,
    /// Directory of the manual pages
    #[arg(long, value_name = "DIR", default_value = "share/man")]
    mandir: String,
    /// Directory of the licences and other documents
    #[arg(long, value_name = "DIR", default_value = "share/doc/laio")]
    docdir: String,
    /// Without the command
    #[arg(long, conflicts_with = "no_library")]
    no_program: bool,
    /// Without the C library, which needs a C compiler
    #[arg(long)]
    no_library: bool,
    /// Without liblaio.a
    #[arg(long, conflicts_with = "no_shared")]
    no_static: bool,
    /// Without liblaio.so
    #[arg(long)]
    no_shared: bool,
    /// Install the command as it was built the last time
    #[arg(long)]
    no_build: bool,
    /// Build for this target, such as x86_64-unknown-linux-musl [default: this machine]
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
}

#[derive(Args, Debug)]
struct ReleaseArguments {
    /// The version, such as 0.2.0
    version: String,
    /// Only check, which is the default
    #[arg(long, conflicts_with_all = ["execute", "prepare"])]
    dry_run: bool,
    /// Write the version into the manifests, and a section for it into CHANGELOG.md; the next step is a commit
    #[arg(long, conflicts_with = "execute")]
    prepare: bool,
    /// With --prepare: write this address of the repository into the manifests
    #[arg(long, value_name = "URL", requires = "prepare")]
    repository: Option<String>,
    /// Do not compile the packages
    #[arg(long, conflicts_with = "execute")]
    no_verify: bool,
    /// If all checks pass, tag the commit and publish the crates. This cannot be undone
    #[arg(long)]
    execute: bool,
}

#[derive(Args, Debug)]
struct TestArguments {
    /// Run all variants: gcc and clang, C99, C17 and C++20, shared and static, sanitizers, valgrind
    #[arg(long)]
    full: bool,
    /// Arguments of the test program: a part of the tests' names, --list, ...
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

fn main() -> ExitCode {
    // Wrong arguments end the process here, with status 2.
    let done = match Arguments::parse().command {
        Task::Install(arguments) => install(&arguments),
        Task::Uninstall(arguments) => uninstall(&arguments),
        Task::TestC(arguments) => test_c(&arguments),
        Task::Kernels(arguments) => kernels(arguments),
        Task::Test(arguments) => test(arguments),
        Task::Pages => pages(),
        Task::Tidy { update } => tidy(update),
        Task::Book => book(),
        Task::Package {
            kinds,
            target,
            no_build,
        } => package(&kinds, target.as_deref(), no_build),
        Task::Release(arguments) => release(arguments),
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
    const TARGET: &str = "CARGO_BUILD_TARGET";
    if let Some(target) = &arguments.target
        && std::env::var(TARGET).ok().as_ref() != Some(target)
    {
        // All that this starts has the variable, which the process itself cannot set without unsafe code.
        let mut again = std::process::Command::new(std::env::current_exe()?);
        again.args(std::env::args_os().skip(1)).env(TARGET, target);
        let status = again.status().map_err(|error| cannot_run(&again, &error))?;
        return Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let directories = arguments.directories()?;
    let kinds = Kinds {
        shared: !arguments.no_shared,
        archive: !arguments.no_static,
    };
    let library = (!arguments.no_library)
        .then(|| build(&Target::of_cargo()?, kinds, false))
        .transpose()?;
    let program = if arguments.no_build {
        program::built
    } else {
        program::build
    };
    let program = (!arguments.no_program).then(program).transpose()?;
    let parts = Parts {
        library: library.as_ref(),
        program: program.as_ref(),
    };
    let files = install::install(parts, &directories)?;
    print!("laio {VERSION} is installed:\n{}", advice::summary(&files));
    if let (Some(library), None) = (&library, &directories.destdir) {
        print!(
            "To use the library:\n{}",
            advice::usage(&directories, library)
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(arguments: &InstallArguments) -> Result<ExitCode, Failure> {
    let files = install::uninstall(&arguments.directories()?)?;
    print!("laio is removed:\n{}", advice::summary(&files));
    Ok(ExitCode::SUCCESS)
}

fn test_c(arguments: &TestArguments) -> Result<ExitCode, Failure> {
    let mut test = cargo();
    test.args(["test", "--package", "laio-capi", "--test", "c", "--"]);
    test.args(&arguments.rest);
    if arguments.full {
        test.env("LAIO_TEST_EXTENT", "full");
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

fn test(arguments: TargetArguments) -> Result<ExitCode, Failure> {
    let passed = xtask::targets::run(&xtask::targets::Request {
        target: arguments.target,
        packages: arguments.packages,
        arguments: arguments.arguments,
        only_check: arguments.check,
        machine: arguments.boot.then_some(Machine {
            fetch: arguments.fetch,
            limit: arguments.limit,
        }),
    })?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Generates the map of modules, and runs the tests that compare other pages with the code, so that they write
/// the pages instead.
fn pages() -> Result<ExitCode, Failure> {
    xtask::tidy::generate(&xtask::root())?;
    for test in [
        "--package laio --lib system_calls_page",
        "--package laio-cli --lib serve::manual",
    ] {
        let mut test_run = cargo();
        test_run.arg("test").args(test.split(' '));
        test_run.env("LAIO_BLESS", "1");
        let status = test_run
            .status()
            .map_err(|error| cannot_run(&test_run, &error))?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tidy(update: bool) -> Result<ExitCode, Failure> {
    if update {
        xtask::tidy::update(&xtask::root())?;
    }
    let report = xtask::tidy::check(&xtask::root())?;
    if report.messages.is_empty() {
        let (files, exceptions) = (report.files, report.exceptions);
        println!("tidy: {files} files, with {exceptions} exceptions");
        return Ok(ExitCode::SUCCESS);
    }
    for message in &report.messages {
        println!("{message}");
    }
    Err(format!("tidy: {} faults", report.messages.len()).into())
}

fn book() -> Result<ExitCode, Failure> {
    let pages = xtask::book::build()?;
    println!(
        "the book is in {0}; to read it: laio serve {0}, or with the example site: laio serve --config examples/book.toml",
        pages.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn package(chosen: &[PackageKind], target: Option<&str>, reuse: bool) -> Result<ExitCode, Failure> {
    let kinds = [
        (PackageKind::Deb, Kind::Deb),
        (PackageKind::Rpm, Kind::Rpm),
        (PackageKind::Tarball, Kind::Tarball),
    ];
    let all = chosen.contains(&PackageKind::All);
    let kinds = kinds
        .into_iter()
        .filter(|(word, _)| all || chosen.contains(word));
    let kinds: Vec<_> = kinds.map(|(_, kind)| kind).collect();
    for package in xtask::package::build(&kinds, Target::named(target)?, reuse)? {
        println!("{}", package.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn release(arguments: ReleaseArguments) -> Result<ExitCode, Failure> {
    let ready = xtask::release::run_release(&xtask::release::Request {
        version: arguments.version,
        prepare: arguments.prepare,
        repository: arguments.repository,
        verify: !arguments.no_verify,
        execute: arguments.execute,
    })?;
    Ok(if ready {
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
    fn directories(&self) -> Result<Directories, Failure> {
        let prefix = absolute(&self.prefix)?;
        // An absolute path stays unchanged.
        let below = |directory: &String| prefix.join(directory);
        Ok(Directories {
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
        // As in --prefix=~/.local: shells expand ~ only at the beginning of a word.
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
