//! The owner in paused time, over endpoints and a board that the test controls.

mod restore;

use super::*;
use crate::core::endpoint_drain::{Board, Dispatch, Seen, View};
use crate::core::ids::ReplicaId;
use crate::core::observe::EndpointPhase;
use crate::core::quota::StoreFault;
use crate::core::sync::lock;
use std::sync::Mutex;
use tokio::sync::Notify;

/// One engine; whatever is asked of it is done.
struct Engine {
    seen: Mutex<Seen>,
    asked: Mutex<Vec<&'static str>>,
    bell: Notify,
}

impl Engine {
    fn with(in_flight: u64) -> Arc<Self> {
        let shutdown_timeout = Some(Duration::from_secs(30));
        let phase = Some(EndpointPhase::Ready);
        let seen = Seen { phase, in_flight, shutdown_timeout, ..Seen::default() };
        Arc::new(Self { seen: Mutex::new(seen), asked: Mutex::default(), bell: Notify::new() })
    }

    fn set(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut lock(&self.seen));
        self.bell.notify_one();
    }

    fn ask(&self, what: &'static str, phase: EndpointPhase) {
        lock(&self.asked).push(what);
        lock(&self.seen).phase = Some(phase);
    }

    fn asked(&self) -> Vec<&'static str> {
        lock(&self.asked).clone()
    }
}

fn engine() -> EndpointId {
    EndpointId::from("e:1")
}

impl EndpointsPort for Engine {
    fn seen(&self, endpoint: &EndpointId) -> Seen {
        if *endpoint == engine() { *lock(&self.seen) } else { Seen::default() }
    }

    fn draining(&self) -> Vec<EndpointId> {
        let draining = lock(&self.seen).phase == Some(EndpointPhase::Draining);
        draining.then(engine).into_iter().collect()
    }

    fn known(&self) -> Vec<EndpointId> {
        vec![engine()]
    }

    fn stop(&self, _: &EndpointId) {
        self.ask("stop", EndpointPhase::Draining);
    }

    fn mark(&self, _: &EndpointId, _: std::time::Instant) {
        self.ask("mark", EndpointPhase::Draining);
    }

    fn serve(&self, _: &EndpointId) {
        self.ask("serve", EndpointPhase::Ready);
    }

    fn cut(&self, _: &EndpointId) -> usize {
        lock(&self.asked).push("cut");
        usize::try_from(std::mem::take(&mut lock(&self.seen).in_flight)).unwrap_or(usize::MAX)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.bell.notified())
    }
}

/// A board of one replica that can be out of reach, or answer late. It never hints.
#[derive(Default)]
struct Near {
    board: Mutex<(Board, u64)>,
    away: Mutex<bool>,
    /// From the execution of an exchange to its answer.
    slow: Mutex<Duration>,
}

impl Near {
    fn set_away(&self, away: bool) {
        *lock(&self.away) = away;
    }
}

