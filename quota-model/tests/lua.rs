//! The real scripts in a real Redis against the model's semantics: every answer, every published
//! hint and the whole state, after every command.
//!
//! The scripts' clock is replaced in their text (see [`support::wire::Scripts::with_clock`]), so that
//! time passes only between commands and both sides see the same millisecond. The server's identity
//! is the real one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed assumption fails the test; what was explored is printed"
)]

mod support;

use rand::Rng;
use redis::{Connection, Value};
use std::collections::BTreeMap;
use streamgate_quota_model::store::{Command, Hint, Outcome, Server, Store, StoreRules, exec};
use support::fleet::Fleet;
use support::names::{self, KEY};
use support::seen::Seen;
use support::server::RedisServer;
use support::wire::{self, Scripts};
use support::{corrupt, parse};

const CLOCK_KEY: &str = "test-clock";
/// The server ms that the model calls 0.
const BASE: i64 = 1_700_000_000_000;
/// Histories of a run, if `STREAMGATE_HISTORIES` does not say another number.
const CASES: u64 = 80;
const STEPS: usize = 200;

/// One real server beside one modelled store.
struct Pair {
    redis: Connection,
    scripts: Scripts,
    store: Store,
    now: i32,
    /// Replication ids by number, from 1.
    idents: Vec<String>,
    published: Vec<Hint>,
}

impl Pair {
    fn new(server: &RedisServer) -> Self {
        let mut redis = server.connect();
        let info: String = redis::cmd("INFO").arg("replication").query(&mut redis).expect("INFO");
        let id = info.split("master_replid:").nth(1).expect("a replication id")[..40].to_owned();
        redis::cmd("FLUSHALL").query::<()>(&mut redis).expect("FLUSHALL");
        Self {
            redis,
            scripts: Scripts::with_clock(CLOCK_KEY),
            store: Store::Absent,
            now: 0,
            idents: vec![id],
            published: Vec::new(),
        }
    }

    /// Runs a command on both sides and compares.
    fn run(&mut self, command: &Command, micros: i64) -> Outcome {
        let ms = BASE + i64::from(self.now);
        let (seconds, micros) = (ms / 1000, ms % 1000 * 1000 + micros);
        redis::pipe()
            .cmd("DEL")
            .arg(CLOCK_KEY)
            .cmd("RPUSH")
            .arg(CLOCK_KEY)
            .arg(&[seconds, micros])
            .exec(&mut self.redis)
            .expect("the clock is set");
        let script = self.scripts.of(command);
        let answer: Result<Value, _> =
            script.key(KEY).arg(wire::args(command)).invoke(&mut self.redis);
        let real = wire::reply(command, answer, BASE);
        let server = Server { now: self.now, ident: 1 };
        let before = self.store.clone();
        let outcome = exec(&StoreRules::default(), &mut self.store, server, command);
        let context = || format!("at {}\n{command:#?}\nbefore: {before:#?}", self.now);
        assert_eq!(real, outcome.reply, "answers differ {}", context());
        let context = context();
        assert_eq!(self.read(), self.store, "states differ {context}");
        self.published.extend(&outcome.hints);
        outcome
    }

    fn fields(&mut self) -> BTreeMap<String, String> {
        redis::cmd("HGETALL").arg(KEY).query(&mut self.redis).expect("HGETALL")
    }

    /// The real state.
    fn read(&mut self) -> Store {
        let kind: String = redis::cmd("TYPE").arg(KEY).query(&mut self.redis).expect("TYPE");
        if kind == "string" {
            return Store::WrongType;
        }
        let fields = self.fields();
        let idents = &mut self.idents;
        parse::store(&fields, BASE, &mut |id| {
            let at = idents.iter().position(|known| known == id).unwrap_or_else(|| {
                idents.push(id.to_owned());
                idents.len() - 1
            });
            u16::try_from(at + 1).expect("few servers")
        })
    }

