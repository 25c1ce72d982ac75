//! The whole drain in paused time, over traffic that the test controls.

use super::*;
use crate::core::sync::lock;
use std::sync::Mutex;
use tokio::time::{advance, sleep};

/// Requests as numbers, and what was asked of them.
struct Requests {
    open: watch::Sender<u64>,
    asked: Mutex<Vec<&'static str>>,
    /// Whether cut streams end at once.
    obedient: bool,
}

impl Requests {
    fn open(count: u64) -> Arc<Self> {
        Self::with(count, true)
    }

    fn with(count: u64, obedient: bool) -> Arc<Self> {
        Arc::new(Self { open: watch::Sender::new(count), asked: Mutex::default(), obedient })
    }

    fn end(&self, count: u64) {
        self.open.send_modify(|open| *open -= count);
    }

    fn asked(&self) -> Vec<&'static str> {
        lock(&self.asked).clone()
    }
}

impl Traffic for Requests {
    fn close(&self) {
        lock(&self.asked).push("close");
    }

    fn cut(&self) -> u64 {
        lock(&self.asked).push("cut");
        let cut = *self.open.borrow();
        if self.obedient {
            self.open.send_replace(0);
        }
        cut
    }

    fn idle(&self) -> BoxFuture<'static, ()> {
        let mut open = self.open.subscribe();
        Box::pin(async move {
            let _ = open.wait_for(|open| *open == 0).await;
        })
    }

    fn in_flight(&self) -> u64 {
        *self.open.borrow()
    }
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Ten seconds of propagation, cut at 145 of 150.
fn lifecycle(traffic: &Arc<Requests>) -> Lifecycle {
    let drain = config::Drain {
        propagation: seconds(10),
        deadline: seconds(150),
        cut_margin: seconds(5),
        http_prestop: false,
    };
    Lifecycle::start(&drain, Arc::clone(traffic) as _)
}

/// The second of the drain in which `future` resolves.
async fn resolves_at<T>(lifecycle: &Lifecycle, future: impl Future<Output = T>) -> (u64, T) {
    let output = timeout(seconds(3600), future).await.expect("never");
    (lifecycle.since().unwrap().as_secs(), output)
}

#[tokio::test(start_paused = true)]
async fn readiness_turns_before_begin_returns() {
    let lifecycle = lifecycle(&Requests::open(0));
    assert_eq!((lifecycle.phase(), lifecycle.since()), (DrainPhase::Serving, None));
    lifecycle.begin();
    assert_eq!(lifecycle.phase(), DrainPhase::LameDuck);
    assert_eq!(*lifecycle.farewell().borrow(), Farewell::Leaves);
}

#[tokio::test(start_paused = true)]
async fn sigterm_alone_runs_through_every_state() {
    let requests = Requests::open(1);
    let lifecycle = lifecycle(&requests);
    let mut status = lifecycle.status();
    lifecycle.terminate();
    let mut seen = Vec::new();
    let ends = tokio::spawn({
        let requests = Arc::clone(&requests);
        async move {
            sleep(seconds(60)).await;
            requests.end(1);
        }
    });
    while seen.last() != Some(&DrainPhase::Drained) {
        seen.push(status.wait_for(|now| Some(&now.phase) != seen.last()).await.unwrap().phase);
    }
    assert_eq!(
        seen[seen.len() - 3..],
        [DrainPhase::LameDuck, DrainPhase::Draining, DrainPhase::Drained]
    );
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (60, 0));
    assert_eq!(requests.asked(), ["close"]);
    ends.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_replica_is_a_lame_duck_for_the_whole_propagation() {
    let requests = Requests::open(0);
    let lifecycle = lifecycle(&requests);
    lifecycle.terminate();
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (10, 0));
}

#[tokio::test(start_paused = true)]
async fn prestop_then_sigterm_ends_the_process_at_once() {
    let requests = Requests::open(2);
    let lifecycle = lifecycle(&requests);
    lifecycle.begin();
    advance(seconds(30)).await;
    requests.end(2);
    let drained = resolves_at(&lifecycle, lifecycle.wait(seconds(120))).await;
    assert_eq!(drained, (30, DrainWait::Drained));
    // Drained, and still there until SIGTERM.
    assert!(timeout(seconds(600), lifecycle.exit()).await.is_err());
    assert_eq!(lifecycle.phase(), DrainPhase::Drained);
    lifecycle.terminate();
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (630, 0));
}

