//! What the programs are made of: a bill of materials (CycloneDX), and the licences of all crates in it.
//!
//! Made of what cargo says, in the order of names, so that the same `Cargo.lock` gives the same files.

use crate::files::failure;
use crate::programs::{cargo, output_of};
use crate::repository::{Failure, VERSION, root};
use crate::workspace::{Workspace, elements, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes `laio.cdx.json` and `third-party-licences.txt` into a directory.
///
/// # Errors
/// If cargo fails, or a file cannot be read or written.
pub(super) fn write(directory: &Path, target: &str, epoch: &str) -> Result<(), Failure> {
    let workspace = Workspace::read()?;
    let used = used(target)?;
    let packages: BTreeMap<String, &Value> = workspace
        .packages()
        .map(|package| {
            (
                key(text(package, "name"), text(package, "version")),
                package,
            )
        })
        .filter(|(key, _)| used.contains(key))
        .collect();
    if packages.len() != used.len() {
        return Err("cargo tree and cargo metadata name different packages".into());
    }
    let sums = checksums()?;
    let bill = bill(&workspace, &packages, &sums, epoch)?;
    put(&directory.join("laio.cdx.json"), &format!("{bill:#}\n"))?;
    put(
        &directory.join("third-party-licences.txt"),
        &licences(&packages)?,
    )
}

/// The packages that are compiled into the command and the library, as `name version`.
fn used(target: &str) -> Result<BTreeSet<String>, Failure> {
    let mut tree = cargo();
    tree.args([
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--no-dedupe",
    ]);
    tree.args([
        "--package",
        "laio-cli",
        "--package",
        "laio-capi",
        "--target",
        target,
    ]);
    let tree = output_of(tree.args(["--format", "{p}"]))?;
    let names = tree.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some(key(name, rest.split(' ').next()?))
    });
    Ok(names.collect())
}

