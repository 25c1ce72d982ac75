//! Edits by hand: what an operator, a bug or another program may do to the fields.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use std::collections::BTreeMap;

/// What to write (`None`: delete the field).
pub type Edit = (String, Option<String>);

/// Picks a field and a harm that suits it. `now`: server ms. Nothing if there is no field.
pub fn edit(rng: &mut StdRng, fields: &BTreeMap<String, String>, now: i64) -> Option<Edit> {
    let (field, value) = fields.iter().choose(rng)?;
    let numbers: Vec<&str> = value.split(' ').collect();
    let with = |at: usize, new: String| {
        let mut parts: Vec<String> = numbers.iter().map(|s| (*s).to_owned()).collect();
        if at < parts.len() {
            parts[at] = new;
        }
        Some(parts.join(" "))
    };
    let far = (now + 3_600_000 + 5_000).to_string();
    let pick = rng.random_range(0..6);
    let kind = &field[..field.find('|').unwrap_or(field.len())];
    let new = match (kind, pick) {
        ("sg", _) => (rng.random_bool(0.2)).then(|| "1".to_owned()),
        ("h", 0) => with(1, "f".repeat(40)),
        ("h", 1) => with(3, far),
        ("h", 2) => with(5, (now - 600_000).to_string()),
        ("h", _) => Some("nonsense".to_owned()),
        ("pr", 0) => Some("t:acme=12".to_owned()),
        ("pr", _) => None,
        ("L", 0) => with(0, far),
        ("L", 1) => with(1, "999".to_owned()),
        ("L", 2) => with(0, (now - 1).to_string()),
        ("E", 0) => with(2, "999".to_owned()),
        ("E", 1) => with(1, "77".to_owned()),
        ("E", 2 | 3) => with(0, rng.random_range(0..5).to_string()),
        ("S", 0) => with(4, rng.random_range(0..9).to_string()),
        ("S", 1) => with(0, rng.random_range(0..5).to_string()),
        ("S", 2) => Some(format!("{value};zz")),
        ("S", 3 | 4) => row(rng, value, pick == 4),
        (_, 5) => None,
        _ => Some("nonsense".to_owned()),
    };
    Some((field.clone(), new))
}

/// Changes the count of a row, and with `sums` the total to match: a forgery that adds up.
fn row(rng: &mut StdRng, value: &str, sums: bool) -> Option<String> {
    let mut parts: Vec<String> = value.split(';').map(str::to_owned).collect();
    if parts.len() < 2 {
        return Some(value.to_owned());
    }
    let at = rng.random_range(1..parts.len());
    let mut row: Vec<String> = parts[at].split(' ').map(str::to_owned).collect();
    let old: i64 = row.get(1)?.parse().ok()?;
    row[1] = (old + 1).to_string();
    let floor = row[0].starts_with('f');
    parts[at] = row.join(" ");
    if sums {
        let mut head: Vec<String> = parts[0].split(' ').map(str::to_owned).collect();
        for i in if floor { &[4, 6][..] } else { &[4][..] } {
            let n: i64 = head.get(*i)?.parse().ok()?;
            head[*i] = (n + 1).to_string();
        }
        parts[0] = head.join(" ");
    }
    Some(parts.join(";"))
}
