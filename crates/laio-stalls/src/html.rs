//! The report as a page that needs no other file, with a picture of the waits in time.

use crate::report::{Cause, Moment, Report};
use crate::text::{length, means};
use std::fmt::Write;

/// How many entries have a row in the picture. The others share the last one.
const ROWS: usize = 20;

/// The size of the picture, in its own units.
const WIDTH: f64 = 1000.0;
const ROW: f64 = 22.0;
const LABELS: f64 = 330.0;

/// How many characters of a row's name are shown.
const LABEL: usize = 48;

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3em .8em .3em 0; vertical-align: top; border-bottom: 1px solid #8884; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre { font: 13px/1.4 ui-monospace, monospace; margin: 0; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; padding-left: 1.5em; }
summary { opacity: .75; cursor: pointer; }
svg { width: 100%; height: auto; font: 12px ui-monospace, monospace; }
svg text { fill: currentColor; }
.remedy { opacity: .75; }
.call { fill: #d1495b; } .futex { fill: #8d6cab; } .fault { fill: #e08e1b; } .processor { fill: #5b8fb9; }
.stopped { fill: #888; }";

/// Returns the report as a page.
pub fn html(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>laio stalls</title>\n\
         <style>\n{STYLE}\n</style>\n<h1>What the event loops waited for</h1>\n"
    );
    let loops: usize = report.loops.iter().map(|(_, count)| count).sum();
    let _ = writeln!(
        page,
        "<p>{loops} thread{} with an event loop, watched for {}. Waits of {} or more; \
         the longest was {}.</p>",
        if loops == 1 { "" } else { "s" },
        length(report.lasted),
        length(report.over),
        length(report.longest())
    );
    if !report.entries.is_empty() {
        picture(&mut page, report);
        table(&mut page, report);
    }
    for line in means(&report.means) {
        let _ = writeln!(page, "<p>{}</p>", escaped(&line));
    }
    page.push_str("</html>\n");
    page
}

fn picture(page: &mut String, report: &Report) {
    let rows = report.entries.len().min(ROWS);
    let height = ROW * (rows as f64 + 1.5);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Waits in time\">"
    );
    for (row, (key, _)) in report.entries.iter().take(rows).enumerate() {
        let others = report.entries.len() - row;
        let name = if row + 1 == ROWS && others > 1 {
            format!("{others} others")
        } else {
            format!("{} {}", key.call, key.subject)
        };
        let cut = name.chars().count().saturating_sub(LABEL);
        let start = if cut > 0 { "…" } else { "" };
        let name: String = name.chars().skip(cut).collect();
        let bottom = ROW * (row as f64 + 1.0);
        let _ = writeln!(
            page,
            "<text x=\"0\" y=\"{:.1}\">{start}{}</text>\
             <path d=\"M{LABELS} {bottom:.1}H{WIDTH}\" stroke=\"currentColor\" opacity=\".15\"/>",
            bottom - 6.0,
            escaped(&name)
        );
    }
    for moment in &report.moments {
        mark(page, report, moment, rows);
    }
    for step in 0..=4 {
        let part = f64::from(step) / 4.0;
        let anchor = ["start", "middle", "middle", "middle", "end"][step as usize];
        let _ = writeln!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            LABELS + part * (WIDTH - LABELS),
            height - 4.0,
            length(report.lasted.mul_f64(part))
        );
    }
    page.push_str("</svg>\n");
}

/// Draws a wait. Its width is its length, and at least visible.
fn mark(page: &mut String, report: &Report, moment: &Moment, rows: usize) {
    let Some((key, _)) = report.entries.get(moment.entry) else {
        return;
    };
    let scale = (WIDTH - LABELS) / report.lasted.as_secs_f64().max(1e-9);
    let row = moment.entry.min(rows - 1) as f64;
    let _ = writeln!(
        page,
        "<rect class=\"{}\" x=\"{:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\">\
         <title>{} {}: {}</title></rect>",
        class(key.cause),
        LABELS + moment.start.as_secs_f64() * scale,
        ROW * row + 4.0,
        (moment.length.as_secs_f64() * scale).max(1.5),
        ROW - 7.0,
        key.call,
        escaped(&key.subject),
        length(moment.length)
    );
}

fn table(page: &mut String, report: &Report) {
    page.push_str("<table><tr>");
    for name in ["longest", "times", "total"] {
        let _ = write!(page, "<th class=\"n\">{name}");
    }
    page.push_str("<th>wait<th>thread</tr>\n");
    for (key, entry) in &report.entries {
        let _ = write!(
            page,
            "<tr><td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td><code>{} {}</code>",
            length(entry.longest),
            entry.count,
            length(entry.total),
            key.call,
            escaped(&key.subject)
        );
        if !entry.stack.is_empty() {
            let names: Vec<&str> = entry
                .stack
                .iter()
                .map(|frame| frame.name.as_str())
                .collect();
            let stack = escaped(&names.join("\n"));
            let _ = write!(
                page,
                "<details><summary>where</summary><pre>{stack}</pre></details>"
            );
        }
        let _ = writeln!(
            page,
            "<div class=\"remedy\">{}</div><td>{}</tr>",
            escaped(entry.remedy),
            escaped(&key.thread)
        );
    }
    page.push_str("</table>\n");
}

fn class(cause: Cause) -> &'static str {
    match cause {
        Cause::Call => "call",
        Cause::Futex => "futex",
        Cause::PageFault => "fault",
        Cause::Processor => "processor",
        Cause::Stopped => "stopped",
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ if character.is_control() && character != '\n' => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Details, Key};
    use std::time::Duration;

    #[test]
    fn names_cannot_leave_their_place() {
        let mut report = Report::new(Duration::from_millis(1));
        let key = Key {
            cause: Cause::Call,
            call: "openat",
            subject: "/<script>\"&\u{7}".to_owned(),
            thread: "<b>".to_owned(),
        };
        report.add(
            key,
            Duration::ZERO,
            Duration::from_millis(2),
            Details::default(),
        );
        report.finish();
        let page = html(&report);
        assert!(page.contains("/&lt;script&gt;&quot;&amp;\u{fffd}") && page.contains("&lt;b&gt;"));
        assert!(!page.contains("<script>"));
    }
}
