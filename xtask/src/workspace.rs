//! The packages of the workspace and their dependencies, as cargo describes them.

use crate::programs::{cargo, output_of};
use crate::repository::Failure;
use serde_json::Value;

/// The output of `cargo metadata`.
#[derive(Debug)]
pub struct Workspace {
    metadata: Value,
}

impl Workspace {
    /// Asks cargo, without changing `Cargo.lock`.
    ///
    /// # Errors
    /// If cargo fails: a manifest is wrong, or `Cargo.lock` does not fit.
    pub fn read() -> Result<Workspace, Failure> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--locked"]);
        let metadata = serde_json::from_str(&output_of(&mut command)?)?;
        Ok(Workspace { metadata })
    }

    /// The packages of the workspace.
    pub fn members(&self) -> impl Iterator<Item = &Value> {
        // Only the packages of a registry have a source.
        self.packages()
            .filter(|package| package["source"].is_null())
    }

    /// The packages of the workspace that go to the registry: all that do not say `publish = false`.
    pub fn published(&self) -> impl Iterator<Item = &Value> {
        self.members()
            .filter(|package| package["publish"].is_null())
    }

    /// All packages that `Cargo.lock` names.
    pub fn packages(&self) -> impl Iterator<Item = &Value> {
        elements(&self.metadata["packages"])
    }

    /// The packages with the packages that each depends on.
    pub fn nodes(&self) -> impl Iterator<Item = &Value> {
        elements(&self.metadata["resolve"]["nodes"])
    }
}

/// The elements of an array; none if it is something else.
pub fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A field of a package as text; empty if it is missing.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
