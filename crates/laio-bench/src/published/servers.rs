//! Servers loaded with traces: `laio bench clients`, `flash` and `lighttpd`.
//!
//! In each turn a server is started as a process, loaded until the trace ends, with every byte checked, and
//! stopped. Client and server share the machine in all turns. `laio serve` has one worker, as the published
//! servers had one thread; so do nginx and lighttpd.

mod accelerator;
pub(super) mod clients;
pub(super) mod flash;
pub(super) mod lighttpd;
mod loads;
mod process;
mod schedulers;
pub(super) mod serving;

use super::run::Run;
use serving::Server;

/// The name of `laio serve` with default options.
pub(super) const USUAL: &str = "laio serve";

/// Returns the servers that take part, and adds a note for each one that is not installed.
pub(super) fn usable(run: &mut Run<'_>, mut servers: Vec<Server>) -> Vec<Server> {
    servers.retain(|server| run.settings.takes(&server.name));
    servers.retain(|server| {
        let is_there = server.is_there();
        if !is_there {
            let note = format!("{} left out: it is not installed", server.name);
            run.record.note(note);
        }
        is_there
    });
    servers
}
