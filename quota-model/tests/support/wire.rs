//! Commands as arguments and replies as values: the layouts of docs/quota-protocol.md.

use super::names;
use redis::{Script, Value};
use std::path::Path;
use streamgate_quota_model::store::{
    Beat, Code, Command, Grant, Join, Op, Reply, Set, Shown, UNLIMITED,
};

/// The scripts as an adapter loads them.
pub struct Scripts {
    pub join: Script,
    pub beat: Script,
    pub set: Script,
    pub look: Script,
}

/// What the scripts ask the server's clock with, once, in common.lua.
pub const CLOCK: &str = "redis.call('TIME')";

impl Scripts {
    /// As shipped.
    pub fn shipped() -> Self {
        Self::with(|common| common)
    }

    /// With a clock the test sets: `key` is a list of seconds and microseconds. The shipped scripts
    /// have no such hook; the text is changed here, so nothing of it can be reached in production.
    pub fn with_clock(key: &str) -> Self {
        Self::with(|common| {
            assert_eq!(common.matches(CLOCK).count(), 1, "the clock is read in one place");
            common.replace(CLOCK, &format!("redis.call('LRANGE', '{key}', 0, 1)"))
        })
    }

    fn with(edit: impl Fn(String) -> String) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/quota/redis/lua");
        let read = |name: &str| {
            std::fs::read_to_string(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let common = edit(read("common.lua"));
        let script = |name: &str| {
            let own = read(name);
            assert!(!own.contains("'TIME'"), "{name} reads the clock by itself");
            Script::new(&format!("{common}{own}"))
        };
        Self {
            join: script("join.lua"),
            beat: script("beat.lua"),
            set: script("set.lua"),
            look: script("look.lua"),
        }
    }

    pub fn of(&self, command: &Command) -> &Script {
        match command.op {
            Op::Join(_) => &self.join,
            Op::Beat(_) => &self.beat,
            Op::Set(_) => &self.set,
        }
    }
}

/// ARGV of a command.
pub fn args(command: &Command) -> Vec<String> {
    let mut out = vec![
        "1".to_owned(),
        names::inc(command.inc),
        names::generation(command.known),
        command.stall.to_string(),
    ];
    match &command.op {
        Op::Join(join) => join_args(join, &mut out),
        Op::Beat(beat) => beat_args(beat, &mut out),
        Op::Set(set) => set_args(set, &mut out),
    }
    out
}

fn join_args(join: &Join, out: &mut Vec<String>) {
    out.extend([join.lease.to_string(), join.floor_lease.to_string()]);
    out.extend([names::generation(join.nonce), join.v.to_string()]);
    out.extend([u8::from(join.force).to_string(), join.claims.len().to_string()]);
    for claim in &join.claims {
        out.extend([names::leaf(claim.leaf), claim.n.to_string(), claim.idle.to_string()]);
    }
}

fn beat_args(beat: &Beat, out: &mut Vec<String>) {
    out.extend([beat.lease.to_string(), beat.floor_lease.to_string()]);
    out.extend([beat.fv.to_string(), beat.bv.to_string()]);
    let Some(table) = &beat.table else {
        out.push("-1".to_owned());
        return;
    };
    out.push(table.len().to_string());
    for item in table {
        out.extend([names::leaf(item.leaf), item.n.to_string()]);
        out.extend([item.idle.to_string(), item.v.to_string()]);
    }
}

fn set_args(set: &Set, out: &mut Vec<String>) {
    out.extend([set.pressure.to_string(), set.v.to_string(), set.scopes.len().to_string()]);
    for scope in &set.scopes {
        out.extend([names::scope(scope.scope).to_owned(), scope.cap.to_string()]);
        out.extend([scope.rev.to_string(), scope.floor.to_string()]);
    }
    out.push(set.entries.len().to_string());
    for ask in &set.entries {
        out.extend([names::leaf(ask.leaf), ask.need.to_string(), ask.want.to_string()]);
    }
    out.push("0".to_owned());
}

/// The answer to a command. `base`: the moment (server ms) the model calls 0.
pub fn reply(command: &Command, answer: Result<Value, redis::RedisError>, base: i64) -> Reply {
    let value = match answer {
        Ok(value) => value,
        Err(error) if error.code() == Some("SGTYPE") => return Reply::Foreign,
        Err(error) => panic!("{command:?}: {error}"),
    };
    let list = array(&value);
    match text(&list[0]).as_str() {
        "NEWGEN" => return Reply::NewGen,
        "NOLEASE" => return Reply::NoLease,
        "STALE" => return Reply::Stale,
        status => assert_eq!(status, "OK"),
    }
    match command.op {
        Op::Join(_) => {
            assert_eq!(list.len(), 5, "{value:?}");
            Reply::Joined {
                gen_: names::generation_id(&text(&list[1])),
                learning: int(&list[2]),
                floor_learning: int(&list[3]),
                now: time(&list[4], base),
            }
        }
        Op::Beat(_) => {
            assert_eq!(list.len(), 4, "{value:?}");
            let mut pressed: Vec<u8> =
                array(&list[3]).iter().map(|v| names::scope_id(&text(v))).collect();
            pressed.sort_unstable();
            Reply::Beaten { learning: int(&list[1]), floor_learning: int(&list[2]), pressed }
        }
        Op::Set(_) => {
            assert_eq!(list.len(), 4, "{value:?}");
            Reply::Held {
                learning: int(&list[1]),
                grants: array(&list[2]).iter().map(grant).collect(),
                scopes: array(&list[3]).iter().map(shown).collect(),
            }
        }
    }
}

fn grant(value: &Value) -> Grant {
    let list = array(value);
    let code = match text(&list[1]).as_str() {
        "OK" => Code::Ok,
        "FULL" => Code::Full,
        "SPARE" => Code::Spare,
        "LEARNING" => Code::Learning,
        other => panic!("code {other}"),
    };
    let small = |v: &Value| u16::try_from(int(v)).expect("a small number");
    Grant { n: small(&list[0]), code, at: u8::try_from(int(&list[2])).expect("an index") }
}

fn shown(value: &Value) -> Shown {
    let list = array(value);
    let cap = int(&list[0]);
    assert!(cap >= UNLIMITED);
    Shown { cap, total: int(&list[1]), idle: int(&list[2]), pressed: int(&list[3]) == 1 }
}

pub fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(list) => list,
        other => panic!("not an array: {other:?}"),
    }
}

pub fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).expect("text"),
        Value::SimpleString(text) => text.clone(),
        other => panic!("not text: {other:?}"),
    }
}

fn time(value: &Value, base: i64) -> i32 {
    match value {
        Value::Int(ms) => i32::try_from(ms - base).expect("close to the base"),
        other => panic!("not a time: {other:?}"),
    }
}

pub fn int(value: &Value) -> i32 {
    match value {
        Value::Int(n) => i32::try_from(*n).expect("a small number"),
        other => panic!("not a number: {other:?}"),
    }
}
