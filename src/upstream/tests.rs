use super::*;
use crate::config::{self, Health, PoolKind, Retries, Strategy};
use crate::core::endpoint_health::Mark;
use crate::core::ids::EndpointId;
use crate::core::observe::EndpointPhase;
use crate::core::policy::ModelSet;
use crate::core::reason::Reason;
use crate::core::retry::{End, Failure, Kind};
use crate::core::routing::NoChoice;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A pool of engines at these addresses, without limits.
pub(super) fn spec(endpoints: &[&str]) -> config::Pool {
    config::Pool {
        id: "p".into(),
        models: ModelSet::Any,
        endpoints: endpoints.iter().map(EndpointId::from).collect(),
        discovery: None,
        kind: PoolKind::Engines,
        strategy: Strategy::LeastRequest,
        max_in_flight: None,
        max_in_flight_per_endpoint: None,
        credential: None,
        health: Health::of(PoolKind::Engines),
        retries: Retries::default(),
        engine_shutdown_timeout: None,
    }
}

const E1: &str = "127.0.0.1:1";
const E2: &str = "127.0.0.1:2";
const E3: &str = "127.0.0.1:3";

const DRAINING: &[u8] = br#"{"error":{"message":"cannot schedule new futures after shutdown"}}"#;

fn engines(endpoints: &[&str]) -> Arc<Pool> {
    Pool::new(Arc::new(spec(endpoints)))
}

fn gateway() -> Arc<Pool> {
    let health = Health::of(PoolKind::Gateway);
    Pool::new(Arc::new(config::Pool { kind: PoolKind::Gateway, health, ..spec(&[E1]) }))
}

fn in_flight(pool: &Pool) -> Vec<u64> {
    pool.state().endpoints.iter().map(|endpoint| endpoint.in_flight).collect()
}

fn retries(next: Next) -> bool {
    matches!(next, Next::Retry { .. })
}

#[test]
fn requests_are_spread_evenly_and_leases_count_themselves() {
    let pool = engines(&[E1, E2, E3]);
    let mut leases: Vec<_> = (0..9).map(|_| pool.pick(&[]).unwrap()).collect();
    assert_eq!(in_flight(&pool), [3, 3, 3]);
    leases.retain(|lease| lease.id().as_str() != E2);
    assert_eq!(in_flight(&pool), [3, 0, 3]);
    let lease = pool.pick(&[]).unwrap();
    assert_eq!((lease.id().as_str(), lease.address().port()), (E2, 2));
    drop((lease, leases));
    assert_eq!(in_flight(&pool), [0, 0, 0]);
}

#[test]
fn ties_are_broken_at_random() {
    let pool = engines(&[E1, E2]);
    let chosen: BTreeSet<_> = (0..200).map(|_| pool.pick(&[]).unwrap().id().clone()).collect();
    assert_eq!(chosen.len(), 2);
}

#[test]
fn those_tried_are_excluded_and_the_limit_holds() {
    let pool = Pool::new(Arc::new(config::Pool {
        max_in_flight_per_endpoint: Some(1),
        ..spec(&[E1, E2])
    }));
    let first = pool.pick(&[E1.into()]).unwrap();
    assert_eq!(first.id().as_str(), E2);
    assert_eq!(pool.pick(&[E1.into()]).unwrap_err(), NoChoice::Saturated);
    assert_eq!(pool.pick(&[E1.into(), E2.into()]).unwrap_err(), NoChoice::NoEndpoint);
    let _second = pool.pick(&[]).unwrap();
    assert_eq!(pool.pick(&[]).unwrap_err().reason(), Reason::PoolSaturated);
    drop(first);
    assert_eq!(pool.pick(&[]).unwrap().id().as_str(), E2);
}

#[test]
fn the_limit_holds_under_concurrent_choices() {
    let pool = Pool::new(Arc::new(config::Pool {
        max_in_flight_per_endpoint: Some(5),
        ..spec(&[E1, E2])
    }));
    let leases: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| (0..10).filter_map(|_| pool.pick(&[]).ok()).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(leases.len(), 10);
    assert_eq!(in_flight(&pool), [5, 5]);
}

