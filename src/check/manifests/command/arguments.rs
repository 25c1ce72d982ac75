//! The arguments of vLLM's server: which are flags, which are values, and what one that the
//! manifests do not hold may be.

use super::expand;
use super::shell::{MARKS, Word};
use crate::check::manifests::view::cut;

/// A whole number on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Number {
    Absent,
    Known(u64),
    /// Why it is none.
    Wrong(String),
    /// What it depends on that the manifests do not hold.
    Unknown(String),
    /// What may hold the flag itself, so that the manifests do not tell.
    Open(String),
}

impl Number {
    pub fn known(&self) -> Option<u64> {
        match self {
            Self::Known(number) => Some(*number),
            Self::Absent | Self::Wrong(_) | Self::Unknown(_) | Self::Open(_) => None,
        }
    }

    pub(super) fn read(text: &str, least: u64, most: u64) -> Self {
        let digits = text.strip_prefix('+').unwrap_or(text);
        match digits.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Self::Known(number),
            _ => Self::Wrong(format!("{} is no whole number from {least} to {most}", cut(text))),
        }
    }
}

/// Flags that take any number of values.
const MANY: [&str; 10] = [
    "--allowed-media-domains",
    "--api-key",
    "--collect-detailed-traces",
    "--compile-sizes",
    "--cudagraph-capture-sizes",
    "--ignore-patterns",
    "--logits-processors",
    "--lora-modules",
    "--middleware",
    "--served-model-name",
];

/// Switches that are not called `--enable-…`, `--disable-…` or `--no-…`.
const SWITCHES: [&str; 27] = [
    "--aggregate-engine-logging",
    "--allow-credentials",
    "--async-scheduling",
    "--calculate-kv-scales",
    "--cohere-is-reasoning-model",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
    "--enforce-eager",
    "--eplb-log-balancedness",
    "--exclude-tools-when-tool-choice-none",
    "--fully-sharded-loras",
    "--guided-decoding-disable-additional-properties",
    "--guided-decoding-disable-any-whitespace",
    "--guided-decoding-disable-fallback",
    "--headless",
    "--interleave-mm-strings",
    "--kv-sharing-fast-prefill",
    "--language-model-only",
    "--log-error-stack",
    "--ray-workers-use-nsight",
    "--return-tokens-as-token-ids",
    "--skip-mm-profiling",
    "--skip-tokenizer-init",
    "--tokens-only",
    "--trust-remote-code",
    "--trust-request-chat-template",
    "--use-tqdm-on-load",
];

/// A flag, with the first of its values.
struct Flag {
    name: String,
    value: Option<Word>,
    at: usize,
}

pub(super) struct Arguments {
    flags: Vec<Flag>,
    /// The last argument that may be any flag: where it stands, and what it depends on.
    open: Option<(usize, String)>,
}

impl Arguments {
    pub fn read(words: &[Word]) -> Self {
        let words: Vec<_> = words.iter().map(unresolved).collect();
        let mut flags = Vec::new();
        let (mut alone, mut open) = (Vec::new(), Vec::new());
        let mut model = false;
        let mut n = 0;
        while let Some(word) = words.get(n) {
            let at = n;
            n += 1;
            let Some((name, inline)) = flag(word) else {
                match &word.unknown {
                    Some(what) => alone.push((at, what.clone())),
                    None => model = true,
                }
                continue;
            };
            let values = words[n..].iter().take_while(|word| is_value(&word.text)).count();
            let values = match inline {
                Some(_) => 0,
                None => values.min(most_values(&name)),
            };
            let value = inline.or_else(|| words[n..n + values].first().cloned());
            // Where several values may follow, what is unknown may as well be the next flag.
            let more = words.iter().enumerate().take(n + values).skip(n + 1);
            open.extend(
                more.filter_map(|(at, word)| Some((at, word.unknown.clone()?))).next_back(),
            );
            n += values;
            model |= name == "--model";
            flags.push(Flag { name, value, at });
        }
        // The first that stands alone is the model, if nothing else is and there is more: the only
        // argument may as well be all of them.
        let first = !model && words.len() > 1;
        open.extend(alone.into_iter().skip(usize::from(first)));
        Self { flags, open: open.into_iter().max() }
    }

    /// The value of the last of these flags, which is the one that counts; `Some(None)`: it has
    /// none.
    pub fn last(&self, names: &[&str]) -> Option<Option<&Word>> {
        self.find(names).map(|flag| flag.value.as_ref())
    }

