//! Prints how to use the installed files.

use crate::install::Directories;
use crate::library::Library;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the files by directory, a line each: their names, or their number if they are many.
pub fn summary(files: &[PathBuf]) -> String {
    let mut directories: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        let directory = file.parent().unwrap_or(file);
        directories.entry(directory).or_default().extend(name);
    }
    let mut text = String::new();
    for (directory, names) in directories {
        let names = match names.len() {
            0..=4 => names.join(", "),
            count => format!("{count} files"),
        };
        text += &format!("  {}: {names}\n", directory.display());
    }
    text
}

/// Returns the command line that compiles a program, after the environment variables that it needs.
pub fn usage(directories: &Directories, library: &Library) -> String {
    let (includedir, libdir) = (
        directories.includedir.display(),
        directories.libdir.display(),
    );
    let is_static = library.shared.is_none();
    let mut text = String::new();
    if !is_static {
        if ["/usr", "/lib"]
            .iter()
            .any(|system| directories.libdir.starts_with(system))
        {
            text += "  sudo ldconfig    # once, so that programs find the library\n";
        } else {
            text += &format!("  export LD_LIBRARY_PATH={libdir}\n");
        }
    }
    let known = Command::new("pkg-config")
        .args(["--variable=libdir", "laio"])
        .output();
    match known {
        Ok(known) => {
            if Path::new(String::from_utf8_lossy(&known.stdout).trim()) != directories.libdir {
                text += &format!("  export PKG_CONFIG_PATH={libdir}/pkgconfig\n");
            }
            let option = if is_static { "--static " } else { "" };
            text += &format!("  cc program.c $(pkg-config {option}--cflags --libs laio)\n");
        }
        Err(_) => {
            let needed = if is_static {
                library.private().join(" ")
            } else {
                String::new()
            };
            let line = format!("  cc program.c -I{includedir} -L{libdir} -llaio {needed}");
            text += line.trim_end();
            text += "\n";
        }
    }
    text
}
