//! The presentation of a benchmark as a section of a page.

use super::{Finding, Sheet, Table};

impl Sheet {
    /// Returns a section with this id, for links.
    pub(crate) fn html(&self, name: &str) -> String {
        let mut html = format!(
            "<section id=\"{}\">\n<h2>{}</h2>\n",
            escaped(name),
            escaped(&self.title)
        );
        for finding in &self.findings {
            html.push_str(&finding.html());
        }
        for table in &self.tables {
            html.push_str(&table.html());
        }
        for picture in &self.pictures {
            // The page contains the style once.
            let svg = without_style(&picture.svg);
            html.push_str(&format!("<figure>{svg}</figure>\n"));
        }
        html.push_str("<details><summary>Where and how</summary><ul>\n");
        for line in &self.about {
            html.push_str(&format!("<li>{}</li>\n", escaped(line)));
        }
        html.push_str("</ul></details>\n</section>\n");
        html
    }
}

impl Finding {
    pub(crate) fn html(&self) -> String {
        format!(
            "<p class=\"finding {}\"><b>{}</b> {}<br><span>Today: {}</span></p>\n",
            self.class(),
            self.word(),
            escaped(&self.claim),
            escaped(&self.today)
        )
    }
}

impl Table {
    fn html(&self) -> String {
        let mut html = format!(
            "<div class=\"wide\"><table><caption>{}</caption>\n<thead><tr>",
            escaped(&self.title)
        );
        for name in &self.head {
            html.push_str(&format!("<th>{}</th>", escaped(name)));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for line in &self.lines {
            html.push_str("<tr>");
            for cell in line {
                html.push_str(&format!("<td>{}</td>", escaped(cell)));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        if !self.foot.is_empty() {
            html.push_str(&format!("<p class=\"foot\">{}</p>\n", escaped(&self.foot)));
        }
        html
    }
}

fn without_style(svg: &str) -> String {
    match (svg.find("<style>"), svg.find("</style>")) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{}", &svg[..begin], &svg[end + "</style>".len()..])
        }
        _ => svg.to_owned(),
    }
}

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
