//! An explanation for people, and as JSON for programs.

use super::{Answer, Explanation, Question};
use serde_json::json;
use std::fmt::Write;

impl Explanation {
    /// Returns the explanation as lines of text: the request, its steps, and the head of the response.
    pub fn text(&self, question: &Question) -> String {
        let mut text = format!("{} {}\n\n", question.method, question.url());
        let width = self.steps.iter().map(|step| step.kind.len()).max();
        let width = width.unwrap_or_default();
        for step in &self.steps {
            let _ = writeln!(text, "  {:width$}  {}", step.kind, step.text);
        }
        text.push('\n');
        match &self.answer {
            Some(answer) => {
                let _ = writeln!(text, "HTTP/1.1 {} {}", answer.status, answer.reason);
                for (name, value) in &answer.fields {
                    let printed = value.replace(char::is_control, "\u{fffd}");
                    let _ = writeln!(text, "{name}: {printed}");
                }
            }
            None if self.steps.last().is_some_and(|step| step.kind == "change") => {
                text += "The status depends on the change, which was not made.\n";
            }
            None => {
                text += "The upstream decides the status and the header fields; it was not asked.\n"
            }
        }
        text
    }

    /// Returns the explanation as a JSON object, on one line.
    pub fn json(&self, question: &Question) -> String {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|step| json!({"kind": step.kind, "text": step.text}))
            .collect();
        let response = self.answer.as_ref().map(|answer| {
            let Answer {
                status,
                reason,
                fields,
            } = answer;
            json!({"status": status, "reason": reason, "fields": fields})
        });
        let object = json!({
            "request": {
                "method": question.method,
                "url": question.url(),
                "fields": question.fields,
            },
            "steps": steps,
            "response": response,
        });
        format!("{object}\n")
    }
}
