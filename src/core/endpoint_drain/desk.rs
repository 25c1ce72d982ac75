//! One replica's side of all drains: what it acts on, tells the board, and concludes from it.

use super::word::{Stance, Word};
use super::{Dispatch, EndpointDrainState, ReplicaShare, Seen, Share, Stage, View};
use crate::core::ids::{EndpointId, ReplicaId};
use crate::core::observe::EndpointPhase;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words that let serve are remembered so long; see [`Board`](super::Board).
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// A pod behind a gateway, or one that discovery does not find any more, is never seen to be
/// replaced: its drain is over so long after its wait.
const POD_FORGOTTEN: Duration = Duration::from_secs(600);

/// What the owner must do, in order and before it looks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Do not choose it any more; whatever was chosen before is counted when this returns.
    Stop(EndpointId),
    /// The same for an engine that said itself at this time that it shuts down: void if a newer
    /// process is known to serve there.
    Mark(EndpointId, Instant),
    /// It may be chosen again.
    Serve(EndpointId),
    /// End what this replica has there.
    Cut(EndpointId),
}

impl Action {
    fn stops(&self, endpoint: &EndpointId) -> bool {
        matches!(self, Self::Stop(one) | Self::Mark(one, _) if one == endpoint)
    }
}

/// One endpoint.
#[derive(Clone, Debug)]
struct Drain {
    word: Word,
    /// What `Answered` or `Ordered` began with; kept for operators.
    cause: Stance,
    drained: bool,
    cut: bool,
    /// Health saw the process go and another one come.
    returned: bool,
    /// It was an endpoint of a pool here.
    was_here: bool,
}

/// All endpoints that somebody spoke of.
#[derive(Clone, Debug)]
pub struct Desk {
    /// This process, among all that ever use the board.
    name: Arc<str>,
    said: u64,
    margin: Duration,
    drains: BTreeMap<EndpointId, Drain>,
    view: View,
    /// The board answered the last question.
    in_reach: bool,
    actions: Vec<Action>,
}

impl Desk {
    /// A replica that knows of nothing. `name` must be unlike that of every other process;
    /// `margin`: how long before the engine's own end its streams are cut.
    pub fn new(name: &str, margin: Duration) -> Self {
        Self {
            name: name.into(),
            said: 0,
            margin,
            drains: BTreeMap::new(),
            view: View::default(),
            in_reach: false,
            actions: Vec::new(),
        }
    }

    /// An order to drain: the engine is told to stop after `wait` at the latest. Joins a drain
    /// that is under way, and is a word of its own all the same: it is newer than a restoration
    /// that has not been heard of here.
    pub fn order(&mut self, endpoint: &EndpointId, wait: Duration, now: Instant) {
        let word = self.drains.get(endpoint).map(|drain| &drain.word);
        let wait = match word.filter(|word| word.stance.drains()) {
            // It shuts down already; nobody's wait changes when.
            Some(word) if word.stance == Stance::Answered => return,
            Some(word) => wait.max(word.ends().saturating_duration_since(now)),
            None => wait,
        };
        self.say(endpoint, Stance::Ordered, wait, now);
    }

    /// Back in service. `false`: it did not drain.
    pub fn restore(&mut self, endpoint: &EndpointId, now: Instant) -> bool {
        let drains = self.drains(endpoint);
        if drains {
            self.say(endpoint, Stance::Restored, Duration::ZERO, now);
        }
        drains
    }

    /// Back in service, although nothing is known here of a drain: it may drain elsewhere. Ends
    /// what was ordered before, once the board has the word.
    pub fn restore_unheard(&mut self, endpoint: &EndpointId, now: Instant) {
        self.say(endpoint, Stance::Restored, Duration::ZERO, now);
    }

    /// The endpoint is seen to drain by itself. Nothing new if a word says so already.
    pub fn noticed(&mut self, endpoint: &EndpointId, now: Instant) {
        if !self.drains(endpoint) {
            self.say(endpoint, Stance::Answered, Duration::ZERO, now);
        }
    }

    /// Whether a word says that it drains.
    pub fn drains(&self, endpoint: &EndpointId) -> bool {
        self.drains.get(endpoint).is_some_and(|drain| drain.word.stance.drains())
    }

    /// Whether any endpoint drains, or the board lacks a word.
    pub fn is_busy(&self) -> bool {
        self.drains.values().any(|drain| drain.word.stance.drains() || !drain.word.posted)
    }

