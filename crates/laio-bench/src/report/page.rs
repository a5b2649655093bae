//! The page: a summary, then each comparison.

use super::closing;
use crate::plot::style;
use crate::published::Comparison;
use crate::record::Record;
use crate::sheet::{Sheet, escaped};

const TITLE: &str = "laio: what was published, and what holds today";

/// A self-contained page: it loads nothing.
pub(super) fn html(records: &[Record]) -> String {
    let mut sheets: Vec<(&str, Sheet)> = Vec::new();
    for comparison in Comparison::ALL {
        let found = records
            .iter()
            .rfind(|record| record.benchmark == comparison.name);
        sheets.extend(found.map(|record| (comparison.name, comparison.show(record))));
    }
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{TITLE}</title>\n\
         <style>{}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{TITLE}</h1>\n",
        style()
    );
    html.push_str(&navigation(&sheets));
    html.push_str(&introduction(records));
    html.push_str(&overview(&sheets));
    html.push_str(&closing::sheet(records).html("question"));
    for (name, sheet) in &sheets {
        html.push_str(&sheet.html(name));
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn navigation(sheets: &[(&str, Sheet)]) -> String {
    let names = sheets.iter().map(|(name, _)| *name);
    let links = ["overview", "question"].into_iter().chain(names);
    let links: Vec<_> = links
        .map(|name| format!("<a href=\"#{name}\">{name}</a>"))
        .collect();
    format!("<nav>{}</nav>\n", links.join(" "))
}

fn introduction(records: &[Record]) -> String {
    let mut machines: Vec<String> = Vec::new();
    for record in records {
        let machine = &record.machine;
        let memory = machine.memory.map_or(String::new(), |bytes| {
            format!(", {} GiB of memory", bytes >> 30)
        });
        let processor = machine.processor.as_deref().unwrap_or("unknown processor");
        let line = format!(
            "{}, {} CPUs ({processor}){memory}, {}",
            machine.kernel, machine.processors, machine.file_system
        );
        if !machines.contains(&line) {
            machines.push(line);
        }
    }
    let versions: std::collections::BTreeSet<_> = records
        .iter()
        .map(|record| record.version.as_str())
        .collect();
    let versions: Vec<_> = versions.into_iter().collect();
    let days: std::collections::BTreeSet<_> =
        records.iter().map(|record| day(record.began)).collect();
    let days: Vec<_> = days.into_iter().collect();
    let busy: Vec<_> = records.iter().filter_map(crate::sheet::busy).collect();
    let busy = match busy.as_slice() {
        [] => String::new(),
        lines => format!("<p><b>Beware.</b> {}.</p>\n", escaped(&lines.join("; "))),
    };
    format!(
        "<p>Measured by laio {} on {}: {}. Subjects take turns in each round; figures are medians of rounds, \
         with the middle half. Each comparison says below where and how.</p>\n{busy}",
        escaped(&versions.join(", ")),
        escaped(&days.join(", ")),
        escaped(&machines.join("; ")),
    )
}

/// Returns the summary of the claims, each with a link.
fn overview(sheets: &[(&str, Sheet)]) -> String {
    let mut html = "<div class=\"wide\" id=\"overview\"><table class=\"overview\"><caption>What was published or aimed at</caption>\n<tbody>\n".to_owned();
    for (name, sheet) in sheets {
        for finding in &sheet.findings {
            html.push_str(&format!(
                "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}<br><small>Today: {}</small></td><td class=\"{}\">{}</td></tr>\n",
                escaped(&finding.claim),
                escaped(&finding.today),
                finding.class(),
                finding.word(),
            ));
        }
    }
    html + "</tbody></table></div>\n"
}

/// Returns the date of a number of seconds since 1970, as `2026-11-22` (Howard Hinnant's `civil_from_days`).
fn day(seconds: u64) -> String {
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

const PAGE_STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#dfe3e8;--yes:#00703c;--no:#b42318;--open:#6b6f76}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--paper:#14171c;--line:#333a44;--yes:#3fd68a;--no:#ff8f7a;--open:#a9afb8}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
main{max-width:800px;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.25rem;margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}
a{color:inherit}
nav{position:sticky;top:0;background:var(--paper);border-bottom:1px solid var(--line);padding:.4rem 0;display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.85rem}
section,#overview{scroll-margin-top:4rem}
small{font-size:.8rem;opacity:.85}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;margin:.8rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left;white-space:nowrap;font-weight:600;padding-bottom:.3rem}
th,td{text-align:right;padding:.15rem .5rem;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}
.overview td{text-align:left;white-space:normal}.overview td:last-child{white-space:nowrap}
.finding{margin:.6rem 0;padding-left:.7rem;border-left:4px solid var(--open)}
.finding.yes{border-color:var(--yes)}.finding.no{border-color:var(--no)}
.yes b,td.yes{color:var(--yes)}.no b,td.no{color:var(--no)}.open b,td.open{color:var(--open)}
.foot{font-size:.8rem;margin-top:-.4rem}
figure{margin:1rem 0}figure svg{max-width:100%;height:auto}
details{font-size:.85rem}
";

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(1_798_761_599), "2026-12-31");
    }
}