    /// Something happens to the real key; the model takes over what is there afterwards.
    fn fault(&mut self, fleet: &mut Fleet) {
        let key = redis::cmd("DEL").arg(KEY).to_owned();
        match fleet.rng.random_range(0..20) {
            0 => redis::cmd("FLUSHALL").query::<()>(&mut self.redis).expect("FLUSHALL"),
            1 => {
                key.query::<()>(&mut self.redis).expect("DEL");
                redis::cmd("SET").arg(KEY).arg("x").query::<()>(&mut self.redis).expect("SET");
            }
            2 => {
                key.query::<()>(&mut self.redis).expect("DEL");
                redis::cmd("HSET")
                    .arg(KEY)
                    .arg("a")
                    .arg("b")
                    .query::<()>(&mut self.redis)
                    .expect("HSET");
            }
            3..5 => key.query::<()>(&mut self.redis).expect("DEL"),
            _ if self.store.domain().is_some() => {
                let fields = self.fields();
                let now = BASE + i64::from(self.now);
                let Some((field, value)) = corrupt::edit(&mut fleet.rng, &fields, now) else {
                    return;
                };
                let edit = match &value {
                    Some(value) => redis::cmd("HSET").arg(KEY).arg(field).arg(value).to_owned(),
                    None => redis::cmd("HDEL").arg(KEY).arg(field).to_owned(),
                };
                edit.exec(&mut self.redis).expect("an edit");
            }
            _ => key.query::<()>(&mut self.redis).expect("DEL"),
        }
        self.store = self.read();
    }
}

/// Runs one random history.
fn history(server: &RedisServer, seed: u64, seen: &mut Seen) {
    let mut listener = server.connect();
    let mut channel = listener.as_pubsub();
    channel.subscribe(KEY).expect("SUBSCRIBE");
    let mut fleet = Fleet::new(seed);
    let mut pair = Pair::new(server);
    for _ in 0..STEPS {
        pair.now += match fleet.rng.random_range(0..100) {
            0 => -fleet.rng.random_range(0..4000),
            1 => fleet.rng.random_range(0..5000),
            2..20 => fleet.rng.random_range(0..400),
            _ => fleet.rng.random_range(0..20),
        };
        if fleet.rng.random_bool(0.015) {
            pair.fault(&mut fleet);
        }
        if !matches!(pair.store, Store::Own(_) | Store::Absent) && fleet.rng.random_bool(0.3) {
            redis::cmd("DEL").arg(KEY).exec(&mut pair.redis).expect("DEL");
            pair.store = Store::Absent;
        }
        let (who, command) = fleet.next();
        let micros = fleet.rng.random_range(0..1000);
        let before = pair.store.clone();
        let outcome = pair.run(&command, micros);
        seen.note(&command, &outcome);
        seen.note_beat(&command, &outcome.reply, &before, &pair.store);
        fleet.learn(who, &command, &outcome.reply);
    }
    redis::cmd("PUBLISH").arg(KEY).arg("end").exec(&mut pair.redis).expect("PUBLISH");
    for expected in &pair.published {
        let text = match expected {
            Hint::Pressure(scope) => format!("p {}", names::scope(*scope)),
            Hint::Free(scope) => format!("f {}", names::scope(*scope)),
        };
        let heard: String = channel.get_message().and_then(|m| m.get_payload()).expect("a hint");
        assert_eq!(heard, text, "hints differ");
    }
    let last: String = channel.get_message().and_then(|m| m.get_payload()).expect("the end");
    assert_eq!(last, "end", "a hint too many");
}

fn cases() -> u64 {
    let asked = std::env::var("STREAMGATE_HISTORIES").ok();
    asked.map_or(CASES, |number| number.parse().expect("STREAMGATE_HISTORIES is a number"))
}

#[test]
fn random_histories_answer_and_end_alike() {
    let server = RedisServer::start(&[]);
    let mut seen = Seen::default();
    for seed in 0..cases() {
        let run = std::panic::AssertUnwindSafe(|| history(&server, seed, &mut seen));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    seen.check();
}
