//! Plots popularity and sizes of a trace, next to the distributions.

use super::{Sizes, Trace};
use crate::plot::{Axis, Lines, Scale, Series, Style};

/// Returns the plots, each with a name for its file.
pub fn pictures(trace: &Trace) -> Vec<(String, String)> {
    vec![
        ("trace-sizes.svg".to_owned(), sizes(trace)),
        ("trace-popularity.svg".to_owned(), popularity(trace)),
    ]
}

/// The number of points of a curve that a page can show.
const POINTS: usize = 200;

fn caption(trace: &Trace) -> String {
    let (requests, files) = (trace.requests.len(), trace.set_files());
    let bytes = trace.set_bytes() as f64 / f64::from(1 << 20);
    format!(
        "{}: {requests} requests for {files} files of {bytes:.1} MiB",
        trace.name
    )
}

/// Returns the fractions of the files, and of the responses, that are larger.
fn sizes(trace: &Trace) -> String {
    let files = trace.files.iter().filter_map(|file| file.size);
    let answers = trace.requests.iter();
    let answers = answers.filter_map(|request| trace.files[request.file as usize].size);
    let mut series = vec![
        larger("files", files.collect()),
        larger("answers", answers.collect()),
    ];
    if trace.about.contains(&Sizes::WEB.to_string()) {
        let points =
            (0..=POINTS).map(|number| 10f64.powf(1.0 + 6.5 * number as f64 / POINTS as f64));
        series.push(Series {
            name: "stated for files".to_owned(),
            points: points.map(|size| (size, Sizes::WEB.above(size))).collect(),
            ranges: Vec::new(),
            style: Style::Plain,
        });
    }
    let plot = Lines {
        title: "Sizes of files, and of answers".to_owned(),
        caption: caption(trace),
        x: Axis::new("size, bytes", Scale::Log),
        y: Axis::new("part that is larger", Scale::Log),
        series,
        reference: None,
    };
    plot.svg()
}

fn larger(name: &str, mut sizes: Vec<u64>) -> Series {
    sizes.sort_unstable();
    let count = sizes.len();
    // Denser at the end, which the logarithmic axis stretches.
    let places = (0..POINTS).map(|number| {
        let above = (count as f64).powf(1.0 - number as f64 / POINTS as f64);
        count - (above.round() as usize).clamp(1, count.max(1))
    });
    let mut places: Vec<usize> = if count == 0 {
        Vec::new()
    } else {
        places.collect()
    };
    places.dedup();
    let points = places.into_iter().map(|place| {
        let above = (count - place) as f64 / count as f64;
        (sizes[place].max(1) as f64, above)
    });
    Series {
        name: name.to_owned(),
        points: points.collect(),
        ranges: Vec::new(),
        style: Style::Plain,
    }
}

/// Returns the number of requests for each file, the most popular first.
fn popularity(trace: &Trace) -> String {
    let mut counts = vec![0u64; trace.files.len()];
    for request in &trace.requests {
        counts[request.file as usize] += 1;
    }
    counts.retain(|count| *count > 0);
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let ranks = (0..POINTS).map(|number| {
        (counts.len() as f64)
            .powf(number as f64 / (POINTS - 1) as f64)
            .round() as usize
    });
    let mut ranks: Vec<usize> = ranks
        .filter(|rank| (1..=counts.len()).contains(rank))
        .collect();
    ranks.dedup();
    let plot = Lines {
        title: "Popularity of files".to_owned(),
        caption: caption(trace),
        x: Axis::new("rank", Scale::Log),
        y: Axis::new("requests", Scale::Log),
        series: vec![Series {
            name: "requests for the file of each rank".to_owned(),
            points: ranks
                .iter()
                .map(|rank| (*rank as f64, counts[rank - 1] as f64))
                .collect(),
            ranges: Vec::new(),
            style: Style::Plain,
        }],
        reference: None,
    };
    plot.svg()
}
