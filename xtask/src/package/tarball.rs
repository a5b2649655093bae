//! The tarball: the command as static program, for any distribution.

use super::{Workshop, copy};
use crate::library::Target;
use crate::programs::{output_of, run};
use crate::repository::{Failure, VERSION};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks that this machine can make the tarball.
///
/// # Errors
/// If the target is for another processor, or its standard library is not there.
pub(super) fn check(target: &Target) -> Result<(), Failure> {
    let musl = target.with_musl();
    let triple = musl.triple();
    if musl.is_other_processor() {
        return Err(format!(
            "the tarball for {triple} is made on a machine with that processor: name the other kinds (deb, rpm)"
        )
        .into());
    }
    let libraries =
        output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    if Path::new(libraries.trim()).is_dir() {
        Ok(())
    } else {
        Err(format!("the toolchain has no {triple}: rustup target add {triple}").into())
    }
}

/// Makes the tarball, with musl: a static program with the GNU C library would need the machine's own for names of users.
pub(super) fn build(workshop: &Workshop) -> Result<Vec<PathBuf>, Failure> {
    let musl = workshop.target.with_musl();
    let name = format!("laio-{VERSION}-{}-linux-musl", musl.processor());
    let stage = workshop.stage("tarball", &musl, &["--prefix", "/usr", "--no-library"])?;
    copy(
        "packaging/laio.service",
        &stage.join("usr/lib/systemd/system/laio.service"),
    )?;
    copy(
        "packaging/laio.socket",
        &stage.join("usr/lib/systemd/system/laio.socket"),
    )?;
    copy(
        "packaging/laio.sysusers",
        &stage.join("usr/lib/sysusers.d/laio.conf"),
    )?;
    copy("packaging/serve.toml", &stage.join("etc/laio/serve.toml"))?;
    copy(
        "packaging/welcome/index.html",
        &stage.join("usr/share/laio/welcome/index.html"),
    )?;
    let path = workshop.directory.join(format!("{name}.tar.gz"));
    let mut pack = workshop.command("tar");
    pack.args([
        "--create",
        "--sort=name",
        "--format=ustar",
        "--owner=0",
        "--group=0",
    ]);
    pack.args(["--numeric-owner", "--mode=u+rw,go=rX"]);
    pack.arg(format!("--mtime=@{}", workshop.epoch));
    // -n: without the name and the time.
    pack.arg("--use-compress-program=gzip -9n")
        .arg("--file")
        .arg(&path);
    run(pack.arg("--directory").arg(&stage).arg("usr").arg("etc"))?;
    Ok(vec![path])
}
