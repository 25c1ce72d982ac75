//! Prometheus text, read for assertions.

/// One sample: name, labels as written, value.
#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: String,
    value: f64,
}

/// One scrape.
#[derive(Clone, Debug)]
pub struct Metrics(Vec<Sample>);

impl Metrics {
    pub fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Self(samples.map(sample).collect())
    }

    /// Sum over all series of `name`.
    pub fn sum(&self, name: &str) -> f64 {
        self.sum_where(name, &[])
    }

    /// Sum over the series of `name` that carry all these labels.
    pub fn sum_where(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Vec<_> =
            labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        self.0
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| wanted.iter().all(|label| sample.labels.contains(label)))
            .map(|sample| sample.value)
            .sum()
    }

    /// Whether there is a series of `name`.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|sample| sample.name == name)
    }

    /// Ended requests with this outcome.
    pub fn outcome(&self, outcome: &str) -> f64 {
        self.sum_where("streamgate_requests_total", &[("outcome", outcome)])
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Sample { name: name.into(), labels: labels.into(), value: value.parse().unwrap() }
}
