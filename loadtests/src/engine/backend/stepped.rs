//! The step scheduler driven in real time, by one thread.
//!
//! A thread and not a task: the operating system wakes it within a tenth of a millisecond, which
//! at a time scale of 10 is a millisecond of virtual time; an async timer's millisecond would be
//! ten. The thread only sleeps, moves numbers and sends them on.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;

use super::{Job, Load, QueueFull, Tick};
use crate::engine::clock::{Clock, Virtual, to_nanos};
use crate::engine::metrics::Metrics;
use crate::engine::scheduler::{Scheduler, StepModel, Submission, Token};
use crate::engine::stats::{InFlight, Recorder};
use crate::engine::tokens::Prompt;
use crate::sync::lock;

pub(crate) struct SteppedBackend {
    inner: Mutex<Inner>,
    work: Condvar,
    model: StepModel,
    /// Most sequences running and waiting together.
    most: usize,
    clock: Clock,
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
}

struct Inner {
    scheduler: Scheduler,
    slots: HashMap<u64, Slot>,
    next_id: u64,
    stopped: bool,
}

/// A sequence in the scheduler.
struct Slot {
    ticks: mpsc::UnboundedSender<Tick>,
    choice: u32,
    aborted: bool,
    in_flight: Arc<InFlight>,
}

/// The tokens of one request.
pub(crate) struct SteppedSource {
    ticks: mpsc::UnboundedReceiver<Tick>,
    ids: Vec<u64>,
    backend: Arc<SteppedBackend>,
}

impl SteppedBackend {
    pub(super) fn start(
        model: StepModel,
        max_queued: Option<usize>,
        clock: Clock,
        recorder: &Arc<Recorder>,
        metrics: &Arc<Metrics>,
    ) -> Arc<Self> {
        let inner = Inner {
            scheduler: Scheduler::new(model),
            slots: HashMap::new(),
            next_id: 0,
            stopped: false,
        };
        let backend = Arc::new(Self {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            model,
            most: max_queued.map_or(usize::MAX, |q| q.saturating_add(model.max_running)),
            clock,
            recorder: Arc::clone(recorder),
            metrics: Arc::clone(metrics),
        });
        let thread = Arc::clone(&backend);
        std::thread::spawn(move || thread.run());
        backend
    }

    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Result<SteppedSource, QueueFull> {
        let (tx, ticks) = mpsc::unbounded_channel();
        let mut inner = lock(&self.inner);
        let held = inner.scheduler.running() + inner.scheduler.waiting();
        if held + job.choices() as usize > self.most {
            return Err(QueueFull);
        }
        // Under the lock, so that submissions are in the order of their times.
        let ready_at = self.clock.now() + to_nanos(self.model.before_engine);
        let mut ids = Vec::new();
        for prompt in &job.prompts {
            for _ in 0..job.n {
                let id = inner.next_id;
                inner.next_id += 1;
                let choice = u32::try_from(ids.len()).unwrap_or(u32::MAX);
                let (ticks, in_flight) = (tx.clone(), Arc::clone(&job.in_flight));
                inner.slots.insert(id, Slot { ticks, choice, aborted: false, in_flight });
                inner.scheduler.submit(Submission {
                    id,
                    ready_at,
                    prompt_tokens: prompt.tokens,
                    output_tokens: job.output_tokens,
                    blocks: prompt.blocks.clone(),
                });
                ids.push(id);
            }
        }
        drop(inner);
        self.work.notify_one();
        Ok(SteppedSource { ticks, ids, backend: Arc::clone(self) })
    }

    fn abort(&self, ids: &[u64]) {
        let mut guard = lock(&self.inner);
        let inner = &mut *guard;
        let mut freed = Vec::new();
        for id in ids {
            let waiting = inner.scheduler.is_waiting(*id);
            inner.scheduler.abort(*id);
            if waiting || !inner.scheduler.stepping() {
                freed.extend(inner.slots.remove(id));
            } else if let Some(slot) = inner.slots.get_mut(id) {
                // The step under way still computes it.
                slot.aborted = true;
            }
        }
        drop(guard);
    }

