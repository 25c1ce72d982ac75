//! DNS with a resolver that says what the test wants, and the finders of a process's pools.

use super::*;
use crate::config;
use crate::core::ids::EndpointId;
use crate::core::sync::lock;
use crate::upstream::Pools;
use crate::upstream::keeper::resolve::Resolve;
use crate::upstream::tests::spec;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;

/// Gives its answers one after another, the last one for ever.
struct Scripted(Mutex<VecDeque<Result<Vec<&'static str>, &'static str>>>);

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        assert_eq!(name, "vllm:8000");
        let mut answers = lock(&self.0);
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move {
            let addresses = answer.unwrap().map_err(io::Error::other)?;
            Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
        })
    }
}

fn source() -> Discovery {
    Discovery::Dns("vllm:8000".to_owned())
}

fn discovering(discovery: Option<Discovery>) -> Arc<config::Pool> {
    Arc::new(config::Pool { discovery, ..spec(&[]) })
}

fn endpoints(pool: &Pool) -> Vec<String> {
    pool.state().endpoints.iter().map(|endpoint| endpoint.endpoint.to_string()).collect()
}

async fn becomes(pool: &Pool, expected: &[&str]) {
    let wait = async {
        while endpoints(pool) != expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(60), wait).await;
    assert!(within.is_ok(), "{:?} instead of {expected:?}", endpoints(pool));
}

const A: &str = "10.0.0.1:8000";
const B: &str = "10.0.0.2:8000";
const V6: &str = "[fd00::1]:8000";

#[tokio::test(start_paused = true)]
async fn every_address_of_the_name_is_an_endpoint_and_the_last_list_stays() {
    let pool = Pool::new(discovering(Some(source())));
    assert!(pool.awaits_endpoints());
    let answers =
        [Err("away"), Ok(vec![B, A, V6, A]), Ok(vec![A, V6]), Ok(vec![]), Err("away"), Ok(vec![B])];
    let resolver = Arc::new(Scripted(Mutex::new(answers.into())));
    let follow = dns::follow(Arc::clone(&pool), source(), "vllm:8000".to_owned(), resolver.clone());
    let _task = AbortOnDropHandle::new(tokio::spawn(follow));
    becomes(&pool, &[A, B, V6]).await;
    assert!(!pool.awaits_endpoints());
    let running = pool.pick(&[B.into(), V6.into()]).unwrap();
    becomes(&pool, &[A, V6]).await;
    assert_eq!(pool.state().endpoints[0].in_flight, 1);
    let left = || lock(&resolver.0).len();
    while left() > 1 {
        assert_eq!(endpoints(&pool), [A, V6], "neither an empty answer nor a fault says anything");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    becomes(&pool, &[B]).await;
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_are_bounded_and_are_forgiven() {
    let mut pauses = Pauses::default();
    for expected in [0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        let (pause, longest) = (pauses.after_failure(), Duration::from_millis(expected));
        assert!(pause <= longest && pause >= longest / 2, "{pause:?}, at most {longest:?}");
        tokio::time::advance(pause).await;
    }
    tokio::time::advance(LONGEST_PAUSE + FORGIVEN_AFTER).await;
    assert_eq!(pauses.after_failure(), Duration::ZERO);
    for _ in 0..100 {
        assert!(pauses.after_failure() <= LONGEST_PAUSE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_endpoints_for_a_bounded_time_and_never_again() {
    let nowhere = Discovery::Dns("name.invalid:8000".to_owned());
    let pools = Pools::new(&[discovering(Some(nowhere.clone()))]);
    assert!(!pools.awaits_endpoints(), "nothing was started yet");
    pools.keep();
    assert!(pools.awaits_endpoints());
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(pools.awaits_endpoints());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(!pools.awaits_endpoints());

    let listed = Pools::new(&[Arc::new(spec(&[A]))]);
    listed.keep();
    assert!(!listed.awaits_endpoints());
    // A reload of a process that serves does not take it out of service.
    listed.update(&[Arc::new(spec(&[A])), discovering(Some(nowhere))]);
    assert!(!listed.awaits_endpoints());
}

#[tokio::test]
async fn a_reload_keeps_what_was_found_until_the_source_says_otherwise() {
    let pools = Pools::new(&[discovering(Some(source()))]);
    let pool = pools.get(&"p".into()).unwrap();
    let found = |address: &str| crate::core::discovery::Found {
        id: EndpointId::from(address),
        incarnation: None,
        availability: crate::core::discovery::Availability::Ready,
    };
    assert!(pool.discovered(&source(), &[found(A), found(B)]));
    let running = pool.pick(&[B.into()]).unwrap();

    // Something else changed.
    let limited = config::Pool {
        max_in_flight_per_endpoint: Some(1),
        ..(*discovering(Some(source()))).clone()
    };
    pools.update(&[Arc::new(limited)]);
    assert_eq!(endpoints(&pool), [A, B]);
    assert!(pool.pick(&[B.into()]).is_err(), "the new limit holds, with the count of before");

    // Another source: the old one is not heard any more.
    let other = Discovery::Dns("other:8000".to_owned());
    pools.update(&[discovering(Some(other.clone()))]);
    assert!(!pool.discovered(&source(), &[]));
    assert_eq!(endpoints(&pool), [A, B]);
    assert!(pool.discovered(&other, &[found(A)]));
    assert_eq!((endpoints(&pool), pool.state().endpoints[0].in_flight), (vec![A.to_owned()], 1));

    // A list, and back.
    pools.update(&[Arc::new(spec(&[A, B]))]);
    assert!(!pool.discovered(&other, &[]));
    assert_eq!((endpoints(&pool).len(), pool.state().endpoints[0].in_flight), (2, 1));
    pools.update(&[discovering(Some(source()))]);
    assert_eq!(endpoints(&pool), [A, B]);
    assert!(pool.discovered(&source(), &[]));
    assert!(endpoints(&pool).is_empty());
    drop(running);
}

#[tokio::test]
async fn a_finder_lives_as_long_as_its_source_is_asked_for() {
    let (one, two) = (source(), Discovery::Dns("other:8000".to_owned()));
    let pools = Pools::new(&[discovering(Some(one.clone()))]);
    pools.keep();
    assert_eq!(pools.sources(), std::slice::from_ref(&one));
    pools.update(&[discovering(Some(two.clone()))]);
    assert_eq!(pools.sources(), [two]);
    pools.update(&[Arc::new(spec(&[A]))]);
    assert!(pools.sources().is_empty());
    pools.update(&[discovering(Some(one.clone()))]);
    assert_eq!(pools.sources(), [one]);
    pools.update(&[]);
    assert!(pools.sources().is_empty());
}