fn bill(
    workspace: &Workspace,
    packages: &BTreeMap<String, &Value>,
    sums: &BTreeMap<String, String>,
    epoch: &str,
) -> Result<Value, Failure> {
    let time =
        output_of(Command::new("date").args(["--utc", "--date", &format!("@{epoch}"), "+%FT%TZ"]))?;
    let components: Vec<_> = packages
        .iter()
        .map(|(key, package)| {
            let mut component = json!({
                "type": "library",
                "bom-ref": url(key),
                "name": text(package, "name"),
                "version": text(package, "version"),
                "purl": url(key),
                "licenses": [{ "expression": expression(package) }],
            });
            if let Some(sum) = sums.get(key) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
            }
            component
        })
        .collect();

    let keys: BTreeMap<&str, &String> = packages
        .iter()
        .map(|(key, package)| (text(package, "id"), key))
        .collect();
    let mut dependencies = BTreeMap::new();
    for node in workspace.nodes() {
        let Some(key) = keys.get(text(node, "id")) else {
            continue;
        };
        let normal = |dependency: &&Value| {
            elements(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null())
        };
        let needs: BTreeSet<_> = elements(&node["deps"])
            .filter(normal)
            .filter_map(|dependency| keys.get(text(dependency, "pkg")).map(|key| url(key)))
            .collect();
        dependencies.insert(url(key), json!({ "ref": url(key), "dependsOn": needs }));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.trim(),
            "component": { "type": "application", "name": "laio", "version": VERSION },
        },
        "components": components,
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// The texts of the licences, each once, with the packages that have it.
fn licences(packages: &BTreeMap<String, &Value>) -> Result<String, Failure> {
    let mut texts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut list = String::new();
    let mut without = Vec::new();
    for (key, package) in packages {
        if package["source"].is_null() {
            continue;
        }
        list += &format!("{key}: {}\n", expression(package));
        let files = licence_files(package)?;
        if files.is_empty() {
            without.push(key.as_str());
        }
        for file in files {
            let text = std::fs::read(&file).map_err(|error| failure("read", &file, &error))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            texts.entry(text.trim().to_owned()).or_default().insert(key);
        }
    }
    let mut out = format!(
        "laio contains parts of these crates, which are linked statically:\n\n{list}\n\
         Static programs also contain parts of musl (MIT), and all programs parts of the Rust standard library \
         (MIT OR Apache-2.0).\n"
    );
    if !without.is_empty() {
        out += &format!("\nNo text comes with: {}.\n", without.join(", "));
    }
    // In the order of the first package that has the text.
    let mut ordered: Vec<_> = texts
        .into_iter()
        .map(|(text, names)| (names, text))
        .collect();
    ordered.sort();
    for (names, text) in ordered {
        let names: Vec<_> = names.into_iter().collect();
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    Ok(out)
}

/// The files of a package whose names say that they are a licence, or a notice that must go with it.
fn licence_files(package: &Value) -> Result<Vec<PathBuf>, Failure> {
    let manifest = Path::new(text(package, "manifest_path"));
    let directory = manifest.parent().unwrap_or(manifest);
    let cannot = |error| failure("read", directory, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        let starts = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
        if path.is_file() && starts.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The licence as an SPDX expression; older packages separate alternatives by a slash.
fn expression(package: &Value) -> String {
    let licence = text(package, "license");
    if licence.is_empty() {
        return "LicenseRef-see-text".to_owned();
    }
    let parts: Vec<_> = licence.split('/').map(str::trim).collect();
    parts.join(" OR ")
}

/// The checksums in `Cargo.lock`.
fn checksums() -> Result<BTreeMap<String, String>, Failure> {
    let path = root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
    let mut sums = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let start = format!("{name} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(&start));
            line.map(|line| line.trim_end_matches('"'))
        };
        if let (Some(name), Some(version), Some(sum)) =
            (field("name"), field("version"), field("checksum"))
        {
            sums.insert(key(name, version), sum.to_owned());
        }
    }
    Ok(sums)
}

fn key(name: &str, version: &str) -> String {
    format!("{name} {version}")
}

/// The address of a package among all of the world.
fn url(key: &str) -> String {
    // A plus sign of a version is not one of an address.
    format!(
        "pkg:cargo/{}",
        key.replacen(' ', "@", 1).replace('+', "%2B")
    )
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| failure("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_names_all_that_it_refers_to_and_is_the_same_each_time() {
        let made = || {
            let directory = tempfile::tempdir().unwrap();
            write(directory.path(), "x86_64-unknown-linux-gnu", "1795392000").unwrap();
            let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
            (read("laio.cdx.json"), read("third-party-licences.txt"))
        };
        let (text, licences) = made();
        assert_eq!((text.clone(), licences.clone()), made());

        let bill: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bill["metadata"]["timestamp"], "2026-11-23T00:00:00Z");
        let names = |list: &Value, field: &str| -> BTreeSet<String> {
            elements(list)
                .map(|it| super::text(it, field).to_owned())
                .collect()
        };
        let components = names(&bill["components"], "bom-ref");
        assert!(components.contains(&format!("pkg:cargo/laio@{VERSION}")));
        // A development dependency is not part of the programs.
        assert!(
            !components
                .iter()
                .any(|name| name.starts_with("pkg:cargo/laio-testing@"))
        );
        assert_eq!(names(&bill["dependencies"], "ref"), components);
        for dependency in elements(&bill["dependencies"]) {
            for other in elements(&dependency["dependsOn"]) {
                assert!(components.contains(other.as_str().unwrap()), "{other}");
            }
        }
        // Each crate of the registry has its checksum, and its line among the licences.
        for component in elements(&bill["components"]) {
            let name = super::text(component, "name");
            if !name.starts_with("laio") {
                assert!(component["hashes"][0]["content"].is_string(), "{name}");
                assert!(
                    licences.contains(&format!("{name} {}", super::text(component, "version")))
                );
            }
        }
    }

    #[test]
    fn alternatives_of_older_packages_become_expressions() {
        let expression = |licence: &str| expression(&json!({ "license": licence }));
        assert_eq!(expression("MIT/Apache-2.0"), "MIT OR Apache-2.0");
        assert_eq!(expression("MIT OR Zlib"), "MIT OR Zlib");
    }
}
