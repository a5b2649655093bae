//! What is on disk: the account, keys, certificates, orders in progress, and the answers to challenges.
//!
//! A file gets its name when it is complete, so a server that is killed leaves either the old contents or the new
//! ones. A certificate and its key are one file, because two could not be replaced at the same moment.

use laio_serve_base::options::{Limits, Options};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Locked by the server that orders a certificate.
const ORDER_LOCK: &str = "order.lock";
/// Locked by each server that uses the directory, shared.
const SERVERS_LOCK: &str = "servers.lock";
/// The directory of the answers to challenges. Each is a file whose name is that of the token or of the host.
const CHALLENGES: &str = "challenges";

/// The directory of `--acme-state`.
#[derive(Debug)]
pub(super) struct StateDirectory {
    path: PathBuf,
    /// This server's shared lock.
    servers: File,
}

/// The exclusive right to order certificates, until dropped.
#[derive(Debug)]
pub(super) struct OrderLock {
    _file: File,
}

/// The version of a file, compared to detect changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    modified: Option<SystemTime>,
}

impl FileStamp {
    /// Whether the file was last changed before this time.
    pub(super) fn is_older_than(&self, time: Duration) -> bool {
        let age = self.modified.and_then(|modified| modified.elapsed().ok());
        age.is_some_and(|age| age > time)
    }
}

