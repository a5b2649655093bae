//! The sandbox of a worker. Each worker thread restricts itself and the threads that it creates;
//! the control thread stays unrestricted, so that it can read new options.

mod seccomp;

use laio::BackendKind;
use laio_serve_base::options::{Options, Safety, Sandbox, Symlinks};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, path_beneath_rules,
};
use std::io;
use std::path::{Path, PathBuf};

/// Applies the configured sandbox to the calling thread. Returns warnings about parts that are
/// optional and unavailable.
///
/// # Errors
/// When a required part is unavailable.
pub(crate) fn apply(options: &Options, kind: BackendKind) -> io::Result<Vec<String>> {
    let Safety {
        landlock, seccomp, ..
    } = options.safety;
    let mut missing = Vec::new();
    let mut restrict = |mode, name: &str, apply_it: &dyn Fn() -> Result<(), String>| {
        if mode == Sandbox::Off {
            return Ok(());
        }
        match apply_it() {
            Ok(()) => Ok(()),
            Err(why) if mode == Sandbox::Auto => {
                missing.push(format!("without {name}: {why}"));
                Ok(())
            }
            Err(why) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{name} is not available: {why}"),
            )),
        }
    };
    restrict(landlock, "Landlock", &|| apply_landlock(options))?;
    restrict(seccomp, "seccomp", &|| {
        seccomp::apply(kind, changes_files(options))
    })?;
    Ok(missing)
}

/// Whether clients may change files.
fn changes_files(options: &Options) -> bool {
    let mut hosts = options.hosts.iter().map(|host| &host.site);
    options.site.uploads.who.is_some() || hosts.any(|site| site.uploads.who.is_some())
}

/// Applies a Landlock ruleset: only the served files, the files below `/proc` that the engine
/// reads, and `/dev/null`.
fn apply_landlock(options: &Options) -> Result<(), String> {
    let sites = || {
        let hosts = options.hosts.iter().map(|host| &host.site);
        [&options.site].into_iter().chain(hosts)
    };
    if sites().any(|site| site.symlinks == Symlinks::Follow) {
        return Err("with --symlinks follow, files are served from anywhere".to_owned());
    }
    // The first version with every access right that must be denied; an older kernel enforces the
    // rights it knows.
    let abi = ABI::V5;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // Upstreams may name files to be sent once and then removed.
    let remove = AccessFs::RemoveFile;
    let passed: Vec<PathBuf> = sites()
        .flat_map(|site| site.upstreams.sendfile_roots.iter().cloned())
        .collect();
    // Unnamed files for request bodies.
    let write = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg;
    let spool = options.limits.upstream.spool.iter();
    let roots = sites().filter_map(|site| site.directory().map(Path::to_owned));
    let aliases = sites().flat_map(|site| site.aliases.iter().map(|it| it.directory().to_owned()));
    let roots = roots.chain(aliases).chain([PathBuf::from("/proc")]);
    let roots: Vec<PathBuf> = roots.collect();
    // O_TMPFILE, links and renames of uploads.
    let change = read
        | write
        | remove
        | AccessFs::RemoveDir
        | AccessFs::MakeDir
        | AccessFs::Refer
        | AccessFs::Truncate;
    let uploads = sites().filter(|site| site.uploads.who.is_some());
    let uploads = uploads.filter_map(|site| site.directory().map(Path::to_owned));
    let uploads: Vec<PathBuf> = uploads.collect();
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(&roots, read)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(&passed, read | remove)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(spool, write)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(&uploads, change)))
        // Where the engine sends what it only brings into memory.
        .and_then(|rules| rules.add_rules(path_beneath_rules(["/dev/null"], AccessFs::WriteFile)))
        .and_then(|rules| rules.restrict_self())
        .map_err(|error| error.to_string())?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not support it".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_serve_base::options::Site;
    use std::fs;

    #[test]
    fn a_sandboxed_thread_reaches_only_the_site() {
        let site = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let inside = site.path().join("a.txt");
        fs::write(&inside, "a").unwrap();
        let options = Options {
            site: Site {
                root: Some(site.path().to_owned()),
                ..Site::default()
            },
            safety: Safety {
                landlock: Sandbox::Auto,
                seccomp: Sandbox::Auto,
                ..Safety::default()
            },
            ..Options::default()
        };
        let sandboxed = std::thread::spawn(move || {
            let missing = apply(&options, BackendKind::Lazy).unwrap();
            let denied = |result: io::Result<()>| result.is_err();
            assert_eq!(fs::read(&inside).unwrap(), b"a");
            if missing.is_empty() {
                assert!(denied(fs::read(outside.path()).map(drop)));
                assert!(denied(fs::write(&inside, "b")));
                assert!(denied(fs::remove_file(&inside)));
                assert!(denied(
                    std::process::Command::new("/bin/true").spawn().map(drop)
                ));
            } else {
                eprintln!("the sandbox is incomplete here: {}", missing.join("; "));
            }
        });
        sandboxed.join().unwrap();
    }
}