#[test]
fn a_panicking_request_counts_its_lease_and_its_demand_down() {
    let pool = engines(&[E1]);
    let inside = Arc::clone(&pool);
    let panicked = std::thread::spawn(move || {
        let _held = (inside.pick(&[]).unwrap(), inside.demand());
        panic!("the request fails");
    })
    .join();
    assert!(panicked.is_err());
    assert_eq!((in_flight(&pool), pool.state().demand), (vec![0], 0));
}

#[test]
fn demand_is_counted_by_its_guard() {
    let pool = engines(&[E1]);
    let guards = [pool.demand(), pool.demand()];
    assert_eq!(pool.state().demand, 2);
    drop(guards);
    assert_eq!(pool.state().demand, 0);
}

#[test]
fn an_endpoint_that_comes_back_goes_on_with_what_still_runs() {
    let pool = engines(&[E1, E2]);
    let old = pool.pick(&[E2.into()]).unwrap();
    pool.set_endpoints(&[E2.into()]);
    assert_eq!(in_flight(&pool), [0]);
    pool.set_endpoints(&[E1.into(), E2.into()]);
    assert_eq!(in_flight(&pool), [1, 0]);
    assert_eq!(pool.pick(&[]).unwrap().id().as_str(), E2, "the other has less to do");
    // What ran before says nothing about the process that serves now.
    old.mark(Mark::Unreachable);
    assert_eq!(pool.endpoint_phase(E1), Some(EndpointPhase::Ready));
    let new = pool.pick(&[E2.into()]).unwrap();
    drop(old);
    assert_eq!(in_flight(&pool), [1, 0]);
    drop(new);
    pool.set_endpoints(&[E2.into()]);
    pool.set_endpoints(&[E1.into()]);
    assert_eq!(in_flight(&pool), [0]);
}

#[test]
fn a_pool_that_comes_back_goes_on_with_what_still_runs() {
    let limited = |id: &str, endpoints: &[&str]| {
        let max_in_flight_per_endpoint = Some(2);
        Arc::new(config::Pool { id: id.into(), max_in_flight_per_endpoint, ..spec(endpoints) })
    };
    let pools = Pools::new(&[limited("p", &[E1, E2])]);
    let removed = pools.get(&"p".into()).unwrap();
    let running = (removed.pick(&[E2.into()]).unwrap(), removed.demand());
    // Another pool has its engine now, while a request of before still uses it.
    pools.update(&[limited("q", &[E1])]);
    let other = pools.get(&"q".into()).unwrap();
    assert_eq!(in_flight(&other), [1]);
    let second = removed.pick(&[E2.into()]).unwrap();
    assert_eq!(other.pick(&[]).unwrap_err(), NoChoice::Saturated);
    drop(second);

    pools.update(&[limited("p", &[E1, E2])]);
    let back = pools.get(&"p".into()).unwrap();
    assert!(!Arc::ptr_eq(&back, &removed));
    assert_eq!((in_flight(&back), back.state().demand), (vec![1, 0], 1));
    drop(running);
    assert_eq!((in_flight(&back), back.state().demand), (vec![0, 0], 0));
}

#[test]
fn a_reload_keeps_health_and_counts_of_what_stays() {
    let pools = Pools::new(&[Arc::new(spec(&[E1, E2]))]);
    let pool = pools.get(&"p".into()).unwrap();
    let lease = pool.pick(&[E2.into()]).unwrap();
    pool.drain_endpoint(E2);
    let other = config::Pool { id: "q".into(), ..spec(&["127.0.0.1:4"]) };
    pools.update(&[Arc::new(other), Arc::new(spec(&[E2, E1, E3]))]);
    assert!(Arc::ptr_eq(&pool, &pools.get(&"p".into()).unwrap()));
    let ids: Vec<_> = pools.all().iter().map(|pool| pool.id().to_string()).collect();
    assert_eq!(ids, ["q", "p"]);
    let states: Vec<_> =
        pool.state().endpoints.iter().map(|e| (e.state.as_str(), e.in_flight)).collect();
    assert_eq!(states, [("draining", 0), ("ready", 1), ("ready", 0)]);
    drop(lease);
    assert_eq!(pools.of_endpoint(E3).unwrap().id().as_str(), "p");
    assert!(pools.of_endpoint("127.0.0.1:9").is_none());
}

