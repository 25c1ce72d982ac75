//! Prompt tokens: a count and a chain of block hashes, from the text alone.
//!
//! The tokenizer is a fixed rule, close to a real one on English text: a run of letters is one
//! token for each [`WORD`] letters begun, a digit is a token (as in Qwen's pre-tokenizer), any
//! other visible character is a token, white space only separates. The sentence of the published
//! experiments gives its published 16 tokens.

use std::ops::ControlFlow;

/// Letters a word token holds at most.
pub const WORD: usize = 12;

/// Tokens the chat template adds to a message (role, delimiters) and once to the prompt (the
/// opening of the answer).
pub const CHAT_MESSAGE_TOKENS: usize = 5;

/// A tokenized prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Number of tokens.
    pub tokens: usize,
    /// For each whole block of tokens, a hash of all tokens up to its end. Two prompts share a
    /// block's hash exactly if they share the whole prefix (but for collisions of 64 bits).
    pub blocks: Vec<u64>,
    /// A hash of all tokens.
    pub hash: u64,
}

/// Builds a [`Prompt`] from pieces of text.
#[derive(Debug)]
pub struct PromptBuilder {
    block: usize,
    limit: usize,
    prompt: Prompt,
}

impl PromptBuilder {
    /// Blocks of `block` tokens; counting stops soon after `limit` tokens, so that an absurd
    /// prompt costs no more than a refused one.
    #[must_use]
    pub fn new(block: usize, limit: usize) -> Self {
        Self {
            block: block.max(1),
            limit,
            prompt: Prompt { hash: FNV_OFFSET, ..Prompt::default() },
        }
    }

    /// Adds text. Pieces do not join into one word.
    pub fn text(&mut self, text: &str) {
        let _ = tokenize(text, |piece| {
            self.push(piece.as_bytes());
            if self.prompt.tokens > self.limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    }

    /// Adds a token given by its number.
    pub fn token_id(&mut self, id: u64) {
        self.push(&id.to_le_bytes());
    }

    /// Adds the `count` tokens that the chat template puts around a message of that role.
    pub fn template(&mut self, role: &str, count: usize) {
        for _ in 0..count {
            self.push(role.as_bytes());
        }
    }

    /// The prompt so far.
    #[must_use]
    pub fn finish(self) -> Prompt {
        self.prompt
    }

    fn push(&mut self, token: &[u8]) {
        let prompt = &mut self.prompt;
        for byte in token {
            prompt.hash = (prompt.hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
        // Ends the token: "ab" + "c" and "a" + "bc" differ.
        prompt.hash = (prompt.hash ^ 0xff).wrapping_mul(FNV_PRIME);
        prompt.tokens += 1;
        if prompt.tokens.is_multiple_of(self.block) {
            prompt.blocks.push(prompt.hash);
        }
    }
}

// FNV-1a, 64 bits (draft-eastlake-fnv).
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The number of tokens of a text.
#[must_use]
pub fn count(text: &str) -> usize {
    let mut tokens = 0;
    let _ = tokenize(text, |_| {
        tokens += 1;
        ControlFlow::<()>::Continue(())
    });
    tokens
}

fn tokenize<B>(text: &str, mut emit: impl FnMut(&str) -> ControlFlow<B>) -> ControlFlow<B> {
    let mut word: Option<(usize, usize)> = None;
    for (at, c) in text.char_indices() {
        if c.is_alphabetic() {
            match &mut word {
                Some((_, letters)) if *letters < WORD => *letters += 1,
                _ => {
                    if let Some((start, _)) = word.replace((at, 1)) {
                        emit(&text[start..at])?;
                    }
                }
            }
            continue;
        }
        if let Some((start, _)) = word.take() {
            emit(&text[start..at])?;
        }
        if !c.is_whitespace() {
            emit(&text[at..at + c.len_utf8()])?;
        }
    }
    match word {
        Some((start, _)) => emit(&text[start..]),
        None => ControlFlow::Continue(()),
    }
}

/// A 64-bit hash of a body, to compare what two sides saw. Not cryptographic.
#[must_use]
pub fn body_hash(body: &[u8]) -> u64 {
    let mut hash = FNV_OFFSET ^ (body.len() as u64);
    let (words, rest) = body.as_chunks::<8>();
    for word in words {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(FNV_PRIME);
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENTENCE: &str = "The service tracks request latency, token throughput, cache \
                            utilization, and healthy replicas. ";

    fn prompt(text: &str, block: usize) -> Prompt {
        let mut builder = PromptBuilder::new(block, usize::MAX);
        builder.text(text);
        builder.finish()
    }

    #[test]
    fn the_sentence_has_16_tokens() {
        assert_eq!(count(SENTENCE), 16);
        assert_eq!(count(&SENTENCE.repeat(30)), 480);
    }

    #[test]
    fn published_prompt_sizes_are_near() {
        for (n, published) in [(30, 517), (90, 1477), (300, 4840)] {
            let text = format!(
                "Request 3f9c2a71b4d80e65 {}Write a short operational summary of the facts above.",
                SENTENCE.repeat(n)
            );
            let tokens = count(&text) + 2 * CHAT_MESSAGE_TOKENS;
            assert!(tokens.abs_diff(published) <= 10, "N={n}: {tokens}, published {published}");
        }
    }

    #[test]
    fn blocks_are_shared_exactly_as_far_as_the_text_is() {
        let base = SENTENCE.repeat(100);
        let (a, b) = (prompt(&format!("{base} a"), 100), prompt(&format!("{base} b c"), 100));
        assert_eq!(a.blocks.len(), 16);
        assert_eq!(a.blocks, b.blocks);
        let other = prompt(&format!("x {base}"), 100);
        assert!(other.blocks.iter().all(|h| !a.blocks.contains(h)));
        let late =
            prompt(&base.replacen("tracks", "tracked", 50).replacen("tracked", "tracks", 49), 100);
        let shared = a.blocks.iter().zip(&late.blocks).take_while(|(x, y)| x == y).count();
        assert_eq!(shared, 49 * 16 / 100);
    }

    #[test]
    fn long_words_digits_and_other_scripts() {
        assert_eq!(count("throughput"), 1);
        assert_eq!(count(&"a".repeat(WORD * 3 + 1)), 4);
        assert_eq!(count("a1b23"), 5);
        assert_eq!(count("Größe – 数据"), 3);
        assert_eq!(count(" \n\t"), 0);
    }

    #[test]
    fn counting_stops_at_the_limit() {
        let mut builder = PromptBuilder::new(16, 100);
        builder.text(&SENTENCE.repeat(1000));
        assert_eq!(builder.finish().tokens, 101);
    }
}
