//! Scraping.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::parse::{parse, without_buckets};
use super::record::{Sample, SampleSender};
use crate::clock::RunClock;
use crate::scenario::Span;

/// Real time for one scrape.
const PATIENCE: Duration = Duration::from_secs(2);

/// Names and URLs to scrape, asked anew each time.
pub type Endpoints = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// Scrapes the endpoints of a run until it is stopped.
pub struct Scraper {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Scraper {
    /// Starts scraping every `every` (virtual; 0 is never), on an absolute schedule.
    #[must_use]
    pub fn start(out: SampleSender, clock: RunClock, every: Span, endpoints: Endpoints) -> Self {
        let stop = CancellationToken::new();
        let task = (every.micros() > 0)
            .then(|| tokio::spawn(scrape(out, clock, every.micros(), endpoints, stop.clone())));
        Self { stop, task }
    }

    /// Scrapes once more and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            // A panic while scraping costs evidence, not the run.
            let _ = task.await;
        }
    }
}

async fn scrape(
    out: SampleSender,
    clock: RunClock,
    every: u64,
    endpoints: Endpoints,
    stop: CancellationToken,
) {
    let Ok(client) = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build() else {
        return;
    };
    let mut due = clock.now();
    loop {
        let ended = tokio::select! {
            () = stop.cancelled() => true,
            () = clock.sleep_until(due) => false,
        };
        let all = endpoints();
        let each = all.iter().map(|(source, url)| scrape_once(&client, &clock, source, url));
        join_all(each).await.into_iter().for_each(|sample| out.send(sample));
        if ended {
            return;
        }
        // The next moment of the schedule that is not over yet: a slow scrape skips, never bunches.
        due += every * (1 + clock.now().saturating_sub(due) / every);
    }
}

/// Scrapes one endpoint.
pub async fn scrape_once(
    client: &reqwest::Client,
    clock: &RunClock,
    source: &str,
    url: &str,
) -> Sample {
    let begun = Instant::now();
    let page = fetch(client, url).await;
    let took_us = crate::clock::micros(begun.elapsed());
    let (mut series, error) = match page {
        Ok(text) => (parse(&text), None),
        Err(e) => (Default::default(), Some(e)),
    };
    without_buckets(&mut series);
    Sample { at_us: clock.now(), took_us, source: source.to_owned(), series, error }
}

/// The text of a page.
///
/// # Errors
/// Why it could not be had.
pub async fn fetch(client: &reqwest::Client, url: &str) -> Result<String, String> {
    let answer = client.get(url).send().await.map_err(|e| e.to_string())?;
    let answer = answer.error_for_status().map_err(|e| e.to_string())?;
    answer.text().await.map_err(|e| e.to_string())
}
