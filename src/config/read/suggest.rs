//! What a mistyped key was meant to be.

/// The key of `known` that `key` probably was meant to be.
pub(super) fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let wanted = key.to_ascii_lowercase().replace('-', "_");
    known
        .iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(&wanted, name), *name))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The remedy for an unknown key that was perhaps `meant` to be one of `known`.
pub(super) fn advice(meant: Option<&str>, known: &[&'static str]) -> String {
    match meant {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("remove it, or use one of: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised() {
        let known = ["max_in_flight", "queue", "mode"];
        assert_eq!(nearest("max_inflight", &known), Some("max_in_flight"));
        assert_eq!(nearest("Max-In-Flight", &known), Some("max_in_flight"));
        assert_eq!(nearest("queu", &known), Some("queue"));
        assert_eq!(advice(Some("queue"), &known), "did you mean `queue`?");
    }

    #[test]
    fn anything_else_lists_what_there_is() {
        assert_eq!(nearest("colour", &["max_in_flight", "queue"]), None);
        assert_eq!(nearest("id", &["name", "kind"]), None);
        assert_eq!(advice(None, &["a", "b"]), "remove it, or use one of: a, b");
    }
}
