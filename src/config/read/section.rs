//! One section of the file, and the keys it may have.

use super::kind::Wrong;
use super::suggest::{advice, nearest};
use crate::config::errors::{Report, join};
use crate::config::yaml::{Entry, Node, Value};
use std::ops::Deref;

/// A value and its key path.
#[derive(Clone, Debug)]
pub(in crate::config) struct At<T> {
    pub path: String,
    pub value: T,
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A section being read. Asking for a key makes it known; keys nobody asked for are reported as
/// unknown when the reading closure returns.
pub(in crate::config) struct Section<'c> {
    report: &'c Report<'c>,
    path: String,
    entries: &'c [Entry],
    known: Vec<&'static str>,
    /// Required keys that are absent, with the remedy.
    missing: Vec<(&'static str, String)>,
    /// Something else stands where the section should be: nothing is *missing* from it.
    broken: bool,
}

impl<'c> Section<'c> {
    /// Read `node` as a section; absent or null is an empty one.
    pub fn read<T>(
        report: &'c Report<'c>,
        path: &str,
        node: Option<&'c Node>,
        fields: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let (entries, broken) = match node.map(|node| &node.value) {
            None | Some(Value::Null) => (&[][..], false),
            Some(Value::Map(entries)) => (&entries[..], false),
            Some(other) => {
                let problem = format!("expected a section, got {}", other.kind());
                report.wrong(path, problem, "write `key: value` pairs");
                (&[][..], true)
            }
        };
        let path = path.to_owned();
        let (known, missing) = (Vec::new(), Vec::new());
        let mut section = Self { report, path, entries, known, missing, broken };
        let value = fields(&mut section);
        section.report_keys();
        value
    }

    /// The key path of `key` in this section.
    fn at(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The value of `key`; `None` if absent, null or wrong.
    pub fn optional<T>(
        &mut self,
        key: &'static str,
        kind: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        let node = self.find(key)?;
        self.take(&self.at(key), node, &kind)
    }

    /// The value of `key`; `default` if absent, null or wrong.
    pub fn or<T>(
        &mut self,
        key: &'static str,
        kind: impl Fn(&Value) -> Result<T, Wrong>,
        default: T,
    ) -> T {
        self.optional(key, kind).unwrap_or(default)
    }

    /// The value of `key`; absence is reported with `remedy`. The placeholder that is returned
    /// after a report reaches nobody: such a configuration is thrown away.
    pub fn required<T: Default>(
        &mut self,
        key: &'static str,
        kind: impl Fn(&Value) -> Result<T, Wrong>,
        remedy: &str,
    ) -> T {
        self.require(key, remedy);
        self.optional(key, kind).unwrap_or_default()
    }

    /// The values of the list `key`, without the wrong ones; absent or null is empty.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        kind: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Vec<At<T>> {
        self.items(key)
            .into_iter()
            .filter_map(|(path, node)| {
                let value = self.take(&path, node, &kind)?;
                Some(At { path, value })
            })
            .collect()
    }

    /// The values of the list `key`, which must have at least one.
    pub fn required_list<T>(
        &mut self,
        key: &'static str,
        kind: impl Fn(&Value) -> Result<T, Wrong>,
        remedy: &str,
    ) -> Vec<At<T>> {
        self.require(key, remedy);
        self.nonempty_list(key, kind, remedy)
    }

    /// The values of the list `key`, which may be absent but not empty.
    pub fn nonempty_list<T>(
        &mut self,
        key: &'static str,
        kind: impl Fn(&Value) -> Result<T, Wrong>,
        remedy: &str,
    ) -> Vec<At<T>> {
        self.report_empty(key, remedy);
        self.list(key, kind)
    }

    /// The section `key`; absent or null is an empty one.
    pub fn section<T>(
        &mut self,
        key: &'static str,
        fields: impl FnOnce(&mut Section<'c>) -> T,
    ) -> T {
        let node = self.find(key);
        Section::read(self.report, &self.at(key), node, fields)
    }

    /// The section `key`, if it is there.
    pub fn optional_section<T>(
        &mut self,
        key: &'static str,
        fields: impl FnOnce(&mut Section<'c>) -> T,
    ) -> Option<T> {
        let node = self.find(key)?;
        Some(Section::read(self.report, &self.at(key), Some(node), fields))
    }

    /// The list of sections `key`, which must have at least one.
    pub fn sections<T>(
        &mut self,
        key: &'static str,
        remedy: &str,
        fields: impl Fn(&mut Section<'c>) -> T,
    ) -> Vec<At<T>> {
        self.require(key, remedy);
        self.report_empty(key, remedy);
        self.items(key)
            .into_iter()
            .map(|(path, node)| {
                let value = Section::read(self.report, &path, Some(node), &fields);
                At { path, value }
            })
            .collect()
    }

    fn items(&mut self, key: &'static str) -> Vec<(String, &'c Node)> {
        let path = self.at(key);
        let Some(node) = self.find(key) else { return Vec::new() };
        let Value::List(items) = &node.value else {
            let problem = format!("expected a list, got {}", node.value.kind());
            self.report.wrong(&path, problem, "write a list: `[a, b]`, or one `- item` a line");
            return Vec::new();
        };
        items.iter().enumerate().map(|(n, item)| (format!("{path}[{n}]"), item)).collect()
    }

    fn find(&mut self, key: &'static str) -> Option<&'c Node> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!matches!(entry.node.value, Value::Null)).then_some(&entry.node)
    }

    fn take<T>(
        &self,
        path: &str,
        node: &Node,
        kind: &impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        kind(&node.value).map_err(|wrong| self.report.wrong(path, wrong.problem, wrong.remedy)).ok()
    }

    fn require(&mut self, key: &'static str, remedy: &str) {
        if self.find(key).is_none() && !self.broken {
            self.missing.push((key, remedy.to_owned()));
        }
    }

    fn report_empty(&mut self, key: &'static str, remedy: &str) {
        if self.find(key).is_some_and(|node| matches!(&node.value, Value::List(l) if l.is_empty()))
        {
            self.report.wrong(&self.at(key), "empty list", remedy);
        }
    }

    /// A mistyped required key is reported once, as unknown, not as missing too; and no rule may
    /// conclude anything from the absence of what it was meant to be.
    fn report_keys(mut self) {
        for (n, entry) in self.entries.iter().enumerate() {
            let (key, line) = (&entry.key, entry.line);
            if let Some(first) = self.entries[..n].iter().find(|other| other.key == entry.key) {
                let problem = format!("duplicate key, first given on line {}", first.line);
                self.report.key(&self.path, key, line, problem, "keep one of the two".to_owned());
            } else if !self.known.iter().any(|known| entry.key == *known) {
                let meant = nearest(&entry.key, &self.known);
                if let Some(meant) = meant {
                    self.missing.retain(|(key, _)| *key != meant);
                    self.report.suspect(&self.at(meant));
                }
                let remedy = advice(meant, &self.known);
                self.report.key(&self.path, key, line, "unknown key".to_owned(), remedy);
            }
        }
        for (key, remedy) in &self.missing {
            self.report.wrong(&self.at(key), "missing", remedy);
        }
        self.report.schema(&self.path, &self.known);
    }
}
