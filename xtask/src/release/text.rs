//! The files of the repository that name the version, and the address of the repository in the manifests.

use super::{Check, fault};
use crate::files::{failure, replace};
use crate::repository::{Failure, root};
use crate::workspace::{Workspace, text as field};
use std::path::Path;

/// The manifests with a version of their own, or of a crate beside them.
const MANIFESTS: [&str; 3] = [
    "Cargo.toml",
    "bindings/python/Cargo.toml",
    "bindings/node/Cargo.toml",
];

/// Files that state the version in words: each line with the old one gets the new one.
const MENTIONS: [&str; 6] = [
    "README.md",
    "bindings/node/package.json",
    "crates/laio-capi/include/laio.h",
    "crates/laio-capi/tests/c/headers.c",
    "docs/serve/transport.md",
    "man/man3/laio_version.3",
];

/// Checks that every manifest and every mention has this version.
pub(super) fn versions(version: &str) -> Check {
    if !is_version(version) {
        return Err(vec![format!("`{version}` is not a version such as 1.2.3")]);
    }
    let mut faults = Vec::new();
    for name in MANIFESTS {
        for (number, line) in read(name)
            .map_err(|error| fault(&error))?
            .lines()
            .enumerate()
        {
            if let Some(found) = own_version(line)
                && found != version
            {
                faults.push(format!("{name}:{}: {found}", number + 1));
            }
        }
    }
    for name in MENTIONS {
        if !read(name).map_err(|error| fault(&error))?.contains(version) {
            faults.push(format!("{name} does not mention {version}"));
        }
    }
    if faults.is_empty() {
        return Ok(format!("all manifests have {version}"));
    }
    faults.push(format!(
        "`cargo xtask release {version} --prepare` writes them"
    ));
    Err(faults)
}

/// Writes the version into the manifests and the mentions.
pub(super) fn write_version(version: &str) -> Result<(), Failure> {
    let old = crate::repository::VERSION;
    for name in MANIFESTS {
        let text = read(name)?;
        let mut new = String::new();
        for line in text.lines() {
            match own_version(line) {
                Some(found) => new += &line.replacen(found, version, 1),
                None => new += line,
            }
            new.push('\n');
        }
        write(name, &new)?;
    }
    for name in MENTIONS {
        write(name, &read(name)?.replace(old, version))?;
    }
    Ok(())
}

/// Writes the address of the repository into the manifest of the workspace, from which each published crate takes it.
pub(super) fn write_repository(address: &str, workspace: &Workspace) -> Result<(), Failure> {
    if !address.starts_with("https://") || address.contains(['"', '\\']) {
        return Err(
            format!("`{address}` is not an address such as https://example.org/laio").into(),
        );
    }
    let own = format!("repository = \"{address}\"");
    write(
        "Cargo.toml",
        &with_repository(&read("Cargo.toml")?, &own).ok_or_else(|| no_licence("Cargo.toml"))?,
    )?;
    for package in workspace.published() {
        let path = Path::new(field(package, "manifest_path"));
        let name = path.strip_prefix(root()).unwrap_or(path).to_string_lossy();
        let text = with_repository(&read(&name)?, "repository.workspace = true");
        write(&name, &text.ok_or_else(|| no_licence(&name))?)?;
    }
    Ok(())
}

fn no_licence(manifest: &str) -> String {
    format!("{manifest} names no licence, after which the repository stands")
}

/// Returns a manifest with this line after the package's licence, in place of one for another repository; `None` if it names no
/// licence.
fn with_repository(manifest: &str, line: &str) -> Option<String> {
    let is_repository =
        |line: &str| line.starts_with("repository = ") || line.starts_with("repository.workspace");
    let is_licence =
        |line: &str| line.starts_with("license = ") || line.starts_with("license.workspace");
    let lines = manifest.lines().filter(|line| !is_repository(line));
    let mut lines: Vec<&str> = lines.collect();
    // The descriptions of packages for distributions, further below, name a licence too.
    let licence = lines.iter().position(|line| is_licence(line))?;
    lines.insert(licence + 1, line);
    Some(lines.join("\n") + "\n")
}

/// The version in a line of a manifest that belongs to this repository: of a package, or of a dependency by path.
fn own_version(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("version = \"") {
        Some(rest) => rest,
        None if line.contains("path = \"crates/") => line.split_once("version = \"")?.1,
        None => return None,
    };
    rest.split('"').next()
}

pub(super) fn is_version(version: &str) -> bool {
    let parts: Vec<_> = version.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(number)
}

pub(super) fn read(name: &str) -> Result<String, Failure> {
    let path = root().join(name);
    std::fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))
}

pub(super) fn write(name: &str, text: &str) -> Result<(), Failure> {
    let path = root().join(name);
    replace(&path, |temporary: &Path| {
        std::fs::write(temporary, text).map_err(|error| failure("write", temporary, &error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_the_repository_are_changed() {
        assert_eq!(own_version("version = \"0.1.0\""), Some("0.1.0"));
        let own = "laio = { version = \"0.1.0\", path = \"crates/laio\" }";
        assert_eq!(own_version(own), Some("0.1.0"));
        assert_eq!(own_version("pyo3 = { version = \"0.30.1\" }"), None);
        assert_eq!(own_version("rust-version = \"1.88\""), None);
    }

    #[test]
    fn the_repository_stands_after_the_licence_once() {
        let before =
            "name = \"a\"\nlicense.workspace = true\nreadme = \"b\"\n[other]\nlicense = \"MIT\"\n";
        let after = "name = \"a\"\nlicense.workspace = true\nrepository.workspace = true\nreadme = \"b\"\n[other]\nlicense = \"MIT\"\n";
        assert_eq!(
            with_repository(before, "repository.workspace = true").as_deref(),
            Some(after)
        );
        assert_eq!(
            with_repository(after, "repository.workspace = true").as_deref(),
            Some(after)
        );
    }

    #[test]
    fn versions_have_three_numbers() {
        assert!(is_version("0.10.2"));
        for wrong in ["1.2", "v1.2.3", "1.2.3.4", "1..3", ""] {
            assert!(!is_version(wrong), "{wrong}");
        }
    }
}
