//! `laio serve`: the banner, and stopping when asked to.

mod arguments;
mod cache;
mod limits;
mod listen;
mod notify;
mod policy;
mod site;
mod upstreams;

pub(crate) use arguments::Arguments;

use crate::Failure;
use laio_serve::Server;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Serves until SIGINT or SIGTERM; a second one ends the process at once.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.lists_presets() {
        return crate::print(&policy::presets());
    }
    let options = arguments.options()?;
    // Before the workers start: they inherit what is set up here.
    let impatient = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, impatient.clone())?;
        signal_hook::flag::register(signal, impatient.clone())?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let root = options.site.root.clone();
    let server = Server::start(options)?;
    announce(&server, &root);
    notify::tell(notify::State::Ready);
    let control = server.control();
    std::thread::Builder::new()
        .name("laio-signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                say("stopping: answers in flight are finished; once more ends at once");
                notify::tell(notify::State::Stopping);
                control.stop();
            }
        })?;
    let served = server.wait()?;
    say(&format!(
        "served {} requests on {} connections",
        served.requests, served.connections
    ));
    Ok(())
}

/// Tells where the site is. On standard error, so that standard output is the access log alone.
fn announce(server: &Server, root: &std::path::Path) {
    let version = env!("CARGO_PKG_VERSION");
    let plural = if server.workers() == 1 { "" } else { "s" };
    let (bold, plain) = if std::io::stderr().is_terminal() {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let place = |listen| format!("  {bold}{}{plain}\n", listen::shown(listen));
    say(&format!(
        "laio {version} serves {}\n\n{}\n{} worker{plural}, {}; Ctrl-C stops",
        root.display(),
        server.addresses().iter().map(place).collect::<String>(),
        server.workers(),
        server.backend(),
    ));
}

fn say(text: &str) {
    // Nothing can be done if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
}
