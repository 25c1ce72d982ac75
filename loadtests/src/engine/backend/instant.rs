//! Tokens at fixed intervals, driven by the connection that wants them.

use std::future::pending;
use std::sync::Arc;

use super::seats::{Seat, Seats};
use super::{Job, Load, QueueFull, Tick};
use crate::engine::clock::{Clock, Virtual, nanos};
use crate::engine::config::{EngineConfig, InstantProfile};
use crate::engine::stats::Recorder;

pub(crate) struct InstantBackend {
    profile: InstantProfile,
    clock: Clock,
    seats: Arc<Seats>,
}

/// The tokens of one request; its choices take turns.
pub(crate) struct InstantSource {
    clock: Clock,
    seat: Seat,
    /// When its places were given.
    start: Virtual,
    first: Virtual,
    interval: Virtual,
    choices: u64,
    /// Tokens of all choices.
    total: u64,
    given: u64,
}

impl InstantBackend {
    pub(super) fn new(
        profile: InstantProfile,
        config: &EngineConfig,
        clock: Clock,
        recorder: &Arc<Recorder>,
    ) -> Self {
        let recorder = Arc::clone(recorder);
        let seats = Seats::new(profile.max_running, config.max_num_queued, recorder);
        Self { profile, clock, seats }
    }

    pub(super) fn start(&self, job: &Job) -> Result<InstantSource, QueueFull> {
        let choices = job.choices();
        Ok(InstantSource {
            clock: self.clock,
            seat: self.seats.take(choices as usize)?,
            start: self.clock.now(),
            first: nanos(self.profile.first_token),
            interval: nanos(job.interval.unwrap_or(self.profile.token_interval)),
            choices: u64::from(choices),
            total: u64::from(choices) * u64::from(job.output_tokens),
            given: 0,
        })
    }

    pub(super) fn load(&self) -> Load {
        let (running, waiting) = self.seats.load();
        Load { running, waiting, ..Load::default() }
    }
}

impl InstantSource {
    pub(super) async fn next(&mut self) -> Tick {
        if self.seat.ready().await {
            self.start = self.clock.now();
        }
        if self.given == self.total {
            return pending().await;
        }
        let due = self.due();
        if due > self.clock.now() {
            tokio::time::sleep_until(self.clock.real(due).into()).await;
        }
        self.give(due)
    }

    pub(super) fn try_next(&mut self) -> Option<Tick> {
        let due = self.due();
        let ready = self.seat.held() && self.given < self.total && due <= self.clock.now();
        ready.then(|| self.give(due))
    }

    fn due(&self) -> Virtual {
        let round = self.given / self.choices;
        self.start.saturating_add(self.first).saturating_add(self.interval.saturating_mul(round))
    }

    fn give(&mut self, at: Virtual) -> Tick {
        let choice = u32::try_from(self.given % self.choices).unwrap_or(u32::MAX);
        self.given += 1;
        let last = self.given + self.choices > self.total;
        Tick { choice, last, at }
    }
}
