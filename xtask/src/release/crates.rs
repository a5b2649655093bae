//! What the registry demands of the crates, and what a reader of their front pages expects.

use super::{Check, fault, names};
use crate::programs::{cargo, run};
use crate::workspace::{Workspace, elements, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Checks the fields of each published crate.
pub(super) fn metadata(workspace: &Workspace) -> Check {
    let mut faults = Vec::new();
    for package in workspace.published() {
        let name = text(package, "name");
        for needed in [
            "description",
            "license",
            "repository",
            "readme",
            "rust_version",
        ] {
            if text(package, needed).is_empty() {
                faults.push(format!("{name} has no {needed}"));
            }
        }
        let directory = Path::new(text(package, "manifest_path")).parent();
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if directory.is_none_or(|directory| !directory.join(file).is_file()) {
                faults.push(format!("{name} has no {file}"));
            }
        }
        // The registry refuses more.
        for list in ["keywords", "categories"] {
            let count = elements(&package[list]).count();
            if count == 0 || count > 5 {
                faults.push(format!("{name} has {count} {list}, not one to five"));
            }
        }
    }
    if faults.iter().any(|fault| fault.ends_with("repository")) {
        faults.push(
            "`cargo xtask release VERSION --prepare --repository https://…` writes the address into the manifests"
                .to_owned(),
        );
    }
    done(faults, || {
        format!(
            "description, licence, front page, keywords of {}",
            names(workspace).len()
        )
    })
}

/// Checks that no published crate needs an unpublished one, and names the order in which they are published.
pub(super) fn order(workspace: &Workspace) -> Check {
    let names = names(workspace);
    let published: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut waiting = BTreeMap::new();
    let mut faults = Vec::new();
    for package in workspace.published() {
        let name = text(package, "name");
        let mut needs = BTreeSet::new();
        // Those of the repository; a development dependency without a version is not part of the published crate.
        let own = |dependency: &&Value| !dependency["path"].is_null();
        for dependency in elements(&package["dependencies"]).filter(own) {
            let (other, versionless) = (text(dependency, "name"), dependency["req"] == "*");
            let development = dependency["kind"] == "dev";
            if development && versionless {
                continue;
            }
            if !published.contains(other) {
                faults.push(format!("{name} needs {other}, which is not published"));
            } else if versionless {
                faults.push(format!("{name} needs {other} without a version"));
            } else {
                needs.insert(other);
            }
        }
        waiting.insert(name, needs);
    }
    let mut order: Vec<&str> = Vec::new();
    while faults.is_empty() && !waiting.is_empty() {
        let ready = |needs: &BTreeSet<&str>| needs.iter().all(|need| order.contains(need));
        let Some(name) = waiting
            .iter()
            .find_map(|(name, needs)| ready(needs).then_some(*name))
        else {
            let circle: Vec<_> = waiting.keys().copied().collect();
            faults.push(format!("these need each other: {}", circle.join(", ")));
            break;
        };
        waiting.remove(name);
        order.push(name);
    }
    done(faults, || order.join(", "))
}

/// Makes the packages as `cargo publish` does, in their order, without sending them.
pub(super) fn dry_run(verify: bool) -> Check {
    let mut publish = cargo();
    publish.args(["publish", "--workspace", "--dry-run", "--locked"]);
    publish.args((!verify).then_some("--no-verify"));
    run(&mut publish).map_err(|error| fault(&error))?;
    Ok(if verify {
        "made, and compiled as their users will".to_owned()
    } else {
        "made; not compiled".to_owned()
    })
}

fn done(faults: Vec<String>, words: impl FnOnce() -> String) -> Check {
    if faults.is_empty() {
        Ok(words())
    } else {
        Err(faults)
    }
}
