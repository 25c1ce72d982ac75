//! The shipped scripts, unchanged, on real servers: the clock is the server's, memory is lost as
//! servers lose it, and data that is not ours is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed assumption fails the test; what was explored is printed"
)]

mod support;

use redis::{Connection, Value};
use std::time::{Duration, Instant};
use streamgate_quota_model::store::{
    Ask, Beat, Claim, Code, Command, Config, IncId, Join, Leaf, Op, Reply, Set, Store,
};
use support::names::KEY;
use support::parse;
use support::server::{RedisServer, pause};
use support::wire::{self, Scripts};

/// Long enough for a loaded machine between two commands, short enough to wait for.
const LEASE: i32 = 1500;
const STALL: i32 = 600_000;
const LEAF: Leaf = Leaf(0b0101);

/// A holder that speaks to one server.
struct Holder {
    redis: Connection,
    scripts: Scripts,
    inc: IncId,
    known: u16,
    v: u16,
    nonce: u16,
    /// The server's clock at the start, ms.
    began: i64,
}

impl Holder {
    fn new(server: &RedisServer, owner: u8) -> Self {
        let inc = IncId { owner, life: 1, ..IncId::default() };
        let nonce = u16::from(owner) * 100;
        let mut redis = server.connect();
        let began = ms_of(&mut redis);
        Self { redis, scripts: Scripts::shipped(), inc, known: 0, v: 0, nonce, began }
    }

    fn raw(&mut self, op: Op) -> (Command, Result<Value, redis::RedisError>) {
        let command = Command { inc: self.inc, known: self.known, stall: STALL, op };
        let script = self.scripts.of(&command);
        let answer = script.key(KEY).arg(wire::args(&command)).invoke(&mut self.redis);
        (command, answer)
    }

    fn send(&mut self, op: Op) -> Reply {
        let (command, answer) = self.raw(op);
        let reply = wire::reply(&command, answer, self.began);
        if let Reply::Joined { now, .. } = reply {
            let passed = ms_of(&mut self.redis) - self.began;
            assert!((0..=passed).contains(&i64::from(now)), "{now} of {passed}");
        }
        reply
    }

    fn join_op(&mut self, n: u16) -> Op {
        self.v += 1;
        self.nonce += 1;
        let claims = if n > 0 { vec![Claim { leaf: LEAF, n, idle: 0 }] } else { Vec::new() };
        Op::Join(Join {
            lease: LEASE,
            floor_lease: 0,
            nonce: self.nonce,
            v: self.v,
            force: false,
            claims,
        })
    }

    fn join(&mut self, n: u16) -> Reply {
        let op = self.join_op(n);
        let reply = self.send(op);
        if let Reply::Joined { gen_, .. } = reply {
            self.known = gen_;
        }
        reply
    }

    fn beat(&mut self) -> Reply {
        let v = self.v;
        self.send(Op::Beat(Beat { lease: LEASE, floor_lease: 0, fv: v, bv: v, table: None }))
    }

    /// Asks for `need` slots of a tenant with a cap of 2, in a pool without one.
    fn set(&mut self, need: u16) -> (u16, Code) {
        self.v += 1;
        let scopes = vec![
            Config { scope: 0, cap: -1, rev: 1, floor: 0 },
            Config { scope: 2, cap: 2, rev: 1, floor: 0 },
        ];
        let entries = vec![Ask { leaf: LEAF, need, want: need }];
        match self.send(Op::Set(Set { pressure: 500, v: self.v, scopes, entries })) {
            Reply::Held { grants, .. } => (grants[0].n, grants[0].code),
            other => panic!("{other:?}"),
        }
    }

    /// Beats until the store has learned.
    fn wait_for_learning(&mut self) {
        bounded(|| matches!(self.beat(), Reply::Beaten { learning: 0, .. }));
    }

    fn store(&mut self) -> Store {
        let fields = redis::cmd("HGETALL").arg(KEY).query(&mut self.redis).expect("HGETALL");
        parse::store(&fields, ms_of(&mut self.redis), &mut |_| 1)
    }
}

