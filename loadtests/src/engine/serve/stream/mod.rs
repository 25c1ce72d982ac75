//! Streams: head at once, then events as tokens come, with the faults that apply.

mod end;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::connection::After;
use super::generation::{Exchange, Running};
use super::reply;
use super::wake::{Wake, wake};
use super::writer::{BytesCut, Writer};
use crate::engine::backend::Tick;
use crate::engine::faults::{Silence, Trigger};
use crate::engine::phase::{Phase, sleep};
use crate::engine::wire::{Event, Finish, Piece, Usage};
use crate::http1::{CloseBy, HeadFields, PeerGone, encode_head};

const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";
/// Bytes collected before they are written even if more tokens are due.
const WRITE_AT: usize = 64 * 1024;

/// Why a stream stops before its regular end.
enum Stop {
    Gone,
    Fault(Trigger),
    Phase(Phase),
}

impl From<PeerGone> for Stop {
    fn from(_: PeerGone) -> Self {
        Self::Gone
    }
}

impl From<BytesCut> for Stop {
    fn from(_: BytesCut) -> Self {
        Self::Fault(Trigger::Cut)
    }
}

struct Stream<'e, 'a> {
    exchange: &'e mut Exchange<'a>,
    running: Running,
    writer: Writer,
    choices: Vec<ChoiceState>,
    left: usize,
    opened: bool,
    /// Tokens not yet counted in the statistics.
    uncounted: u64,
    last_write: Instant,
}

#[derive(Debug, Clone, Default)]
struct ChoiceState {
    text: String,
    held: u32,
    tokens: u32,
    done: bool,
}

/// Streams an answer to its end, regular or not.
pub(super) async fn answer(
    exchange: &mut Exchange<'_>,
    running: Running,
) -> Result<After, PeerGone> {
    let count = running.request.choices() as usize;
    let writer = Writer::new(&exchange.faults);
    let mut stream = Stream {
        exchange,
        running,
        writer,
        choices: vec![ChoiceState::default(); count],
        left: count,
        opened: false,
        uncounted: 0,
        last_write: Instant::now(),
    };
    match stream.run().await {
        Ok(()) => stream.ended(),
        Err(stop) => stream.stopped(stop).await,
    }
}

impl Stream<'_, '_> {
    async fn run(&mut self) -> Result<(), Stop> {
        let shared = self.exchange.shared;
        if let Some(delay) = self.exchange.faults.delay_head {
            reply::wait(self.exchange.io, sleep(shared, delay)).await?;
        }
        self.head().await?;
        if let Some(delay) = self.exchange.faults.delay_first {
            reply::wait(self.exchange.io, sleep(shared, delay)).await?;
        }
        for event in self.running.wire.early() {
            self.emit(&event).await?;
        }
        self.flush().await?;
        if let Some(silence) = self.exchange.faults.opening_silence {
            self.open().await?;
            self.flush().await?;
            match silence {
                Silence::Forever => return Err(Stop::Fault(Trigger::Stall)),
                Silence::For(time) => reply::wait(self.exchange.io, sleep(shared, time)).await?,
            }
        }
        self.generate().await?;
        let usage = self.usage();
        for event in self.running.wire.closing(usage) {
            self.emit(&event).await?;
        }
        self.writer.end();
        self.flush().await
    }

    async fn head(&mut self) -> Result<(), Stop> {
        let fields = HeadFields {
            content_type: Some(CONTENT_TYPE),
            vary: true,
            close: self.exchange.head.wants_close(),
            ..HeadFields::default()
        };
        self.exchange.note_status(200);
        let head = encode_head(200, &fields);
        reply::write(self.exchange.io, &self.exchange.faults, &head).await?;
        self.check()
    }

    async fn generate(&mut self) -> Result<(), Stop> {
        let mut phase = self.exchange.shared.phase.subscribe();
        while self.left > 0 {
            let silent_at = self.silent_at();
            let source = self.running.source();
            match wake(self.exchange.io, source, &mut phase, silent_at).await {
                Wake::Token(tick) => self.tokens(tick).await?,
                Wake::Phase(phase) => return Err(Stop::Phase(phase)),
                Wake::Gone => return Err(Stop::Gone),
                Wake::Silent => self.writer.keep_alive()?,
            }
            if self.left > 0 {
                self.flush().await?;
            }
        }
        Ok(())
    }