    /// The board answered; its answer was `received` at that time.
    pub fn heard(&mut self, view: View, received: Instant) {
        self.in_reach = true;
        for (endpoint, drain) in &mut self.drains {
            let entry = view.entries.iter().find(|entry| entry.endpoint == *endpoint);
            if drain.word.meet(entry, received) {
                self.actions.push(drain.followed(endpoint));
            }
        }
        for entry in &view.entries {
            if !self.drains.contains_key(&entry.endpoint) {
                let drain = Drain::new(Word::of(entry, received));
                if drain.word.stance.drains() {
                    self.actions.push(drain.action(&entry.endpoint));
                }
                self.drains.insert(entry.endpoint.clone(), drain);
            }
        }
        self.view = view;
    }

    /// The board did not answer.
    pub fn lost(&mut self) {
        self.in_reach = false;
    }

    /// Draw conclusions from what is seen at `now`.
    pub fn look(&mut self, now: Instant, seen: impl Fn(&EndpointId) -> Seen) {
        let mut replaced = Vec::new();
        for (endpoint, drain) in &mut self.drains {
            if !drain.word.stance.drains() {
                continue;
            }
            let seen = seen(endpoint);
            let fleet = Fleet::of(&self.view, self.in_reach, endpoint, &drain.word, seen.in_flight);
            drain.drained |= fleet.is_drained();
            let back = seen.phase == Some(EndpointPhase::Ready);
            drain.returned |= back;
            drain.was_here |= seen.phase.is_some();
            if drain.is_over(&fleet, seen, now) {
                replaced.push(endpoint.clone());
                continue;
            }
            if back {
                // Others still have streams there: it is not the new process, or not for all.
                self.actions.push(Action::Stop(endpoint.clone()));
            }
            let due = drain.word.cut_at(seen.shutdown_timeout, self.margin);
            if seen.in_flight > 0 && !drain.drained && due.is_some_and(|due| due <= now) {
                drain.cut = true;
                self.actions.push(Action::Cut(endpoint.clone()));
            }
        }
        for endpoint in replaced {
            self.say(&endpoint, Stance::Replaced, Duration::ZERO, now);
        }
        self.drains.retain(|_, drain| {
            drain.word.stance.drains()
                || now.saturating_duration_since(drain.word.since) < REMEMBERED
        });
    }

    /// What is to be done since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// What the board is to be told. Take it after the actions were done: a share says that its
    /// endpoint is not chosen any more.
    pub fn dispatch(&self, now: Instant, seen: impl Fn(&EndpointId) -> Seen) -> Dispatch {
        let unposted = self.drains.iter().filter(|(_, drain)| !drain.word.posted);
        // Only the board makes a version mean one word: a share under a version that another word
        // gets would confirm what was not heard.
        let draining =
            self.drains.iter().filter(|(_, drain)| drain.word.stance.drains() && drain.word.posted);
        Dispatch {
            entries: unposted.map(|(endpoint, drain)| drain.word.entry(endpoint, now)).collect(),
            shares: draining
                .map(|(endpoint, drain)| Share {
                    endpoint: endpoint.clone(),
                    version: drain.word.version,
                    in_flight: seen(endpoint).in_flight,
                })
                .collect(),
        }
    }

    /// Every endpoint that somebody spoke of, for operators and for those who wait.
    pub fn states(
        &self,
        now: Instant,
        seen: impl Fn(&EndpointId) -> Seen,
    ) -> BTreeMap<EndpointId, EndpointDrainState> {
        let states = self.drains.iter().map(|(endpoint, drain)| {
            let seen = seen(endpoint);
            let fleet = Fleet::of(&self.view, self.in_reach, endpoint, &drain.word, seen.in_flight);
            (endpoint.clone(), drain.state(endpoint, &fleet, seen, self.margin, now))
        });
        states.collect()
    }

    fn say(&mut self, endpoint: &EndpointId, stance: Stance, wait: Duration, now: Instant) {
        self.said += 1;
        let by = format!("{}-{}", self.name, self.said).into();
        let before = self.drains.get(endpoint);
        let (version, base) = before
            .map_or((0, (0, "".into())), |drain| (drain.word.version, drain.word.base.clone()));
        let word = Word { version: version + 1, base, by, stance, since: now, wait, posted: false };
        let drain = match self.drains.remove(endpoint) {
            Some(drain) => drain.saying(word),
            None => Drain::new(word),
        };
        if !stance.drains() {
            // What was only just heard and not yet done would drive requests away for nothing.
            self.actions.retain(|action| !action.stops(endpoint));
        }
        self.actions.push(drain.action(endpoint));
        self.drains.insert(endpoint.clone(), drain);
    }
}

