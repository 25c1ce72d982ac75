//! The keeper against real sockets on loopback.

use super::*;
use crate::config::{self, Health};
use crate::core::ids::EndpointId;
use crate::core::observe::EndpointPhase::{self, Down, Draining, Ready};
use crate::core::routing::NoChoice;
use crate::core::sync::lock;
use crate::upstream::tests::spec;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BOUND: Duration = Duration::from_secs(20);

/// An engine's health path; gone when dropped.
struct Engine {
    address: SocketAddr,
    answer: Arc<Mutex<&'static str>>,
    heads: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

const HEALTHY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const UNHEALTHY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
/// Accepts and says nothing.
const SILENT: &str = "";

impl Engine {
    async fn start(at: SocketAddr) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(HEALTHY));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (answers, log) = (Arc::clone(&answer), Arc::clone(&heads));
        let task = tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = *lock(&answers);
                if answer == SILENT {
                    silent.push(stream);
                    continue;
                }
                let head = head(&mut stream).await;
                lock(&log).push(head);
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, answer, heads, _task: AbortOnDropHandle::new(task) }
    }

    async fn anywhere() -> Self {
        Self::start(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    fn says(&self, answer: &'static str) {
        *lock(&self.answer) = answer;
    }

    fn probes(&self) -> usize {
        lock(&self.heads).len()
    }
}

async fn head(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => read.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Probed every 100 ms, so that a test is short.
fn pool(endpoints: &[&str]) -> Arc<Pool> {
    let health = Health {
        path: Some("/health".into()),
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(200),
    };
    Pool::new(Arc::new(config::Pool { health, ..spec(endpoints) }))
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let bound = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < bound, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_phase(pool: &Pool, endpoint: &str, phase: EndpointPhase) {
    until(phase.as_str(), || pool.endpoint_phase(endpoint) == Some(phase)).await;
}

#[tokio::test]
async fn an_engine_that_dies_goes_down_and_one_success_brings_it_back() {
    let engine = Engine::anywhere().await;
    let name = engine.address.to_string();
    let pool = pool(&[&name]);
    let _keeper = Keeper::spawn(Arc::clone(&pool));
    until("probed", || engine.probes() >= 2).await;
    assert_eq!(pool.endpoint_phase(&name), Some(Ready));
    let head = lock(&engine.heads)[0].clone();
    assert!(head.starts_with("GET /health HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {name}\r\n")), "{head}");

    let address = engine.address;
    drop(engine);
    until_phase(&pool, &name, Down).await;
    assert_eq!(pool.pick(&[]).unwrap_err(), NoChoice::NoEndpoint);
    let _again = Engine::start(address).await;
    until_phase(&pool, &name, Ready).await;
    pool.pick(&[]).unwrap();
}

#[tokio::test]
async fn a_suspect_is_probed_after_its_backoff_not_after_the_interval() {
    use crate::core::endpoint_health::Mark;

    let engine = Engine::anywhere().await;
    let name = engine.address.to_string();
    let mut rarely = (*pool(&[&name]).spec()).clone();
    rarely.health.interval = Duration::from_secs(3600);
    let pool = Pool::new(Arc::new(rarely));
    let _keeper = Keeper::spawn(Arc::clone(&pool));
    until("probed", || engine.probes() == 1).await;
    pool.pick(&[]).unwrap().mark(Mark::Lost);
    assert_eq!(pool.endpoint_phase(&name), Some(Down));
    until_phase(&pool, &name, Ready).await;
    assert_eq!(engine.probes(), 2);
}

#[tokio::test]
async fn an_unhealthy_or_silent_engine_goes_down_too() {
    for answer in [UNHEALTHY, SILENT] {
        let engine = Engine::anywhere().await;
        let name = engine.address.to_string();
        let pool = pool(&[&name]);
        let _keeper = Keeper::spawn(Arc::clone(&pool));
        engine.says(answer);
        until_phase(&pool, &name, Down).await;
        engine.says(HEALTHY);
        until_phase(&pool, &name, Ready).await;
    }
}

#[tokio::test]
async fn a_draining_engine_stays_out_until_its_process_was_replaced() {
    use crate::core::endpoint_health::Mark;

    let engine = Engine::anywhere().await;
    let name = engine.address.to_string();
    let pool = pool(&[&name]);
    let _keeper = Keeper::spawn(Arc::clone(&pool));
    pool.pick(&[]).unwrap().mark(Mark::DrainAnswer);
    let so_far = engine.probes();
    until("healthy probes while it drains", || engine.probes() >= so_far + 4).await;
    assert_eq!(pool.endpoint_phase(&name), Some(Draining));

    let address = engine.address;
    drop(engine);
    until_phase(&pool, &name, Down).await;
    let _next = Engine::start(address).await;
    until_phase(&pool, &name, Ready).await;
}

#[tokio::test]
async fn a_silent_engine_does_not_delay_the_probes_of_another() {
    let (silent, well) = (Engine::anywhere().await, Engine::anywhere().await);
    silent.says(SILENT);
    let names = [silent.address.to_string(), well.address.to_string()];
    let mut slow = (*pool(&[&names[0], &names[1]]).spec()).clone();
    slow.health.timeout = Duration::from_secs(60);
    let pool = Pool::new(Arc::new(slow));
    let _keeper = Keeper::spawn(Arc::clone(&pool));
    until("probed", || well.probes() >= 3).await;
}

#[tokio::test]
async fn new_endpoints_are_kept_and_a_dropped_keeper_stops() {
    let (first, second) = (Engine::anywhere().await, Engine::anywhere().await);
    let pool = pool(&[&first.address.to_string()]);
    let keeper = Keeper::spawn(Arc::clone(&pool));
    until("probed", || first.probes() > 0).await;
    pool.set_endpoints(&[EndpointId::from(second.address.to_string())]);
    until("probed", || second.probes() > 0).await;
    drop(keeper);
    until("only this test holds the pool", || Arc::strong_count(&pool) == 1).await;
}

/// A resolver whose answers the test sets.
#[derive(Default)]
struct Book(Mutex<Vec<SocketAddr>>);

impl Resolve for Book {
    fn resolve<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let found = lock(&self.0).clone();
        Box::pin(async move {
            if found.is_empty() { Err(io::Error::other("no such name")) } else { Ok(found) }
        })
    }
}

#[tokio::test]
async fn a_name_is_resolved_when_it_can_be_and_again_when_its_address_is_lost() {
    const NAME: &str = "engine.test:8000";
    let (old, new) = (Engine::anywhere().await, Engine::anywhere().await);
    let book = Arc::new(Book::default());
    let pool = pool(&[NAME]);
    let _keeper = Keeper::with(Arc::clone(&pool), Arc::clone(&book) as _);
    assert_eq!(pool.pick(&[]).unwrap_err(), NoChoice::NoEndpoint);

    *lock(&book.0) = vec![old.address];
    until_phase(&pool, NAME, Ready).await;
    assert_eq!(pool.pick(&[]).unwrap().address(), old.address);

    *lock(&book.0) = vec![new.address];
    drop(old);
    until("the new address", || pool.pick(&[]).is_ok_and(|l| l.address() == new.address)).await;
    until_phase(&pool, NAME, Ready).await;

    lock(&book.0).clear();
    let so_far = new.probes();
    until("probes go on", || new.probes() > so_far + 2).await;
    assert_eq!(pool.pick(&[]).unwrap().address(), new.address, "a failed lookup takes nothing");
}

#[tokio::test]
async fn the_systems_resolver_knows_localhost() {
    let found = Dns.resolve("localhost:80").await.unwrap();
    assert!(found.iter().any(|address| address.ip().is_loopback() && address.port() == 80));
}
