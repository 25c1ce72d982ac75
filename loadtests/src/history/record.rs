//! Writing samples.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// One scrape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Virtual microseconds since the start of the run, when the answer was there.
    pub at_us: u64,
    /// Real microseconds that the scrape took.
    pub took_us: u64,
    /// What was scraped.
    pub source: String,
    /// The samples.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, f64>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Writes samples to a file of gzipped JSON lines.
#[derive(Debug)]
pub struct Recorder {
    samples: Sender<Sample>,
    thread: JoinHandle<std::io::Result<()>>,
}

/// Hands samples to a [`Recorder`].
#[derive(Debug, Clone)]
pub struct SampleSender(Sender<Sample>);

impl SampleSender {
    /// Queues a sample; after a failed write it is lost, and [`Recorder::finish`] tells why.
    pub fn send(&self, sample: Sample) {
        let _ = self.0.send(sample);
    }
}

impl Recorder {
    /// Creates the file.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let mut out = GzEncoder::new(BufWriter::new(File::create(path)?), Compression::default());
        let (samples, inbox) = channel::<Sample>();
        let thread = thread::Builder::new().name("history".into()).spawn(move || {
            while let Ok(sample) = inbox.recv() {
                serde_json::to_writer(&mut out, &sample)?;
                out.write_all(b"\n")?;
            }
            out.finish()?.flush()
        })?;
        Ok(Self { samples, thread })
    }

    /// A handle for other tasks.
    #[must_use]
    pub fn sender(&self) -> SampleSender {
        SampleSender(self.samples.clone())
    }

    /// Waits until all is written, after every sender was dropped.
    ///
    /// # Errors
    /// When a write failed.
    pub fn finish(self) -> std::io::Result<()> {
        drop(self.samples);
        self.thread.join().map_err(|_| std::io::Error::other("the writer stopped"))?
    }
}
