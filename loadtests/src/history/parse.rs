//! Prometheus text format, as far as values go.

use std::collections::BTreeMap;

/// The samples of a page: `name{labels}` to value. Comments, timestamps and lines that are no
/// samples are passed over; so are values that are not finite.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    text.lines().filter_map(sample).collect()
}

fn sample(line: &str) -> Option<(String, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // Label values may hold spaces and braces: the name ends at the last quote-free brace.
    let end = match line.find('{') {
        Some(open) => open + labels_end(&line[open..])?,
        None => line.find(char::is_whitespace)?,
    };
    let (name, rest) = line.split_at(end);
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then(|| (name.to_owned(), value))
}

/// Position after the brace that closes the labels.
fn labels_end(labels: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in labels.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Drops the buckets of histograms: most of a page, and never plotted.
pub fn without_buckets(series: &mut BTreeMap<String, f64>) {
    series.retain(|name, _| !name.split('{').next().is_some_and(|n| n.ends_with("_bucket")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_whatever_their_labels() {
        let page = "# HELP a b\n# TYPE a gauge\na 1\nb{x=\"}\\\" {\"} 2.5e3 1700000000\n\
                    c_bucket{le=\"+Inf\"} 3\nd NaN\nbroken{x=\" 4\n";
        let mut series = parse(page);
        assert_eq!(series.len(), 3);
        assert_eq!(series["a"], 1.0);
        assert_eq!(series["b{x=\"}\\\" {\"}"], 2500.0);
        without_buckets(&mut series);
        assert_eq!(series.len(), 2);
    }
}
