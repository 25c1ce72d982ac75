//! Seeded random bytes at the port. `STREAMGATE_FUZZ_SEED` and `STREAMGATE_FUZZ_CONNECTIONS`
//! choose another run.

use super::{Rig, post};
use crate::support::Api;
use crate::support::request::Request;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LANES: usize = 16;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// Requests to be damaged.
fn seeds() -> Vec<Vec<u8>> {
    let chat = Api::Chat.stream(2);
    vec![
        chat.bytes(),
        chat.chunked(9),
        Api::Messages.plain(2).bytes(),
        Request::get("/v1/models", "a").bytes(),
        post("{}").bytes(),
        [Request::get("/v1/models", "a").bytes(), chat.bytes()].concat(),
        PREFACE.to_vec(),
        // Preface, SETTINGS, HEADERS with an indexed `:method: GET`, `:path: /`, `:scheme: http`.
        [PREFACE, b"\0\0\0\x04\0\0\0\0\0", b"\0\0\x03\x01\x05\0\0\0\x01\x82\x84\x86"].concat(),
    ]
}

fn noise(random: &mut StdRng, most: usize) -> Vec<u8> {
    let length = random.random_range(1..=most);
    (0..length).map(|_| random.random()).collect()
}

/// Bytes, a few of them wrong.
fn damaged(random: &mut StdRng) -> Vec<u8> {
    let seeds = seeds();
    let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] = random.random(),
            1 if bytes.len() > 1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, b"\r\n\0 :;,%{}\"[]09-"[random.random_range(0..16)]),
            3 => bytes.truncate(at + 1),
            4 => {
                let end = random.random_range(at..bytes.len()) + 1;
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let part = noise(random, 40);
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn input(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..8) {
        0 => noise(random, 3000),
        1 => [PREFACE, &noise(random, 500)].concat(),
        2 => [&seeds()[0][..], &noise(random, 200)].concat(),
        _ => damaged(random),
    }
}

/// Throw these bytes at the port in a few pieces, look at what comes for a moment, and go.
async fn throw(to: SocketAddr, bytes: &[u8], random: &mut StdRng) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let pieces = random.random_range(1..=3);
    for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
        if stream.write_all(piece).await.is_err() {
            return;
        }
    }
    match random.random_range(0..4) {
        0 => socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap(),
        1 => {}
        2 => drop(stream.shutdown().await),
        _ => {
            let mut sink = [0; 4096];
            let _ = timeout(Duration::from_millis(100), stream.read(&mut sink)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_bytes_do_no_harm() {
    let seed = number("STREAMGATE_FUZZ_SEED", 20_260_101);
    let count = number("STREAMGATE_FUZZ_CONNECTIONS", 3000);
    println!("seed {seed}, {count} connections");
    let rig = Rig::with(|setup| {
        setup.with("timeouts: {client_header: 500ms, client_body: 500ms}\nlimits: {body: 64KiB}")
    })
    .await;
    let (next, to) = (Arc::new(AtomicU64::new(0)), rig.gate.proxy);
    let lanes: Vec<_> = (0..LANES)
        .map(|_| {
            let next = next.clone();
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
                    let bytes = input(&mut random);
                    throw(to, &bytes, &mut random).await;
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let metrics = rig.unharmed().await;
    let arrivals = metrics.sum("streamgate_arrivals_total");
    assert!(arrivals > count as f64 / 4.0, "only {arrivals} became requests");
}
