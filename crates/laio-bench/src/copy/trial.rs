//! Lets each subject copy a small tree, to find out which of them work here.

use super::workspace::Workspace;
use super::{Settings, Subject, compare};
use crate::child;
use crate::error::Error;
use crate::record::Record;
use crate::stop::Stop;
use crate::trees::Shape;

/// Returns the subjects that can copy; the others are left out, with a note.
pub(super) fn able(
    settings: &Settings,
    workspace: &Workspace,
    stop: &Stop,
    record: &mut Record,
) -> Result<Vec<Subject>, Error> {
    let source = workspace.path("trial");
    let (depth, files, size) = (2, 2, 5000);
    Shape::Binary { depth, files, size }.make(&source, stop)?;
    let mut able = Vec::new();
    for subject in &settings.subjects {
        let copy = workspace.path("trial-copy");
        let mut command = subject.command(&settings.laio, false, &source, &copy);
        let reason = match child::run(&mut command, stop) {
            Err(error) => {
                stop.check()?;
                Some(error.to_string())
            }
            Ok(ran) if !ran.status.success() => Some(ran.complaint()),
            Ok(_) => compare::trees(&source, &copy, false, stop)?,
        };
        workspace.done(copy)?;
        match reason {
            Some(reason) => record.note(format!("{subject} left out: {reason}")),
            None => {
                let version = subject.version(&settings.laio);
                record
                    .settings
                    .extend(version.map(|version| (subject.name().to_owned(), version)));
                able.push(subject.clone());
            }
        }
    }
    workspace.done(source)?;
    Ok(able)
}
