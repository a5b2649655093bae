//! The packages of Fedora and its relatives: `laio`, `liblaio` and `liblaio-devel`, by cargo-generate-rpm of
//! `[package.metadata.generate-rpm]` of `laio-cli` and `laio-capi`.

use super::Workshop;
use crate::files::failure;
use crate::library::{file_name, soname};
use crate::programs::run;
use crate::repository::{Failure, VERSION};
use std::path::{Path, PathBuf};

/// Makes the packages.
pub(super) fn build(workshop: &Workshop) -> Result<Vec<PathBuf>, Failure> {
    let options = ["--prefix", "/usr", "--libdir", "lib64"];
    let stage = workshop.stage("rpm", &workshop.target, &options)?;
    without_links(&stage.join("usr/lib64"))?;
    let processor = workshop.target.processor();
    let kinds: [(&str, &[&str]); 3] = [
        ("laio", &["--package", "crates/laio-cli"]),
        ("liblaio", &["--package", "crates/laio-capi"]),
        (
            "liblaio-devel",
            &["--package", "crates/laio-capi", "--variant", "devel"],
        ),
    ];
    let mut made = Vec::new();
    for (name, kind) in kinds {
        let path = workshop
            .directory
            .join(format!("{name}-{VERSION}-1.{processor}.rpm"));
        let mut package = workshop.tool("generate-rpm")?;
        package.args(["--source-date", &workshop.epoch, "--arch", processor]);
        run(package.arg("--output").arg(&path).args(kind))?;
        made.push(path);
    }
    Ok(made)
}

/// Replaces the links of the library: cargo-generate-rpm would pack a copy of the library for each. The library itself
/// gets the name by which programs find it, and that by which compilers find it becomes a script of the linker.
fn without_links(libraries: &Path) -> Result<(), Failure> {
    let (name, link) = (soname(), libraries.join("liblaio.so"));
    std::fs::remove_file(libraries.join(&name))?;
    std::fs::rename(libraries.join(file_name()), libraries.join(&name))?;
    std::fs::remove_file(&link)?;
    std::fs::write(&link, format!("INPUT(/usr/lib64/{name})\n"))
        .map_err(|error| failure("write", &link, &error))
}
