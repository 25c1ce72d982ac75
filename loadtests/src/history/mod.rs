//! Scraped series: Prometheus text from the endpoints of a run, with the times at which they were
//! really read.
//!
//! A line is `{"at_us", "took_us", "source", "series": {"name{labels}": value}}`; a scrape that
//! failed has `error` in place of `series`. Buckets of histograms are left out unless asked for.

mod parse;
mod read;
mod record;
mod scrape;

pub use parse::{parse, without_buckets};
pub use read::{read_history, series};
pub use record::{Recorder, Sample, SampleSender};
pub use scrape::{Endpoints, Scraper, fetch, scrape_once};
