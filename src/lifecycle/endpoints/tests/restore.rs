//! Restorations: of drains that this replica has heard of, that only the board knows, and without
//! the board.

use super::*;
use crate::core::endpoint_drain::{Entry, Stance};
use crate::core::endpoint_drain_port::BoardStatus;
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

impl Near {
    /// Another replica puts a word there, if the board takes it.
    fn heard_elsewhere(&self, version: u64, stance: Stance) {
        let (by, base) = ("other".into(), version - 1);
        let (age, wait) = (Duration::ZERO, seconds(80));
        let entry = Entry { endpoint: engine(), version, base, by, stance, age, wait };
        let dispatch = Dispatch { entries: vec![entry], shares: Vec::new() };
        self.read(&dispatch);
    }

    /// Whether the endpoint drains; `None`: there is no word of it.
    fn drains(&self) -> Option<bool> {
        let view = self.read(&Dispatch::default());
        view.entries.first().map(|entry| entry.stance.drains())
    }

    fn read(&self, dispatch: &Dispatch) -> View {
        let now = Instant::now().into_std();
        lock(&self.board).0.exchange((None, 0), dispatch, None, now)
    }
}

type Waiting = tokio::task::JoinHandle<Result<Restoration, UnknownEndpoint>>;

/// Somebody waits for a restoration that was called for.
async fn restoring(drains: &EndpointDrainHandle) -> Waiting {
    let waiting = tokio::spawn(drains.restore(engine()));
    // Others run first.
    sleep(MS).await;
    waiting
}

/// A replica that has just read the board and will not look again for a second.
async fn quiet(engine: &Arc<Engine>, board: &Arc<Near>) -> EndpointDrainHandle {
    let drains = start(engine, board);
    assert!(drains.ready(seconds(1)).await);
    sleep(100 * MS).await;
    drains
}

/// A replica that has heard nothing of a drain that only the board knows of, and the board is away.
async fn deaf() -> (Arc<Near>, EndpointDrainHandle) {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    board.heard_elsewhere(1, Stance::Ordered);
    board.set_away(true);
    let drains = start(&port, &board);
    sleep(seconds(5)).await;
    (board, drains)
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_only_the_board_knows_is_restored() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = quiet(&port, &board).await;
    board.heard_elsewhere(1, Stance::Ordered);
    let called = Instant::now();
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::Restored));
    assert_eq!(called.elapsed(), Duration::ZERO, "the board was asked at once");
    assert_eq!(board.drains(), Some(false));
    assert!(!port.asked().contains(&"stop"), "nobody was sent away from it: {:?}", port.asked());
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_call_does_not_count() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    *lock(&board.slow) = 300 * MS;
    let drains = start(&port, &board);
    sleep(100 * MS).await;
    // The first exchange was executed, and is not answered.
    board.heard_elsewhere(1, Stance::Ordered);
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::Restored));
    assert_eq!(board.drains(), Some(false));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_drains_the_board_says_so() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = quiet(&port, &board).await;
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::NotDrained));
    assert_eq!((board.drains(), port.asked()), (None, Vec::new()), "nothing was said or done");
}

#[tokio::test(start_paused = true)]
async fn without_the_board_nothing_is_claimed_and_the_word_is_kept_for_it() {
    let (board, drains) = deaf().await;
    let called = Instant::now();
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::NotKnown));
    assert_eq!(called.elapsed(), TOLD);
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::NotKnown), "and again");
    board.set_away(false);
    sleep(seconds(1)).await;
    assert_eq!(board.drains(), Some(false));
    assert_eq!(drains.states(), Vec::new());
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::NotDrained));
}

