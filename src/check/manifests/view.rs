//! Typed looks into a document. What has the wrong type or is out of range is reported once, with
//! its key path, and then counts as absent.

use super::finding::Scope;
use crate::core::budget::Amount;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A value and where it stands.
#[derive(Clone)]
pub(super) struct View<'v> {
    value: &'v Value,
    pub path: String,
    pub scope: Scope,
}

impl<'v> View<'v> {
    pub fn new(value: &'v Value, path: String, scope: Scope) -> Self {
        Self { value, path, scope }
    }

    pub fn scoped(&self, scope: Scope) -> Self {
        Self { scope, ..self.clone() }
    }

    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// The value at keys joined by dots; `None` if any of them is absent or null.
    pub fn get(&self, keys: &str) -> Option<Self> {
        keys.split('.').try_fold(self.clone(), |view, key| view.child(key))
    }

    fn child(&self, key: &str) -> Option<Self> {
        let Value::Object(map) = self.value else {
            self.wrong("a section");
            return None;
        };
        let value = map.get(key).filter(|value| !value.is_null())?;
        Some(Self { value, path: self.key(key), scope: self.scope.clone() })
    }

    /// The path of a key in here, whether it is there or not.
    pub fn key(&self, key: &str) -> String {
        let simple = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
        match (self.path.is_empty(), key.chars().all(simple) && !key.contains(['.', '/'])) {
            (true, true) => key.to_owned(),
            (false, true) => format!("{}.{key}", self.path),
            (_, false) => format!("{}[{key:?}]", self.path),
        }
    }

    /// The items of the list at `key`.
    pub fn list(&self, key: &str) -> Vec<Self> {
        self.get(key).map(|list| list.items()).unwrap_or_default()
    }

    fn items(&self) -> Vec<Self> {
        let Value::Array(items) = self.value else {
            self.wrong("a list");
            return Vec::new();
        };
        let view = |(n, value)| Self {
            value,
            path: format!("{}[{n}]", self.path),
            scope: self.scope.clone(),
        };
        items.iter().enumerate().map(view).collect()
    }

    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.as_text()
    }

    pub fn as_text(&self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.wrong("text");
                None
            }
        }
    }

    /// The items of a list of texts. What is written without its quotes is reported, and still
    /// stands at its place: the items after it mean what they mean.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let item = |item: &Self| item.as_text().unwrap_or_else(|| item.value.to_string());
        self.list(key).iter().map(item).collect()
    }

    pub fn flag(&self, key: &str) -> bool {
        let Some(view) = self.get(key) else { return false };
        view.value.as_bool().unwrap_or_else(|| {
            view.wrong("true or false");
            false
        })
    }

    /// The text values of a section, such as labels.
    pub fn map(&self, key: &str) -> BTreeMap<String, String> {
        let Some(view) = self.get(key) else { return BTreeMap::new() };
        let Value::Object(map) = view.value else {
            view.wrong("a section");
            return BTreeMap::new();
        };
        let text = |key: &String| Some((key.clone(), view.child(key)?.as_text()?));
        map.keys().filter_map(text).collect()
    }

    /// A whole number in `range`.
    pub fn whole(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let view = self.get(key)?;
        let Value::Number(number) = view.value else {
            view.wrong("a whole number");
            return None;
        };
        // YAML's `180.0` and `1e3` reach Kubernetes as whole numbers.
        let whole = number.as_f64().filter(|number| number.fract() == 0.0);
        let whole = whole.and_then(|number| format!("{number}").parse().ok());
        let found = number.as_u64().or(whole).filter(|number| range.contains(number));
        if found.is_none() {
            let (least, most) = range.into_inner();
            view.scope.error(
                "invalid-value",
                &view.path,
                match number.as_f64().is_some_and(|number| number.fract() != 0.0) {
                    true => format!("not a whole number, found {number}"),
                    false => format!("out of range, found {number}"),
                },
                format!("write a whole number from {least} to {most}"),
            );
        }
        found
    }

    /// A number, or a percentage as text.
    pub fn amount(&self, key: &str) -> Option<Amount> {
        let view = self.get(key)?;
        let parsed = match view.value {
            Value::Number(number) => {
                number.as_u64().and_then(|n| u32::try_from(n).ok()).map(Amount::Count)
            }
            Value::String(text) => text
                .strip_suffix('%')
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .map(Amount::Percent),
            _ => None,
        };
        if parsed.is_none() {
            view.scope.error(
                "invalid-value",
                &view.path,
                format!("neither a number nor a percentage, found {}", shown(view.value)),
                "write a whole number such as 1, or text such as \"25%\"",
            );
        }
        parsed
    }

    fn wrong(&self, expected: &str) {
        let mut remedy = format!("write {expected}");
        if expected == "text" && (self.value.is_number() || self.value.is_boolean()) {
            remedy = format!("quote it: \"{}\"", self.value);
        }
        let problem = format!("expected {expected}, found {}", shown(self.value));
        self.scope.error("invalid-value", &self.path, problem, remedy);
    }
}

/// Scalars as written; text is cut, since nothing long is a value of a budget.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a section".to_owned(),
        Value::String(text) => cut(text),
        scalar => scalar.to_string(),
    }
}

/// Text in quotes, at most 40 characters of it.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
