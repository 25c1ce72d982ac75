//! Command lines in the manner of getopt.

use super::super::shell::Word;

/// What a program takes.
pub(super) struct Syntax {
    /// Short options with a value, and those without.
    pub short: &'static str,
    pub switches: &'static str,
    /// Long options with a value, and those without.
    pub long: &'static [&'static str],
    pub long_switches: &'static [&'static str],
    /// `--name=value` is taken as well as `--name value`.
    pub inline: bool,
}

/// A command line that was taken apart.
#[derive(Debug, Default)]
pub(super) struct Line<'w> {
    /// `-m` or `--max-time`, with its value if it has one.
    options: Vec<(String, Option<String>)>,
    pub operands: Vec<&'w Word>,
    /// `--name=value` where that is no option.
    pub inline: Option<&'w str>,
    /// An option that is not known.
    pub unknown: Option<String>,
}

impl<'w> Line<'w> {
    pub fn read(words: &'w [Word], syntax: &Syntax) -> Self {
        let mut line = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            let next = || words.next().map(|word| word.text.clone());
            if text == "--" {
                line.operands.extend(words.by_ref());
            } else if let Some(long) = text.strip_prefix("--") {
                line.long(text, long, syntax, next);
            } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                line.cluster(cluster, syntax, next);
            } else {
                line.operands.push(word);
            }
        }
        line
    }

    fn long(
        &mut self,
        text: &'w str,
        long: &'w str,
        syntax: &Syntax,
        next: impl FnOnce() -> Option<String>,
    ) {
        let (name, inline) = match long.split_once('=') {
            Some(_) if !syntax.inline => return self.inline = Some(text),
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let value = match (syntax.long.contains(&name), inline) {
            (true, inline) => inline.or_else(next),
            (false, inline) => {
                if !syntax.long_switches.contains(&name) {
                    self.unknown.get_or_insert_with(|| text.to_owned());
                }
                inline
            }
        };
        self.options.push((format!("--{name}"), value));
    }

    /// `-fsSm85`, `-XPOST`.
    fn cluster(&mut self, text: &str, syntax: &Syntax, next: impl FnOnce() -> Option<String>) {
        for (at, letter) in text.char_indices() {
            let name = format!("-{letter}");
            if !syntax.short.contains(letter) {
                if !syntax.switches.contains(letter) {
                    self.unknown.get_or_insert_with(|| name.clone());
                }
                self.options.push((name, None));
                continue;
            }
            let rest = &text[at + letter.len_utf8()..];
            let value = if rest.is_empty() { next() } else { Some(rest.to_owned()) };
            return self.options.push((name, value));
        }
    }

    pub fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The values of these options, in order.
    pub fn values<'n>(&'n self, names: &'n [&'n str]) -> impl Iterator<Item = &'n str> {
        let named = |(name, _): &&(String, Option<String>)| names.contains(&name.as_str());
        self.options.iter().filter(named).filter_map(|(_, value)| value.as_deref())
    }

    /// The last one counts.
    pub fn value<'n>(&'n self, names: &'n [&'n str]) -> Option<&'n str> {
        self.values(names).last()
    }
}