impl Drain {
    const fn new(word: Word) -> Self {
        let cause = word.stance;
        Self { word, cause, drained: false, cut: false, returned: false, was_here: false }
    }

    /// The same drain under another word, or another drain.
    fn saying(self, word: Word) -> Self {
        match (self.word.stance.drains(), word.stance.drains()) {
            (true, true) => Self { word, drained: false, ..self },
            (true, false) => Self { word, ..self },
            (false, _) => Self::new(word),
        }
    }

    /// The board's word is followed; what is to be done about it.
    fn followed(&mut self, endpoint: &EndpointId) -> Action {
        if self.word.stance.drains() {
            *self = Self::new(self.word.clone());
        }
        self.action(endpoint)
    }

    fn action(&self, endpoint: &EndpointId) -> Action {
        match self.word.stance {
            Stance::Ordered => Action::Stop(endpoint.clone()),
            Stance::Answered => Action::Mark(endpoint.clone(), self.word.since),
            Stance::Restored | Stance::Replaced => Action::Serve(endpoint.clone()),
        }
    }

    /// Whether the drain has outlived its reason.
    fn is_over(&self, fleet: &Fleet, seen: Seen, now: Instant) -> bool {
        if seen.phase.is_none() {
            let long = now.saturating_duration_since(self.word.ends()) >= POD_FORGOTTEN;
            return long && (seen.pod || (self.was_here && seen.in_flight == 0));
        }
        match self.word.stance {
            // Health alone knows when a drain that the engine announced is over.
            Stance::Answered => self.returned,
            // Without the board, what runs here is all that can be known.
            Stance::Ordered if !fleet.in_reach => self.returned && seen.in_flight == 0,
            Stance::Ordered => self.returned && fleet.is_drained(),
            Stance::Restored | Stance::Replaced => false,
        }
    }

    fn state(
        &self,
        endpoint: &EndpointId,
        fleet: &Fleet,
        seen: Seen,
        margin: Duration,
        now: Instant,
    ) -> EndpointDrainState {
        let due = self.word.cut_at(seen.shutdown_timeout, margin);
        EndpointDrainState {
            endpoint: endpoint.clone(),
            state: match self.word.stance {
                Stance::Restored => Stage::Restored,
                Stance::Replaced => Stage::Replaced,
                _ if self.drained => Stage::Drained,
                _ if self.cut => Stage::Cut,
                _ => Stage::Draining,
            },
            cause: self.cause.as_str(),
            since_ms: millis(now.saturating_duration_since(self.word.since)),
            in_flight: fleet.shares.iter().map(|share| share.in_flight).sum(),
            fleet_known: fleet.in_reach && fleet.sure,
            posted: self.word.posted,
            replicas: fleet.shares.clone(),
            cut_in_ms: due.filter(|due| *due > now && !self.drained).map(|due| millis(due - now)),
        }
    }
}

/// What all replicas have at one endpoint, as far as is known.
struct Fleet {
    in_reach: bool,
    /// It is known who lives, and this replica is among them.
    sure: bool,
    posted: bool,
    shares: Vec<ReplicaShare>,
}

impl Fleet {
    /// `own`: requests of this replica there now, which is newer than what the board has.
    fn of(view: &View, in_reach: bool, endpoint: &EndpointId, word: &Word, own: u64) -> Self {
        let me = view.me.clone().unwrap_or_else(|| ReplicaId::from("this"));
        let mut shares =
            vec![ReplicaShare { replica: me.clone(), here: true, confirmed: true, in_flight: own }];
        let others = view.live.iter().flatten().filter(|replica| **replica != me);
        for replica in others {
            let share = view
                .shares
                .iter()
                .find(|(who, share)| who == replica && share.endpoint == *endpoint);
            shares.push(ReplicaShare {
                replica: replica.clone(),
                here: false,
                confirmed: share.is_some_and(|(_, share)| share.version == word.version),
                in_flight: share.map_or(0, |(_, share)| share.in_flight),
            });
        }
        let sure = view.me.is_some() && view.live.as_ref().is_some_and(|live| live.contains(&me));
        Self { in_reach, sure, posted: word.posted, shares }
    }

    /// Confirmed by all, and nothing runs.
    fn is_drained(&self) -> bool {
        self.in_reach
            && self.sure
            && self.posted
            && self.shares.iter().all(|share| share.confirmed && share.in_flight == 0)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl Desk {
    pub(super) fn word(&self, endpoint: &EndpointId) -> Option<&Word> {
        self.drains.get(endpoint).map(|drain| &drain.word)
    }
}
