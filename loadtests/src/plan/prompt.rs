//! Prompts by the published recipe, rebuilt from seed, phase and index alone.

use sha2::{Digest, Sha256};

use crate::scenario::{Api, PromptKind, PromptSpec};

/// The sentence that prompts repeat: 16 tokens.
pub const SENTENCE: &str = "The service tracks request latency, token throughput, cache \
                            utilization, and healthy replicas. ";

const CLOSING: &str = "Write a short operational summary of the facts above.";

/// Tokens that the simulated engine's chat template adds to one user message.
const CHAT_TEMPLATE: usize = 10;

/// What names a prompt.
#[derive(Debug, Clone, Copy)]
pub struct PromptKey<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// Phase.
    pub phase: &'a str,
    /// Index in the phase.
    pub index: u64,
    /// Prefix group.
    pub group: u32,
}

/// The text of a prompt.
#[must_use]
pub fn text(spec: &PromptSpec, api: Api, key: &PromptKey<'_>) -> String {
    let (opening, closing, ending) = match spec.kind {
        PromptKind::Unique => (format!("Request {} ", nonce(key)), CLOSING, String::new()),
        PromptKind::Shared => (String::new(), CLOSING, format!(" Request {}", nonce(key))),
        PromptKind::Grouped => {
            let (salt, group) = (salt(key.seed, key.group), key.group);
            (format!("{salt} Document {group} "), "", format!(" Question {}", key.index))
        }
    };
    let body = SENTENCE.len() * spec.sentences;
    let mut text = String::with_capacity(opening.len() + body + ending.len() + 256);
    text.push_str(&opening);
    for _ in 0..spec.sentences {
        text.push_str(SENTENCE);
    }
    text.push_str(closing);
    if let Some(wanted) = spec.tokens {
        let template = if api == Api::Chat { CHAT_TEMPLATE } else { 0 };
        let around = count(&opening) + count(closing) + count(&ending) + template;
        let have = around + spec.sentences * count(SENTENCE);
        for _ in have..wanted {
            text.push_str(" please");
        }
    }
    text.push_str(&ending);
    text
}

/// Twelve digits, different for every request.
fn nonce(key: &PromptKey<'_>) -> String {
    let digest = digest(&[
        b"nonce",
        &key.seed.to_le_bytes(),
        key.phase.as_bytes(),
        &key.index.to_le_bytes(),
    ]);
    let number = u64::from_le_bytes(std::array::from_fn(|i| digest[i]));
    format!("{:012}", number % 1_000_000_000_000)
}

/// Most tokens of a salt: about the average, so that the prompt can be filled up to its length.
const SALT_TOKENS: usize = 220;

/// 256 hexadecimal characters, the same for all requests of a group in a run. Of the salts drawn
/// for the group, the first that is not too long in tokens.
fn salt(seed: u64, group: u32) -> String {
    let draw = |nth: u32| {
        let part = |i: u8| {
            let parts: [&[u8]; 5] =
                [b"salt", &seed.to_le_bytes(), &group.to_le_bytes(), &nth.to_le_bytes(), &[i]];
            hex(&digest(&parts))
        };
        (0..4).map(part).collect::<String>()
    };
    let fit = (0..100).map(draw).find(|salt| count(salt) <= SALT_TOKENS);
    fit.unwrap_or_else(|| draw(0))
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Tokens of ASCII text by the simulated engine's rule: a run of up to 12 letters, a digit, or
/// any other visible character is one.
fn count(text: &str) -> usize {
    let (mut tokens, mut letters) = (0, 0);
    for c in text.bytes() {
        if c.is_ascii_alphabetic() {
            if letters % 12 == 0 {
                tokens += 1;
            }
            letters += 1;
            continue;
        }
        letters = 0;
        tokens += usize::from(!c.is_ascii_whitespace());
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u64, group: u32) -> PromptKey<'static> {
        PromptKey { seed: 7, phase: "main", index, group }
    }

    fn spec(kind: PromptKind, sentences: usize, tokens: usize) -> PromptSpec {
        PromptSpec { kind, sentences, tokens: Some(tokens) }
    }

    #[test]
    fn prompts_have_the_published_tokens() {
        use PromptKind::{Grouped, Shared, Unique};
        for (kind, sentences, tokens) in
            [(Unique, 30, 517), (Unique, 90, 1477), (Shared, 300, 4840), (Grouped, 300, 5048)]
        {
            for (index, group) in [(0, 0), (9, 1), (95, 2), (5, 3), (6, 4), (7, 5), (8, 6), (9, 7)]
            {
                let text = text(&spec(kind, sentences, tokens), Api::Chat, &key(index, group));
                assert_eq!(count(&text) + CHAT_TEMPLATE, tokens, "{kind:?} {index}");
            }
        }
    }

    #[test]
    fn what_is_shared_is_shared_and_nothing_else() {
        let shared =
            |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
        let build =
            |kind, index, group| text(&spec(kind, 300, 5048), Api::Chat, &key(index, group));
        let body = SENTENCE.len() * 300;
        let (a, b) = (build(PromptKind::Unique, 1, 0), build(PromptKind::Unique, 2, 0));
        assert!(shared(&a, &b) < "Request 123456789012".len());
        let (a, b) = (build(PromptKind::Shared, 1, 0), build(PromptKind::Shared, 2, 0));
        assert!(shared(&a, &b) > body);
        let (a, b) = (build(PromptKind::Grouped, 1, 3), build(PromptKind::Grouped, 2, 3));
        assert!(shared(&a, &b) > body + 256);
        let other = build(PromptKind::Grouped, 1, 4);
        assert!(shared(&a, &other) < 16);
        assert_eq!(a, build(PromptKind::Grouped, 1, 3));
    }
}
