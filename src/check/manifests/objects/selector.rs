//! Label selectors.

use crate::check::manifests::view::View;
use std::collections::BTreeMap;

/// Which pods are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct Selector {
    labels: BTreeMap<String, String>,
    expressions: Vec<Expression>,
    /// Whether it selects all if it asks for nothing (else none).
    empty_is_all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    /// `matchLabels` and `matchExpressions` at `key`. Empty, it selects every pod; absent, none.
    pub fn labels(view: &View<'_>, key: &str) -> Self {
        let Some(selector) = view.get(key) else {
            return Self { labels: BTreeMap::new(), expressions: Vec::new(), empty_is_all: false };
        };
        let expression = |item: &View<'_>| {
            Some(Expression {
                key: item.text("key")?,
                operator: item.text("operator")?,
                values: item.texts("values"),
            })
        };
        let expressions = selector.list("matchExpressions").iter().filter_map(expression).collect();
        Self { labels: selector.map("matchLabels"), expressions, empty_is_all: true }
    }

    /// A Service's plain map. Empty, it selects nothing: somebody else writes its endpoints.
    pub fn plain(view: &View<'_>, key: &str) -> Self {
        Self { labels: view.map(key), expressions: Vec::new(), empty_is_all: false }
    }

    /// Every pod.
    pub fn all() -> Self {
        Self { labels: BTreeMap::new(), expressions: Vec::new(), empty_is_all: true }
    }

    /// Whether it asks for no other label than `key`.
    pub fn asks_only(&self, key: &str) -> bool {
        self.labels.keys().chain(self.expressions.iter().map(|e| &e.key)).all(|name| name == key)
    }

    /// Whether it asks for anything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    pub fn matches(&self, pod: &BTreeMap<String, String>) -> bool {
        if self.is_empty() {
            return self.empty_is_all;
        }
        self.labels.iter().all(|(key, value)| pod.get(key) == Some(value))
            && self.expressions.iter().all(|expression| expression.matches(pod))
    }
}

impl Expression {
    fn matches(&self, pod: &BTreeMap<String, String>) -> bool {
        let value = pod.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}
