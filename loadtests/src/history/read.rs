//! Reading samples back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::record::Sample;

/// Reads a file; lines that cannot be read are passed over, for they are evidence and no figure.
///
/// # Errors
/// When the file cannot be opened.
pub fn read_history(path: &Path) -> std::io::Result<Vec<Sample>> {
    let lines = BufReader::new(MultiGzDecoder::new(File::open(path)?)).lines();
    let whole = lines.map_while(Result::ok);
    Ok(whole.filter_map(|line| serde_json::from_str(&line).ok()).collect())
}

/// The values of one metric by source: `(virtual seconds, sum over its series)`.
#[must_use]
pub fn series(samples: &[Sample], metric: &str) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut all: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let of_metric = sample.series.iter().filter(|(name, _)| base(name) == metric);
        let values: Vec<f64> = of_metric.map(|(_, v)| *v).collect();
        if !values.is_empty() {
            let point = (crate::clock::seconds(sample.at_us), values.iter().sum());
            all.entry(sample.source.clone()).or_default().push(point);
        }
    }
    all
}

fn base(name: &str) -> &str {
    name.split('{').next().unwrap_or(name)
}
