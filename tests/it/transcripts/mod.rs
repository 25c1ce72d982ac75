//! Every captured answer of a real engine, through the gate: whole, and cut at each byte.
//!
//! `make test` cuts the captures up to 8 KiB at every byte; of the longer ones at every byte of
//! their first and last 2 KiB (the last in an abridged form, which takes a tenth of the time) and
//! at a stride between. `STREAMGATE_EXHAUSTIVE=1` cuts all at every byte (`make test-exhaustive`).

mod capture;
mod client;
mod table;

use crate::support::gate::Gate;
use crate::support::replayer::Replayer;
use crate::support::{Setup, eventually};
use capture::{Capture, Expected};
use client::{Faults, Job, Lane};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Captures up to this size are cut at every byte in each run.
const SHORT: usize = 8 * 1024;
/// At both ends of a longer capture, every byte is cut.
const EDGE: usize = 2 * 1024;
/// Between the edges. A prime above every event's size on the wire: no position inside an event is
/// met more often than another.
const STRIDE: usize = 997;
/// Requests under way at once.
const LANES: usize = 12;
/// Requests between two looks at the log.
const BATCH: usize = 4096;

fn captures() -> Vec<Arc<Capture>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vllm");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "raw")).collect();
    paths.sort();
    let found: Vec<_> = paths.iter().filter_map(|path| Capture::load(path)).map(Arc::new).collect();
    // One file is empty: the engine did not answer at all.
    assert_eq!(found.len() + 1, paths.len());
    found
}

fn is_exhaustive() -> bool {
    std::env::var_os("STREAMGATE_EXHAUSTIVE").is_some_and(|value| value == "1")
}

/// What to cut of a capture, and where.
fn positions(capture: &Arc<Capture>) -> Vec<(Arc<Capture>, Vec<usize>)> {
    let length = capture.raw.len();
    if is_exhaustive() || is_short(capture) {
        return vec![(capture.clone(), (0..length).collect())];
    }
    let between = (EDGE..length).step_by(STRIDE);
    let tail = capture.abridged(EDGE).map_or_else(|| capture.clone(), Arc::new);
    let end = tail.raw.len();
    vec![(capture.clone(), (0..EDGE).chain(between).collect()), (tail, (end - EDGE..end).collect())]
}

/// A gate before a replayer that knows every capture.
struct Rig {
    gate: Gate,
    replayer: Arc<Replayer>,
}

impl Rig {
    async fn start() -> Self {
        let replayer = Arc::new(Replayer::start().await);
        let setup = Setup::new(&[replayer.addr])
            .tenant("a", "max_in_flight: 1000")
            .pool("retries: {max_attempts: 1}")
            .with("timeouts: {connect: 30s}");
        Self { gate: Gate::start(setup).await, replayer }
    }

