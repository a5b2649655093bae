//! How late a runtime of one thread is beside a disk that takes 100 ms for each read and `open`:
//!
//!     stalls SECONDS [PLOT.svg]
//!
//! The disk is a FUSE file system, served by another process. 600 tasks use it all the time. Another task measures
//! how late its timer of 1 ms is, a third one how long a read of 4 KiB takes that is cached from an ordinary
//! file. Prints a table, and writes a plot of the cached reads.

use laio_bench::plot::{Axis, Lines, Scale, Series, Style};
use laio_testing::FaultFs;
use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::temp;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const DELAY: Duration = Duration::from_millis(100);
/// More than tokio's pool has threads: 512.
const TASKS: usize = 600;
const PAGE: usize = 4096;
const PAGES: usize = 4096;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "disk") {
        return be_the_disk();
    }
    let usage = || io::Error::other("usage: stalls SECONDS [PLOT.svg]");
    let seconds = arguments.first().and_then(|text| text.parse().ok());
    let time = Duration::from_secs_f64(seconds.ok_or_else(usage)?);

    let disk = Disk::start()?;
    let cached = temp::scratch();
    let cached = cached.path().join("cached");
    std::fs::write(&cached, vec![1; PAGES * PAGE])?;
    println!(
        "| calls by | what the 600 tasks do | a timer of 1 ms is late, ms: median, p99.9, most | \
         a cached read takes, ms: median, p99.9, most | slow calls in a second |"
    );
    println!("| --- | --- | --- | --- | ---: |");
    let mut series = Vec::new();
    for way in [Way::Idle, Way::Plain, Way::Tokio, Way::Laio] {
        for what in [What::Read, What::Open] {
            if way == Way::Idle && what == What::Open {
                continue;
            }
            let seen = measure(way, what, time, &disk.file, &cached)?;
            println!("{}", seen.row(way, what));
            if what == What::Read && way != Way::Idle && !seen.reads.is_empty() {
                series.push(seen.series(way));
            }
        }
    }
    if let Some(plot) = arguments.get(1) {
        std::fs::write(plot, picture(series))?;
    }
    Ok(())
}

