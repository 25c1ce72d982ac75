//! Keys that belong to the format but that this version does not serve. Asking for them is an
//! error; writing their default is not. **The one list**: whoever builds a feature removes its
//! line.

use super::errors::Report;
use super::yaml::{Node, Value};

/// `(key, the values that ask for nothing)`; null always asks for nothing.
const UNSUPPORTED: [(&str, &[&str]); 7] = [
    ("pools[].strategy", &["least-request"]),
    ("tenants[].weight", &["1"]),
    ("tenants[].priority", &["0"]),
    ("tenants[].requests_per_minute", &["0"]),
    ("tenants[].tokens_per_minute", &["0"]),
    ("identity.jwt", &[]),
    ("identity.trusted_header", &[]),
];

/// Report every key that asks for something this version does not do.
pub(super) fn refuse(tree: &Node, report: &Report<'_>) {
    for (pattern, harmless) in UNSUPPORTED {
        for (path, value) in tree.matches(pattern) {
            if asks(value, harmless) {
                let remedy = match harmless.first() {
                    Some(default) => format!("remove the key, or write its default `{default}`"),
                    None => "remove the key".to_owned(),
                };
                report.contradiction(&path, &[], "not supported by this version", remedy);
            }
        }
    }
}

/// The keys of the list.
#[cfg(test)]
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    UNSUPPORTED.iter().map(|(key, _)| *key)
}

fn asks(value: &Value, harmless: &[&str]) -> bool {
    match value {
        Value::Null => false,
        Value::Text(text) => !harmless.iter().any(|default| same(text, default)),
        Value::List(_) | Value::Map(_) => true,
        scalar => !harmless.contains(&scalar.to_string().as_str()),
    }
}

/// `3s` and `3000ms` are the same.
fn same(text: &str, default: &str) -> bool {
    text == default
        || matches!(
            (humantime::parse_duration(text), humantime::parse_duration(default)),
            (Ok(a), Ok(b)) if a == b
        )
}
