//! The packages of Fedora and its relatives: `laio`, `liblaio` and `liblaio-devel`, by cargo-generate-rpm of
//! `[package.metadata.generate-rpm]` of `laio-cli` and `laio-capi`.

use super::Workshop;
use crate::programs::run;
use crate::{Failure, VERSION};
use std::path::PathBuf;

/// Makes the packages.
pub(super) fn build(workshop: &Workshop) -> Result<Vec<PathBuf>, Failure> {
    let options = ["--prefix", "/usr", "--libdir", "lib64"];
    workshop.stage("rpm", &workshop.host, &options)?;
    let machine = workshop.host.split('-').next().unwrap_or_default();
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
            .join(format!("{name}-{VERSION}-1.{machine}.rpm"));
        let mut package = workshop.tool("generate-rpm")?;
        package.args(["--source-date", &workshop.epoch]);
        run(package.arg("--output").arg(&path).args(kind))?;
        made.push(path);
    }
    Ok(made)
}