#[test]
fn an_ordered_drain_stops_the_choice_and_can_be_undone() {
    let pool = engines(&[E1, E2]);
    assert!(pool.drain_endpoint(E1) && !pool.drain_endpoint(E3));
    assert!((0..20).all(|_| pool.pick(&[]).unwrap().id().as_str() == E2));
    assert_eq!(pool.endpoint_phase(E1), Some(EndpointPhase::Draining));
    assert!(pool.restore_endpoint(E1) && !pool.restore_endpoint(E3));
    assert_eq!(pool.endpoint_phase(E1), Some(EndpointPhase::Ready));
}

#[test]
fn a_name_without_an_address_cannot_be_chosen() {
    let pool = engines(&["engine.invalid:8000"]);
    assert_eq!(pool.pick(&[]).unwrap_err(), NoChoice::NoEndpoint);
    assert_eq!(pool.endpoint_phase("engine.invalid:8000"), Some(EndpointPhase::Down));
}

#[test]
fn a_refused_connection_moves_the_request_to_another_endpoint() {
    let pool = engines(&[E1, E2]);
    let mut attempts = pool.attempts(Kind::Stream);
    let first = attempts.pick().unwrap();
    let next = attempts.failed(&first, Failure::NotConnected, false);
    assert_eq!(next, Next::Retry { pause: Duration::ZERO });
    assert_eq!(pool.endpoint_phase(first.id().as_str()), Some(EndpointPhase::Down));
    let second = attempts.pick().unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(attempts.number(), 2);
    // Both failed: the client hears what happened, not that there is no endpoint.
    let next = attempts.failed(&second, Failure::NotConnected, false);
    assert_eq!(next, Next::GiveUp(End::Refuse(Reason::UpstreamUnreachable)));
}

#[test]
fn a_retry_that_has_nowhere_to_go_costs_nothing() {
    let broke = Retries { budget_percent: 100, min_per_second: 0, ..Retries::default() };
    let pool = Pool::new(Arc::new(config::Pool { retries: broke, ..spec(&[E1, E2]) }));
    let busy = Failure::Status { status: 503, body: b"" };
    // Each request pays for one retry, which is the one it makes.
    for _ in 0..20 {
        let mut attempts = pool.attempts(Kind::Stream);
        let first = attempts.pick().unwrap();
        assert!(retries(attempts.failed(&first, busy, false)));
        drop(first);
        let second = attempts.pick().unwrap();
        assert_eq!(attempts.failed(&second, busy, false), Next::GiveUp(End::PassOn));
    }
}

#[test]
fn a_pool_whose_only_evidence_is_passive_is_not_locked_out() {
    let pool = engines(&[E1, E2]);
    for _ in 0..2 {
        pool.pick(&[]).unwrap().mark(Mark::Unreachable);
    }
    let phases: Vec<_> = pool.state().endpoints.iter().map(|e| e.state).collect();
    assert_eq!(phases, [EndpointPhase::Down; 2]);
    pool.pick(&[]).unwrap();
}

#[test]
fn a_stale_connection_is_retried_on_the_same_endpoint() {
    let pool = engines(&[E1]);
    let mut attempts = pool.attempts(Kind::Stream);
    let lease = attempts.pick().unwrap();
    let stale = Failure::Unanswered { reused: true, after: Duration::ZERO };
    assert!(retries(attempts.failed(&lease, stale, false)));
    assert_eq!(attempts.pick().unwrap().id().as_str(), E1);
    assert_eq!(pool.endpoint_phase(E1), Some(EndpointPhase::Ready));
}

#[test]
fn a_drain_answer_takes_the_engine_out_but_not_the_gateway() {
    let drained = Failure::Status { status: 500, body: DRAINING };
    let pool = engines(&[E1]);
    let mut attempts = pool.attempts(Kind::Answer);
    let lease = attempts.pick().unwrap();
    let next = attempts.failed(&lease, drained, false);
    assert_eq!(next, Next::GiveUp(End::Refuse(Reason::NoEndpoint)));
    assert_eq!(pool.endpoint_phase(E1), Some(EndpointPhase::Draining));
    assert_eq!(pool.attempts(Kind::Stream).pick().unwrap_err(), End::Refuse(Reason::NoEndpoint));

    let pool = gateway();
    let mut attempts = pool.attempts(Kind::Answer);
    let lease = attempts.pick().unwrap();
    assert!(retries(attempts.failed(&lease, drained, false)));
    assert_eq!(attempts.pick().unwrap().id().as_str(), E1);
    assert_eq!(pool.endpoint_phase(E1), Some(EndpointPhase::Ready));
}

