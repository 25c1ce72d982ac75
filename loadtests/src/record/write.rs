//! Writing records without holding up the run: a thread of its own serialises and compresses.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Line;

/// Lines that may wait for the writer.
const BACKLOG: usize = 100_000;

/// Records could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write records")]
pub struct WriteError(#[from] std::io::Error);

/// Writes lines to a file; gzip if its name ends in `.gz`.
#[derive(Debug)]
pub struct RecordWriter {
    lines: SyncSender<Line>,
    thread: JoinHandle<std::io::Result<u64>>,
}

impl RecordWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = BufWriter::new(File::create(path)?);
        let gz = path.extension().is_some_and(|e| e == "gz");
        let (lines, inbox) = sync_channel(BACKLOG);
        let thread = thread::Builder::new().name("records".into()).spawn(move || {
            if gz {
                let mut out = GzEncoder::new(file, Compression::default());
                let count = write_all(&inbox, &mut out)?;
                out.finish()?.flush()?;
                Ok(count)
            } else {
                let mut out = file;
                write_all(&inbox, &mut out)
            }
        })?;
        Ok(Self { lines, thread })
    }

    /// A handle for other tasks.
    #[must_use]
    pub fn sender(&self) -> RecordSender {
        RecordSender(self.lines.clone())
    }

    /// Waits until all is written, after every [`RecordSender`] was dropped, and returns the
    /// number of lines.
    ///
    /// # Errors
    /// When a write failed.
    pub fn finish(self) -> Result<u64, WriteError> {
        drop(self.lines);
        let lost = || std::io::Error::other("the writer stopped");
        Ok(self.thread.join().map_err(|_| lost())??)
    }
}

/// Hands lines to the writer.
#[derive(Debug, Clone)]
pub struct RecordSender(SyncSender<Line>);

impl RecordSender {
    /// Queues a line. Blocks only when 100,000 lines wait. `false` after a failed write: the line
    /// is lost, and [`RecordWriter::finish`] tells why.
    pub fn send(&self, line: Line) -> bool {
        self.0.send(line).is_ok()
    }
}

/// Longest that a line waits in a buffer: what a run has measured outlives the process, but for
/// the last second.
const FLUSH: Duration = Duration::from_secs(1);

fn write_all(inbox: &Receiver<Line>, out: &mut impl Write) -> std::io::Result<u64> {
    let (mut count, mut flushed, mut due) = (0, 0, Instant::now() + FLUSH);
    loop {
        match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")?;
                count += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= due {
            if count > flushed {
                out.flush()?;
                flushed = count;
            }
            due = Instant::now() + FLUSH;
        }
    }
    out.flush()?;
    Ok(count)
}