    fn find(&self, names: &[&str]) -> Option<&Flag> {
        self.flags.iter().rfind(|flag| names.contains(&flag.name.as_str()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(&[name]).is_some()
    }

    /// It tells about itself and ends.
    pub fn is_help(&self) -> bool {
        ["-h", "--help", "-v", "--version"].iter().any(|name| self.has(name))
    }

    pub fn number(&self, names: &[&str], least: u64, most: u64) -> Number {
        let flag = self.find(names);
        if let Some((open, what)) = &self.open
            && flag.is_none_or(|flag| flag.at < *open)
        {
            return Number::Open(what.clone());
        }
        match flag.map(|flag| &flag.value) {
            None => Number::Absent,
            Some(None) => Number::Wrong("it has no value".to_owned()),
            Some(Some(Word { unknown: Some(what), .. })) => Number::Unknown(what.clone()),
            Some(Some(word)) => Number::read(&word.text, least, most),
        }
    }
}

/// A `$(NAME)` that Kubernetes found no variable for: if it is none of the image, it is one of
/// `envFrom`, or a mistake.
fn unresolved(word: &Word) -> Word {
    let name =
        || word.text.match_indices('$').find_map(|(at, _)| expand::reference(&word.text[at..]));
    let unknown = word.unknown.clone().or_else(|| name().map(|(name, _)| name.to_owned()));
    Word { text: word.text.clone(), unknown }
}

/// The name of a flag, with `-` for `_` as vLLM takes it, and the value that stands in the same
/// word.
fn flag(word: &Word) -> Option<(String, Option<Word>)> {
    if is_value(&word.text) {
        return None;
    }
    let (name, inline) = match word.text.split_once('=') {
        Some((name, value)) => {
            (name, Some(Word { text: value.to_owned(), unknown: word.unknown.clone() }))
        }
        None => (word.text.as_str(), None),
    };
    let whole = inline.is_some() || word.unknown.is_none();
    if !whole || name.contains(['$', MARKS.0]) {
        return None;
    }
    let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
    Some((name, inline))
}

/// A flag is no value, a negative number is.
fn is_value(text: &str) -> bool {
    !text.starts_with('-') || text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// How many values a flag of vLLM's server takes at most.
fn most_values(name: &str) -> usize {
    const SHORT: [&str; 5] = ["-dpe", "-dph", "-ep", "-h", "-v"];
    let switch = ["--enable-", "--disable-", "--no-"].iter().any(|kind| name.starts_with(kind))
        && name != "--disable-access-log-for-endpoints";
    // `-O3`, `-O.mode`: the value stands in the word.
    let level = name.len() > 2 && name.starts_with("-O");
    match name {
        _ if MANY.contains(&name) => usize::MAX,
        _ if switch || level || SWITCHES.contains(&name) || SHORT.contains(&name) => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shutdown timeout of `vllm serve` with these arguments, of which those with a `$` are
    /// unknown.
    fn timeout(line: &str) -> Number {
        let word = |text: &str| Word {
            text: text.to_owned(),
            unknown: text.split_once('$').map(|(_, name)| name[..1].to_owned()),
        };
        let words: Vec<_> = line.split(' ').map(word).collect();
        Arguments::read(&words).number(&["--shutdown-timeout"], 0, 1000)
    }

    #[test]
    fn an_unknown_argument_may_hold_any_flag() {
        let open = Number::Open("X".to_owned());
        for line in [
            "m --shutdown-timeout 90 $X",
            "m $X",
            "--model m $X",
            "--model $M --shutdown-timeout 90 $X",
            "$M --shutdown-timeout 90 $X",
            "m --shutdown-timeout 90 --enforce-eager $X",
            "m --shutdown-timeout 90 --enable-prefix-caching $X --port 80",
            "m --shutdown-timeout 90 --no-enable-prefix-caching $X",
            "m --shutdown-timeout 90 --trust_remote_code $X",
            "m --shutdown-timeout 90 --seed=1 $X",
            "m --shutdown-timeout 90 -O3 $X",
            "m --shutdown-timeout 90 --port 80 $X",
            "m --shutdown-timeout 90 --$X",
            "m --shutdown-timeout 90 --$X=3",
            "m --shutdown-timeout 90 --shutdown-$X 5",
            "m --shutdown-timeout 90 -$X",
            "m --shutdown-timeout 90 --served-model-name a b $X",
            "$M --shutdown-timeout 90 --lora-modules a=b $X",
            "m --shutdown-timeout 90 $X --seed 1 $X",
        ] {
            assert_eq!(timeout(line), open, "{line}");
        }
    }

    #[test]
    fn values_of_other_flags_are_none() {
        for line in [
            "$M --shutdown-timeout 90",
            "--shutdown-timeout 90 $M",
            "--shutdown-timeout 90 --trust-remote-code $M",
            "--shutdown-timeout 90 --model $M",
            "m --shutdown-timeout 90 -tp $T --port $P",
            "m --shutdown-timeout 90 --max-model-len=$L",
            "m --shutdown-timeout 90 --hf-overrides={$L",
            "m --shutdown-timeout 90 --served-model-name $A b c",
            "m --shutdown-timeout 90 --disable-access-log-for-endpoints $E",
            "m $X --shutdown-timeout 90",
            "m $X --shutdown-timeout=5 $X --shutdown-timeout 90",
        ] {
            assert_eq!(timeout(line), Number::Known(90), "{line}");
        }
        assert_eq!(timeout("m --shutdown-timeout $X"), Number::Unknown("X".to_owned()));
        assert_eq!(timeout("$M --port $P"), Number::Absent);
    }

    #[test]
    fn what_kubernetes_left_unresolved_is_unknown() {
        let read = |texts: &[&str]| {
            let words: Vec<_> = texts.iter().map(|text| Word::plain(text)).collect();
            Arguments::read(&words).number(&["--shutdown-timeout"], 0, 1000)
        };
        let unknown = Number::Unknown("T".to_owned());
        assert_eq!(read(&["m", "--shutdown-timeout", "$(T)"]), unknown);
        assert_eq!(read(&["m", "$(T)"]), Number::Open("T".to_owned()));
        assert_eq!(read(&["m", "a$b", "$(", "$(a b)"]), Number::Absent);
    }
}
