//! What may use what.

use crate::source::{paths, tokens};

/// Files longer than this do not fit in a head.
pub const LONGEST_FILE: usize = 600;

/// Every module below `src/` and its layer.
const LAYERS: [(&str, u8); 12] = [
    ("core", 0),
    ("telemetry", 1),
    ("config", 1),
    ("admission", 2),
    ("quota", 2),
    ("tenants", 2),
    ("upstream", 2),
    ("lifecycle", 2),
    ("proxy", 3),
    ("admin", 3),
    ("check", 3),
    ("app", 4),
];

/// Crates (by the start of their name) that only some modules may know.
const ROOMS: [(&str, &[&str]); 5] = [
    ("pingora", &["proxy", "admin", "app"]),
    ("redis", &["quota"]),
    ("prometheus", &["telemetry", "admin"]),
    ("kube", &["upstream"]),
    ("k8s_openapi", &["upstream"]),
];

/// What the core must not touch outside of its tests: I/O, clocks, chance, a runtime.
const IMPURE: [&str; 12] = [
    "tokio",
    "tracing",
    "rand",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "Instant::now",
    "SystemTime::now",
];

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// The faults of one file, each with its remedy. `path` is relative to the repository.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let Some((module, _)) = inside.split_once('/') else {
        return Vec::new();
    };
    if layer(module).is_none() {
        return vec![format!("{path}: `{module}` has no layer; give it one in tests/layering")];
    }
    let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
    let product = if is_test { "" } else { text.split("#[cfg(test)]\nmod ").next().unwrap_or("") };
    let all = paths(&tokens(text));
    let mut faults = Vec::new();
    let mut imported = false;
    for used in &all {
        faults.extend(import(module, depth(inside), used).or_else(|| room(module, used, imported)));
        imported = *used == ["use"];
    }
    if module == "core" {
        faults.extend(paths(&tokens(product)).iter().filter_map(|used| impure(used)));
    }
    faults.dedup();
    faults.into_iter().map(|fault| format!("{path}: {fault}")).collect()
}

/// How many modules deep the code of a file is.
fn depth(inside: &str) -> usize {
    let names = inside.trim_end_matches(".rs").split('/');
    names.filter(|name| *name != "mod").count()
}

/// An upward or sideways import, whether from `crate` or by enough `super`s.
fn import(module: &str, depth: usize, used: &[&str]) -> Option<String> {
    let supers = used.iter().take_while(|name| **name == "super").count();
    let target = match used {
        ["crate", target, ..] => *target,
        ["crate"] => return None,
        // Inline modules make `super` reach less far, never further.
        _ if supers >= depth && supers > 0 => {
            used.get(supers).copied().filter(|name| layer(name).is_some())?
        }
        _ => return None,
    };
    let shown = used.join("::");
    match (layer(target), layer(module)) {
        (None, _) => Some(format!("`{shown}` names no module with a layer")),
        (Some(theirs), Some(ours)) if target != module && theirs >= ours => {
            let way = if theirs > ours { "upward" } else { "sideways" };
            Some(format!("`{shown}` goes {way}; move what both need into `core`"))
        }
        _ => None,
    }
}

/// A foreign crate outside of its room. A single name is a crate only if it is `imported`.
fn room(module: &str, used: &[&str], imported: bool) -> Option<String> {
    let (first, rest) = used.split_first()?;
    let (room, modules) = ROOMS.iter().find(|(name, _)| {
        first.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })?;
    let named = imported || !rest.is_empty();
    (named && !modules.contains(&module))
        .then(|| format!("`{}`: `{room}` belongs to {modules:?} alone", used.join("::")))
}

/// A use of the outside world.
fn impure(used: &[&str]) -> Option<String> {
    if used.len() < 2 {
        return None;
    }
    let path = format!("::{}::", used.join("::"));
    let rule = IMPURE.iter().find(|rule| match rule.ends_with("::now") {
        true => path.contains(&format!("::{rule}::")),
        false => path.starts_with(&format!("::{rule}::")),
    })?;
    let shown = used.join("::");
    Some(format!("`{shown}`: the core does without `{rule}`; take it as an argument"))
}
