//! Values that are secrets or lead to one. What was written is never part of a message: it may
//! be the plain secret.

use super::Wrong;
use crate::config::yaml::Value;
use crate::config::{KeyHash, RedisUrl};

/// The hash of an API key, `sha256:<64 hex>`.
pub(in crate::config) fn key_hash(value: &Value) -> Result<KeyHash, Wrong> {
    word(value).and_then(KeyHash::from_config).ok_or_else(|| {
        Wrong::new(
            "not the hash of a key",
            "run `streamgate key new TENANT` and put its `sha256:…` line here; \
             if a plain key was written here, replace that key",
        )
    })
}

/// The name of an environment variable.
pub(in crate::config) fn variable(value: &Value) -> Result<String, Wrong> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits =
        |name: &&str| name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit());
    word(value).filter(fits).map(str::to_owned).ok_or_else(|| {
        Wrong::new(
            "not the name of an environment variable",
            "write the variable's name (letters, digits, `_`), not its value",
        )
    })
}

/// A Redis URL: one server, sentinels, or a cluster.
pub(in crate::config) fn redis_url(value: &Value) -> Result<RedisUrl, Wrong> {
    const FORMS: &str = "write redis://[user:password@]host:port/0, \
         redis+sentinel://host:port,…/MASTER/0 or redis+cluster://host:port,…; rediss for TLS";
    let text = word(value).ok_or("it is not a text");
    text.and_then(RedisUrl::parse)
        .map_err(|problem| Wrong::new(format!("not a Redis URL: {problem}"), FORMS))
}

/// Unlike the check for text, this one cannot put the value into a remedy.
fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn variables_have_names() {
        for good in ["A", "_x", "ENGINE_KEY_2"] {
            assert!(variable(&written(good)).is_ok(), "{good}");
        }
        for bad in ["", "2A", "A-B", "sk-secret", "A B", "Ä"] {
            assert!(variable(&written(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_plain_key_is_not_repeated() {
        let wrong = key_hash(&written("hunter2")).unwrap_err();
        assert!(!format!("{wrong:?}").contains("hunter2"));
        assert!(wrong.remedy.contains("streamgate key new"));
    }
}
