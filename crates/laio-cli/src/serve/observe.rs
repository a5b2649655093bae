//! Statistics: the arguments, and the plot at the end.

use super::{handover, print_message};
use crate::Failure;
use laio_bench::plot::{Axis, Lines, Scale, Series, Style};
use laio_serve::{Admin, Observer, Seen};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Observing")]
pub(super) struct ObserveArguments {
    /// Answer /metrics (Prometheus), / (a status page) and /status.json on a separate address
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "processes")]
    admin: Option<SocketAddr>,
    /// Measure how long each stage of a request takes
    #[arg(long)]
    stage_timing: bool,
    /// Plot the stage times (SVG) into a file when the server ends; implies --stage-timing
    #[arg(long, value_name = "FILE", conflicts_with = "processes")]
    stage_plot: Option<PathBuf>,
}

/// The statistics of a running server.
pub(super) struct Observing {
    observer: Observer,
    plot: Option<PathBuf>,
    admin: AdminHandle,
}

/// Time for the previous server to release the address.
const HANDOVER: Duration = Duration::from_secs(10);

/// The listener of `--admin`, if there is one.
#[derive(Clone, Default)]
pub(super) struct AdminHandle(Arc<Mutex<Option<Admin>>>);

impl AdminHandle {
    /// Closes the listener, so that another process can use the address.
    pub(super) fn close(&self) {
        self.0.lock().unwrap().take();
    }

    fn open(&self, address: SocketAddr, observer: Observer) -> std::io::Result<()> {
        let admin = Admin::start(address, observer)?;
        if address.port() == 0 {
            print_message(&format!("--admin listens on {}", admin.address()));
        }
        *self.0.lock().unwrap() = Some(admin);
        Ok(())
    }

    /// Opens the listener as soon as the previous server has released the address.
    fn open_after_predecessor(self, address: SocketAddr, observer: Observer) {
        let until = Instant::now() + HANDOVER;
        while let Err(error) = self.open(address, observer.clone()) {
            if Instant::now() > until {
                return print_message(&error.to_string());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl ObserveArguments {
    pub(super) fn observer(&self) -> Observer {
        let timing = self.stage_timing || self.stage_plot.is_some();
        if timing || self.admin.is_some() {
            Observer::new(timing)
        } else {
            Observer::default()
        }
    }

    pub(super) fn start(&self, observer: Observer) -> Result<Observing, Failure> {
        let admin = AdminHandle::default();
        if let Some(address) = self.admin {
            let (opened, observer) = (admin.clone(), observer.clone());
            if handover::is_successor() {
                std::thread::spawn(move || opened.open_after_predecessor(address, observer));
            } else {
                opened.open(address, observer)?;
            }
        }
        Ok(Observing {
            observer,
            plot: self.stage_plot.clone(),
            admin,
        })
    }
}

impl Observing {
    pub(super) fn admin(&self) -> AdminHandle {
        self.admin.clone()
    }

    /// Writes the plot, if one was asked for.
    pub(super) fn finish(self) -> Result<(), Failure> {
        if let Some(file) = self.plot {
            std::fs::write(&file, plot(&self.observer.seen())).map_err(|error| {
                let text = format!("cannot write the plot {}: {error}", file.display());
                std::io::Error::new(error.kind(), text)
            })?;
        }
        Ok(())
    }
}

/// Plots the cumulative distribution of each stage's times.
fn plot(seen: &Seen) -> String {
    let series = seen.stages.iter().map(|(stage, times)| {
        let shares = (0..=100).map(|share| {
            let share = f64::from(share) / 100.0;
            (times.value_at_quantile(share) as f64 / 1e3, share * 100.0)
        });
        Series {
            name: format!("{} ({})", stage.name(), times.len()),
            points: shares.collect(),
            ranges: Vec::new(),
            style: Style::Plain,
        }
    });
    let plot = Lines {
        title: "Stages of a request: share of times no longer than".to_owned(),
        caption: "laio serve --stage-timing; in brackets, the number of times".to_owned(),
        x: Axis::new("microseconds", Scale::Log),
        y: Axis::new("share, %", Scale::Linear),
        series: series.collect(),
        reference: None,
    };
    plot.svg()
}