#[tokio::test(start_paused = true)]
async fn sigterm_during_prestop_keeps_the_times_of_the_first() {
    let requests = Requests::open(1);
    let lifecycle = lifecycle(&requests);
    lifecycle.begin();
    advance(seconds(100)).await;
    lifecycle.terminate();
    lifecycle.begin();
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (145, 2));
    assert_eq!(requests.asked(), ["close", "cut"]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_what_is_left_and_says_how_much() {
    let requests = Requests::open(3);
    let lifecycle = lifecycle(&requests);
    lifecycle.begin();
    let waited = resolves_at(&lifecycle, lifecycle.wait(seconds(600))).await;
    assert_eq!(waited, (145, DrainWait::TimedOut { in_flight: 3 }));
    assert_eq!((lifecycle.phase(), requests.asked()), (DrainPhase::Cut, vec!["close", "cut"]));
    lifecycle.terminate();
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (145, 2));
}

#[tokio::test(start_paused = true)]
async fn streams_that_do_not_end_hold_the_process_for_the_margin_only() {
    let requests = Requests::with(1, false);
    let lifecycle = lifecycle(&requests);
    lifecycle.terminate();
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (150, 2));
    assert_eq!(requests.in_flight(), 1);
}

#[tokio::test(start_paused = true)]
async fn cut_streams_that_end_release_the_process_before_the_margin() {
    let requests = Requests::with(2, false);
    let lifecycle = lifecycle(&requests);
    lifecycle.terminate();
    let mut status = lifecycle.status();
    status.wait_for(|status| status.phase == DrainPhase::Cut).await.unwrap();
    advance(seconds(2)).await;
    requests.end(2);
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (147, 2));
}

#[tokio::test(start_paused = true)]
async fn a_second_sigterm_cuts_at_once() {
    for pause in [3, 50] {
        let requests = Requests::open(1);
        let lifecycle = lifecycle(&requests);
        lifecycle.terminate();
        sleep(seconds(pause)).await;
        lifecycle.terminate();
        assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (pause, 2));
        assert_eq!(requests.asked(), ["close", "cut"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_at_the_moment_of_the_cut_is_not_cut() {
    let requests = Requests::open(1);
    let lifecycle = lifecycle(&requests);
    lifecycle.terminate();
    let mut status = lifecycle.status();
    status.wait_for(|status| status.phase == DrainPhase::Draining).await.unwrap();
    advance(seconds(135)).await;
    requests.end(1);
    assert_eq!(resolves_at(&lifecycle, lifecycle.exit()).await, (145, 0));
    assert_eq!(requests.asked(), ["close"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_says_what_still_runs_and_changes_nothing() {
    let requests = Requests::open(4);
    let lifecycle = lifecycle(&requests);
    assert_eq!(lifecycle.wait(seconds(1)).await, DrainWait::TimedOut { in_flight: 4 });
    assert_eq!(lifecycle.phase(), DrainPhase::Serving, "waiting begins nothing");
    lifecycle.begin();
    let (second, waited) = resolves_at(&lifecycle, lifecycle.wait(seconds(20))).await;
    assert_eq!((second, waited), (20, DrainWait::TimedOut { in_flight: 4 }));
    drop(lifecycle.wait(seconds(20)));
    requests.end(4);
    let (second, waited) = resolves_at(&lifecycle, lifecycle.wait(seconds(20))).await;
    assert_eq!((second, waited), (20, DrainWait::Drained));
}

#[tokio::test(start_paused = true)]
async fn the_port_is_the_same_drain() {
    let requests = Requests::open(0);
    let lifecycle = lifecycle(&requests);
    let port: Arc<dyn DrainPort> = Arc::new(lifecycle.clone());
    port.begin();
    assert_eq!(port.phase(), DrainPhase::LameDuck);
    assert_eq!(port.wait(seconds(60)).await, DrainWait::Drained);
    assert_eq!(lifecycle.phase(), DrainPhase::Drained);
}
