//! `laio bench activations`.

use super::calls::seconds;
use crate::status::StatusLine;
use crate::{Failure, print};
use clap::Args;
use laio_bench::activations::{self, Settings};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = crate::EXIT_CODES)]
pub(crate) struct Arguments {
    /// Seconds for each line
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    seconds: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = Settings {
        time: arguments.seconds,
    };
    let mut line = StatusLine::new();
    let report = activations::run(&settings, &mut |text| line.show(text));
    line.clear();
    print(&report?)
}