    fn silent_at(&self) -> Option<Instant> {
        let shared = self.exchange.shared;
        let interval = self.exchange.faults.keep_alive.or(shared.config.sse_keep_alive)?;
        Some(self.last_write + shared.clock.real_duration(interval))
    }

    /// All tokens that are due.
    async fn tokens(&mut self, first: Tick) -> Result<(), Stop> {
        self.open().await?;
        let mut next = Some(first);
        while let Some(tick) = next {
            self.token(tick).await?;
            if self.writer.pending() > WRITE_AT {
                break;
            }
            next = self.running.source().and_then(|s| s.try_next());
        }
        Ok(())
    }

    async fn token(&mut self, tick: Tick) -> Result<(), Stop> {
        let Running { request, measured, .. } = &mut self.running;
        measured.token(tick.at);
        self.uncounted += 1;
        let state = &mut self.choices[tick.choice as usize];
        request.push_word(&mut state.text, tick.choice, state.tokens);
        state.tokens += 1;
        state.held += 1;
        let full = state.held >= self.exchange.faults.tokens_per_event.unwrap_or(1);
        if !full && !tick.last {
            return Ok(());
        }
        if let Some(size) = self.exchange.faults.big_event.take() {
            let missing = size.saturating_sub(state.text.len());
            state.text.push_str(&"x".repeat(missing));
        }
        let finish = tick.last.then(|| self.exchange.natural_finish(&self.running.request));
        if finish.is_some() {
            self.left -= 1;
        }
        if let (0, Some(finish)) = (self.left, finish) {
            self.release(finish);
        }
        self.piece(tick.choice, finish).await
    }

    /// Sends what is held of a choice.
    async fn piece(&mut self, choice: u32, finish: Option<Finish>) -> Result<(), Stop> {
        let state = &mut self.choices[choice as usize];
        state.held = 0;
        state.done = finish.is_some();
        let mut text = std::mem::take(&mut state.text);
        if self.exchange.faults.stamp {
            text = unix_nanos().to_string();
        }
        let piece = Piece {
            choice,
            text: &text,
            finish,
            last: finish.is_some() && self.left == 0,
            tokens: u64::from(state.tokens),
        };
        let event = self.running.wire.piece(&piece);
        self.emit(&event).await
    }

    async fn open(&mut self) -> Result<(), Stop> {
        if !std::mem::replace(&mut self.opened, true) {
            for event in self.running.wire.opening() {
                self.emit(&event).await?;
            }
        }
        Ok(())
    }

    async fn emit(&mut self, event: &Event) -> Result<(), Stop> {
        self.writer.event(event)?;
        if !self.exchange.shared.config.merge_writes {
            self.flush().await?;
            // Lets the reader run, so that it sees the writes apart.
            tokio::task::yield_now().await;
        }
        self.check()
    }

    /// The fault that is due after the events so far.
    fn check(&self) -> Result<(), Stop> {
        match self.exchange.faults.trigger(self.writer.events()) {
            Some(trigger) => Err(Stop::Fault(trigger)),
            None => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), Stop> {
        self.exchange.tokens(std::mem::take(&mut self.uncounted));
        if self.writer.pending() > 0 {
            let bytes = self.writer.take();
            reply::write(self.exchange.io, &self.exchange.faults, &bytes).await?;
            self.last_write = Instant::now();
        }
        Ok(())
    }

    fn release(&mut self, finish: Finish) {
        self.exchange.tokens(std::mem::take(&mut self.uncounted));
        self.exchange.release(&mut self.running, finish);
    }

    fn usage(&self) -> Usage {
        let measured = &self.running.measured;
        Usage { prompt: measured.prompt_tokens, completion: measured.tokens }
    }

    fn ended(&self) -> Result<After, PeerGone> {
        let close = self.exchange.head.wants_close();
        Ok(if close { After::Close(CloseBy::Fin) } else { After::Next })
    }
}

/// The wall clock, which other processes can read too.
fn unix_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}