    pub(super) fn block(&self) -> usize {
        self.model.block
    }

    pub(super) fn load(&self) -> Load {
        let now = self.clock.now();
        let inner = lock(&self.inner);
        let totals = inner.scheduler.totals();
        let room = (self.model.cache_blocks * self.model.block).max(1);
        Load {
            running: inner.scheduler.running(),
            waiting: inner.scheduler.waiting_at(now),
            waiting_peak: totals.waiting_peak,
            prefix_queries: totals.cache_queries,
            prefix_hits: totals.cache_hits,
            cache_usage: (inner.scheduler.context_tokens() as f64 / room as f64).min(1.0),
        }
    }

    pub(super) fn reset_totals(&self) {
        lock(&self.inner).scheduler.reset_totals();
    }

    pub(super) fn warm(&self, prompts: &[Prompt]) {
        let mut inner = lock(&self.inner);
        prompts.iter().for_each(|prompt| inner.scheduler.warm(&prompt.blocks));
    }

    pub(super) fn reset_cache(&self) {
        lock(&self.inner).scheduler.reset_cache();
    }

    pub(super) fn stop(&self) {
        let slots = {
            let mut inner = lock(&self.inner);
            inner.stopped = true;
            std::mem::take(&mut inner.slots)
        };
        self.work.notify_all();
        drop(slots);
    }

    fn run(&self) {
        let mut now = 0;
        let mut tokens = Vec::new();
        let mut inner = lock(&self.inner);
        while !inner.stopped {
            if let Some(begun) = inner.scheduler.begin_step(now) {
                self.metrics.step(begun.tokens, &begun.waits, begun.cached_tokens);
                self.recorder.touch();
                let end = now + begun.length;
                inner = self.wait_until(inner, end);
                inner.scheduler.end_step(&mut tokens);
                let freed = inner.deliver(&mut tokens, end);
                now = end;
                // Owners are dropped, and so recorded, outside the lock.
                drop(inner);
                drop(freed);
                self.recorder.touch();
                inner = lock(&self.inner);
            } else if let Some(ready) = inner.scheduler.next_ready() {
                inner = self.wait_until(inner, ready);
                now = now.max(ready);
            } else {
                inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Sleeps to a virtual time without holding the lock; returns early when stopped.
    fn wait_until<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        at: Virtual,
    ) -> MutexGuard<'a, Inner> {
        let deadline = self.clock.real(at);
        while !inner.stopped {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.work.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inner
    }
}

impl Inner {
    /// Sends the tokens of a step; returns the slots of aborted sequences.
    fn deliver(&mut self, tokens: &mut Vec<Token>, at: Virtual) -> Vec<Slot> {
        for Token { id, last } in tokens.drain(..) {
            // A receiver that is gone aborts by its drop: sending may fail.
            if !last {
                if let Some(slot) = self.slots.get(&id) {
                    let _ = slot.ticks.send(Tick { choice: slot.choice, last, at });
                }
            } else if let Some(Slot { ticks, choice, in_flight, .. }) = self.slots.remove(&id) {
                // Before the end is known, so that nobody sees the end and still a count.
                drop(in_flight);
                let _ = ticks.send(Tick { choice, last, at });
            }
        }
        let mut freed = Vec::new();
        freed.extend(self.slots.extract_if(|_, slot| slot.aborted).map(|(_, slot)| slot));
        freed
    }
}

impl SteppedSource {
    pub(super) async fn next(&mut self) -> Tick {
        match self.ticks.recv().await {
            Some(tick) => tick,
            None => pending().await,
        }
    }

    pub(super) fn try_next(&mut self) -> Option<Tick> {
        self.ticks.try_recv().ok()
    }
}

impl Drop for SteppedSource {
    fn drop(&mut self) {
        self.backend.abort(&self.ids);
    }
}
