//! The operands: which files are copied where.

use super::CliError;
use super::arguments::PlainOptions;
use laio_cp::Operands;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub(super) fn operands(given: PlainOptions) -> Result<Operands, CliError> {
    let listed = match &given.files_from0 {
        Some(file) => Some(read_list(file)?),
        None => None,
    };
    let mut directories = given.target_directory.into_iter();
    let directory = directories.next();
    if directories.next().is_some() {
        let text = "multiple target directories specified";
        return Err(CliError::Plain(text.to_owned()));
    }
    Ok(Operands {
        files: given.files.into_iter().map(PathBuf::from).collect(),
        listed,
        directory,
        no_directory: given.no_target_directory,
        parents: given.parents,
        strip_slashes: given.strip_trailing_slashes,
    })
}

fn read_list(file: &PathBuf) -> Result<Vec<PathBuf>, CliError> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        CliError::Plain(format!(
            "cannot read the list '{}': {error}",
            file.display()
        ))
    })?;
    let names = bytes
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| OsString::from_vec(name.to_vec()).into())
        .collect())
}