#[tokio::test(start_paused = true)]
async fn a_board_that_comes_back_in_time_is_asked() {
    let (board, drains) = deaf().await;
    let waiting = restoring(&drains).await;
    sleep(500 * MS).await;
    board.set_away(false);
    let back = Instant::now();
    assert_eq!(waiting.await.unwrap(), Ok(Restoration::Restored));
    assert!(back.elapsed() < PAUSE_AT_MOST, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_board_that_came_back_unnoticed_is_asked_at_once() {
    let (board, drains) = deaf().await;
    board.set_away(false);
    let called = Instant::now();
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::Restored));
    assert_eq!(called.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_known_drain_is_restored_here_without_the_board_and_told_when_it_is_back() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let waiting = draining(&drains).await;
    sleep(seconds(1)).await;
    board.set_away(true);
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::RestoredHere));
    assert_eq!(port.asked(), ["stop", "serve"]);
    assert!(waiting.await.unwrap().unwrap().was_restored());
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::NotKnown), "not told yet");
    board.set_away(false);
    sleep(PAUSE_AT_MOST).await;
    assert_eq!(board.drains(), Some(false));
}

/// Between two attempts to tell the board something.
const PAUSE_AT_MOST: Duration = Duration::from_millis(101);

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_tells_the_board_what_was_restored() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let waiting = draining(&drains).await;
    sleep(seconds(1)).await;
    board.set_away(true);
    assert_eq!(drains.restore(engine()).await, Ok(Restoration::RestoredHere));
    board.set_away(false);
    drains.close().await;
    assert_eq!(board.drains(), Some(false));
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_does_not_keep_who_waits_for_the_board() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    board.set_away(true);
    let drains = start(&port, &board);
    sleep(seconds(5)).await;
    let waiting = restoring(&drains).await;
    let closed = Instant::now();
    drains.close().await;
    assert_eq!(waiting.await.unwrap(), Ok(Restoration::NotKnown));
    assert!(closed.elapsed() <= 500 * MS, "{:?}", closed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_order_elsewhere_after_the_call_holds() {
    // The drain before it is known here, and the caller is told.
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    let drains = start(&port, &board);
    let first = draining(&drains).await;
    sleep(seconds(1)).await;
    board.set_away(true);
    let waiting = restoring(&drains).await;
    sleep(300 * MS).await;
    board.heard_elsewhere(2, Stance::Ordered);
    board.set_away(false);
    assert_eq!(waiting.await.unwrap(), Ok(Restoration::Overruled));
    assert_eq!(board.drains(), Some(true));
    drop(first);

    // Nothing is known here.
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    board.set_away(true);
    let drains = start(&port, &board);
    sleep(seconds(5)).await;
    let waiting = restoring(&drains).await;
    sleep(300 * MS).await;
    board.heard_elsewhere(1, Stance::Ordered);
    assert_eq!(waiting.await.unwrap(), Ok(Restoration::NotKnown));
    board.set_away(false);
    sleep(seconds(1)).await;
    assert_eq!((board.drains(), drains.states().len()), (Some(true), 1));
}

#[tokio::test(start_paused = true)]
async fn an_order_here_while_the_board_is_asked_holds_and_the_caller_is_told() {
    let (port, board) = (Engine::with(1), Arc::<Near>::default());
    board.set_away(true);
    let drains = start(&port, &board);
    sleep(seconds(5)).await;
    let waiting = restoring(&drains).await;
    sleep(300 * MS).await;
    let ordered = draining(&drains).await;
    board.set_away(false);
    assert_eq!(waiting.await.unwrap(), Ok(Restoration::Overruled));
    sleep(seconds(1)).await;
    assert_eq!(board.drains(), Some(true));
    drop(ordered);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_is_served_all_the_same() {
    let (board, drains) = deaf().await;
    let waiting = restoring(&drains).await;
    waiting.abort();
    sleep(300 * MS).await;
    board.set_away(false);
    sleep(seconds(1)).await;
    assert_eq!(board.drains(), Some(false));
}

#[tokio::test(start_paused = true)]
async fn everybody_may_know_whether_the_board_answers() {
    let (port, board) = (Engine::with(0), Arc::<Near>::default());
    let drains = start(&port, &board);
    assert_eq!(drains.board(), BoardStatus { up: false, last_fault: None }, "not asked yet");
    assert!(drains.ready(seconds(1)).await);
    assert_eq!(drains.board(), BoardStatus { up: true, last_fault: None });
    let last_fault = Some(StoreFault::Timeout);
    for up in [false, true] {
        board.set_away(!up);
        sleep(seconds(3)).await;
        assert_eq!(drains.board(), BoardStatus { up, last_fault });
    }
}
