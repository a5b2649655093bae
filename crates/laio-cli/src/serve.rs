//! `laio serve`: starts a server from its arguments.

mod arguments;
mod cache;
mod config;
mod handover;
mod limits;
mod listen;
mod notify;
mod observe;
mod operation;
mod policy;
mod signals;
mod site;
mod supervise;
mod upstreams;

pub(crate) use arguments::Arguments;

use crate::Failure;
pub(crate) use config::Mistakes;
pub use config::configuration;
use laio_serve::{Host, Listen, Options, Server};
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
    let loaded = match arguments.config() {
        Some(_) => load()?,
        None => Loaded::new(arguments),
    };
    if loaded.arguments.prints_config() {
        return crate::print(&printed()?);
    }
    if loaded.arguments.checks() {
        laio_serve::check(&loaded.options()?)?;
        print_message("ok");
        return Ok(());
    }
    match loaded.arguments.processes() {
        Some(processes) if !handover::is_supervised() => supervise::run(loaded, processes),
        _ => serve(loaded),
    }
}

fn serve(loaded: Loaded) -> Result<(), Failure> {
    let observe = loaded.arguments.observe();
    let options = loaded.options()?;
    let signals = signals::catch()?;
    if handover::is_supervised() {
        // A supervised process must not outlive its supervisor, which alone stops it.
        rustix::process::set_parent_process_death_signal(Some(signals::stopping()))?;
    }
    let root = options.site.root.clone();
    let observing = observe.start(options.observer.clone())?;
    let server = Server::start(options)?;
    if !handover::is_supervised() {
        let plural = if server.workers() == 1 { "" } else { "s" };
        let how = format!(
            "{} worker{plural}, {}, {} descriptors",
            server.workers(),
            server.backend(),
            server.descriptors()
        );
        announce(&root, server.addresses(), &how);
        notify::send_state(notify::State::Ready);
    }
    signals::execute(signals, server.control(), observing.admin())?;
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

/// The merged settings of the command line and the configuration file.
#[derive(Clone)]
struct Loaded {
    arguments: Arguments,
    hosts: Vec<Host>,
}

impl Loaded {
    fn new(arguments: Arguments) -> Loaded {
        let hosts = Vec::new();
        Loaded { arguments, hosts }
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut options = self.arguments.clone().options()?;
        let mut hosts = self.hosts.clone();
        for host in &mut hosts {
            self.arguments.add_to(&mut host.site);
        }
        options.hosts.append(&mut hosts);
        Ok(options)
    }
}

/// Reads the command line, and the configuration file that it names.
fn load() -> Result<Loaded, Failure> {
    let loaded = config::load(&flags())?;
    let hosts = loaded.hosts.into_iter().map(|(names, site)| {
        let (site, _) = site.sites()?;
        Ok::<_, Failure>(Host { names, site })
    });
    Ok(Loaded {
        arguments: loaded.arguments,
        hosts: hosts.collect::<Result<_, _>>()?,
    })
}

/// Returns the settings in force as a configuration file.
fn printed() -> Result<String, Failure> {
    // Fail for settings that cannot be combined.
    load()?.options()?;
    Ok(config::load(&flags())?.text()?)
}

/// Returns the arguments after `laio serve`.
fn flags() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// Whether the server was started at a terminal that is gone.
fn interactive_end() -> bool {
    AT_TERMINAL.get() == Some(&true) && !std::io::stderr().is_terminal()
}

/// Whether standard error was a terminal at the start.
static AT_TERMINAL: OnceLock<bool> = OnceLock::new();

/// Prints the addresses on standard error, because standard output may be the access log.
fn announce(root: &Path, places: &[Listen], how: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let at_terminal = *AT_TERMINAL.get_or_init(|| std::io::stderr().is_terminal());
    let (bold, plain) = if at_terminal {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut places: Vec<_> = places.iter().map(listen::shown).collect();
    // Several inherited sockets may have the same address.
    places.dedup();
    let place = |place: &String| format!("  {bold}{place}{plain}\n");
    print_message(&format!(
        "laio {version} serves {}\n\n{}\n{how}; Ctrl-C stops",
        root.display(),
        places.iter().map(place).collect::<String>(),
    ));
}

fn print_message(text: &str) {
    // In one write, because several processes may print at the same time. Errors of standard error
    // cannot be reported.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
