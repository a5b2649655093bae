//! `laio serve`: from the arguments to a server that runs.

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

/// Serves until it is asked to stop; a second SIGINT or SIGTERM ends the process at once.
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
        say("ok");
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
        // Nobody would stop it any more.
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
        notify::tell(notify::State::Ready);
    }
    signals::obey(signals, server.control(), observing.admin())?;
    handover::tell_ready()?;
    let served = server.wait()?;
    observing.finish()?;
    let lost = match served.log_lines_lost {
        0 => String::new(),
        lines => format!("; {lines} lines of the access log were left out"),
    };
    say(&format!(
        "served {} requests on {} connections{lost}",
        served.requests, served.connections
    ));
    Ok(())
}

/// What the command line and the file say together.
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

/// Reads the command line, and the file that it names, as they are now.
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

/// The same, as a file that says all of it.
fn printed() -> Result<String, Failure> {
    // What makes no sense together is no configuration.
    load()?.options()?;
    Ok(config::load(&flags())?.text()?)
}

/// What stands behind `laio serve`.
fn flags() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// Whether somebody sat at a terminal, and is gone.
fn interactive_end() -> bool {
    WATCHED.get() == Some(&true) && !std::io::stderr().is_terminal()
}

/// Whether standard error was a terminal at the start.
static WATCHED: OnceLock<bool> = OnceLock::new();

/// Tells where the site is. On standard error, so that standard output is the access log alone.
fn announce(root: &Path, places: &[Listen], how: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let watched = *WATCHED.get_or_init(|| std::io::stderr().is_terminal());
    let (bold, plain) = if watched {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut places: Vec<_> = places.iter().map(listen::shown).collect();
    // Sockets that were passed on may be several at one address.
    places.dedup();
    let place = |place: &String| format!("  {bold}{place}{plain}\n");
    say(&format!(
        "laio {version} serves {}\n\n{}\n{how}; Ctrl-C stops",
        root.display(),
        places.iter().map(place).collect::<String>(),
    ));
}

fn say(text: &str) {
    // In one write, since several processes may say something at a time. Nothing can be done if standard error is gone.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
