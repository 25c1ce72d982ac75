//! Random sequences of arrivals, cancellations, ends and reloads: never above the cap, never more
//! waiters than places, first come first served, and nothing left at the end.

use super::*;
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Step {
    Arrive,
    Cancel(Index),
    End(Index),
    Cap(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        prop_oneof![
            5 => Just(Step::Arrive),
            2 => any::<Index>().prop_map(Step::Cancel),
            4 => any::<Index>().prop_map(Step::End),
            1 => (1..5u32).prop_map(Step::Cap),
            1 => (0..12_000u64).prop_map(Step::Pass),
        ],
        1..120,
    )
}

const DEPTH: u32 = 3;

type Task = JoinHandle<Result<Admitted, Refused>>;

/// The state of one sequence.
struct Sequence {
    rig: Rig,
    cap: u32,
    /// Those who wait, oldest first.
    waiting: Vec<Task>,
    running: Vec<Admitted>,
}

impl Sequence {
    fn new() -> Self {
        Self { rig: Rig::new(), cap: 2, waiting: Vec::new(), running: Vec::new() }
    }

    async fn step(&mut self, step: Step) {
        let before = self.running.len();
        match step {
            Step::Arrive => self.waiting.push(self.rig.spawn(queueing(self.cap, DEPTH))),
            Step::Cancel(nth) if !self.waiting.is_empty() => {
                let task = self.waiting.remove(nth.index(self.waiting.len()));
                task.abort();
                let _ = task.await;
            }
            Step::End(nth) if !self.running.is_empty() => {
                self.running.swap_remove(nth.index(self.running.len()));
            }
            Step::Cap(cap) => {
                self.cap = cap;
                self.rig.controller.apply([queueing(cap, DEPTH).policy]);
            }
            Step::Pass(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Cancel(_) | Step::End(_) => {}
        }
        self.settle().await;
        self.check(before);
    }

    /// Let every task run until nothing changes, and sort the answers.
    async fn settle(&mut self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let mut still_waiting = Vec::new();
        for task in self.waiting.drain(..) {
            if !task.is_finished() {
                still_waiting.push(task);
                continue;
            }
            match task.await.unwrap() {
                Ok(admitted) => {
                    assert!(
                        still_waiting.is_empty(),
                        "a newer request ran while an older one waited"
                    );
                    self.running.push(admitted);
                }
                Err(refused) => {
                    assert!(matches!(refused.reason, Reason::QueueFull | Reason::QueueTimeout));
                }
            }
        }
        self.waiting = still_waiting;
    }

    fn check(&self, before: usize) {
        let running = self.running.len();
        assert!(running <= (self.cap as usize).max(before), "{running} run at cap {}", self.cap);
        assert!(self.waiting.len() <= DEPTH as usize);
        assert_eq!(self.rig.held("a"), running as u64);
        assert_eq!(self.rig.holders.in_flight(), running as u64);
        assert_eq!(self.rig.controller.queued(&"a".into()), self.waiting.len() as u64);
        let all_taken = running >= self.cap as usize;
        assert!(all_taken || self.waiting.is_empty(), "a slot is free while somebody waits");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn admission_is_exact_in_any_order(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut sequence = Sequence::new();
            for step in steps {
                sequence.step(step).await;
            }
            for task in sequence.waiting.drain(..) {
                task.abort();
                let _ = task.await;
            }
            sequence.running.clear();
            sequence.rig.assert_nothing_left("a");
        });
    }
}

/// Many threads, real time, random ends: the cap holds and everything comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_leaves_nothing_behind() {
    use rand::Rng;
    use std::sync::atomic::{AtomicU32, Ordering};

    const CAP: u32 = 3;
    let rig = Rig::new();
    let running = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..600)
        .map(|_| {
            let controller = Arc::clone(&rig.controller);
            let running = Arc::clone(&running);
            tokio::spawn(async move {
                let admission = controller.admit(queueing(CAP, 16), Instant::now());
                let patience = Duration::from_micros(rand::rng().random_range(0..3_000));
                let Ok(Ok(admitted)) = tokio::time::timeout(patience, admission).await else {
                    return 0;
                };
                let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
                let turns = rand::rng().random_range(0..20);
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                drop(admitted);
                at_once
            })
        })
        .collect();
    let mut most = 0;
    for task in tasks {
        most = most.max(soon(task).await.unwrap());
    }
    assert!((1..=CAP).contains(&most), "{most} ran at once");
    rig.assert_nothing_left("a");
}
