use super::*;
use crate::core::ids::{RequestId, TenantId};
use crate::core::outcome::Outcome;
use std::path::PathBuf;

const LIMIT: Duration = Duration::from_secs(10);

fn event(id: usize) -> RequestEvent {
    let id = RequestId::from(format!("r-{id}"));
    RequestEvent::new(id, TenantId::from("a"), Outcome::Complete)
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("records.jsonl");
    (directory, path)
}

fn ids(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a file");
    let id = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        value["request_id"].as_str().expect("an id").to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn closing_writes_everything_in_order() {
    let (_directory, path) = file();
    let records = Records::open(&path).expect("opened");
    for id in 0..3_000 {
        records.push(event(id));
    }
    assert!(records.close(LIMIT));
    let expected: Vec<_> = (0..3_000).map(|id| format!("r-{id}")).collect();
    assert_eq!(ids(&path), expected);
    assert_eq!(records.dropped(), 0);
    records.push(event(1));
    assert_eq!(records.dropped(), 1, "a record after the end is counted as lost");
}

#[test]
fn what_does_not_fit_is_dropped_and_counted() {
    let (_directory, path) = file();
    let records = Records::with_capacity(&path, 4).expect("opened");
    for id in 0..20_000 {
        records.push(event(id));
    }
    assert!(records.close(LIMIT));
    assert_eq!(ids(&path).len() as u64 + records.dropped(), 20_000);
}

#[test]
fn a_rotated_file_is_left_alone_after_reopening() {
    let (_directory, path) = file();
    let rotated = path.with_extension("1");
    let records = Records::open(&path).expect("opened");
    records.push(event(1));
    await_that(|| ids(&path) == ["r-1"]);
    std::fs::rename(&path, &rotated).expect("moved");
    records.reopen();
    await_that(|| path.exists());
    records.push(event(2));
    assert!(records.close(LIMIT));
    assert_eq!(ids(&rotated), ["r-1"]);
    assert_eq!(ids(&path), ["r-2"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_drops_records_and_keeps_the_writer() {
    let records = Records::open(Path::new("/dev/full")).expect("opened");
    for id in 0..5 {
        records.push(event(id));
    }
    assert!(records.close(LIMIT));
    assert_eq!(records.dropped(), 5);
}

#[test]
fn a_path_that_cannot_be_opened_is_an_error_at_once() {
    let (directory, _) = file();
    Records::open(directory.path()).expect_err("a directory is not a file");
}

/// Wait for a condition another thread brings about.
fn await_that(condition: impl Fn() -> bool) {
    let end = std::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(std::time::Instant::now() < end, "it did not happen");
        std::thread::yield_now();
    }
}