impl StateDirectory {
    /// Opens the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// Names the directory, and says why it cannot be used.
    pub(super) fn open(path: &Path) -> io::Result<StateDirectory> {
        let open = || {
            create(path)?;
            create(&path.join(CHALLENGES))?;
            let servers = lock_file(&path.join(SERVERS_LOCK))?;
            rustix::fs::flock(&servers, FlockOperation::LockShared)?;
            // Find out now whether files can be written.
            let directory = StateDirectory {
                path: path.to_owned(),
                servers,
            };
            directory.write("writable", b"")?;
            directory.remove("writable")?;
            Ok(directory)
        };
        open().map_err(|error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "; it must belong to the user of the server, or --acme-state name another one"
                }
                _ => "",
            };
            let text = format!(
                "cannot use {} for keys and certificates (--acme-state): {error}{hint}",
                path.display()
            );
            io::Error::new(error.kind(), text)
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file, if it is there.
    ///
    /// # Errors
    /// Names the file, and the reason; a file beyond [`Limits::ACME_FILE`] is an error.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        let read = || -> io::Result<Option<Vec<u8>>> {
            let file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let mut contents = Vec::new();
            file.take(Limits::ACME_FILE + 1)
                .read_to_end(&mut contents)?;
            if contents.len() as u64 > Limits::ACME_FILE {
                let text = format!("it is longer than {} bytes", Limits::ACME_FILE);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Ok(Some(contents))
        };
        read().map_err(|error| explain("read", &path, &error))
    }

    /// Returns the version of a file.
    pub(super) fn stamp(&self, name: &str) -> Option<FileStamp> {
        let metadata = fs::metadata(self.path.join(name)).ok()?;
        Some(FileStamp {
            inode: metadata.ino(),
            modified: metadata.modified().ok(),
        })
    }

    /// Writes a file of mode 0600: under a temporary name, then to the disk, then under its name.
    ///
    /// # Errors
    /// Names the file, and the reason. The old contents are then unchanged.
    pub(super) fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let (parent, file_name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => (parent, name.to_string_lossy()),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        // Two processes write at the same time only while they start.
        let temporary = parent.join(format!(".{file_name}.{}", std::process::id()));
        let write = || {
            create(parent)?;
            let _ = fs::remove_file(&temporary);
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(contents)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(parent)?.sync_all()
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&temporary);
            explain("write", &path, &error)
        })
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// Names the file, and the reason.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(explain("remove", &path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the right to order certificates, or none while another server has it.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub(super) fn try_lock(&self) -> io::Result<Option<OrderLock>> {
        let path = self.path.join(ORDER_LOCK);
        let file = lock_file(&path).map_err(|error| explain("open", &path, &error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(OrderLock { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(explain("lock", &path, &error.into())),
        }
    }

    /// Whether no other server uses the directory.
    pub(super) fn is_alone(&self) -> bool {
        let alone =
            rustix::fs::flock(&self.servers, FlockOperation::NonBlockingLockExclusive).is_ok();
        // The conversion gives the shared lock up, also where it fails. Only servers that make the same test hold the
        // exclusive lock, and not for long.
        let _ = rustix::fs::flock(&self.servers, FlockOperation::LockShared);
        alone
    }

    /// Shows the answer to a challenge to the other servers.
    ///
    /// # Errors
    /// Like [`StateDirectory::write`].
    pub(super) fn share_challenge(&self, key: &str, answer: &[u8]) -> io::Result<()> {
        self.write(&format!("{CHALLENGES}/{key}"), answer)
    }

    /// Returns the answers to challenges that other servers have shared, at most [`Limits::ACME_CHALLENGES`].
    pub(super) fn shared_challenges(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = laio::directory::names(self.path.join(CHALLENGES)) else {
            return Vec::new();
        };
        let names = entries.flatten().filter_map(|it| it.into_string().ok());
        let names = names.filter(|name| !name.starts_with('.'));
        let read = |name: String| {
            let answer = self.read(&format!("{CHALLENGES}/{name}")).ok()??;
            Some((name, answer))
        };
        names
            .filter_map(read)
            .take(Limits::ACME_CHALLENGES)
            .collect()
    }

    /// Returns the version of the set of shared answers.
    pub(super) fn challenges_stamp(&self) -> Option<FileStamp> {
        self.stamp(CHALLENGES)
    }

    /// Removes the temporary files that killed servers have left in a folder. Only for the server that has the right to
    /// order, because all others write to it only then.
    pub(super) fn remove_temporary(&self, folder: &str, _lock: &OrderLock) {
        let folder = self.path.join(folder);
        for name in laio::directory::names(&folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            if name.as_encoded_bytes().starts_with(b".") {
                // It is only in the way of tidiness.
                let _ = fs::remove_file(folder.join(name));
            }
        }
    }

    /// Removes all answers to challenges, and what a killed server has left of one. Only for the server that has the
    /// right to order.
    pub(super) fn clear_challenges(&self, _lock: &OrderLock) {
        let folder = self.path.join(CHALLENGES);
        for name in laio::directory::names(&folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            // What cannot be removed answers a challenge that no longer exists.
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

/// Creates the directory for a user that the process switches to afterwards, because that user may not be able to.
///
/// # Errors
/// Names the directory, and says why it cannot be created.
pub(super) fn create_for(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((user, group)) = owner.filter(|_| !path.exists()) else {
        return Ok(());
    };
    let make = || {
        // The user must be able to reach the directory.
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        DirBuilder::new().mode(0o700).create(path)?;
        // No link that somebody has put there meanwhile.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        std::os::unix::fs::fchown(&directory, Some(user), Some(group))
    };
    make().map_err(|error| explain("create", path, &error))
}

/// Returns the configured directory, or else the usual one.
///
/// # Errors
/// When there is none, or its files would be served.
pub(super) fn path(options: &Options) -> io::Result<PathBuf> {
    let path = match &options.acme.state {
        Some(path) => path.clone(),
        None => usual().ok_or_else(|| {
            let text = "cannot find a place for keys and certificates, because HOME is not set: name a directory with --acme-state";
            io::Error::new(io::ErrorKind::NotFound, text)
        })?,
    };
    let real = real_path(&path);
    let hosts = options.hosts.iter().map(|host| &host.site);
    for site in [&options.site].into_iter().chain(hosts) {
        let aliases = site.aliases.iter().map(|alias| &*alias.target);
        let mut served = site.directory().into_iter().chain(aliases);
        if let Some(served) = served.find(|served| real.starts_with(real_path(served))) {
            let text = format!(
                "{} is below {}, whose files are served; keys must not be there: name another directory with --acme-state",
                path.display(),
                served.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    Ok(path)
}

fn usual() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directories) = variable("STATE_DIRECTORY") {
        // systemd separates several with colons.
        let first = std::env::split_paths(&directories).next()?;
        return Some(first.join("acme"));
    }
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/laio/acme".into());
    }
    let data = variable("XDG_DATA_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(variable("HOME")?).join(".local/share"));
    Some(data.or_else(home)?.join("laio/acme"))
}

/// Returns a path without symbolic links, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    let mut present = path.as_path();
    loop {
        if let Ok(real) = present.canonicalize() {
            return missing
                .iter()
                .rev()
                .fold(real, |path, part| path.join(part));
        }
        match (present.parent(), present.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                present = parent;
            }
            _ => return path,
        }
    }
}

fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn explain(what: &str, path: &Path, error: &io::Error) -> io::Error {
    let text = format!("cannot {what} {}: {error}", path.display());
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_serve_base::options::{Acme, Site};
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_and_replaced_whole() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        let state = StateDirectory::open(&path).unwrap();
        assert_eq!(state.read("ca/x.pem").unwrap(), None);
        for contents in [&b"one"[..], b"two", b""] {
            state.write("ca/x.pem", contents).unwrap();
            assert_eq!(state.read("ca/x.pem").unwrap().unwrap(), contents);
        }
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("ca")), 0o700);
        assert_eq!(mode(&path.join("ca/x.pem")), 0o600);
        let left = fs::read_dir(path.join("ca")).unwrap().count();
        assert_eq!(left, 1, "no temporary name stays");
        state.remove("ca/x.pem").unwrap();
        state.remove("ca/x.pem").unwrap();
        assert_eq!(state.read("ca/x.pem").unwrap(), None);
    }

    #[test]
    fn what_a_killed_server_has_left_is_no_obstacle() {
        let place = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(place.path()).unwrap();
        state.write("x.pem", b"whole").unwrap();
        let temporary = format!(".x.pem.{}", std::process::id());
        fs::write(place.path().join(temporary), "half").unwrap();
        assert_eq!(state.read("x.pem").unwrap().unwrap(), b"whole");
        state.write("x.pem", b"new").unwrap();
        assert_eq!(state.read("x.pem").unwrap().unwrap(), b"new");
        state.write("ca/x.pem", b"whole").unwrap();
        fs::write(place.path().join("ca/.x.pem.1"), "half").unwrap();
        state.remove_temporary("ca", &state.try_lock().unwrap().unwrap());
        assert!(!place.path().join("ca/.x.pem.1").exists());
        assert_eq!(state.read("ca/x.pem").unwrap().unwrap(), b"whole");
    }

    #[test]
    fn one_server_orders_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let one = StateDirectory::open(place.path()).unwrap();
        assert!(one.is_alone());
        let other = StateDirectory::open(place.path()).unwrap();
        assert!(!one.is_alone() && !other.is_alone());
        let lock = one.try_lock().unwrap().unwrap();
        assert!(other.try_lock().unwrap().is_none());
        drop(lock);
        assert!(other.try_lock().unwrap().is_some());
        drop(other);
        assert!(one.is_alone());
    }

    #[test]
    fn other_servers_see_the_answers() {
        let place = tempfile::tempdir().unwrap();
        let one = StateDirectory::open(place.path()).unwrap();
        let other = StateDirectory::open(place.path()).unwrap();
        let before = other.challenges_stamp();
        one.share_challenge("token", b"token.key").unwrap();
        assert_ne!(other.challenges_stamp(), before);
        let seen = other.shared_challenges();
        assert_eq!(seen, [("token".to_owned(), b"token.key".to_vec())]);
        one.clear_challenges(&one.try_lock().unwrap().unwrap());
        assert!(other.shared_challenges().is_empty());
    }

    #[test]
    fn no_file_without_an_end_is_read() {
        let place = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(place.path()).unwrap();
        let file = File::create(place.path().join("x.pem")).unwrap();
        file.set_len(Limits::ACME_FILE + 1).unwrap();
        let error = state.read("x.pem").unwrap_err().to_string();
        assert!(
            error.contains("x.pem") && error.contains("longer"),
            "{error}"
        );
    }

    #[test]
    fn keys_are_never_below_a_served_directory() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        let root = place.path().join("site");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let with = |state: PathBuf| {
            path(&Options {
                site: Site {
                    root: Some(root.clone()),
                    ..Site::default()
                },
                acme: Acme {
                    state: Some(state),
                    ..Acme::default()
                },
                ..Options::default()
            })
        };
        for bad in [root.clone(), root.join("a/b"), link.join("keys")] {
            let error = with(bad).unwrap_err().to_string();
            assert!(error.contains("--acme-state"), "{error}");
        }
        assert!(with(place.path().join("site-keys")).is_ok());
        assert!(with(place.path().to_owned()).is_ok());
    }
}
