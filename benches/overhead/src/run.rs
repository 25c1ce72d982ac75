//! One run: every case, its three paths in turns.

use crate::cases::{Case, Load};
use crate::child::Proxy;
use crate::client::Protocol;
use crate::figures::Round;
use crate::{engine, memory, table};
use anyhow::{Result, ensure};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use streamgate_loadtests::engine::EngineConfig;

/// How to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The Streamgate binary, built in release.
    #[arg(long, default_value = "target/release/streamgate")]
    gate: PathBuf,
    /// Rounds of each case; a round is one block of each path.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Fresh processes of each proxy to measure memory in; 0: none.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20))]
    memory: u32,
}

/// The rounds of one case, by path.
#[derive(Debug)]
pub struct Measured {
    pub case: Case,
    pub direct: Vec<Round>,
    pub bare: Vec<Round>,
    pub gate: Vec<Round>,
}

/// Bytes for each idle stream, one figure a process.
#[derive(Debug, Default)]
pub struct Memory {
    pub bare: Vec<f64>,
    pub gate: Vec<f64>,
}

/// Measure everything and print the tables.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.gate.is_file(), "{} is no file; build it first", args.gate.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let measured = measure_cases(args).await?;
        print!("{}", table::overhead(&measured));
        if args.memory > 0 {
            print!("\n{}", table::memory(&measure_memory(args).await?));
        }
        Ok(())
    })
}

async fn measure_cases(args: &Args) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for each_write in [false, true] {
        // Engines send all events that are due in one write, or each in its own.
        let engine =
            engine::start(EngineConfig { merge_writes: !each_write, ..EngineConfig::default() })?;
        let gate = Proxy::gate(&args.gate, engine).await?;
        let bare = Proxy::bare(engine).await?;
        for case in cases(each_write) {
            if args.only.as_deref().is_none_or(|only| case.name.contains(only)) {
                eprintln!("{} …", case.name);
                measured.push(measure(case, engine, &bare, &gate, args.rounds).await?);
            }
        }
    }
    Ok(measured)
}

async fn measure(
    case: Case,
    engine: SocketAddr,
    bare: &Proxy,
    gate: &Proxy,
    rounds: u32,
) -> Result<Measured> {
    // Engines speak HTTP/1.1 only.
    let direct = Case { protocol: Protocol::Http1, ..case.clone() };
    let mut measured = Measured { case, direct: Vec::new(), bare: Vec::new(), gate: Vec::new() };
    // The first round is for caches, pools and branch predictors.
    for round in 0..=rounds {
        // Each path is first, second and third in turn.
        for place in 0..3 {
            let case = &measured.case;
            let (of, block) = match (round + place) % 3 {
                0 => (&mut measured.direct, direct.block(engine, || Ok(Duration::ZERO)).await?),
                1 => (&mut measured.bare, case.block(bare.address, || bare.cpu()).await?),
                _ => (&mut measured.gate, case.block(gate.address, || gate.cpu()).await?),
            };
            if round > 0 {
                of.push(block.into());
            }
        }
    }
    Ok(measured)
}

async fn measure_memory(args: &Args) -> Result<Memory> {
    let engine = engine::start(EngineConfig::default())?;
    let mut memory = Memory::default();
    for _ in 0..args.memory {
        eprintln!("memory …");
        memory.bare.push(memory::each_stream(&Proxy::bare(engine).await?).await?);
        memory.gate.push(memory::each_stream(&Proxy::gate(&args.gate, engine).await?).await?);
    }
    Ok(memory)
}

/// The cases of an engine that writes each event by itself, or all that are due at once.
fn cases(each_write: bool) -> Vec<Case> {
    let case =
        |name, protocol, lanes, requests, load| Case { name, protocol, lanes, requests, load };
    let stream = |events, micros| Load::Stream { events, interval: Duration::from_micros(micros) };
    let (h1, h2) = (Protocol::Http1, Protocol::Http2);
    if each_write {
        return vec![
            case("1 stream, full speed, one event a write", h1, 1, 1, stream(10_000, 0)),
            case("100 streams, full speed, one event a write", h1, 100, 1, stream(200, 0)),
        ];
    }
    vec![
        case("requests, 1 connection", h1, 1, 1_000, Load::Plain),
        case("requests, 16 connections", h1, 16, 100, Load::Plain),
        case("1 stream, an event each 2 ms", h1, 1, 1, stream(300, 2_000)),
        case("100 streams, an event each 10 ms", h1, 100, 1, stream(150, 10_000)),
        case("100 streams, an event each 10 ms, h2c", h2, 100, 1, stream(150, 10_000)),
        case("1 stream, full speed, merged", h1, 1, 1, stream(20_000, 0)),
        case("100 streams, full speed, merged", h1, 100, 1, stream(400, 0)),
    ]
}
