//! Reads the fields of the real hash into the model's store.

use super::names;
use std::collections::BTreeMap;
use streamgate_quota_model::store::{Domain, Entry, Lease, Row, Scope, Store, Time};

/// Parses a whole key. `base`: the moment (server ms) the model calls 0. `ident`: numbers the
/// founders' replication ids.
pub fn store(
    fields: &BTreeMap<String, String>,
    base: i64,
    ident: &mut dyn FnMut(&str) -> u16,
) -> Store {
    if fields.is_empty() {
        return Store::Absent;
    }
    if !fields.contains_key("sg") {
        return Store::ForeignHash;
    }
    assert_eq!(fields["sg"], "1", "layout");
    let mut domain = Domain::default();
    for (field, value) in fields {
        match field.split_once('|').unwrap_or((field, "")) {
            ("sg", _) => {}
            ("h", _) => header(value, base, ident, &mut domain),
            ("pr", _) => pressure(value, base, &mut domain),
            ("L", inc) => domain.put_lease(lease(inc, value, base)),
            ("E", rest) => domain.put_entry(entry(rest, value)),
            ("S", name) => domain.put_scope(scope(name, value, base)),
            other => panic!("unknown field {other:?}"),
        }
    }
    Store::Own(domain)
}

fn time(s: &str, base: i64) -> Option<Time> {
    let ms: i64 = s.parse().ok()?;
    Time::try_from(ms - base).ok()
}

/// The numbers of a sealed field, if its seal is right.
fn numbers(value: &str) -> Option<Vec<i64>> {
    let mut all: Vec<i64> = value.split(' ').map(|s| s.parse().ok()).collect::<Option<_>>()?;
    let mark = all.pop()?;
    (seal(&all) == mark).then_some(all)
}

/// The check number of a field.
pub fn seal(numbers: &[i64]) -> i64 {
    let factors = [3, 5, 7, 11, 13, 17, 19];
    let sum: i64 = numbers.iter().zip(factors).map(|(n, factor)| n * factor).sum();
    (1 + sum).rem_euclid(99_991)
}

fn header(value: &str, base: i64, ident: &mut dyn FnMut(&str) -> u16, domain: &mut Domain) {
    let parts: Vec<&str> = value.split(' ').collect();
    let [gen_, id, rest @ ..] = &parts[..] else { return };
    let Some(numbers) = numbers(&rest.join(" ")) else { return };
    let times: Option<Vec<Time>> =
        numbers.iter().map(|ms| Time::try_from(ms - base).ok()).collect();
    let Some([founded, learning, floor_learning, last_beat]) = times.as_deref() else { return };
    domain.gen_ = names::generation_id(gen_);
    domain.founder = ident(id);
    domain.founded = *founded;
    domain.learning = *learning;
    domain.floor_learning = *floor_learning;
    domain.last_beat = *last_beat;
}

fn pressure(value: &str, base: i64, domain: &mut Domain) {
    for part in value.split_terminator(';') {
        let parsed = part.split_once('=').and_then(|(s, t)| Some((s, time(t, base)?)));
        match parsed {
            Some((scope, until)) => domain.pressure.push((names::scope_id(scope), until)),
            None => domain.pressure_damaged = true,
        }
    }
    domain.pressure.sort_unstable();
}

fn lease(inc: &str, value: &str, base: i64) -> Lease {
    let inc = names::inc_id(inc);
    let parsed = numbers(value).and_then(|n| match n[..] {
        [end, fv, mv] => Some(Lease {
            inc,
            end: Time::try_from(end - base).ok()?,
            fv: u16::try_from(fv).ok()?,
            mv: u16::try_from(mv).ok()?,
            damaged: false,
        }),
        _ => None,
    });
    parsed.unwrap_or(Lease { inc, damaged: true, ..Lease::default() })
}

fn entry(rest: &str, value: &str) -> Entry {
    let (inc, leaf) = rest.split_once('|').expect("E|inc|leaf");
    let (inc, leaf) = (names::inc_id(inc), names::leaf_id(leaf));
    let parsed = numbers(value).and_then(|n| match n[..] {
        [n, idle, v] => Some(Entry {
            inc,
            leaf,
            n: u16::try_from(n).ok()?,
            idle: u16::try_from(idle).ok()?,
            v: u16::try_from(v).ok()?,
            damaged: false,
        }),
        _ => None,
    });
    parsed.unwrap_or(Entry { inc, leaf, damaged: true, ..Entry::default() })
}

fn scope(name: &str, value: &str, base: i64) -> Scope {
    let mut scope = Scope::new(names::scope_id(name), 0);
    let (head, rows) = value.split_once(';').unwrap_or((value, ""));
    match numbers(head).as_deref() {
        Some([cap, rev, floor, nx, total, idle, floors]) => {
            let small = |x: &i64| i32::try_from(*x).expect("a small number");
            scope.cap = small(cap);
            scope.rev = u32::try_from(*rev).expect("a small revision");
            scope.floor = small(floor);
            scope.nx = Time::try_from(nx - base).expect("a near time");
            scope.total = small(total);
            scope.idle = small(idle);
            scope.floors = small(floors);
        }
        _ => scope.damaged = true,
    }
    for row in rows.split(';').filter(|row| !row.is_empty()) {
        let parts: Vec<&str> = row.split(' ').collect();
        match parts[..] {
            [inc, n, idle] if n.parse::<i32>().is_ok() && idle.parse::<i32>().is_ok() => {
                let n = n.parse().expect("checked");
                let idle = idle.parse().expect("checked");
                scope.rows.push(Row { inc: names::inc_id(inc), n, idle });
            }
            _ => scope.rows_damaged = true,
        }
    }
    scope.rows.sort_unstable();
    scope
}
