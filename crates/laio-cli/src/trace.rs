//! `laio trace`.

use crate::status::StatusLine;
use crate::{Failure, interrupt, print};
use clap::{Args, Subcommand};
use laio_bench::record::save;
use laio_bench::trace::{self, Preset, Trace};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a file set of a known shape, and requests for it
    Make(Make),
    /// Convert access logs to requests and the file set that they imply
    Import(Import),
    /// Describe a trace
    Show(Show),
}

/// Output options.
#[derive(Debug, Args)]
struct Out {
    /// The directory to create: trace.tsv, and the files to serve below files/
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Create only the trace, no files
    #[arg(long)]
    trace_only: bool,
    /// Draw sizes and popularity into DIR
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// The same seed creates the same files and requests everywhere. The contents of a file follow from its name,
/// so `laio load` can check each byte.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Make {
    /// The shape
    #[arg(value_name = "SHAPE", value_parser = Preset::NAMES.map(|(name, _)| name))]
    shape: String,
    #[command(flatten)]
    out: Out,
    /// Number of requests and files, as a fraction of the usual number
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = crate::bench::factor)]
    scale: f64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of levels of a tree
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    depth: u32,
    /// Number of files in each directory of a tree
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    files: u64,
    /// Size of each file of a tree in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 65536, value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    size: u64,
}

fn help() -> String {
    let mut help = "Shapes:\n".to_owned();
    for (name, what) in Preset::NAMES {
        help.push_str(&format!("  {name:<16}{what}\n"));
    }
    help + "\n" + crate::EXIT_CODES
}

/// Logs are in the common or combined format, or JSON with a line for each request; the formats may be mixed.
/// Requests other than GET, and responses that do not imply a file, are left out and counted.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The logs, in order
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Draw sizes and popularity into DIR
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Make(make) => {
            let Make {
                depth, files, size, ..
            } = make;
            let preset = match make.shape.as_str() {
                "rice" => Preset::Rice,
                "berkeley" => Preset::Berkeley,
                "lighttpd-small" => Preset::LighttpdSmall,
                "lighttpd-large" => Preset::LighttpdLarge,
                "lighttpd-one" => Preset::LighttpdOne,
                _ => Preset::Tree { depth, files, size },
            };
            write(&preset.trace(make.seed, make.scale), &make.out)
        }
        Command::Import(import) => {
            let found = trace::import(&import.logs)?;
            let mut trace = found.trace;
            trace.about.push(format!("lines read: {}", found.lines));
            for (reason, lines) in &found.left_out {
                trace
                    .about
                    .push(format!("lines left out: {lines}, {reason}"));
            }
            if trace.requests.is_empty() {
                return Err(format!(
                    "no line is a request that can be replayed\n{}",
                    trace.summary()
                )
                .into());
            }
            write(&trace, &import.out)
        }
        Command::Show(show) => {
            let trace = trace::read(&show.trace)?;
            draw(&trace, show.svg)?;
            print(&trace.summary())
        }
    }
}

fn write(trace: &Trace, out: &Out) -> Result<(), Failure> {
    let stop = interrupt::listen()?;
    let mut line = StatusLine::new();
    let made = trace::make(trace, &out.to, !out.trace_only, &stop, &mut |text| {
        line.show(text)
    });
    line.clear();
    made?;
    draw(trace, out.svg.clone())?;
    print(&trace.summary())
}

fn draw(trace: &Trace, directory: Option<PathBuf>) -> Result<(), Failure> {
    if let Some(directory) = directory {
        for (name, svg) in trace::pictures(trace) {
            save(&directory.join(name), &svg)?;
        }
    }
    Ok(())
}
