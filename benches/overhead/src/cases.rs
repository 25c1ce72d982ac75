//! What is measured, and one block of it.

use crate::client::{Answer, Ask, Lane, Protocol};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longest time for one block; whatever takes longer has failed.
const BLOCK: Duration = Duration::from_secs(60);

/// One kind of load.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub protocol: Protocol,
    /// Lanes that work side by side.
    pub lanes: usize,
    /// Requests of each lane in a block, in turn.
    pub requests: usize,
    pub load: Load,
}

/// What each request is.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// A plain answer of one token.
    Plain,
    /// A stream of that many content events, one every interval (zero: at full speed).
    Stream { events: u32, interval: Duration },
}

/// One block, as measured.
#[derive(Debug, Default)]
pub struct Block {
    /// Requests, or events with content.
    pub units: u64,
    /// Sorted nanoseconds: of a request from its first byte sent to its last byte received; of an
    /// event from its making in the engine to its arrival.
    pub delays: Vec<u64>,
    pub wall: Duration,
    /// Of the proxy.
    pub cpu: Duration,
}

impl Case {
    /// Whether the figures are of events.
    pub fn is_stream(&self) -> bool {
        matches!(self.load, Load::Stream { .. })
    }

    /// Whether delays mean something: at full speed an event waits for those before it.
    pub fn is_paced(&self) -> bool {
        !matches!(self.load, Load::Stream { interval: Duration::ZERO, .. })
    }

    /// Run one block against `address`. `cpu` gives the processor time of the proxy so far.
    pub async fn block(
        &self,
        address: SocketAddr,
        cpu: impl Fn() -> Result<Duration>,
    ) -> Result<Block> {
        let lanes = tokio::time::timeout(BLOCK, self.warm_lanes(address)).await;
        let lanes = lanes.with_context(|| format!("{}: no lanes", self.name))??;
        let (begun, before) = (Instant::now(), cpu()?);
        let started = tokio::time::Instant::now();
        let running = lanes.into_iter().enumerate().map(|(at, lane)| {
            tokio::spawn(lane_block(self.clone(), lane, started + self.stagger(at)))
        });
        let running: Vec<_> = running.collect();
        let ended = tokio::time::timeout(BLOCK, try_join_all(running)).await;
        let ended = ended.with_context(|| format!("{}: too slow", self.name))??;
        let mut block =
            Block { wall: begun.elapsed(), cpu: cpu()?.saturating_sub(before), ..Block::default() };
        for lane in ended {
            block.delays.extend(lane?);
        }
        block.units = block.delays.len() as u64;
        block.delays.sort_unstable();
        Ok(block)
    }

    /// Connected lanes, each of which has had an answer: accepts and connects are not measured.
    async fn warm_lanes(&self, address: SocketAddr) -> Result<Vec<Lane>> {
        let lanes = Lane::open(address, self.protocol, self.lanes).await?;
        let warm = Ask::chat(1, false);
        try_join_all(lanes.into_iter().map(|mut lane| async {
            lane.ask(&warm, &mut Answer::new()).await?;
            Ok(lane)
        }))
        .await
    }

    /// Streams begin spread over one interval, so that their events do not come in bursts.
    fn stagger(&self, lane: usize) -> Duration {
        let share = |interval: Duration| interval.mul_f64(lane as f64 / self.lanes as f64);
        match self.load {
            Load::Stream { interval, .. } => share(interval),
            Load::Plain => Duration::ZERO,
        }
    }

    fn ask(&self) -> Ask {
        match self.load {
            Load::Plain => Ask::chat(1, false),
            Load::Stream { events, interval } => Ask::chat(events, true)
                .header("x-sim-interval", format!("{}us", interval.as_micros())),
        }
    }
}

/// The delays of one lane.
async fn lane_block(case: Case, mut lane: Lane, start: tokio::time::Instant) -> Result<Vec<u64>> {
    tokio::time::sleep_until(start).await;
    let ask = case.ask();
    let mut answer = Answer::new();
    let mut requests = Vec::with_capacity(case.requests);
    for _ in 0..case.requests {
        let begun = Instant::now();
        lane.ask(&ask, &mut answer).await?;
        requests.push(u64::try_from(begun.elapsed().as_nanos())?);
    }
    let Load::Stream { events, .. } = case.load else { return Ok(requests) };
    let wanted = case.requests * events as usize;
    ensure!(answer.delays.len() == wanted, "{} of {wanted} events came", answer.delays.len());
    Ok(answer.delays)
}
