//! The report as one JSON object. Times are in nanoseconds.

use crate::report::{Cause, Entry, Key, Report};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the report as JSON.
pub fn json(report: &Report) -> String {
    let loops: Vec<Value> = report
        .loops
        .iter()
        .map(|(thread, count)| json!({ "thread": thread, "count": count }))
        .collect();
    let waits: Vec<Value> = report.entries.iter().map(entry).collect();
    let moments: Vec<Value> = report
        .moments
        .iter()
        .map(|moment| {
            json!([
                nanoseconds(moment.start),
                nanoseconds(moment.length),
                moment.entry
            ])
        })
        .collect();
    let means = &report.means;
    let periods = means.periods.unwrap_or_default();
    let object = json!({
        "started_ns": nanoseconds(report.started),
        "lasted_ns": nanoseconds(report.lasted),
        "over_ns": nanoseconds(report.over),
        "longest_ns": nanoseconds(report.longest()),
        "loops": loops,
        "waits": waits,
        "moments": moments,
        "means": {
            "threads_with_perf": means.with_records,
            "threads_without_perf": means.without_records,
            "perf_refused": means.refusal,
            "shortest_period_ns": nanoseconds(periods.0),
            "longest_period_ns": nanoseconds(periods.1),
            "longest_gap_ns": nanoseconds(means.longest_gap),
            "missed": means.missed,
            "missed_total_ns": nanoseconds(means.missed_total),
            "records_lost": means.lost,
            "perf_paused": means.paused,
            "unwatched": means.unwatched,
            "denied": means.denied,
        },
    });
    format!("{object:#}\n")
}

fn entry((key, entry): &(Key, Entry)) -> Value {
    json!({
        "cause": cause(key.cause),
        "call": key.call,
        "subject": key.subject,
        "thread": key.thread,
        "count": entry.count,
        "total_ns": nanoseconds(entry.total),
        "longest_ns": nanoseconds(entry.longest),
        "unfinished": entry.unfinished,
        "remedy": entry.remedy,
        "stack": entry.stack.iter().map(|frame| &frame.name).collect::<Vec<_>>(),
    })
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Call => "call",
        Cause::Futex => "futex",
        Cause::PageFault => "page fault",
        Cause::Processor => "processor",
        Cause::Stopped => "stopped",
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
