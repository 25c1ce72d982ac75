//! Answers.

use crate::quota::replica::{Answer, Code, Command, Fleet, FleetScope, Grant, Learning, Shown};
use redis::Value;
use std::sync::Arc;
use std::time::Duration;

/// The answer to `command`; `None` if it is not one that the command has.
pub(in crate::quota::redis) fn answer(command: &Command, value: &Value) -> Option<Answer> {
    let list = array(value)?;
    match (text(list.first()?)?, command) {
        ("STALE", Command::Join(_) | Command::Set(_)) => Some(Answer::Stale),
        ("NOLEASE", Command::Join(_) | Command::Beat(_) | Command::Set(_)) => Some(Answer::NoLease),
        ("NEWGEN", Command::Beat(_) | Command::Set(_) | Command::Look) => {
            Some(Answer::NewGeneration)
        }
        ("OK", Command::Join(_)) => {
            let [_, generation, ordinary, floor, clock] = list else { return None };
            let generation = text(generation)?.into();
            let learning = learning(ordinary, floor)?;
            Some(Answer::Joined { generation, learning, clock: millis(clock)? })
        }
        ("OK", Command::Beat(_)) => {
            let [_, ordinary, floor, pressed] = list else { return None };
            let pressed = array(pressed)?.iter().map(|name| text(name).map(Arc::from));
            let pressed = pressed.collect::<Option<_>>()?;
            Some(Answer::Beaten { learning: learning(ordinary, floor)?, pressed })
        }
        ("OK", Command::Set(_)) => {
            let [_, learning, grants, scopes] = list else { return None };
            Some(Answer::Held {
                learning: millis(learning)?,
                grants: array(grants)?.iter().map(grant).collect::<Option<_>>()?,
                scopes: array(scopes)?.iter().map(shown).collect::<Option<_>>()?,
            })
        }
        ("OK", Command::Look) => {
            let [_, _, ordinary, floor, replicas, _, scopes] = list else { return None };
            Some(Answer::Seen(Fleet {
                learning: learning(ordinary, floor)?,
                replicas: number(replicas)?,
                scopes: array(scopes)?.iter().map(seen).collect::<Option<_>>()?,
            }))
        }
        _ => None,
    }
}

fn learning(ordinary: &Value, floor: &Value) -> Option<Learning> {
    Some(Learning { ordinary: millis(ordinary)?, floor: millis(floor)? })
}

fn grant(value: &Value) -> Option<Grant> {
    let [n, code, at] = array(value)? else { return None };
    let code = match text(code)? {
        "OK" => Code::Ok,
        "FULL" => Code::Full,
        "SPARE" => Code::Spare,
        "LEARNING" => Code::Learning,
        _ => return None,
    };
    // Indexes count from 1; 0 is none.
    let at = usize::try_from(number(at)?).ok()?.checked_sub(1);
    Some(Grant { n: slots(n)?, code, at })
}

fn shown(value: &Value) -> Option<Shown> {
    let [limit, total, idle, pressed] = array(value)? else { return None };
    Some(Shown {
        cap: cap(limit)?,
        total: slots(total)?,
        idle: slots(idle)?,
        pressed: number(pressed)? == 1,
    })
}

fn seen(value: &Value) -> Option<FleetScope> {
    let [name, limit, total, idle, _] = array(value)? else { return None };
    Some(FleetScope {
        name: text(name)?.into(),
        cap: cap(limit)?,
        total: slots(total)?,
        idle: slots(idle)?,
    })
}

pub(super) fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK"),
        _ => None,
    }
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}

fn slots(value: &Value) -> Option<u32> {
    number(value).and_then(|n| u32::try_from(n).ok())
}

pub(super) fn millis(value: &Value) -> Option<Duration> {
    number(value).map(Duration::from_millis)
}

/// `Some(None)`: no cap.
fn cap(value: &Value) -> Option<Option<u32>> {
    match value {
        Value::Int(-1) => Some(None),
        other => slots(other).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::replica::Set;
    use proptest::prelude::*;

    fn set() -> Command {
        Command::Set(Set {
            inc: "o1".into(),
            known: "g".into(),
            version: 1,
            scopes: Vec::new(),
            entries: Vec::new(),
            raises: false,
        })
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_set_says_what_is_held_and_what_blocks() {
        let grant = Value::Array(vec![Value::Int(2), bulk("FULL"), Value::Int(1)]);
        let numbers = [-1, 2, 1, 0].map(Value::Int);
        let value = Value::Array(vec![
            bulk("OK"),
            Value::Int(7),
            Value::Array(vec![grant]),
            Value::Array(vec![Value::Array(numbers.to_vec())]),
        ]);
        let expected = Answer::Held {
            learning: Duration::from_millis(7),
            grants: vec![Grant { n: 2, code: Code::Full, at: Some(0) }],
            scopes: vec![Shown { cap: None, total: 2, idle: 1, pressed: false }],
        };
        assert_eq!(answer(&set(), &value), Some(expected));
    }

    #[test]
    fn an_answer_of_another_command_is_none() {
        let joined = Value::Array(vec![bulk("OK"), bulk("g"), Value::Int(0), Value::Int(0)]);
        assert_eq!(answer(&set(), &joined), None);
        assert_eq!(answer(&Command::Look, &Value::Array(vec![bulk("STALE")])), None);
        assert_eq!(answer(&set(), &Value::Array(Vec::new())), None);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::Int),
            prop::collection::vec(any::<u8>(), 0..4).prop_map(Value::BulkString),
            prop_oneof![Just("OK"), Just("FULL"), Just("NEWGEN")].prop_map(bulk),
            Just(Value::Nil),
        ];
        leaf.prop_recursive(3, 32, 6, |inner| {
            prop::collection::vec(inner, 0..6).prop_map(Value::Array)
        })
    }

    proptest! {
        #[test]
        fn no_answer_can_hurt(value in any_value()) {
            for command in [set(), Command::Look] {
                let _ = answer(&command, &value);
            }
        }
    }
}
