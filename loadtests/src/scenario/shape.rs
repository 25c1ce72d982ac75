//! What does not fit a scenario's shape: all of it at once, each with its key path.
//!
//! A deserialiser stops at the first mistake. Here each mistake is noted and mended in a copy
//! (the key is left out, or something that fits is put in its place) until the rest fits.

use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::check;
use super::types::Scenario;

/// No file has more mistakes than this that are worth telling.
const MOST: usize = 50;

/// What may be put where something is missing or wrong: one of them suits every key.
const STAND_INS: [&str; 7] = ["1", "\"1s\"", "\"x\"", "\"unique\"", "[]", "{}", "{\"direct\":{}}"];

/// All mistakes of a tree; none if it fits.
pub(super) fn mistakes(mut tree: Value) -> Vec<String> {
    let (mut found, mut mended) = (Vec::new(), Vec::new());
    while let Err((path, why)) = attempt(&tree) {
        let place = place(&path, &why);
        found.push(told(&tree, &place, &why));
        mended.push(place.iter().map(key).collect::<Vec<_>>().join("."));
        if found.len() == MOST || !mend(&mut tree, &place, &why) {
            return found;
        }
    }
    if let Ok(scenario) = attempt(&tree) {
        found.extend(check::mistakes(&scenario).into_iter().filter(|m| independent(m, &mended)));
    }
    found
}

type Place = Vec<Segment>;

fn attempt(tree: &Value) -> Result<Scenario, (Path, String)> {
    serde_path_to_error::deserialize(tree)
        .map_err(|e| (e.path().clone(), e.into_inner().to_string()))
}

/// Where the mistake is: a missing key is named in the words alone.
fn place(path: &Path, why: &str) -> Place {
    let known = |s: &&Segment| !matches!(s, Segment::Unknown | Segment::Enum { .. });
    let mut place: Place = path.iter().filter(known).cloned().collect();
    if let Some(key) = missing(why) {
        place.push(Segment::Map { key: key.to_owned() });
    }
    place
}

fn missing(why: &str) -> Option<&str> {
    why.strip_prefix("missing field `")?.split('`').next()
}

fn told(tree: &Value, place: &[Segment], why: &str) -> String {
    let path = place.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    let path = path.replace(".[", "[");
    let path = if path.is_empty() { "the file".to_owned() } else { path };
    if missing(why).is_some() {
        return format!("{path}: missing: add it");
    }
    let value = at(tree, place).filter(|v| !v.is_object() && !v.is_array());
    match value.map(ToString::to_string).filter(|v| !why.contains(v.as_str())) {
        Some(value) => format!("{path}: {value}: {why}"),
        None => format!("{path}: {why}"),
    }
}

fn key(segment: &Segment) -> String {
    segment.to_string()
}

fn step<'a>(tree: &'a Value, segment: &Segment) -> Option<&'a Value> {
    match segment {
        Segment::Seq { index } => tree.get(index),
        Segment::Map { key } => tree.get(key),
        Segment::Enum { variant } => tree.get(variant),
        Segment::Unknown => None,
    }
}

fn at<'a>(tree: &'a Value, place: &[Segment]) -> Option<&'a Value> {
    place.iter().try_fold(tree, step)
}

/// Makes the tree fit at that place; `false` if nothing does.
fn mend(tree: &mut Value, place: &[Segment], why: &str) -> bool {
    let Some((last, above)) = place.split_last() else { return false };
    // An unknown key is left out. Leaving out anything else might make it missing, which would be
    // told only after later mistakes, as if it were another one.
    let unknown = why.starts_with("unknown field");
    let stand_ins = STAND_INS.iter().filter_map(|text| serde_json::from_str(text).ok()).map(Some);
    let stand_ins = stand_ins.filter(|_| !unknown);
    for stand_in in stand_ins.chain(std::iter::once(None)) {
        let mut mended = tree.clone();
        if put(&mut mended, above, last, stand_in).is_some() && moved_on(&mended, place) {
            *tree = mended;
            return true;
        }
    }
    false
}

fn moved_on(tree: &Value, place: &[Segment]) -> bool {
    match attempt(tree) {
        Ok(_) => true,
        Err((path, why)) => {
            let now = self::place(&path, &why);
            let same = |a: &Segment, b: &Segment| key(a) == key(b);
            !(now.len() >= place.len() && now.iter().zip(place).all(|(a, b)| same(a, b)))
        }
    }
}

/// Puts a value there, or takes away what is there.
fn put(tree: &mut Value, above: &[Segment], last: &Segment, value: Option<Value>) -> Option<()> {
    let mut parent = tree;
    for segment in above {
        parent = match segment {
            Segment::Seq { index } => parent.get_mut(index)?,
            Segment::Map { key } => parent.get_mut(key)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    match (parent, last, value) {
        (Value::Object(map), Segment::Map { key }, Some(value)) => {
            map.insert(key.clone(), value);
        }
        (Value::Object(map), Segment::Map { key }, None) => {
            map.remove(key)?;
        }
        (Value::Array(list), Segment::Seq { index }, Some(value)) => {
            *list.get_mut(*index)? = value;
        }
        (Value::Array(list), Segment::Seq { index }, None) => {
            (*index < list.len()).then(|| list.remove(*index))?;
        }
        _ => return None,
    }
    Some(())
}

/// Whether a mistake of meaning does not come from what was mended: nothing was mended at, above
/// or below its place, nor in what other places refer to.
fn independent(mistake: &str, mended: &[String]) -> bool {
    let dotted = |path: &str| path.replace('[', ".[");
    let path = dotted(mistake.split(':').next().unwrap_or_default());
    let touches = |place: &String| {
        let place = dotted(place).replace("..", ".");
        let referred = ["prompts", "engines", "target"].iter().any(|k| place.starts_with(k));
        let named = place.starts_with("phases") && place.ends_with(".name");
        let within = |a: &str, b: &str| {
            a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'))
        };
        referred || named || within(&path, &place) || within(&place, &path)
    };
    !mended.iter().any(touches)
}
