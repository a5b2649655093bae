//! `laio bench calls`.

use crate::status::StatusLine;
use crate::{Failure, print};
use clap::Args;
use laio_bench::calls::{self, CallVariant, Row, Settings};
use std::path::PathBuf;
use std::time::Duration;

/// Blocks of each back end alternate with blocks of the plain call, of about a millisecond each. The ratio is
/// the median of the ratios of all rounds, which reduces the influence of other load on the machine.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Arguments {
    /// Only these calls; a name also selects all calls whose name continues with `-` (`cold`)
    #[arg(long = "call", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    #[arg(value_parser = Row::named)]
    rows: Vec<Vec<&'static Row>>,
    /// Only these back ends; the plain call is always measured
    #[arg(long = "backend", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    backends: Vec<CallVariant>,
    /// Seconds for each call, shared by its back ends
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Directory for files [default: the temporary directory, unless it is in memory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Read this file in the cold rows instead of creating one
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Size of the file that is created for the cold rows, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    size: u64,
    /// Do not drop the system's page cache before cold reads, only the file's
    #[arg(long)]
    no_drop_caches: bool,
    /// Print one JSON array of rows
    #[arg(long)]
    json: bool,
}

fn help() -> String {
    let mut help = "Calls:\n".to_owned();
    for row in Row::all() {
        help.push_str(&format!("  {:<26}{}\n", row.name, row.what));
    }
    let names: Vec<_> = CallVariant::all().map(CallVariant::name).collect();
    help.push_str(&format!("\nBack ends:\n  {}\n", names.join(" ")));
    help.push_str("  (lazy-epoll is lazy without io_uring; bare-ring is io_uring without laio;\n");
    help.push_str(
        "  measured only if named: linux-aio-blocking, whose io_submit may block on buffered I/O;\n",
    );
    help.push_str("  direct, which is laio's system-call instruction alone)\n\n");
    help + crate::EXIT_CODES
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let json = arguments.json;
    let mut line = StatusLine::new();
    let report = calls::run(&settings(arguments), &mut |text| line.show(text));
    line.clear();
    let report = report?;
    if report.measurements().is_empty() {
        print(&if json { report.json() } else { report.table() })?;
        return Err("nothing could be measured".into());
    }
    print(&if json { report.json() } else { report.table() })
}

fn settings(arguments: Arguments) -> Settings {
    let usual = Settings::default();
    // Each row once, in the order of the table.
    let named = |row: &&Row| arguments.rows.iter().flatten().any(|named| named == row);
    Settings {
        rows: match arguments.rows.as_slice() {
            [] => usual.rows,
            _ => Row::all().filter(named).collect(),
        },
        variants: match arguments.backends.as_slice() {
            [] => usual.variants,
            named => CallVariant::all()
                .filter(|one| named.contains(one))
                .collect(),
        },
        time: arguments.seconds,
        directory: arguments.directory,
        file: arguments.file,
        file_size: arguments.size << 20,
        drop_caches: !arguments.no_drop_caches,
    }
}
