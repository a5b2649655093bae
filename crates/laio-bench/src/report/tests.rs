//! Tests: the page of a report, and the findings that it states.

use super::*;
use crate::machine::Machine;
use crate::record::{Cache, Case, Cell};

fn record(name: &str, figures: &[(&str, f64, &str, f64)]) -> Record {
    let machine = Machine::with(&std::env::temp_dir()).unwrap();
    let mut record = Record::begin(name, machine);
    for (subject, at, quantity, value) in figures {
        let mut case = Case::new(name, Cache::Warm);
        case.at = (*at > 0.0).then_some(*at);
        let rounds = [(*quantity, vec![*value; 3])].into();
        record.cells.push(Cell::new(&case, subject, Ok(rounds)));
    }
    record
}

#[test]
fn the_page_has_all_and_loads_nothing() {
    let records = [record(
        "open-stat",
        &[
            ("plain threads", 1.0, "each_us", 2.0),
            ("threads", 1.0, "each_us", 8.0),
            ("lazy", 1.0, "each_us", 2.2),
            ("activations", 1.0, "each_us", 2.2),
        ],
    )];
    let page = page(&records);
    for part in [
        "<title>laio",
        "id=\"open-stat\"",
        "8.41",
        "<svg",
        "by the number in flight: 4.00 (1)",
        "It would do as well",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in ["src=", "@import", "url(", "<script"] {
        assert!(!page.contains(part), "{part}");
    }
    // The style of plots is included once.
    assert_eq!(page.matches(".whisker{").count(), 1);
}

#[test]
fn the_answer_follows_from_the_figures() {
    let of = |activations: f64| {
        let figures = [
            ("lazy", 100.0, "rate", 1000.0),
            ("activations", 100.0, "rate", activations),
            ("threads", 100.0, "rate", 500.0),
        ];
        page(&[record("rmw", &figures)])
    };
    assert!(of(2000.0).contains("Yes: with activations"));
    assert!(of(1010.0).contains("It would do as well"));
    assert!(of(300.0).contains("No, not on a kernel"));
    assert!(page(&[]).contains("not measured in this run"));
}
