//! Actions at their time, preparation, scrapes: against simulated engines.

use std::path::Path;

use streamgate_loadtests::figures::Figures;
use streamgate_loadtests::history::{read_history, series};
use streamgate_loadtests::record::{Outcome, Records};
use streamgate_loadtests::run::HISTORY;
use streamgate_loadtests::scenario::Scenario;

use crate::support::run_all;

/// A scenario on two engines with a token every virtual 100 ms, ten times as fast as real.
fn scenario(phase: &str) -> Scenario {
    let text = format!(
        "name: test\nabout: test\nseed: 7\ntime_scale: 10\nlag_bound: 10s\n\
         engines: {{count: 2, profile: {{instant: {{first_token: 100ms, token_interval: 100ms}}}}}}\n\
         client: {{read_timeout: 3s}}\ntarget: {{direct: {{seed: 1}}}}\n\
         prompts: {{p: {{kind: unique, sentences: 2}}}}\nhistory: {{interval: 1s}}\n\
         phases:\n- name: main\n  requests: [{{tenant: a, prompt: p, max_tokens: 20}}]\n{phase}"
    );
    Scenario::parse("test", &text).unwrap()
}

async fn ran(scenario: &Scenario) -> (Records, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (run_all(scenario, folder.path()).await, folder)
}

fn on(records: &Records, engine: &str) -> Vec<(Outcome, Option<String>)> {
    let own = records.arrivals.iter().filter(|a| a.target.as_deref() == Some(engine));
    own.map(|a| (a.outcome, a.reason.clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_falls_silent_breaks_its_streams_and_gets_no_more() {
    let (records, _folder) = ran(&scenario(
        "  closed: {lanes: 4, length: 6s}\n\
         \x20 actions: [{at: 1s, do: {delete_pod: {engine: B, silent: true}}}]\n",
    ))
    .await;
    let silent = (Outcome::Broken, Some("read_timeout".to_owned()));
    assert_eq!(on(&records, "B"), [silent.clone(), silent]);
    assert!(on(&records, "A").iter().all(|(outcome, _)| *outcome == Outcome::Complete));
    assert_eq!(records.actions.len(), 1);
    let action = &records.actions[0];
    assert!(action.done_us >= action.due_us && action.what.contains("DeletePod"), "{action:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_drains_breaks_nothing() {
    let (records, _folder) = ran(&scenario(
        "  closed: {lanes: 4, length: 6s}\n  actions:\n\
         \x20 - {at: 1s, do: {delete_pod: {engine: B, pre_stop: 500ms, shutdown_timeout: 30s}}}\n",
    ))
    .await;
    assert_eq!(on(&records, "B").len(), 2);
    assert!(records.arrivals.iter().all(|a| a.outcome == Outcome::Complete));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_engine_is_a_cut_and_a_new_one_gets_requests() {
    let (records, _folder) = ran(&scenario(
        "  closed: {lanes: 4, length: 8s}\n  actions:\n\
         \x20 - {at: 1s, do: {kill: {engine: B}}}\n\
         \x20 - {at: 1500ms, do: {scale_up: {engines: 1, startup: 1s}}}\n",
    ))
    .await;
    // A lane whose stream was cut may be sent to B again before B is known to be gone.
    let cut = (Outcome::Broken, Some("cut".to_owned()));
    let (cuts, late): (Vec<_>, Vec<_>) = on(&records, "B").into_iter().partition(|e| *e == cut);
    assert_eq!(cuts.len(), 2);
    assert!(late.iter().all(|(outcome, _)| *outcome == Outcome::Failed), "{late:?}");
    assert!(!on(&records, "C").is_empty());
    assert!(on(&records, "C").iter().all(|(outcome, _)| *outcome == Outcome::Complete));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapes_have_their_own_times_and_all_engines() {
    let (_records, folder) = ran(&scenario("  closed: {lanes: 2, length: 4s}\n")).await;
    let samples = read_history(&folder.path().join(HISTORY)).unwrap();
    let running = series(&samples, "vllm:num_requests_running");
    assert_eq!(running.keys().map(String::as_str).collect::<Vec<_>>(), ["engine A", "engine B"]);
    for points in running.values() {
        assert!(points.len() >= 4, "{points:?}");
        assert!(points.windows(2).all(|w| w[0].0 < w[1].0));
    }
    let most = running.values().flatten().map(|p| p.1).fold(0.0, f64::max);
    assert!((most - 1.0).abs() < f64::EPSILON, "one lane an engine: {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_caches_are_hit_and_warm_up_is_in_no_figure() {
    let path = format!("{}/scenarios/routing.yaml", env!("CARGO_MANIFEST_DIR"));
    let mut scenario = Scenario::read(Path::new(&path)).unwrap();
    scenario.phases.retain(|p| p.name == "warm least-request r1");
    scenario.expect.clear();
    scenario.time_scale = 40.0;
    for segment in &mut scenario.phases[0].open.as_mut().unwrap().segments {
        segment.length.0 = std::time::Duration::from_secs(5);
    }
    let (records, _folder) = ran(&scenario).await;
    assert_eq!(records.arrivals.iter().filter(|a| a.warm_up).count(), 16);
    let figures = Figures::of(&records);
    let group = &figures.groups[0];
    assert_eq!((group.planned, group.complete), (8, 8));
    // Three whole blocks of 1,568 tokens of a prompt of 5,048.
    let expected = 3.0 * 1568.0 / 5048.0;
    assert!((group.hit_rate.unwrap() - expected).abs() < 1e-9, "{:?}", group.hit_rate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_was_not_done_makes_a_run_invalid() {
    let (records, _folder) = ran(&scenario(
        "  closed: {lanes: 1, length: 1s}\n  actions:\n\
         \x20 - {at: 100ms, do: {kill: {engine: Z}}}\n\
         \x20 - {at: 1h, do: {kill: {engine: B}}}\n",
    ))
    .await;
    let results: Vec<&str> = records.actions.iter().map(|a| a.result.as_str()).collect();
    assert!(results.len() == 2 && results.iter().all(|r| r.starts_with("failed: ")), "{results:?}");
    let validity = Figures::of(&records).validity;
    assert!(!validity.valid && validity.reasons.len() == 2, "{validity:?}");
}
