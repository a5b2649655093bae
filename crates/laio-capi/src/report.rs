//! The text of `laio_report`, which shows which calls are not inline, and why.

use laio::{AioCounts, Context, Counts};
use std::fmt::Write;

/// Formats the back end, the limits, and the statistics of each system call and file system.
pub(crate) fn report(context: &Context) -> String {
    let mut page = String::new();
    write_report(&mut page, context).expect("a string takes all");
    page
}

fn write_report(page: &mut String, context: &Context) -> std::fmt::Result {
    let (stats, info) = (context.stats(), context.info());
    let limits = info.limits();
    let ring = if info.has_ring() {
        " with io_uring"
    } else {
        ""
    };
    writeln!(page, "laio {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(page, "back end      {}{ring}", info.backend())?;
    writeln!(
        page,
        "operations    {} pending, {} at most, limit {}",
        context.pending(),
        stats.operations_max,
        limits.operations
    )?;
    writeln!(
        page,
        "helpers       {} now, limit {}, and {} for calls that may wait",
        info.helper_threads(),
        limits.helpers,
        limits.waiting_helpers
    )?;
    writeln!(
        page,
        "went          {} started, {} completed, {} cancelled, {} timed out, {} at a limit, {} over budget",
        stats.operations,
        stats.completions,
        stats.cancelled,
        stats.timed_out,
        stats.limited,
        stats.over_budget
    )?;
    writeln!(
        page,
        "waited        {} sleeps, {} spins, {} wakeups of helpers, {} submissions to the ring",
        stats.sleeps, stats.spins, stats.helper_wakeups, stats.submissions
    )?;
    if stats.made_by_caller > 0 {
        writeln!(
            page,
            "no thread     could be started for {} calls, which blocked the caller",
            stats.made_by_caller
        )?;
    }
    if stats.unanswered > 0 {
        let hung: Vec<&str> = info.hung_mounts().map(|mount| &mount.point[..]).collect();
        let hung = if hung.is_empty() {
            "none".to_owned()
        } else {
            hung.join(", ")
        };
        writeln!(
            page,
            "remote        {} calls not answered; file systems that hang: {hung}",
            stats.unanswered
        )?;
    }
    if let Some(tracer) = info.traced_by() {
        writeln!(
            page,
            "traced by     {tracer}, which may change names: lazy uses no io_uring"
        )?;
    }
    if let Some(detector) = info.detector() {
        writeln!(
            page,
            "carriers      {} now, limit {}; {} hand-offs noticed by {detector}, {} false wakeups",
            info.carriers(),
            limits.carriers,
            stats.handoffs,
            stats.false_wakeups
        )?;
    }
    if stats.aio != AioCounts::default() {
        let aio = stats.aio;
        writeln!(
            page,
            "aio           {} requests in {} submissions, {} bounced, {} declined, {} refused, {} blocked for {} us",
            aio.requests,
            aio.submissions,
            aio.bounced,
            aio.declined,
            aio.refused,
            aio.blocked,
            aio.blocked_ns / 1000
        )?;
    }
    heading(page, "system call")?;
    for (name, counts) in stats.calls() {
        row(page, name, counts)?;
    }
    let used: Vec<_> = info
        .mounts()
        .filter(|mount| mount.counts.total() > 0)
        .collect();
    if !used.is_empty() {
        heading(page, "file system")?;
        for mount in used {
            row(
                page,
                &format!("{} ({})", mount.point, mount.fstype),
                mount.counts,
            )?;
        }
    }
    Ok(())
}

fn heading(page: &mut String, of: &str) -> std::fmt::Result {
    writeln!(
        page,
        "\n{of:<28}{:>12}{:>12}{:>12}{:>12}",
        "inline", "background", "fallback", "latched"
    )
}

fn row(page: &mut String, name: &str, counts: Counts) -> std::fmt::Result {
    writeln!(
        page,
        "{name:<28}{:>12}{:>12}{:>12}{:>12}",
        counts.inline, counts.background, counts.fallback, counts.latched
    )
}
