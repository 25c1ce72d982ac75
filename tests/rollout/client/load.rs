//! Many clients at once.

use super::{Ask, Client, Tally};
use crate::cluster::Service;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, interval_at};

/// Clients that share one HTTP/2 connection.
const SHARING: usize = 10;

/// Clients at work until [`stop`](Self::stop).
pub struct Load {
    clients: JoinSet<()>,
    goes_on: watch::Sender<bool>,
    tally: Arc<Mutex<Tally>>,
    random: StdRng,
}

impl Load {
    pub fn new(seed: u64) -> Self {
        Self {
            clients: JoinSet::new(),
            goes_on: watch::Sender::new(true),
            tally: Arc::default(),
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// So many streams at any time, half of them over HTTP/1.1: a client whose stream has ended
    /// asks for the next one at once.
    pub fn streams(&mut self, service: &Service, count: usize, tokens: RangeInclusive<u32>) {
        for mut client in clients(service, count) {
            let (tally, goes_on) = (Arc::clone(&self.tally), self.goes_on.subscribe());
            let (mut random, tokens) = (StdRng::from_rng(&mut self.random), tokens.clone());
            self.clients.spawn(async move {
                while *goes_on.borrow() {
                    let fate = client.ask(&Ask::stream(tokens.clone(), &mut random)).await;
                    let failed = fate.kind() != "complete";
                    tally.lock().unwrap().add(fate);
                    if failed {
                        // Nobody asks a service that fails without any pause.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            });
        }
    }

    /// So many short requests a second, evenly, by clients that keep their connections; half of
    /// them over HTTP/1.1. A client that is late asks at once.
    pub fn requests(
        &mut self,
        service: &Service,
        rate: u32,
        count: u32,
        tokens: &RangeInclusive<u32>,
    ) {
        let every = Duration::from_secs(1) * count / rate;
        let clients = clients(service, usize::try_from(count).unwrap());
        for (at, mut client) in (0..count).zip(clients) {
            let (tally, goes_on) = (Arc::clone(&self.tally), self.goes_on.subscribe());
            let (mut random, tokens) = (StdRng::from_rng(&mut self.random), tokens.clone());
            let mut ticks = interval_at(Instant::now() + every * at / count, every);
            self.clients.spawn(async move {
                loop {
                    ticks.tick().await;
                    if !*goes_on.borrow() {
                        return;
                    }
                    let fate = client.ask(&Ask::short(tokens.clone(), &mut random)).await;
                    tally.lock().unwrap().add(fate);
                }
            });
        }
    }

    /// A client that is new each time, so many times a second at most: it has no connection yet.
    pub fn newcomers(&mut self, service: &Service, rate: u32, tokens: &RangeInclusive<u32>) {
        let (tally, goes_on) = (Arc::clone(&self.tally), self.goes_on.subscribe());
        let (mut random, tokens) = (StdRng::from_rng(&mut self.random), tokens.clone());
        let (service, mut ticks) = (service.clone(), interval(Duration::from_secs(1) / rate));
        self.clients.spawn(async move {
            loop {
                ticks.tick().await;
                if !*goes_on.borrow() {
                    return;
                }
                let ask = Ask::short(tokens.clone(), &mut random);
                let fate = Client::h1(&service).ask(&ask).await;
                tally.lock().unwrap().add(fate);
            }
        });
    }

    /// What was seen until now.
    pub fn so_far(&self) -> Tally {
        self.tally.lock().unwrap().clone()
    }

    /// Every client finishes the request it is at.
    pub async fn stop(mut self) -> Tally {
        self.goes_on.send_replace(false);
        while let Some(client) = self.clients.join_next().await {
            client.expect("a client failed");
        }
        self.so_far()
    }
}

/// Half of them over HTTP/1.1, each with a connection; the others share some.
fn clients(service: &Service, count: usize) -> Vec<Client> {
    let h2 = count / 2;
    let mut all: Vec<_> = (h2..count).map(|_| Client::h1(service)).collect();
    for shared in 0..h2.div_ceil(SHARING) {
        all.extend(Client::h2(service, SHARING.min(h2 - shared * SHARING)));
    }
    all
}
