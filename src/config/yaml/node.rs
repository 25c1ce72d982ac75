//! The tree.

use std::fmt;

/// A value and the line it begins on (1-based; 0: not known).
#[derive(Debug)]
pub(in crate::config) struct Node {
    pub value: Value,
    pub line: u64,
}

/// What YAML can say without a schema.
#[derive(Debug)]
pub(in crate::config) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In file order, duplicates included.
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Debug)]
pub(in crate::config) struct Entry {
    pub key: String,
    /// The line of the key.
    pub line: u64,
    pub node: Node,
}

impl Value {
    /// What this is, for "expected …, found a list".
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a section",
        }
    }
}

/// Scalars as an operator would write them; lists and sections only by kind.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(_) | Self::Map(_) => f.write_str(self.kind()),
        }
    }
}

impl Node {
    /// The child at a key path such as `tenants[1].queue.max_wait`, with the line to point at:
    /// that of its key, or its own in a list. Of duplicate keys the first one counts.
    pub fn find(&self, path: &str) -> Option<(&Self, u64)> {
        steps(path).try_fold((self, self.line), |(node, _), step| node.child(step))
    }

    /// The line of the deepest part of `path` that exists.
    pub fn nearest_line(&self, path: &str) -> u64 {
        let mut at = (self, self.line);
        for step in steps(path) {
            match at.0.child(step) {
                Some(child) => at = child,
                None => break,
            }
        }
        at.1
    }

    fn child(&self, step: Step<'_>) -> Option<(&Self, u64)> {
        match (&self.value, step) {
            (Value::Map(entries), Step::Key(key)) => {
                entries.iter().find(|entry| entry.key == key).map(|entry| (&entry.node, entry.line))
            }
            (Value::List(items), Step::Index(index)) => {
                items.get(index).map(|item| (item, item.line))
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

/// `a[1].b` → key a, index 1, key b. Paths are made by the reader, never by a user.
fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '[']).filter(|part| !part.is_empty()).map(|part| {
        part.strip_suffix(']')
            .and_then(|index| index.parse().ok())
            .map_or(Step::Key(part), Step::Index)
    })
}

impl Node {
    /// Every value at a pattern such as `tenants[].queue.max_wait`, with its key path.
    pub fn matches(&self, pattern: &str) -> Vec<(String, &Value)> {
        let mut found = vec![(String::new(), self)];
        for part in pattern.split('.') {
            let (key, each) = part.strip_suffix("[]").map_or((part, false), |key| (key, true));
            found = found
                .into_iter()
                .filter_map(|(path, node)| {
                    let (child, _) = node.child(Step::Key(key))?;
                    Some((
                        if path.is_empty() { key.into() } else { format!("{path}.{key}") },
                        child,
                    ))
                })
                .flat_map(|(path, node)| if each { node.items(&path) } else { vec![(path, node)] })
                .collect();
        }
        found.into_iter().map(|(path, node)| (path, &node.value)).collect()
    }

    fn items(&self, path: &str) -> Vec<(String, &Self)> {
        match &self.value {
            Value::List(items) => {
                items.iter().enumerate().map(|(n, item)| (format!("{path}[{n}]"), item)).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::yaml::parse;

    #[test]
    fn paths_lead_to_values_and_lines() {
        let tree = parse("a:\n  b: [1, {c: 2}]\nd:\n  - x\n  - y\n").unwrap();
        let line = |path: &str| tree.find(path).map(|(node, line)| (node.value.to_string(), line));
        assert_eq!(line("a.b[0]"), Some(("1".into(), 2)));
        assert_eq!(line("a.b[1].c"), Some(("2".into(), 2)));
        assert_eq!(line("d[1]"), Some(("\"y\"".into(), 5)));
        assert_eq!(line("d[2]"), None);
        assert_eq!(tree.nearest_line("a.b[1].missing"), 2);
        assert_eq!(tree.nearest_line("d"), 3);
    }

    #[test]
    fn patterns_expand_over_lists() {
        let tree = parse("t: [{q: 1}, {}, {q: 3}]\n").unwrap();
        let found: Vec<_> = tree.matches("t[].q").into_iter().map(|(path, _)| path).collect();
        assert_eq!(found, ["t[0].q", "t[2].q"]);
        assert!(tree.matches("t.q").is_empty());
    }

    #[test]
    fn words_that_yaml_1_1_took_for_booleans_are_text() {
        let tree = parse("off: off\n'on': yes\nn: 0123\nu: 1_000\n").unwrap();
        let kind = |path: &str| tree.find(path).map(|(node, _)| node.value.kind());
        assert_eq!(kind("off"), Some("text"));
        assert_eq!(kind("on"), Some("text"));
        assert_eq!(kind("n"), Some("text"));
        assert_eq!(kind("u"), Some("text"));
    }
}
