//! Running small scenarios.

use std::path::Path;
use std::time::Duration;

use streamgate_loadtests::record::{Arrival, Records, read_records};
use streamgate_loadtests::run::{Options, RECORDS, run};
use streamgate_loadtests::scenario::Scenario;
use tokio_util::sync::CancellationToken;

/// A scenario of one phase against a URL; `load` is its `open:` or `closed:` line.
pub fn against(base: &str, client: &str, load: &str) -> Scenario {
    let text = format!(
        "name: test\nabout: test\nseed: 7\nlag_bound: 10s\nclient: {{{client}}}\n\
         target: {{url: {{base: \"{base}\"}}}}\n\
         prompts: {{p: {{kind: unique, sentences: 2}}}}\nhistory: {{interval: 0s}}\n\
         phases:\n- name: main\n  {load}\n  requests: [{{tenant: a, prompt: p, max_tokens: 4}}]\n"
    );
    Scenario::parse("test", &text).unwrap()
}

/// How a test runs a scenario.
pub fn options(out: &Path) -> Options {
    Options {
        out: out.to_owned(),
        seeds: vec![7],
        command: "test".into(),
        progress: false,
        streamgate: None,
    }
}

/// Runs a scenario to its end, within a minute.
pub async fn run_all(scenario: &Scenario, out: &Path) -> Records {
    let options = options(out);
    let ran = run(scenario, &options, CancellationToken::new());
    tokio::time::timeout(Duration::from_secs(60), ran).await.unwrap().unwrap();
    let records = read_records(&out.join(RECORDS)).unwrap();
    assert!(records.broken.is_empty(), "{:?}", records.broken);
    records
}

/// The arrivals in the order of their index.
pub fn by_index(records: &Records) -> Vec<Arrival> {
    let mut arrivals = records.arrivals.clone();
    arrivals.sort_by_key(|a| a.index);
    arrivals
}