/// How calls are made.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Nothing uses the slow disk; cached reads are laio-tokio's.
    Idle,
    Plain,
    Tokio,
    Laio,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Idle => "nothing slow",
            Way::Plain => "std, in the task",
            Way::Tokio => "tokio's pool",
            Way::Laio => "laio-tokio",
        }
    }

    /// Reads a page at an offset.
    async fn read(self, file: &Arc<File>, laio: &laio_tokio::fs::File, offset: u64) {
        match self {
            Way::Plain => {
                let mut page = [0; PAGE];
                file.read_exact_at(&mut page, offset).expect("a page");
            }
            Way::Tokio => {
                let file = file.clone();
                let read = move || {
                    let mut page = vec![0; PAGE];
                    file.read_exact_at(&mut page, offset).map(|()| page)
                };
                let read = tokio::task::spawn_blocking(read).await;
                read.expect("no panic").expect("a page");
            }
            Way::Idle | Way::Laio => {
                let (count, _) = laio.read_at(Vec::with_capacity(PAGE), offset).await;
                assert_eq!(count.expect("a page"), PAGE);
            }
        }
    }

    async fn open(self, name: &Path) {
        match self {
            Way::Plain => drop(File::open(name).expect("it is there")),
            Way::Tokio => drop(tokio::fs::File::open(name).await.expect("it is there")),
            Way::Idle | Way::Laio => {
                drop(laio_tokio::fs::File::open(name).await.expect("it is there"));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Read,
    Open,
}

/// What one runtime has seen; all times in milliseconds.
#[derive(Default)]
struct Seen {
    late: Vec<f64>,
    /// When a cached read began, and how long it took.
    reads: Vec<(f64, f64)>,
    slow: usize,
    seconds: f64,
}

fn measure(way: Way, what: What, time: Duration, slow: &Path, cached: &Path) -> io::Result<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let files = |name: &Path| -> io::Result<_> {
        let std = File::open(name)?;
        let laio = laio_tokio::fs::File::from_std(std.try_clone()?);
        Ok((Arc::new(std), Arc::new(laio)))
    };
    let (slow_files, cached_files) = (files(slow)?, files(cached)?);
    let tasks = match way {
        Way::Idle => 0,
        _ => TASKS,
    };
    let begin = Instant::now();
    runtime.block_on(async {
        for number in 0..tasks {
            let (files, name, seen) = (slow_files.clone(), slow.to_owned(), seen.clone());
            tokio::spawn(async move {
                for offset in (number..PAGES).cycle().step_by(7) {
                    match what {
                        What::Read => way.read(&files.0, &files.1, (offset * PAGE) as u64).await,
                        What::Open => way.open(&name).await,
                    }
                    seen.lock().expect("no panic").slow += 1;
                    // A plain call never lets others run.
                    tokio::task::yield_now().await;
                }
            });
        }
        let timer = seen.clone();
        tokio::spawn(async move {
            let wait = Duration::from_millis(1);
            loop {
                let begin = Instant::now();
                sleep(wait).await;
                let late = begin.elapsed().saturating_sub(wait);
                timer.lock().expect("no panic").late.push(millis(late));
            }
        });
        let reads = seen.clone();
        tokio::spawn(async move {
            for page in (0..PAGES).cycle() {
                sleep(Duration::from_millis(5)).await;
                let start = Instant::now();
                let offset = (page * PAGE) as u64;
                way.read(&cached_files.0, &cached_files.1, offset).await;
                let (at, took) = (start.duration_since(begin), start.elapsed());
                let mut seen = reads.lock().expect("no panic");
                seen.reads.push((millis(at), millis(took)));
            }
        });
        // A thread that only blocks would never see that the time is over.
        let _ = timeout(time, std::future::pending::<()>()).await;
    });
    let seconds = begin.elapsed().as_secs_f64();
    runtime.shutdown_timeout(DELAY * 20);
    let mut seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    seen.seconds = seconds;
    Ok(seen)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Seen {
    fn row(&self, way: Way, what: What) -> String {
        let reads: Vec<f64> = self.reads.iter().map(|read| read.1).collect();
        let what = match (way, what) {
            (Way::Idle, _) => "–",
            (_, What::Read) => "read",
            (_, What::Open) => "open",
        };
        format!(
            "| {} | {what} | {} | {} | {:.0} |",
            way.name(),
            quantiles(&self.late),
            quantiles(&reads),
            self.slow as f64 / self.seconds
        )
    }

    fn series(&self, way: Way) -> Series {
        Series {
            name: way.name().to_owned(),
            points: self
                .reads
                .iter()
                .map(|read| (read.0 / 1e3, read.1))
                .collect(),
            ranges: Vec::new(),
            style: Style::Points,
        }
    }
}

/// Median, 99.9th percentile and maximum.
fn quantiles(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| match sorted.len() {
        0 => "none".to_owned(),
        count => {
            let index = ((count as f64 * part).ceil() as usize).clamp(1, count) - 1;
            match sorted[index] {
                value if value < 10.0 => format!("{value:.3}"),
                value => format!("{value:.0}"),
            }
        }
    };
    format!("{}, {}, {} ({})", at(0.5), at(0.999), at(1.0), sorted.len())
}

fn picture(series: Vec<Series>) -> String {
    Lines {
        title: "A cached read beside a disk of 100 ms".to_owned(),
        caption: "4 KiB of an ordinary file, in the page cache; 600 tasks of the same runtime read the slow disk"
            .to_owned(),
        x: Axis::new("seconds since the tasks began", Scale::Linear),
        y: Axis::new("the cached read takes, ms", Scale::Log).at(&[0.001, 0.01, 0.1, 1.0, 10.0, 100.0]),
        series,
        reference: Some(millis(DELAY)),
    }
    .svg()
}

/// The disk, served by another process so that this one has only the runtime's threads and laio's.
struct Disk {
    process: Child,
    file: PathBuf,
}

impl Disk {
    fn start() -> io::Result<Disk> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("disk")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line)?;
        let file = PathBuf::from(line.trim_end());
        if file.is_absolute() {
            Ok(Disk { process, file })
        } else {
            Err(io::Error::other("no FUSE file system can be mounted"))
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn be_the_disk() -> io::Result<()> {
    let disk = FaultFs::mount().map_err(|skip| io::Error::other(skip.reason().to_owned()))?;
    disk.add_file("slow", &vec![2; PAGES * PAGE]);
    disk.set(Kind::Open, Fault::Delay(DELAY));
    disk.set(Kind::Read, Fault::Delay(DELAY));
    println!("{}", disk.join("slow").display());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
