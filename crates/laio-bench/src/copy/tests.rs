//! Tests: small comparisons of copies, with GNU cp only.

use super::*;
use crate::published::Comparison;
use crate::trees::Shape;

/// GNU cp only, which is installed everywhere; the command's tests cover `laio` itself.
fn settings(directory: &std::path::Path) -> Settings {
    let mut subjects = Subject::all();
    subjects.truncate(1);
    let (files, size) = (3, 100);
    Settings {
        laio: "/nowhere/laio".into(),
        workloads: vec![
            Workload::Published { depth: 2, kib: 4 },
            Workload::Made("flat", Shape::Flat { files, size }),
        ],
        subjects,
        caches: vec![Cache::Warm],
        rounds: 2,
        directory: directory.to_owned(),
    }
}

#[test]
fn copies_are_measured_and_nothing_is_left() {
    let scratch = tempfile::tempdir().unwrap();
    let record = run(&settings(scratch.path()), &Stop::new(), &mut |_| {}).unwrap();
    assert_eq!(record.cells.len(), 2, "{:?}", record.notes);
    for cell in &record.cells {
        assert!(cell.verified && cell.left_out.is_none(), "{cell:?}");
        assert_eq!(cell.measured["wall_s"].rounds.len(), 2);
    }
    let sheet = Comparison::named("cp").unwrap().show(&record);
    let text = sheet.text();
    // The widths of the columns depend on the figures.
    for part in [
        "Table 1, depth 2, warm: seconds\nKiB ",
        "flat: 3 files",
        "flat, warm",
        "cp (GNU",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let pictures: Vec<_> = sheet.pictures.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        pictures,
        ["cp-trees-warm"],
        "of one subject, only the trees"
    );
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_program_that_cannot_run_is_left_out_with_a_note() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = settings(scratch.path());
    settings.subjects = Subject::chosen(true, &[]);
    settings
        .subjects
        .retain(|one| one.name().starts_with("laio") || one.name() == "cp");
    let record = run(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert!(record.cells.iter().all(|cell| cell.subject == "cp"));
    let found = record
        .notes
        .iter()
        .any(|note| note.starts_with("laio lazy left out: cannot run"));
    assert!(found, "{:?}", record.notes);
}

#[test]
fn what_is_asked_to_stop_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    let asked = stop.clone();
    let mut rounds = 0;
    let result = run(&settings(scratch.path()), &stop, &mut |text| {
        rounds += usize::from(text.contains("round"));
        if rounds == 2 {
            asked.stop();
        }
    });
    assert!(result.is_err());
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn what_does_not_fit_is_left_out() {
    let scratch = tempfile::tempdir().unwrap();
    let mut settings = settings(scratch.path());
    let (files, size) = (1, 1 << 60);
    settings.workloads = vec![Workload::Made("flat", Shape::Flat { files, size })];
    let record = run(&settings, &Stop::new(), &mut |_| {}).unwrap();
    assert!(record.cells.is_empty());
    assert!(
        record.notes[0].starts_with("flat left out: it needs"),
        "{:?}",
        record.notes
    );
}
