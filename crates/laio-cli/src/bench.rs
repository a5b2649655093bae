//! `laio bench`.

mod activations;
mod calls;
mod cp;
mod growth;
mod order;
mod published;
mod report;

use crate::Failure;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure single calls: nanoseconds, and the ratio to the plain call, through every back end
    Calls(calls::Arguments),
    /// Measure how each back end reorders operations, and what it does when all slots are in use
    Order(order::Arguments),
    /// Measure the back end activations: calls that do not block, the hand-off when one does, and false
    /// alarms
    Activations(activations::Arguments),
    /// Measure a million getpid, plainly and through every back end (thesis, table 2)
    Getpid(published::Arguments),
    /// Open and stat the files of a trace (thesis, table 3)
    OpenStat(published::Arguments),
    /// Open, stat and read the files of a trace (thesis, table 4)
    OpenStatRead(published::Arguments),
    /// Read, modify and write back blocks of a file with O_DIRECT (Yoo, figures 3 to 6)
    Rmw(published::Arguments),
    /// Measure the share of potentially blocking calls that do not block (LAIO, why be lazy)
    LazyShare(published::Arguments),
    /// Measure servers by the number of their clients (thesis, figures 6 to 13)
    Clients(published::Arguments),
    /// Measure one server with four kinds of disk I/O (LAIO, large and small workload)
    Flash(published::Arguments),
    /// Measure asynchronous bodies, chunks, and stat (lighttpd 1.5)
    Lighttpd(published::Arguments),
    /// Measure files in a tokio program: laio-tokio, tokio::fs, and plain calls in the task
    Tokio(published::Arguments),
    /// Measure what each request, entry, file and operation costs as their number grows
    Growth(growth::Arguments),
    /// Run all of these, or some, and write one page with tables, plots and conclusions
    Report(report::Arguments),
    /// Measure recursive copies: laio cp through every back end, GNU cp, and other tools
    Cp(cp::Arguments),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Calls(arguments) => calls::run(arguments),
        Command::Order(arguments) => order::run(arguments),
        Command::Activations(arguments) => activations::run(&arguments),
        Command::Cp(arguments) => cp::run(arguments),
        Command::Getpid(arguments) => published::run("getpid", &arguments),
        Command::OpenStat(arguments) => published::run("open-stat", &arguments),
        Command::OpenStatRead(arguments) => published::run("open-stat-read", &arguments),
        Command::Rmw(arguments) => published::run("rmw", &arguments),
        Command::LazyShare(arguments) => published::run("lazy-share", &arguments),
        Command::Clients(arguments) => published::run("clients", &arguments),
        Command::Flash(arguments) => published::run("flash", &arguments),
        Command::Lighttpd(arguments) => published::run("lighttpd", &arguments),
        Command::Tokio(arguments) => published::run("tokio", &arguments),
        Command::Growth(arguments) => growth::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
    }
}

/// A positive number to multiply with.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "not a number")?;
    let fits = (0.000_001..=1000.0).contains(&factor);
    fits.then_some(factor)
        .ok_or_else(|| "from 0.000001 to 1000".to_owned())
}
