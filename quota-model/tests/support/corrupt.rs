//! Edits by hand: what an operator, a bug or another program may do to the fields.

use super::parse::seal;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use std::collections::BTreeMap;

/// What to write (`None`: delete the field).
pub type Edit = (String, Option<String>);

/// Picks a field and a harm that suits it; half of the changed numbers come with the right seal, as
/// no hand would put it. `now`: server ms. Nothing if there is no field.
pub fn edit(rng: &mut StdRng, fields: &BTreeMap<String, String>, now: i64) -> Option<Edit> {
    let (field, value) = fields.iter().choose(rng)?;
    let pick = rng.random_range(0..6);
    let forge = rng.random_bool(0.5);
    let kind = &field[..field.find('|').unwrap_or(field.len())];
    let far = now + 3_600_000 + 5_000;
    let new = match (kind, pick) {
        ("sg", _) => (rng.random_bool(0.2)).then(|| "1".to_owned()),
        ("h", 0) => Some(value.replacen(value.split(' ').nth(1)?, &"f".repeat(40), 1)),
        ("h", 1) => change(value, 2, 1, far, forge),
        ("h", 2) => change(value, 2, 3, now - 600_000, forge),
        ("pr", 0) => Some("t:acme=12".to_owned()),
        ("pr", _) => None,
        ("L", 0) => change(value, 0, 0, far, forge),
        ("L", 1) => change(value, 0, 1, 999, forge),
        ("L", 2) => change(value, 0, 0, now - 1, forge),
        ("E", 0) => change(value, 0, 2, 999, forge),
        ("E", 1) if forge => change(value, 0, 1, value.split(' ').next()?.parse().ok()?, true),
        ("E", 1) => change(value, 0, 1, 77, false),
        ("E", 2 | 3) => change(value, 0, 0, rng.random_range(0..5), forge),
        ("S", 0) => change(value, 0, 4, rng.random_range(0..9), forge),
        ("S", 1) => change(value, 0, 0, rng.random_range(0..5), forge),
        ("S", 2) => Some(format!("{value};zz")),
        ("S", 3 | 4) => row(rng, value, pick == 4),
        (_, 5) => None,
        _ => Some("nonsense".to_owned()),
    };
    Some((field.clone(), new))
}

/// Puts `new` in place of a number. `skip`: words before the numbers; `at`: which number.
fn change(value: &str, skip: usize, at: usize, new: i64, forge: bool) -> Option<String> {
    let (head, rows) = value.split_once(';').map_or((value, None), |(h, r)| (h, Some(r)));
    let mut words: Vec<String> = head.split(' ').map(str::to_owned).collect();
    *words.get_mut(skip + at)? = new.to_string();
    if forge {
        let last = words.len() - 1;
        let numbers: Vec<i64> =
            words[skip..last].iter().map(|w| w.parse().ok()).collect::<Option<_>>()?;
        words[last] = seal(&numbers).to_string();
    }
    let head = words.join(" ");
    Some(rows.map_or(head.clone(), |rows| format!("{head};{rows}")))
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
        let numbers: Vec<i64> = head[..7].iter().map(|w| w.parse().ok()).collect::<Option<_>>()?;
        head[7] = seal(&numbers).to_string();
        parts[0] = head.join(" ");
    }
    Some(parts.join(";"))
}
