//! Servers loaded with traces: `laio bench clients`, `flash` and `lighttpd`.
//!
//! In each turn a server is started as a process, loaded until the trace ends, with every byte checked, and
//! stopped. Client and server share the machine in all turns. `laio serve` has one worker, as the published
//! servers had one thread; so do nginx and lighttpd.

mod accelerator;
mod clients;
mod curves;
mod flash;
mod lighttpd;
mod run;
mod schedulers;
mod serving;

pub(super) use clients::{run as run_clients, show as show_clients};
pub(super) use flash::{run as run_flash, show as show_flash};
pub(super) use lighttpd::{run as run_lighttpd, show as show_lighttpd};

use super::{Progress, Settings};
use crate::error::{Error, While};
use crate::record::{Cache, Record};
use crate::stop::Stop;
use crate::trace::{FILES, Trace, make};
use run::ServerRun;
use serving::Server;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory of the file sets, and the settings that all runs share.
struct ServerWorkspace<'a> {
    settings: &'a Settings,
    own: TempDir,
    place: laio::Place,
    rounds: u32,
    stop: &'a Stop,
}

impl<'a> ServerWorkspace<'a> {
    fn open(
        name: &str,
        settings: &'a Settings,
        rounds: u32,
        stop: &'a Stop,
    ) -> Result<(ServerWorkspace<'a>, Record), Error> {
        let (record, directory) = settings.begin(name, rounds)?;
        let own = tempfile::Builder::new()
            .prefix("laio-bench-")
            .tempdir_in(&directory.path);
        let workspace = ServerWorkspace {
            settings,
            own: own.doing("cannot make a directory")?,
            place: directory.place,
            rounds,
            stop,
        };
        Ok((workspace, record))
    }

    /// Creates a file set; returns the directory to serve.
    fn make(
        &self,
        name: &str,
        trace: &Trace,
        record: &mut Record,
        progress: Progress<'_>,
    ) -> Result<PathBuf, Error> {
        let set = self.own.path().join(name.replace([' ', ','], "-"));
        let words = format!(
            "{} requests for {} files, {} MiB of files, {} MiB in all answers",
            trace.requests.len(),
            trace.files.len(),
            trace.set_bytes() >> 20,
            trace.transferred() >> 20,
        );
        record.settings.insert(name.to_owned(), words);
        make(trace, &set, true, self.stop, progress)?;
        Ok(set.join(FILES))
    }

    /// Removes a file set that is no longer needed.
    fn remove(&self, root: &Path) -> Result<(), Error> {
        let set = root.parent().unwrap_or(root);
        std::fs::remove_dir_all(set).doing("cannot remove a set of files")
    }

    /// Returns the wanted cache states that are possible here, and adds a note for each other one.
    fn servers(&self, all: Vec<Server>, record: &mut Record) -> Vec<Server> {
        let mut servers = all;
        servers.retain(|server| self.settings.takes(&server.name));
        servers.retain(|server| match server.is_there() {
            true => true,
            false => {
                record.note(format!("{} left out: it is not installed", server.name));
                false
            }
        });
        servers
    }

    fn caches(&self, record: &mut Record) -> Vec<Cache> {
        crate::caches::possible(&self.settings.caches(), self.place, record)
    }
}
