//! `streamgate-loadtests history`: scrape endpoints beside any load.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args as ClapArgs;
use streamgate_loadtests::clock::RunClock;
use streamgate_loadtests::history::{Recorder, Scraper};
use streamgate_loadtests::scenario::Span;

/// Scrape Prometheus text until Ctrl-C, and store the series with their real sampling times.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// URLs of Prometheus text, as http://127.0.0.1:8000/metrics.
    #[arg(required = true)]
    urls: Vec<String>,
    /// Between scrapes.
    #[arg(long, default_value = "5s")]
    every: humantime::Duration,
    /// Stop after that long.
    #[arg(long = "for")]
    length: Option<humantime::Duration>,
    /// The file to write.
    #[arg(long, default_value = "history.jsonl.gz")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let recorder = Recorder::create(&args.out)?;
        let clock = RunClock::new(Instant::now(), 1.0);
        let urls: Vec<(String, String)> =
            args.urls.iter().map(|url| (url.clone(), url.clone())).collect();
        let endpoints = Box::new(move || urls.clone());
        let scraper = Scraper::start(recorder.sender(), clock, Span(args.every.into()), endpoints);
        match args.length {
            Some(length) => {
                drop(tokio::time::timeout(length.into(), tokio::signal::ctrl_c()).await);
            }
            None => tokio::signal::ctrl_c().await?,
        }
        scraper.stop().await;
        recorder.finish()?;
        println!("{}", args.out.display());
        Ok(ExitCode::SUCCESS)
    })
}