    /// Run all jobs and compare what clients and log show with what must be.
    async fn run(&self, jobs: Vec<Job>) {
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            self.batch(jobs.by_ref().take(BATCH).collect()).await;
        }
        let metrics = self.gate.settled().await;
        assert_eq!(metrics.outcome("failed"), 0.0);
    }

    async fn batch(&self, jobs: Vec<Job>) {
        let wanted: HashMap<String, Arc<Expected>> =
            jobs.iter().map(|job| (job.id.clone(), Arc::new(job.expected()))).collect();
        let wanted = Arc::new(wanted);
        let before = self.gate.settled().await;
        let queue = Arc::new(Mutex::new(jobs.into_iter()));
        let lanes = (0..LANES).map(|_| {
            let (queue, wanted) = (queue.clone(), wanted.clone());
            let (replayer, to) = (self.replayer.clone(), self.gate.proxy);
            tokio::spawn(async move {
                let (mut lane, mut seen) = (Lane::new(to, replayer), Vec::new());
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some(job) = next else { return seen };
                    seen.push(lane.ask(&job, &wanted[&job.id]).await);
                }
            })
        });
        let (mut seen, mut faults) = (HashMap::new(), Faults::default());
        for lane in lanes.collect::<Vec<_>>() {
            for done in lane.await.unwrap() {
                faults.0.extend(done.faults.0);
                seen.insert(done.id, done.bytes);
            }
        }
        let after = self.gate.settled().await;
        for outcome in ["complete", "truncated", "upstream_error"] {
            let count = wanted.values().filter(|wanted| wanted.outcome == outcome).count() as f64;
            let counted = after.outcome(outcome) - before.outcome(outcome);
            faults.equal("metrics", outcome, counted, count);
        }
        self.compare_log(&wanted, &seen, &mut faults).await;
        let (count, some) = (faults.0.len(), faults.0.iter().take(20).cloned());
        assert!(count == 0, "{count} faults\n{}", some.collect::<Vec<_>>().join("\n"));
    }

    /// One line for each request, and it says what happened.
    async fn compare_log(
        &self,
        wanted: &HashMap<String, Arc<Expected>>,
        seen: &HashMap<String, usize>,
        faults: &mut Faults,
    ) {
        let lines = self.lines(wanted.len()).await;
        for (id, wanted) in wanted {
            let line = &lines[id];
            let (text, number) = (|key: &str| line[key].as_str(), |key: &str| line[key].as_u64());
            let mut equal = |what, is, must| faults.equal(id, what, is, must);
            equal("logged outcome", text("outcome"), Some(wanted.outcome));
            equal("logged reason", text("reason"), wanted.reason);
            if wanted.event.is_some() {
                equal("logged error", text("error"), wanted.event);
            }
            let mut equal = |what, is, must| faults.equal(id, what, is, must);
            equal("logged status", number("status"), Some(u64::from(wanted.status)));
            equal("logged prompt", number("prompt_tokens"), wanted.tokens.prompt);
            equal("logged completion", number("completion_tokens"), wanted.tokens.completion);
            equal("logged bytes", number("bytes_sent"), Some(seen[id] as u64));
            let estimated = line["tokens_estimated"].as_bool();
            faults.equal(id, "logged estimate", estimated, Some(wanted.tokens.estimated));
        }
    }

    async fn lines(&self, count: usize) -> HashMap<String, Value> {
        let mut lines = HashMap::new();
        eventually("a log line for each request", || {
            for line in self.gate.take_output() {
                assert!(!line.contains("panicked"), "{line}");
                let line: Value = serde_json::from_str(&line).unwrap();
                if line["target"] == "streamgate::request" {
                    let id = line["request_id"].as_str().unwrap().to_owned();
                    assert!(lines.insert(id, line).is_none(), "told twice");
                }
            }
            std::future::ready((lines.len() == count).then_some(()))
        })
        .await;
        lines
    }
}

/// Jobs of one kind for all these captures, at all positions.
fn cuts(rig: &Rig, captures: &[Arc<Capture>], rst: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (capture, positions) in captures.iter().flat_map(positions) {
        let script = rig.replayer.add(capture.raw.clone());
        for hide in [false, true] {
            if hide && !(is_short(&capture) && capture.has_extra_usage()) {
                continue;
            }
            let cut = |at: &usize| Job::new(capture.clone(), script).cut(*at, rst).hide(hide);
            jobs.extend(positions.iter().map(cut));
        }
    }
    jobs
}

async fn cut_all(which: impl Fn(&Capture) -> bool, rst: bool) {
    let captures: Vec<_> = captures().into_iter().filter(|capture| which(capture)).collect();
    let (rig, started) = (Rig::start().await, Instant::now());
    let jobs = cuts(&rig, &captures, rst);
    let count = jobs.len();
    rig.run(jobs).await;
    let (files, time) = (captures.len(), started.elapsed().as_secs_f64());
    println!("{count} cuts of {files} captures in {time:.1} s");
}

fn is_short(capture: &Capture) -> bool {
    capture.raw.len() <= SHORT
}

/// A whole capture in each way there is to send and to ask for it.
fn whole(capture: &Arc<Capture>, script: usize) -> Vec<Job> {
    let job = || Job::new(capture.clone(), script);
    let mut jobs = vec![job(), job().http10()];
    if is_short(capture) {
        jobs.push(job().split());
    }
    if capture.has_extra_usage() {
        jobs.extend([job().hide(true), job().hide(true).split()]);
    }
    jobs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_captures_come_out_as_they_were() {
    let rig = Rig::start().await;
    let mut jobs = Vec::new();
    for capture in captures().iter().filter(|capture| !capture.drains()) {
        let script = rig.replayer.add(capture.raw.clone());
        jobs.extend(whole(capture, script));
    }
    rig.run(jobs).await;
}

/// Each takes its engine out of service, so each has one of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_captures_of_a_draining_engine_are_answered_instead() {
    for capture in captures().iter().filter(|capture| capture.drains()) {
        for number in 0..whole(capture, 0).len() {
            let rig = Rig::start().await;
            let script = rig.replayer.add(capture.raw.clone());
            rig.run(vec![whole(capture, script).remove(number)]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_captures_closed_at_every_byte() {
    cut_all(is_short, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_captures_reset_at_every_byte() {
    cut_all(is_short, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_captures_closed_at_many_bytes() {
    cut_all(|capture| !is_short(capture), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_captures_reset_at_many_bytes() {
    cut_all(|capture| !is_short(capture), true).await;
}
