//! Records, broken ones too, and what is recomputed from them.

use std::fs;
use std::path::Path;

use streamgate_loadtests::manifest;
use streamgate_loadtests::null::NullTarget;
use streamgate_loadtests::record::read_records;
use streamgate_loadtests::report::{self, BrokenLines, FIGURES, HTML, MARKDOWN, OnBroken};
use streamgate_loadtests::run::RECORDS;

use crate::support::{against, run_all};

async fn ran(folder: &Path) {
    let target = NullTarget::start().await.unwrap();
    let base = format!("http://{}", target.addr());
    let load = "open: {segments: [{length: 100ms, rate: 100}]}";
    run_all(&against(&base, "", load), folder).await;
}

/// The records as plain text, for tampering.
fn plain(folder: &Path) -> Vec<String> {
    let packed = fs::File::open(folder.join(RECORDS)).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn recompute_equals_the_report_to_the_last_digit() {
    let folder = tempfile::tempdir().unwrap();
    ran(folder.path()).await;
    report::write(folder.path(), OnBroken::Refuse).unwrap();
    let stored = fs::read_to_string(folder.path().join(FIGURES)).unwrap();
    let (_, figures) = report::recompute(&folder.path().join(RECORDS), OnBroken::Refuse).unwrap();
    assert_eq!(figures.to_json().unwrap(), stored);
    let html = fs::read_to_string(folder.path().join(HTML)).unwrap();
    assert!(html.contains("<svg") && !html.contains("src=") && !html.contains("href="));
    assert!(fs::read_to_string(folder.path().join(MARKDOWN)).unwrap().contains("Valid run"));
    assert_eq!(manifest::check(folder.path()).unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_broken_line_is_named_and_the_rest_used_only_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    ran(folder.path()).await;
    let mut lines = plain(folder.path());
    lines[4].truncate(40);
    let path = folder.path().join("records.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    let refused = report::recompute(&path, OnBroken::Refuse).unwrap_err();
    let BrokenLines(broken) = refused.downcast_ref().unwrap();
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].number, 5);
    let (records, figures) = report::recompute(&path, OnBroken::Skip).unwrap();
    assert_eq!((records.arrivals.len(), figures.groups[0].planned), (9, 9));
    assert!(!figures.validity.valid, "a part is never a valid run");
    assert_eq!(figures.validity.broken_lines, 1);
}

#[tokio::test]
async fn a_file_that_breaks_off_is_told() {
    let folder = tempfile::tempdir().unwrap();
    ran(folder.path()).await;
    let packed = fs::read(folder.path().join(RECORDS)).unwrap();
    let path = folder.path().join("cut.jsonl.gz");
    fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let records = read_records(&path).unwrap();
    assert!(!records.broken.is_empty());
    let (_, figures) = report::recompute(&path, OnBroken::Skip).unwrap();
    assert!(!figures.validity.valid, "{:?}", figures.validity);
    let lines = plain(folder.path());
    let path = folder.path().join("short.jsonl");
    fs::write(&path, lines[..lines.len() - 1].join("\n")).unwrap();
    let (_, figures) = report::recompute(&path, OnBroken::Refuse).unwrap();
    assert!(figures.validity.reasons.iter().any(|r| r.contains("the file was cut")));
}
