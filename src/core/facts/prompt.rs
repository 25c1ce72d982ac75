//! How large a prompt is, without a tokenizer.

use super::scan::Str;
use super::walk::Sink;

/// ASCII bytes to a token: the vendors' rule of thumb for English, and close for code.
const ASCII_BYTES_PER_TOKEN: u64 = 4;
/// Bytes of non-ASCII characters to a token: one token for a CJK character (three bytes), which
/// present vocabularies seldom exceed.
const WIDE_BYTES_PER_TOKEN: u64 = 3;
/// What one image, sound or file counts for: vision models spend some 800 to 1,400 tokens on an
/// image of a million pixels. Its bytes say nothing about it.
const MEDIA_TOKENS: u64 = 1024;

/// Keys whose string is an address or encoded data of a medium, not text.
const MEDIA_KEYS: [&str; 9] = [
    "url",
    "image_url",
    "video_url",
    "audio_url",
    "data",
    "file_data",
    "image_data",
    "input_audio",
    "encrypted_content",
];

/// The size of everything the model will read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PromptSize {
    /// Bytes of UTF-8 text after decoding, media left out.
    pub bytes: u64,
    /// Estimated tokens over all prompts: text by its bytes, token ids as counted, media at a flat
    /// rate. An estimate for reservations; the truth comes with the engine's usage.
    pub tokens: u64,
    /// Prompts in the request: more than one only for a completion with a list; at least 1.
    pub prompts: u64,
    /// Images, sounds and files.
    pub media: u64,
}

/// Adds up the parts of a prompt.
#[derive(Debug, Default)]
pub(super) struct Measure {
    ascii: u64,
    wide: u64,
    media: u64,
    ids: u64,
    listed_prompts: u64,
}

impl Measure {
    /// Text that the model reads as it stands in the body (tool schemas).
    pub fn raw(&mut self, raw: &str) {
        self.ascii += raw.len() as u64;
    }

    pub fn size(&self) -> PromptSize {
        let text =
            self.ascii.div_ceil(ASCII_BYTES_PER_TOKEN) + self.wide.div_ceil(WIDE_BYTES_PER_TOKEN);
        PromptSize {
            bytes: self.ascii + self.wide,
            tokens: text + self.ids + self.media * MEDIA_TOKENS,
            prompts: self.listed_prompts.max(1),
            media: self.media,
        }
    }

    fn add(&mut self, text: Str<'_>) {
        let wide = text.wide();
        self.wide += wide as u64;
        self.ascii += (text.len() - wide) as u64;
    }
}

/// Messages, input items, instructions, system text: every string is text unless its key says
/// that it is a medium. Roles and types are counted too; chat templates spend as much on them.
impl Sink for Measure {
    fn text(&mut self, key: &str, text: Str<'_>, _depth: usize) {
        if MEDIA_KEYS.contains(&key) {
            self.media += 1;
        } else {
            self.add(text);
        }
    }
}

/// The `prompt` of a completion: a string, token ids, or a list of either.
pub(super) struct Prompts<'m>(pub &'m mut Measure);

impl Sink for Prompts<'_> {
    fn text(&mut self, _key: &str, text: Str<'_>, depth: usize) {
        self.0.add(text);
        self.0.listed_prompts += u64::from(depth == 1);
    }

    fn number(&mut self, _depth: usize) {
        self.0.ids += 1;
    }

    fn array(&mut self, depth: usize) {
        self.0.listed_prompts += u64::from(depth == 1);
    }
}
