//! The packages of Debian: `laio`, `liblaio0` and `liblaio-dev`.
//!
//! cargo-deb makes them of `[package.metadata.deb]` of `laio-cli` and `laio-capi`. It cannot write what a library needs
//! for the packages that use it (`shlibs`), what it needs itself, or a dependency on exactly this version, so these are
//! added with dpkg-deb.

use super::{Workshop, find};
use crate::files::failure;
use crate::library::{Target, file_name};
use crate::programs::{output_of, run, succeeds};
use crate::repository::{Failure, VERSION};
use crate::targets::tools;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the packages. `DEBFULLNAME`, `DEBEMAIL` and `DEB_REVISION` override the maintainer and the revision.
pub(super) fn build(workshop: &Workshop) -> Result<Vec<PathBuf>, Failure> {
    if !succeeds(Command::new("dpkg-deb").arg("--version")) {
        return Err("dpkg-deb is not there: apt install dpkg-dev".into());
    }
    let target = &workshop.target;
    let libraries = format!("lib/{}-linux-gnu", target.processor());
    let options = ["--prefix", "/usr", "--libdir", &libraries];
    let stage = workshop.stage("deb", target, &options)?;
    // A wildcard for the directory of the architecture would become a directory in the package.
    std::os::unix::fs::symlink(format!("usr/{libraries}"), stage.join("lib"))?;
    let revision = std::env::var("DEB_REVISION").unwrap_or_else(|_| "1".to_owned());
    let maintainer = maintainer();
    let full = format!("{VERSION}-{revision}");
    for package in ["laio", "liblaio0", "liblaio-dev"] {
        changelog(workshop, &stage, package, &full, &maintainer)?;
    }

    let kinds: [&[&str]; 3] = [
        &["--package", "laio-cli"],
        &["--package", "laio-capi", "--multiarch=same"],
        &[
            "--package",
            "laio-capi",
            "--multiarch=same",
            "--variant=dev",
        ],
    ];
    let mut made = Vec::new();
    for kind in kinds {
        let mut package = workshop.tool("deb")?;
        package.args(["--no-build", "--no-strip", "--no-dbgsym", "--quiet"]);
        package.args(["--deb-revision", &revision, "--maintainer", &maintainer]);
        package.args(target.option());
        package.arg("--output").arg(&workshop.directory).args(kind);
        let output = run(&mut package)?;
        let path = String::from_utf8_lossy(&output.stdout);
        let path = path.lines().rfind(|line| line.ends_with(".deb"));
        made.push(PathBuf::from(
            path.ok_or("cargo deb did not say what it made")?,
        ));
    }
    if target.is_other_processor() {
        amend(workshop, &made[0], |control| {
            let file = control.join("control");
            let text = read(&file)?;
            write(&file, &without_architecture(&text, target))
        })?;
    }
    let library = stage.join("lib").join(file_name());
    amend(workshop, &made[1], |control| {
        write(
            &control.join("shlibs"),
            &format!("liblaio 0 liblaio0 (>= {VERSION})\n"),
        )?;
        let needed = needed(workshop, &library)?;
        edit(
            &control.join("control"),
            "Depends: \n",
            &format!("Depends: {needed}\n"),
        )
    })?;
    amend(workshop, &made[2], |control| {
        // cargo-deb takes it over from the library.
        std::fs::remove_file(control.join("triggers"))?;
        let file = control.join("control");
        edit(
            &file,
            "Depends: liblaio0\n",
            &format!("Depends: liblaio0 (= {full})\n"),
        )?;
        edit(
            &file,
            "Description: C library of laio:",
            "Description: development files of laio:",
        )
    })?;
    Ok(made)
}

/// The packages of the libraries that a library needs, as dpkg-shlibdeps finds them.
fn needed(workshop: &Workshop, library: &Path) -> Result<String, Failure> {
    let directory = workshop.directory.join("stage/shlibdeps");
    // It reads nothing but the names in this file.
    std::fs::create_dir_all(directory.join("debian"))?;
    write(
        &directory.join("debian/control"),
        "Source: laio\n\nPackage: liblaio0\nArchitecture: any\n",
    )?;
    let mut ask = workshop.command("dpkg-shlibdeps");
    ask.current_dir(&directory);
    let target = &workshop.target;
    if target.is_other_processor() {
        let libraries = tools::find(target.triple())?.libraries().join("lib");
        ask.arg(format!("-l{}", libraries.display()));
        ask.env("DEB_HOST_ARCH", architecture(target));
    }
    let found = output_of(ask.arg("-O").arg(library))?;
    let depends = found
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    let depends = depends.ok_or("dpkg-shlibdeps found nothing")?;
    Ok(without_architecture(depends, target))
}

/// What Debian calls the processor.
fn architecture(target: &Target) -> &str {
    match target.processor() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns dependencies as a package of this architecture names them: without the `:arm64` that tells them from this
/// machine's, and without the suffix of Debian's packages for cross compilers.
fn without_architecture(depends: &str, target: &Target) -> String {
    let architecture = architecture(target);
    let depends = depends.replace(&format!("-{architecture}-cross"), "");
    depends.replace(&format!(":{architecture}"), "")
}

/// Replaces text that must be there.
fn edit(path: &Path, old: &str, new: &str) -> Result<(), Failure> {
    let text = read(path)?;
    if !text.contains(old) {
        return Err(format!("there is no `{}` in {}", old.trim_end(), path.display()).into());
    }
    write(path, &text.replacen(old, new, 1))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| failure("read", path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| failure("write", path, &error))
}

/// Unpacks a package, changes its control files, and packs it again.
fn amend(
    workshop: &Workshop,
    package: &Path,
    change: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = package.file_stem().unwrap_or_default();
    let directory = workshop.directory.join("stage").join(name);
    if directory.exists() {
        std::fs::remove_dir_all(&directory)
            .map_err(|error| failure("remove", &directory, &error))?;
    }
    run(Command::new("dpkg-deb")
        .arg("--raw-extract")
        .arg(package)
        .arg(&directory))?;
    change(&directory.join("DEBIAN"))?;
    let mut pack = workshop.command("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]);
    run(pack.arg(&directory).arg(package)).map(drop)
}

/// Writes the changelog in Debian's format; that of the project is beside it in the package.
fn changelog(
    workshop: &Workshop,
    stage: &Path,
    package: &str,
    version: &str,
    maintainer: &str,
) -> Result<(), Failure> {
    let mut date = workshop.command("date");
    date.args([
        "--utc",
        "--rfc-email",
        "--date",
        &format!("@{}", workshop.epoch),
    ]);
    let date = output_of(&mut date)?;
    let text = format!(
        "{package} ({version}) unstable; urgency=medium\n\n  * The release {VERSION}; see changelog.gz.\n\n \
         -- {maintainer}  {}\n",
        date.trim()
    );
    let directory = find(stage, "CHANGELOG.md")?;
    let path = directory.with_file_name(format!("changelog.Debian.{package}"));
    write(&path, &text)
}

fn maintainer() -> String {
    let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let name = variable("DEBFULLNAME", "The laio maintainers");
    format!(
        "{name} <{}>",
        variable("DEBEMAIL", "maintainers@laio.invalid")
    )
}
