//! Reading records back, broken lines reported by number.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{ActionTaken, Arrival, Evidence, Header, Line, Trailer};

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// First line; `None` if it is missing or broken.
    pub header: Option<Header>,
    /// All planned requests.
    pub arrivals: Vec<Arrival>,
    /// Actions.
    pub actions: Vec<ActionTaken>,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// Last line; `None` if the file was cut.
    pub trailer: Option<Trailer>,
    /// Lines that could not be used.
    pub broken: Vec<BrokenLine>,
}

/// A line that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// From 1.
    pub number: usize,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for BrokenLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.number, self.why)
    }
}

/// Reads a file, gzip or not (told by its first bytes).
///
/// # Errors
/// When the file cannot be opened. Broken lines, and a file that breaks off, are in
/// [`Records::broken`].
pub fn read_records(path: &Path) -> std::io::Result<Records> {
    let mut file = BufReader::new(File::open(path)?);
    let gz = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if gz { read(BufReader::new(MultiGzDecoder::new(file))) } else { read(file) })
}

fn read(mut input: impl BufRead) -> Records {
    let (mut records, mut line, mut number) = (Records::default(), Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        match input.read_until(b'\n', &mut line) {
            Ok(0) => return records,
            Ok(_) => records.add(number, line.trim_ascii()),
            Err(e) => {
                let why = format!("the file breaks off here: {e}");
                records.broken.push(BrokenLine { number, why });
                return records;
            }
        }
    }
}

impl Records {
    fn add(&mut self, number: usize, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        match serde_json::from_slice(text) {
            Ok(Line::Run(header)) => self.header = Some(header),
            Ok(Line::Arrival(arrival)) => self.arrivals.push(*arrival),
            Ok(Line::Action(action)) => self.actions.push(action),
            Ok(Line::Evidence(evidence)) => self.evidence.push(evidence),
            Ok(Line::End(trailer)) => self.trailer = Some(trailer),
            Err(e) => self.broken.push(BrokenLine { number, why: e.to_string() }),
        }
    }
}