#[test]
fn without_budget_the_first_failure_is_the_last() {
    let broke = Retries { budget_percent: 50, min_per_second: 0, ..Retries::default() };
    let pool = Pool::new(Arc::new(config::Pool { retries: broke, ..spec(&[E1, E2]) }));
    let first_fails = |failure| {
        let mut attempts = pool.attempts(Kind::Stream);
        let lease = attempts.pick().unwrap();
        attempts.failed(&lease, failure, false)
    };
    let busy = Failure::Status { status: 503, body: b"" };
    assert_eq!(first_fails(busy), Next::GiveUp(End::PassOn));
    assert!(retries(first_fails(busy)), "two requests pay for one retry");
    assert_eq!(first_fails(busy), Next::GiveUp(End::PassOn));
    let stale = Failure::Unanswered { reused: true, after: Duration::ZERO };
    assert!(retries(first_fails(stale)), "a stale connection costs nothing");
}

/// Whether those who wait at the endpoint of this lease are told that it leaves.
async fn told(leaving: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::ZERO, leaving).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_told_that_their_endpoint_leaves() {
    type Leave = fn(&Pool, &EndpointLease);
    let leave: [(&str, Leave, bool); 7] = [
        ("an order", |pool, _| assert!(pool.drain_endpoint(E1)), true),
        ("its own answer", |_, lease| lease.mark(Mark::DrainAnswer), true),
        ("a refused connection", |_, lease| lease.mark(Mark::Refused), true),
        ("removed", |pool, _| pool.set_endpoints(&[E2.into()]), true),
        ("too slow", |_, lease| lease.mark(Mark::Unreachable), false),
        ("a lost connection", |_, lease| lease.mark(Mark::Lost), false),
        ("nothing", |pool, _| pool.set_endpoints(&[E1.into(), E2.into(), E3.into()]), false),
    ];
    for (what, leave, expected) in leave {
        let pool = engines(&[E1, E2]);
        let (lease, other) = (pool.pick(&[E2.into()]).unwrap(), pool.pick(&[E1.into()]).unwrap());
        let before = lease.leaving();
        leave(&pool, &lease);
        assert_eq!(told(before).await, expected, "{what}");
        assert_eq!(told(lease.leaving()).await, expected, "{what}: a lease does not miss it");
        assert!(!told(other.leaving()).await, "{what}: the other stays");
    }
    // What was before the choice is of no account.
    let pool = engines(&[E1]);
    pool.drain_endpoint(E1);
    pool.restore_endpoint(E1);
    assert!(!told(pool.pick(&[]).unwrap().leaving()).await);
}

#[test]
fn a_move_needs_another_endpoint_that_is_ready() {
    let pool = engines(&[E1, E2]);
    let mut stream = pool.attempts(Kind::Stream);
    let waits = pool.pick(&[E2.into()]).unwrap();
    pool.drain_endpoint(E1);
    let next = stream.move_from(waits.id()).unwrap();
    assert_eq!((next.id().as_str(), stream.number()), (E2, 2));
    assert_eq!(in_flight(&pool), [1, 1], "both are held until the first has ended");
    drop(waits);
    // A suspect is no place to go to.
    let mut other = pool.attempts(Kind::Stream);
    pool.pick(&[]).unwrap().mark(Mark::Unreachable);
    assert!(other.move_from(&E1.into()).is_none());
    assert_eq!(other.number(), 1, "what stays has spent nothing");
    assert_eq!(in_flight(&pool), [0, 1]);
    // Nor is one from which it came.
    pool.restore_endpoint(E1);
    assert!(stream.move_from(next.id()).is_none());
    assert!(pool.attempts(Kind::Answer).move_from(&E2.into()).is_none());
}
