//! Who has a place at the admin port, and who gives way when there is none left.
//!
//! A newcomer always gets a place: where all are taken, the oldest connection that has not said
//! what it wants is closed, or else the oldest that is slow to take its answer. A call that blocks
//! (a drain) never gives way, but there is room for some of them only, so that somebody else
//! always does.

use crate::core::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// A connection is left alone for so long after it was accepted: its head may be on the way.
const HEAD_GRACE: Duration = Duration::from_millis(250);
/// The same for an answer after its head came.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// All places of one port. Clones share them.
#[derive(Clone)]
pub struct Places(Arc<Shared>);

struct Shared {
    most: usize,
    table: Mutex<Table>,
    /// Rings when somebody left, or began to wait to be the next to give way.
    left: Notify,
}

#[derive(Default)]
struct Table {
    issued: u64,
    /// By age: numbers ascend.
    taken: BTreeMap<u64, Taken>,
}

struct Taken {
    stage: Stage,
    since: Instant,
    give_way: CancellationToken,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Has not said what it wants.
    Head,
    /// Is being answered.
    Answer,
    /// Blocks until a drain has ended.
    Blocked,
}

impl Taken {
    /// When it may be closed for a newcomer.
    fn may_go(&self) -> Option<Instant> {
        match self.stage {
            Stage::Head => Some(self.since + HEAD_GRACE),
            Stage::Answer => Some(self.since + ANSWER_GRACE),
            Stage::Blocked => None,
        }
    }
}

/// One place; free again when dropped.
pub struct Place {
    shared: Arc<Shared>,
    number: u64,
    give_way: CancellationToken,
}

/// Says for a connection what it is doing.
#[derive(Clone)]
pub struct Seat {
    shared: Arc<Shared>,
    number: u64,
}

/// A call that blocks, until dropped.
pub struct Blocked(Seat);

impl Places {
    /// `most` places, at least two; half of them may be taken by calls that block.
    pub fn new(most: usize) -> Self {
        let (most, table, left) = (most.max(2), Mutex::default(), Notify::new());
        Self(Arc::new(Shared { most, table, left }))
    }

    /// A place for a newcomer, now or as soon as somebody may be closed for it. Cancel-safe.
    pub async fn enter(&self) -> Place {
        loop {
            let left = self.0.left.notified();
            let next = match self.try_enter(Instant::now()) {
                Ok(place) => return place,
                Err(next) => next,
            };
            tokio::select! {
                () = left => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// # Errors
    /// When to ask again.
    fn try_enter(&self, now: Instant) -> Result<Place, Instant> {
        let mut table = lock(&self.0.table);
        if table.taken.len() >= self.0.most {
            let weakest = table
                .taken
                .iter()
                .filter_map(|(number, taken)| Some((taken.may_go()?, taken.stage, *number)));
            // Blocked calls have half of the places, so there is one.
            let (due, past): (Vec<_>, Vec<_>) = weakest.partition(|(when, ..)| *when > now);
            let Some((_, number)) = past.iter().map(|(_, stage, number)| (*stage, *number)).min()
            else {
                let soonest = due.iter().map(|(when, ..)| *when).min();
                return Err(soonest.unwrap_or(now + HEAD_GRACE));
            };
            if let Some(taken) = table.taken.remove(&number) {
                taken.give_way.cancel();
            }
        }
        table.issued += 1;
        let (number, give_way) = (table.issued, CancellationToken::new());
        let taken = Taken { stage: Stage::Head, since: now, give_way: give_way.clone() };
        table.taken.insert(number, taken);
        Ok(Place { shared: Arc::clone(&self.0), number, give_way })
    }
}

impl Place {
    /// For whoever serves the connection.
    pub fn seat(&self) -> Seat {
        Seat { shared: Arc::clone(&self.shared), number: self.number }
    }

    /// Resolves when the connection is to be closed for a newcomer.
    pub async fn give_way(&self) {
        self.give_way.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.shared.table).taken.remove(&self.number);
        self.shared.left.notify_one();
    }
}

impl Seat {
    /// The head has come.
    pub fn answer(&self) {
        self.enter(Stage::Answer);
    }

    /// The call is going to block. `None`: too many do.
    pub fn block(&self) -> Option<Blocked> {
        let mut table = lock(&self.shared.table);
        let blocked = table.taken.values().filter(|taken| taken.stage == Stage::Blocked).count();
        if blocked >= self.shared.most / 2 {
            return None;
        }
        if let Some(taken) = table.taken.get_mut(&self.number) {
            taken.stage = Stage::Blocked;
        }
        Some(Blocked(self.clone()))
    }

    fn enter(&self, stage: Stage) {
        if let Some(taken) = lock(&self.shared.table).taken.get_mut(&self.number) {
            (taken.stage, taken.since) = (stage, Instant::now());
        }
        self.shared.left.notify_one();
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.enter(Stage::Answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn gone(place: &Place) -> bool {
        place.give_way().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_one_gives_way_and_no_sooner_than_it_could_speak() {
        let places = Places::new(3);
        let (first, second, third) =
            (places.enter().await, places.enter().await, places.enter().await);
        first.seat().answer();
        let came = Instant::now();
        let fourth = places.enter().await;
        assert_eq!(came.elapsed(), HEAD_GRACE);
        assert_eq!([&first, &second, &third, &fourth].map(gone), [false, true, false, false]);
        // One whose place is gone frees none.
        drop(second);
        assert!(places.enter().now_or_never().is_some_and(|_fifth| gone(&third)));
    }

    #[tokio::test(start_paused = true)]
    async fn blocked_calls_stay_and_leave_half_of_the_places() {
        let places = Places::new(4);
        let waiting = [places.enter().await, places.enter().await];
        let blocked = waiting.each_ref().map(|place| place.seat().block().unwrap());
        let slow = [places.enter().await, places.enter().await];
        slow.iter().for_each(|place| place.seat().answer());
        assert!(slow[0].seat().block().is_none(), "half of the places are blocked");
        let newcomer = places.enter().await;
        assert_eq!(slow.each_ref().map(gone), [true, false]);
        assert_eq!(waiting.each_ref().map(gone), [false, false]);
        drop(blocked);
        assert!(newcomer.seat().block().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_makes_room_at_once() {
        let places = Places::new(2);
        let (first, _second) = (places.enter().await, places.enter().await);
        let mut newcomer = Box::pin(places.enter());
        assert!(futures::poll!(newcomer.as_mut()).is_pending());
        drop(first);
        assert!(newcomer.now_or_never().is_some());
    }
}
