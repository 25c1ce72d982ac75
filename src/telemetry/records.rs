//! The record file: one JSON line for each ended request (`docs/records.md`).
//!
//! Requests hand their event to a bounded channel and never wait: a thread of its own serialises
//! and writes. When the thread cannot keep up, or the disk refuses, records are dropped and
//! counted in `records_dropped_total`; requests are not slowed down and not refused.

mod sink;

use super::event::RequestEvent;
use crate::core::sync::lock;
use sink::Sink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Events that may wait for the writer: some seconds of a busy replica.
const CAPACITY: usize = 8_192;
/// A batch is written once it has this many bytes, or when nothing more waits.
const BATCH: usize = 64 * 1_024;

enum Message {
    Event(Box<RequestEvent>),
    /// Look at the flags.
    Wake,
}

/// What requests and the writer share.
#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    reopen: AtomicBool,
    closing: AtomicBool,
}

/// The requests' end of the record file.
#[derive(Debug)]
pub struct Records {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
    /// Disconnected when the writer has ended.
    ended: Mutex<Receiver<()>>,
}

impl Records {
    /// Open the file for appending and start the writer. A file that cannot be opened is the
    /// operator's to know at the start, not at the first request.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Self::with_capacity(path, CAPACITY)
    }

    fn with_capacity(path: &Path, capacity: usize) -> std::io::Result<Self> {
        let sink = Sink::open(path)?;
        let (sender, messages) = mpsc::sync_channel(capacity);
        let (alive, ended) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let writer = Writer { messages, shared: Arc::clone(&shared), sink };
        std::thread::Builder::new().name("records".into()).spawn(move || {
            let _alive = alive;
            writer.run();
        })?;
        Ok(Self { sender, shared, ended: Mutex::new(ended) })
    }

    /// Hand over one event; never waits.
    pub fn push(&self, event: RequestEvent) {
        if self.sender.try_send(Message::Event(Box::new(event))).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that were not written.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Close and open the path again, after a log rotation moved the file away.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.wake();
    }

    /// Write what was handed over and end the writer; `false` if that took longer than `limit`.
    /// Blocks the thread. Records handed over later are dropped.
    pub fn close(&self, limit: Duration) -> bool {
        self.shared.closing.store(true, Ordering::Release);
        self.wake();
        let ended = lock(&self.ended).recv_timeout(limit);
        matches!(ended, Err(RecvTimeoutError::Disconnected))
    }

    /// A full channel needs no wake-up: the writer looks at the flags after each batch.
    fn wake(&self) {
        self.sender.try_send(Message::Wake).ok();
    }
}

/// The writer's end; runs until told to close, or until nobody can send any more.
struct Writer {
    messages: Receiver<Message>,
    shared: Arc<Shared>,
    sink: Sink,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.messages.recv() {
            self.write_batch(Some(first));
            if self.shared.closing.load(Ordering::Acquire) {
                // Whatever was handed over before `close` is in the channel by now.
                while !self.write_batch(None) {}
                break;
            }
        }
    }

    /// Write `first` and what waits behind it; whether nothing waits any more.
    fn write_batch(&mut self, first: Option<Message>) -> bool {
        let mut batch = Vec::new();
        let mut next = first.or_else(|| self.messages.try_recv().ok());
        while let Some(message) = next {
            if let Message::Event(event) = message {
                self.append(&event, &mut batch);
            }
            next = if batch.len() < BATCH { self.messages.try_recv().ok() } else { None };
        }
        let emptied = batch.len() < BATCH;
        if self.shared.reopen.swap(false, Ordering::AcqRel) {
            self.sink.reopen();
        }
        let lost = self.sink.write(&batch);
        self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
        emptied
    }

    fn append(&self, event: &RequestEvent, batch: &mut Vec<u8>) {
        let start = batch.len();
        if serde_json::to_writer(&mut *batch, event).is_ok() {
            batch.push(b'\n');
        } else {
            batch.truncate(start);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