/// The server's clock.
fn ms_of(redis: &mut Connection) -> i64 {
    let (s, us): (i64, i64) = redis::cmd("TIME").query(redis).expect("TIME");
    s * 1000 + us / 1000
}

/// Waits for a value, for at most ten seconds.
fn bounded(mut met: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !met() {
        assert!(Instant::now() < until, "not met in time");
        pause(Duration::from_millis(20));
    }
}

fn cmd(connection: &mut Connection, words: &[&str]) -> Value {
    let mut cmd = redis::cmd(words[0]);
    cmd.arg(&words[1..]).query(connection).unwrap_or_else(|e| panic!("{words:?}: {e}"))
}

/// A domain in which one holder has both slots and the store has learned.
fn full(server: &RedisServer) -> Holder {
    let mut a = Holder::new(server, 1);
    assert!(matches!(a.join(0), Reply::Joined { .. }));
    a.wait_for_learning();
    assert_eq!(a.set(2), (2, Code::Ok));
    a
}

/// After a loss: everybody is told, the claim is believed, nobody else gets a slot while learning.
fn reasserts(a: &mut Holder, b: &mut Holder) {
    assert_eq!(a.beat(), Reply::NewGen);
    assert!(matches!(b.join(0), Reply::Joined { .. }), "the newcomer founds");
    assert_eq!(b.set(1), (0, Code::Learning));
    assert!(matches!(a.join(2), Reply::Joined { .. }), "the holder asserts again");
    bounded(|| {
        assert!(matches!(a.beat(), Reply::Beaten { .. }));
        matches!(b.beat(), Reply::Beaten { learning: 0, .. })
    });
    assert_eq!(b.set(1), (0, Code::Full), "what was asserted is still held");
}

#[test]
fn a_dead_holders_slots_come_back_when_its_lease_ends() {
    let server = RedisServer::start(&[]);
    let _silent = full(&server);
    let start = Instant::now();
    let mut b = Holder::new(&server, 2);
    assert!(matches!(b.join(0), Reply::Joined { .. }));
    bounded(|| {
        assert!(matches!(b.beat(), Reply::Beaten { .. }));
        b.set(2) == (2, Code::Ok)
    });
    // Its last beat was up to a lease's length before.
    assert!(start.elapsed() < Duration::from_millis(1500 + 1000), "{:?}", start.elapsed());
}

#[test]
fn a_live_holder_keeps_its_slots_for_ever() {
    let server = RedisServer::start(&[]);
    let mut a = full(&server);
    let mut b = Holder::new(&server, 2);
    assert!(matches!(b.join(0), Reply::Joined { .. }));
    let until = Instant::now() + Duration::from_millis(3500);
    while Instant::now() < until {
        assert!(matches!(a.beat(), Reply::Beaten { .. }));
        assert!(matches!(b.beat(), Reply::Beaten { .. }));
        assert_eq!(b.set(1), (0, Code::Full));
    }
}

#[test]
fn flushall_is_noticed() {
    let server = RedisServer::start(&[]);
    let mut a = full(&server);
    let mut b = Holder::new(&server, 2);
    cmd(&mut a.redis, &["FLUSHALL"]);
    reasserts(&mut a, &mut b);
}

#[test]
fn a_restart_over_an_append_only_file_is_noticed() {
    let mut server = RedisServer::start(&["--appendonly", "yes"]);
    let mut a = full(&server);
    server.restart();
    a.redis = server.connect();
    assert!(matches!(a.store(), Store::Own(_)), "the data came back");
    reasserts(&mut a, &mut Holder::new(&server, 2));
}

#[test]
fn a_restart_over_a_snapshot_is_noticed() {
    let mut server = RedisServer::start(&["--save", "900", "1"]);
    let mut a = full(&server);
    cmd(&mut a.redis, &["SAVE"]);
    server.restart();
    a.redis = server.connect();
    assert!(matches!(a.store(), Store::Own(_)), "the data came back");
    reasserts(&mut a, &mut Holder::new(&server, 2));
}

