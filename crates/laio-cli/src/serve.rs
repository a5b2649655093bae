//! `laio serve`: starts a server from its arguments.

mod arguments;
mod config;
mod explain;
mod handover;
#[cfg(test)]
mod manual;
mod notify;
mod observe;
mod policy;
mod signals;
mod supervise;

pub(crate) use arguments::Arguments;

use crate::Failure;
pub use config::ConfigurationReader;
pub(crate) use config::Mistakes;
use config::Settings;
use laio_serve::{Listen, ListenAddress, Server};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

/// Serves until a signal stops it; a second SIGINT or SIGTERM ends the process at once.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.lists_presets() {
        return crate::print(&policy::presets());
    }
    handover::take_sockets()?;
    let settings = load()?;
    let operation = &settings.arguments.operation;
    if operation.print_config {
        // Fail for settings that cannot be combined.
        settings.options()?;
        return crate::print(&settings.text(&ConfigurationReader::new())?);
    }
    if operation.check {
        laio_serve::check(&settings.options()?)?;
        print_message("ok");
        return Ok(());
    }
    if operation.explain.is_asked() {
        return crate::print(&operation.explain.explained(&settings.options()?)?);
    }
    match operation.processes {
        Some(processes) if !handover::is_supervised() => supervise::run(&settings, processes.get()),
        _ => serve(&settings),
    }
}

fn serve(settings: &Settings) -> Result<(), Failure> {
    let options = settings.options()?;
    let signals = signals::catch()?;
    if handover::is_supervised() {
        // A supervised process must not outlive its supervisor, which alone stops it.
        rustix::process::set_parent_process_death_signal(Some(signals::stopping()))?;
    }
    let root = options.site.directory().map(Path::to_owned);
    let observing = settings.arguments.observe.start(options.observer.clone())?;
    let server = Server::start(options)?;
    signals::execute(signals, server.control(), observing.admin())?;
    if !handover::is_supervised() {
        let plural = if server.workers() == 1 { "" } else { "s" };
        let how = format!(
            "{} worker{plural}, {}, {} descriptors",
            server.workers(),
            server.backend(),
            server.descriptors()
        );
        announce(root.as_deref(), server.addresses(), &how);
        notify::send_state(notify::State::Ready);
    }
    handover::report_ready()?;
    let served = server.wait()?;
    observing.finish()?;
    let lost = match served.log_lines_lost {
        0 => String::new(),
        lines => format!("; {lines} lines of the access log were dropped"),
    };
    print_message(&format!(
        "served {} requests on {} connections{lost}",
        served.requests, served.connections
    ));
    Ok(())
}

/// Reads the command line, and the configuration file that it names.
fn load() -> Result<Settings, Mistakes> {
    let flags: Vec<OsString> = std::env::args_os().skip(2).collect();
    config::load(&flags)
}

/// Whether the server was started at a terminal that is gone.
fn interactive_end() -> bool {
    AT_TERMINAL.get() == Some(&true) && !std::io::stderr().is_terminal()
}

/// Whether standard error was a terminal at the start.
static AT_TERMINAL: OnceLock<bool> = OnceLock::new();

/// Prints the addresses on standard error, because standard output may be the access log.
fn announce(root: Option<&Path>, places: &[Listen], how: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let at_terminal = *AT_TERMINAL.get_or_init(|| std::io::stderr().is_terminal());
    let (bold, plain) = if at_terminal {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut places: Vec<_> = places.iter().map(shown).collect();
    // Several inherited sockets may have the same address.
    places.dedup();
    let place = |place: &String| format!("  {bold}{place}{plain}\n");
    print_message(&format!(
        "laio {version} serves {}\n\n{}\n{how}; Ctrl-C stops",
        root.map_or("no files".into(), Path::to_string_lossy),
        places.iter().map(place).collect::<String>(),
    ));
}

/// Returns the URL of an address, or the address itself if browsers cannot use it.
fn shown(listen: &Listen) -> String {
    let scheme = if listen.tls { "https" } else { "http" };
    match &listen.address {
        ListenAddress::Inet(address) if !listen.proxy_header => format!("{scheme}://{address}/"),
        _ => listen.to_string(),
    }
}

fn print_message(text: &str) {
    // In one write, because several processes may print at the same time. Errors of standard error
    // cannot be reported.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
