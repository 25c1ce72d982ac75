//! An SSE answer on its way: every event is forwarded at once, read on the way through, and the
//! stream is judged at its end.

use super::broken::Break;
use super::work::Work;
use super::write::write;
use crate::core::stream::{Progress, StreamTracker};
use crate::proxy::client::{Client, Lost};
use bytes::Bytes;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// What a client is sent while the engine has not begun, so that nothing between us takes the
/// connection for dead.
const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
/// How long the terminal event is held back for the end of the engine's body. Engines end it in
/// the same moment; one that does not is closed.
const END_OF_BODY: Duration = Duration::from_millis(250);

/// Deadlines of a stream.
pub(super) struct Deadlines {
    /// For the first progress.
    pub first_byte: Instant,
    /// Silence after that.
    pub idle: Duration,
    /// For the whole request.
    pub total: Instant,
}

/// Forward until the stream is complete; returns its last pieces, which the client is to get once
/// the slot is free.
pub(super) async fn relay(
    client: &mut Client,
    work: &mut Work,
    tracker: &mut StreamTracker,
    mut ready: Vec<Bytes>,
    deadlines: &Deadlines,
) -> Result<Vec<Bytes>, Break> {
    let holder = work.permit.holder();
    let Some(call) = work.attempt.as_mut().and_then(|attempt| attempt.call.as_mut()) else {
        return Err(Break::Truncated);
    };
    let mut cut = pin!(holder.cut());
    let mut alarm = Alarm::new(deadlines);
    let mut wake = pin!(sleep_until(alarm.next(tracker)));
    let mut counted = 0;
    loop {
        counted = count_tokens(holder, tracker, counted);
        let end = ended(tracker);
        if let Some(Ok(())) = end {
            let _ = timeout(END_OF_BODY, read_rest(call, tracker, &mut ready)).await;
            return Ok(ready);
        }
        write(client, &mut ready, cut.as_mut(), deadlines.total).await?;
        if let Some(Err(broken)) = end {
            if broken == Break::Abort {
                // Usage comes after the abort, and the tenant is charged by it.
                let _ = timeout(END_OF_BODY, read_rest(call, tracker, &mut ready)).await;
            }
            return Err(broken);
        }
        tokio::select! {
            biased;
            cause = &mut cut => return Err(Break::Cut(cause)),
            read = call.read() => match read {
                Ok(Some(chunk)) => {
                    let now = Instant::now();
                    alarm.heard(now, tracker)?;
                    tracker.feed(chunk, now.into_std(), &mut ready);
                }
                Ok(None) => {
                    tracker.finish_input(&mut ready);
                    if ended(tracker).is_none() {
                        return Err(Break::Truncated);
                    }
                }
                Err(error) => {
                    tracing::debug!(error = error.etype().as_str(), "the engine's stream broke");
                    return Err(Break::Truncated);
                }
            },
            () = client.gone() => return Err(Break::Client(Lost::Gone)),
            () = &mut wake => {
                if alarm.ring(tracker)? {
                    ready.push(KEEP_ALIVE);
                }
                wake.as_mut().reset(alarm.next(tracker));
            }
        }
    }
}

/// Whether the tracker knows how the stream ends. One that ends with an abort that may pass has
/// its end too.
fn ended(tracker: &StreamTracker) -> Option<Result<(), Break>> {
    if tracker.error().is_some() {
        Some(Err(Break::EngineError))
    } else if tracker.is_sealed() {
        Some(Err(Break::Abort))
    } else {
        tracker.terminal().then_some(Ok(()))
    }
}

/// What comes after the terminal event, to the end of the body.
async fn read_rest(
    call: &mut crate::proxy::engine::EngineCall,
    tracker: &mut StreamTracker,
    ready: &mut Vec<Bytes>,
) {
    while !call.is_done() {
        let Ok(Some(chunk)) = call.read().await else { return };
        tracker.feed(chunk, Instant::now().into_std(), ready);
    }
}

fn count_tokens(holder: &crate::admission::Holder, tracker: &StreamTracker, before: u64) -> u64 {
    let now = tracker.tokens_at_least();
    if now > before {
        holder.add_tokens(now - before);
    }
    now.max(before)
}

/// The deadlines of a stream behind one timer, which is set anew only when it rings: a chunk costs
/// no timer operation.
struct Alarm<'a> {
    deadlines: &'a Deadlines,
    last_heard: Instant,
    next_keep_alive: Instant,
}

impl<'a> Alarm<'a> {
    fn new(deadlines: &'a Deadlines) -> Self {
        let now = Instant::now();
        Self { deadlines, last_heard: now, next_keep_alive: now + KEEP_ALIVE_EVERY }
    }

    /// The engine sent something at `now`. The total deadline is checked here too, since an engine
    /// that always has more ready leaves the timer no turn.
    fn heard(&mut self, now: Instant, tracker: &StreamTracker) -> Result<(), Break> {
        self.last_heard = now;
        if now >= self.deadlines.total {
            Err(Break::Total)
        } else if tracker.progress() == Progress::Opening && now >= self.deadlines.first_byte {
            // Comments are no progress, however many.
            Err(Break::NoFirstToken)
        } else {
            Ok(())
        }
    }

    fn silence_ends(&self, tracker: &StreamTracker) -> Instant {
        match tracker.progress() {
            Progress::Opening => self.deadlines.first_byte,
            Progress::Progressed | Progress::Terminal => self.last_heard + self.deadlines.idle,
        }
    }

    fn next(&self, tracker: &StreamTracker) -> Instant {
        let silence = self.silence_ends(tracker).min(self.deadlines.total);
        match tracker.progress() {
            Progress::Opening => silence.min(self.next_keep_alive),
            Progress::Progressed | Progress::Terminal => silence,
        }
    }

    /// The timer rang: a deadline passed, a keep-alive is due (`true`), or neither.
    fn ring(&mut self, tracker: &StreamTracker) -> Result<bool, Break> {
        let now = Instant::now();
        let opening = tracker.progress() == Progress::Opening;
        if now >= self.deadlines.total {
            return Err(Break::Total);
        }
        if now >= self.silence_ends(tracker) {
            return Err(if opening { Break::NoFirstToken } else { Break::Idle });
        }
        let due = opening && now >= self.next_keep_alive;
        if due {
            self.next_keep_alive = now + KEEP_ALIVE_EVERY;
        }
        Ok(due)
    }
}
