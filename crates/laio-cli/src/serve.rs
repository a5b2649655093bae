//! `laio serve`: arguments, the banner, and stopping when asked to.

use crate::Failure;
use laio::BackendKind;
use laio_serve::{LogFormat, LogTarget, Options, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Serve the files of a directory over HTTP.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The directory to serve
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// How calls that would block go to the background: sync, threads, hybrid, posix-aio, linux-aio, uring or lazy [default:
    /// LAIO_BACKEND, else lazy]
    #[arg(long, value_name = "NAME")]
    backend: Option<BackendKind>,
    /// Where the access log goes: a file, - for standard output, or off
    #[arg(long, value_name = "FILE", default_value = "-")]
    log: String,
    /// What its lines look like: common, combined or json
    #[arg(long, value_name = "FORMAT", default_value = "combined", value_parser = log_format)]
    log_format: LogFormat,
}

fn log_format(name: &str) -> Result<LogFormat, String> {
    match name {
        "common" => Ok(LogFormat::Common),
        "combined" => Ok(LogFormat::Combined),
        "json" => Ok(LogFormat::Json),
        _ => Err("the formats are common, combined and json".to_owned()),
    }
}

/// Serves until SIGINT or SIGTERM; a second one ends the process at once.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let log = match arguments.log.as_str() {
        "-" => LogTarget::Stdout,
        "off" => LogTarget::Off,
        file => LogTarget::File(file.into()),
    };
    let mut options = Options {
        root: arguments.root,
        listen: arguments.listen,
        backend: arguments.backend,
        log,
        log_format: arguments.log_format,
        ..Options::default()
    };
    if let Some(workers) = arguments.workers {
        options.workers = workers.get();
    }
    // Before the workers start: they inherit what is set up here.
    let impatient = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, impatient.clone())?;
        signal_hook::flag::register(signal, impatient.clone())?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let root = options.root.clone();
    let server = Server::start(options)?;
    announce(&server, &root);
    let stopper = server.stopper();
    std::thread::Builder::new()
        .name("laio-signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                say("stopping: answers in flight are finished; once more ends at once");
                stopper.stop();
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
    say(&format!(
        "laio {version} serves {}\n\n  {bold}http://{}/{plain}\n\n{} worker{plural}, {}; Ctrl-C stops",
        root.display(),
        server.address(),
        server.workers(),
        server.backend(),
    ));
}

fn say(text: &str) {
    // Nothing can be done if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
}
