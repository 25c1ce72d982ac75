//! Text, names, choices.

use super::Wrong;
use crate::config::yaml::Value;
use std::path::PathBuf;

/// Text that is not empty.
pub(in crate::config) fn text(value: &Value) -> Result<String, Wrong> {
    match value {
        Value::Text(text) if text.trim().is_empty() => {
            Err(Wrong::new("empty", "write a text that is not empty, or remove the key"))
        }
        Value::Text(text) => Ok(text.clone()),
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => Err(Wrong::new(
            format!("expected text, got {}", value.kind()),
            format!("put it in quotes: \"{value}\""),
        )),
        other => Err(Wrong::new(format!("expected text, got {}", other.kind()), "write a text")),
    }
}

/// Whether `name` may be a metric label and part of a URL: 1 to 63 of `A–Z a–z 0–9 . _ -`,
/// beginning with a letter or digit.
pub fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(inner)
}

/// A name that [`is_label`].
pub(in crate::config) fn label(value: &Value) -> Result<String, Wrong> {
    let name = text(value)?;
    is_label(&name).then_some(name).ok_or_else(|| {
        Wrong::new(
            "not usable as a name",
            "use 1 to 63 letters, digits, `.`, `_` or `-`, beginning with a letter or digit",
        )
    })
}

/// The beginning of keys in a Redis. No braces: those mark what a cluster places by.
pub(in crate::config) fn key_prefix(value: &Value) -> Result<String, Wrong> {
    let prefix = text(value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    (prefix.len() <= 64 && prefix.chars().all(fits)).then_some(prefix).ok_or_else(|| {
        Wrong::new(
            "not usable as the beginning of a key",
            "use 1 to 64 letters, digits, `.`, `_`, `:` or `-`",
        )
    })
}

/// A file path.
pub(in crate::config) fn path(value: &Value) -> Result<PathBuf, Wrong> {
    text(value).map(PathBuf::from)
}

/// The path of an HTTP request, with or without a query.
pub(in crate::config) fn url_path(value: &Value) -> Result<String, Wrong> {
    let path = text(value)?;
    let fits = path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic() && c != '#');
    fits.then_some(path)
        .ok_or_else(|| Wrong::new("not a request path", "begin it with `/`, such as /health"))
}

/// `true` or `false`.
pub(in crate::config) fn flag(value: &Value) -> Result<bool, Wrong> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        other => Err(Wrong::new(
            format!("expected a boolean, got {}", other.kind()),
            "write `true` or `false`",
        )),
    }
}

/// One of a closed set of words.
pub(in crate::config) fn one_of<T: Copy>(
    choices: &'static [(&'static str, T)],
) -> impl Fn(&Value) -> Result<T, Wrong> {
    move |value| {
        let chosen = match value {
            Value::Text(text) => choices.iter().find(|(name, _)| name == text),
            _ => None,
        };
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
            Wrong::new("not one of the choices", format!("write {}", names.join(" or ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_booleans_are_not_text_but_the_remedy_shows_how() {
        let wrong = text(&Value::Int(42)).unwrap_err();
        assert_eq!(wrong.problem, "expected text, got a number");
        assert_eq!(wrong.remedy, "put it in quotes: \"42\"");
    }

    #[test]
    fn labels_are_short_and_plain() {
        let read = |name: &str| label(&Value::Text(name.to_owned())).is_ok();
        for good in ["a", "7b", "team-a.prod_1", &"x".repeat(63)] {
            assert!(read(good), "{good}");
        }
        for bad in ["", " ", "-a", ".a", "a b", "a/b", "ä", "a\n", "a\"", &"x".repeat(64)] {
            assert!(!read(bad), "{bad}");
        }
    }

    #[test]
    fn a_choice_lists_the_others() {
        let read = one_of(&[("off", 0), ("wait", 1)]);
        assert_eq!(read(&Value::Text("wait".into())), Ok(1));
        assert_eq!(read(&Value::Bool(true)).unwrap_err().remedy, "write `off` or `wait`");
    }
}