impl DrainBoard for Near {
    fn exchange(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<View, StoreFault>> {
        Box::pin(async move {
            if *lock(&self.away) {
                return Err(StoreFault::Timeout);
            }
            let view = {
                let me = ReplicaId::from("me");
                let (board, number) = &mut *lock(&self.board);
                *number += 1;
                let live = Some(vec![me.clone()]);
                let now = Instant::now().into_std();
                board.exchange((Some(&me), *number), &dispatch, live, now)
            };
            let slow = *lock(&self.slow);
            tokio::time::sleep(slow).await;
            Ok(view)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn is_shared(&self) -> bool {
        true
    }
}

fn start(engine: &Arc<Engine>, board: &Arc<Near>) -> EndpointDrainHandle {
    let margin = Duration::from_secs(5);
    EndpointDrainHandle::start("me", margin, engine.clone(), board.clone())
}

/// Somebody waits for a drain that was begun.
async fn draining(
    drains: &EndpointDrainHandle,
) -> tokio::task::JoinHandle<Result<EndpointWait, UnknownEndpoint>> {
    let mut states = drains.0.states.clone();
    let waiting = tokio::spawn(drains.drain(engine(), seconds(80)));
    states.wait_for(|states| states.of(&engine()).is_some()).await.unwrap();
    waiting
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_with_the_last_request() {
    let (port, board) = (Engine::with(2), Arc::<Near>::default());
    let drains = start(&port, &board);
    let waiting = tokio::spawn(drains.drain(engine(), seconds(80)));
    tokio::time::sleep(seconds(10)).await;
    assert!(!waiting.is_finished());
    assert_eq!(port.asked(), ["stop"]);
    assert_eq!(drains.states().len(), 1);
    port.set(|seen| seen.in_flight = 0);
    let ended = waiting.await.unwrap().unwrap();
    assert!(ended.drained && ended.state.in_flight == 0, "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_cut_once_its_time_is_over() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let began = Instant::now();
    let late = drains.drain(engine(), seconds(80)).await.unwrap();
    assert_eq!((late.drained, late.state.in_flight, began.elapsed()), (false, 1, seconds(80)));
    tokio::time::sleep(seconds(24)).await;
    assert_eq!(port.asked(), ["stop"]);
    tokio::time::sleep(seconds(2)).await;
    assert_eq!(port.asked(), ["stop", "cut"]);
    let ended = drains.drain(engine(), seconds(1)).await.unwrap();
    assert!(ended.drained);
}

#[tokio::test(start_paused = true)]
async fn without_the_board_it_stops_here_and_promises_nothing() {
    let (port, board) = (Engine::with(0), Arc::<Near>::default());
    board.set_away(true);
    let drains = start(&port, &board);
    assert!(!drains.ready(seconds(1)).await);
    let late = drains.drain(engine(), seconds(5)).await.unwrap();
    assert_eq!(port.asked(), ["stop"]);
    assert!(!late.drained && !late.state.posted && !late.state.fleet_known, "{late:?}");
    board.set_away(false);
    assert!(drains.drain(engine(), seconds(5)).await.unwrap().drained);
}

#[tokio::test(start_paused = true)]
async fn a_restoration_ends_the_waits_and_does_not_look_like_a_drain_of_its_own() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let waiting = tokio::spawn(drains.drain(engine(), seconds(80)));
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::Restored));
    assert!(waiting.await.unwrap().unwrap().was_restored());
    tokio::time::sleep(seconds(5)).await;
    assert_eq!((port.asked(), drains.states()), (vec!["stop", "serve"], Vec::new()));
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::NotDrained));
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_the_engine_announced_is_told_and_ends_with_the_next_process() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    assert!(drains.ready(seconds(1)).await);
    port.set(|seen| seen.phase = Some(EndpointPhase::Draining));
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(
        drains.states().first().map(|state| (state.cause, state.posted)),
        Some(("answered", true))
    );
    tokio::time::sleep(seconds(25)).await;
    assert!(port.asked().contains(&"cut"), "{:?}", port.asked());
    port.set(|seen| seen.phase = Some(EndpointPhase::Ready));
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(drains.states(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_process_that_ends() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let waiting = draining(&drains).await;
    let closed = Instant::now();
    drains.close().await;
    let late = waiting.await.unwrap().unwrap();
    assert!(!late.drained && closed.elapsed() < seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_after_its_last_request_says_drained() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let waiting = draining(&drains).await;
    // No bell: the end of the process is the first that the owner hears of it.
    lock(&port.seen).in_flight = 0;
    let closed = Instant::now();
    drains.close().await;
    let ended = waiting.await.unwrap().unwrap();
    assert!(ended.drained && ended.state.in_flight == 0, "{ended:?}");
    assert_eq!(closed.elapsed(), seconds(0), "nothing was waited for");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_without_the_board_does_not_stay_for_it() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    board.set_away(true);
    let drains = start(&port, &board);
    let waiting = draining(&drains).await;
    lock(&port.seen).in_flight = 0;
    let closed = Instant::now();
    drains.close().await;
    let late = waiting.await.unwrap().unwrap();
    assert!(!late.drained && !late.state.fleet_known, "{late:?}");
    assert!(closed.elapsed() < seconds(1), "{:?}", closed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_knows_is_refused() {
    let (port, board) = (Engine::with(0), Arc::<Near>::default());
    let drains = start(&port, &board);
    let unknown = drains.drain(EndpointId::from("x:1"), seconds(1)).await.unwrap_err();
    assert_eq!(unknown.known, [engine()]);
    assert!(drains.restore(EndpointId::from("x:1")).await.is_err());
}