/// A replica of `primary` that has caught up.
fn replica(primary: &RedisServer) -> RedisServer {
    let server = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let mut connection = server.connect();
    follow(&mut connection, primary);
    server
}

fn follow(connection: &mut Connection, primary: &RedisServer) {
    cmd(connection, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    bounded(|| {
        let info: String = redis::cmd("INFO").arg("replication").query(connection).expect("INFO");
        info.contains("master_link_status:up")
    });
}

#[test]
fn a_promoted_copy_and_a_return_to_the_old_primary_are_noticed() {
    let old = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let new = replica(&old);
    // The first replica ever makes the primary draw a new replication id, so hold slots only now.
    let mut a = full(&old);
    cmd(&mut a.redis, &["WAIT", "1", "5000"]);

    a.redis = new.connect();
    let (_, answer) =
        a.raw(Op::Beat(Beat { lease: LEASE, floor_lease: 0, fv: 0, bv: 0, table: None }));
    let error = answer.expect_err("a replica serves nobody");
    assert_eq!(error.code(), Some("READONLY"), "{error}");

    cmd(&mut a.redis, &["REPLICAOF", "NO", "ONE"]);
    assert!(matches!(a.store(), Store::Own(_)), "the copy has the data");
    reasserts(&mut a, &mut Holder::new(&new, 2));

    // The same process becomes a replica and primary again, with data it has seen before.
    let mut connection = old.connect();
    follow(&mut connection, &new);
    cmd(&mut connection, &["REPLICAOF", "NO", "ONE"]);
    a.redis = old.connect();
    assert_eq!(a.beat(), Reply::NewGen);
}

/// The hardest to see: the primary goes away and comes back as the same process, over data that no
/// script touched in between, but without the last writes.
#[test]
fn a_round_trip_through_another_primary_is_noticed() {
    let old = RedisServer::start(&["--repl-diskless-sync-delay", "0"]);
    let new = replica(&old);
    let mut a = full(&old);
    cmd(&mut a.redis, &["WAIT", "1", "5000"]);
    cmd(&mut new.connect(), &["REPLICAOF", "NO", "ONE"]);
    assert_eq!(a.set(1), (1, Code::Ok), "a write that the new primary never sees");
    follow(&mut a.redis, &new);
    cmd(&mut a.redis, &["REPLICAOF", "NO", "ONE"]);
    let stored = a.store();
    let entry = stored.domain().and_then(|d| d.entry(a.inc, LEAF)).map(|e| e.n);
    assert_eq!(entry, Some(2), "rolled back");
    assert_eq!(a.beat(), Reply::NewGen);
}

#[test]
fn data_of_others_is_refused_and_left_alone() {
    let server = RedisServer::start(&[]);
    let mut a = Holder::new(&server, 1);
    a.known = 1;
    for (make, kind) in [(&["SET", KEY, "x"][..], "string"), (&["HSET", KEY, "a", "b"][..], "hash")]
    {
        cmd(&mut a.redis, &["DEL", KEY]);
        cmd(&mut a.redis, make);
        assert_eq!(a.join(0), Reply::Foreign);
        assert_eq!(a.beat(), Reply::Foreign);
        let left: String = redis::cmd("TYPE").arg(KEY).query(&mut a.redis).expect("TYPE");
        assert_eq!(left, kind);
    }
    cmd(&mut a.redis, &["DEL", KEY]);
    cmd(&mut a.redis, &["HSET", KEY, "sg", "2"]);
    let op = a.join_op(0);
    let (_, answer) = a.raw(op);
    assert_eq!(answer.expect_err("another layout").code(), Some("SGLAYOUT"));
}

#[test]
fn malformed_arguments_change_nothing() {
    let server = RedisServer::start(&[]);
    let mut a = full(&server);
    let before =
        redis::cmd("HGETALL").arg(KEY).query::<Vec<String>>(&mut a.redis).expect("HGETALL");
    let scripts = Scripts::shipped();
    let g = format!("g{}", a.known);
    let cases: [(&redis::Script, &[&str]); 9] = [
        (&scripts.set, &[]),
        (&scripts.set, &["1", "o1x1", &g, "600000", "500", "9", "0", "0", "0"]),
        (&scripts.set, &["1", "o1x1", &g, "600000", "500", "9", "0", "1", "t:acme", "1", "1", "0"]),
        (
            &scripts.set,
            &[
                "1", "o1x1", &g, "600000", "500", "9", "1", "t:a", "1", "1", "0", "1", "t:a|t:a",
                "1", "1", "0",
            ],
        ),
        (
            &scripts.set,
            &[
                "1", "o1x1", &g, "600000", "500", "9", "1", "t a", "1", "1", "0", "1", "t a", "1",
                "1", "0",
            ],
        ),
        (
            &scripts.set,
            &[
                "1", "o1x1", &g, "600000", "500", "9", "1", "t:a", "1", "1", "0", "1", "t:a", "-1",
                "1", "0",
            ],
        ),
        (&scripts.beat, &["1", "x1x1", &g, "600000", "1500", "0", "0", "0", "-1"]),
        (&scripts.beat, &["2", "o1x1", &g, "600000", "1500", "0", "0", "0", "-1"]),
        (&scripts.join, &["1", "o1x1", &g, "600000", "1500", "0", "", "9", "0", "0"]),
    ];
    for (script, argv) in cases {
        let answer = script.key(KEY).arg(argv).invoke::<Value>(&mut a.redis);
        assert_eq!(answer.expect_err("malformed").code(), Some("SGARG"), "{argv:?}");
    }
    let after = redis::cmd("HGETALL").arg(KEY).query::<Vec<String>>(&mut a.redis).expect("HGETALL");
    assert_eq!(before, after);
}

#[test]
fn look_shows_the_living() {
    let server = RedisServer::start(&[]);
    let mut a = full(&server);
    let look = |a: &mut Holder| -> Value {
        let argv = ["1", "o0", "", "600000"];
        let script = Scripts::shipped().look;
        script.key(KEY).arg(&argv).invoke(&mut a.redis).expect("LOOK")
    };
    let shown = look(&mut a);
    let list = wire::array(&shown);
    assert_eq!(wire::text(&list[0]), "OK");
    assert_eq!((wire::int(&list[4]), wire::int(&list[5])), (1, 0), "live incarnations");
    let mut scopes: Vec<(String, Vec<i32>)> = wire::array(&list[6])
        .iter()
        .map(|row| {
            let row = wire::array(row);
            (wire::text(&row[0]), row[1..].iter().map(wire::int).collect())
        })
        .collect();
    scopes.sort();
    let expected = [("p:h100", vec![-1, 2, 0, 0]), ("t:acme", vec![2, 2, 0, 0])];
    assert_eq!(scopes, expected.map(|(name, row)| (name.to_owned(), row)));
    bounded(|| wire::int(&wire::array(&look(&mut a))[4]) == 0);
    let shown = look(&mut a);
    for row in wire::array(&wire::array(&shown)[6]) {
        assert_eq!(wire::int(&wire::array(row)[2]), 0, "the dead hold nothing");
    }
    cmd(&mut a.redis, &["FLUSHALL"]);
    assert_eq!(wire::text(&wire::array(&look(&mut a))[0]), "NEWGEN");
}

#[test]
fn the_scripts_run_in_cluster_mode() {
    let server = RedisServer::start(&["--cluster-enabled", "yes"]);
    let mut connection = server.connect();
    let slots: Vec<String> = (0..16384).map(|slot| slot.to_string()).collect();
    redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots).exec(&mut connection).expect("ADDSLOTS");
    bounded(|| {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("INFO");
        info.contains("cluster_state:ok")
    });
    let mut a = full(&server);
    assert!(matches!(a.beat(), Reply::Beaten { .. }));
}
