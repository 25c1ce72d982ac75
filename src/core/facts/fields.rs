//! The keys that are interpreted, and how their values are read.

use super::bad::{BadRequest, echo};
use super::scan::{Kind, Scanner, Str};
use crate::core::api::Api;
use crate::core::ids::ModelName;

/// The largest integer that every JSON implementation reads alike (RFC 8259, section 6).
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// A key that is interpreted in the bodies of some API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Model,
    Stream,
    StreamOptions,
    N,
    BestOf,
    MaxTokens,
    MaxCompletionTokens,
    MaxOutputTokens,
    Prompt,
    Messages,
    Input,
    Instructions,
    System,
    Tools,
}

impl Field {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Stream => "stream",
            Self::StreamOptions => "stream_options",
            Self::N => "n",
            Self::BestOf => "best_of",
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxOutputTokens => "max_output_tokens",
            Self::Prompt => "prompt",
            Self::Messages => "messages",
            Self::Input => "input",
            Self::Instructions => "instructions",
            Self::System => "system",
            Self::Tools => "tools",
        }
    }

    /// Position in a [`Seen`] set.
    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The keys that mean something to `api`.
    const fn of(api: Api) -> &'static [Self] {
        use Field::{
            BestOf, Input, Instructions, MaxCompletionTokens, MaxOutputTokens, MaxTokens, Messages,
            Model, N, Prompt, Stream, StreamOptions, System, Tools,
        };
        match api {
            Api::Completions => &[Model, Stream, StreamOptions, N, BestOf, MaxTokens, Prompt],
            Api::Chat => {
                &[Model, Stream, StreamOptions, N, MaxTokens, MaxCompletionTokens, Messages, Tools]
            }
            Api::Responses => &[Model, Stream, MaxOutputTokens, Input, Instructions, Tools],
            Api::Messages => &[Model, Stream, MaxTokens, Messages, System, Tools],
            Api::Plain => &[Model],
        }
    }

    /// Which of the keys of `api` this one is, escapes decoded.
    pub fn find(api: Api, key: Str<'_>) -> Option<Self> {
        Self::of(api).iter().copied().find(|field| key.is(field.name()))
    }
}

/// The interpreted keys met so far.
#[derive(Default)]
pub(super) struct Seen(u32);

impl Seen {
    /// Notes `field`; `false` if it was there before.
    pub fn first(&mut self, field: Field) -> bool {
        let first = self.0 & field.bit() == 0;
        self.0 |= field.bit();
        first
    }

    pub fn has(&self, field: Field) -> bool {
        self.0 & field.bit() != 0
    }
}

/// Two values for one key: parsers differ in which of them they take.
pub(super) fn duplicate(param: &'static str) -> BadRequest {
    BadRequest::key(param, format_args!("`{param}` is given more than once; send it once."))
}

/// Reads `true`, `false` or `null`.
pub(super) fn boolean(
    scan: &mut Scanner<'_>,
    param: &'static str,
) -> Result<Option<bool>, BadRequest> {
    let kind = scan.kind()?;
    match kind {
        Kind::True | Kind::False | Kind::Null => {
            scan.literal(kind)?;
            Ok(match kind {
                Kind::True => Some(true),
                Kind::False => Some(false),
                _ => None,
            })
        }
        _ => Err(wrong(scan, param, "true or false, without quotes")?),
    }
}

/// Reads a non-negative integer or `null`. `3.0` and `1e2` are integers, as they are for the
/// engine; a fraction, a quoted number, and what other parsers would round are not.
pub(super) fn integer(
    scan: &mut Scanner<'_>,
    param: &'static str,
) -> Result<Option<u64>, BadRequest> {
    match scan.kind()? {
        Kind::Null => {
            scan.literal(Kind::Null)?;
            Ok(None)
        }
        Kind::Number => {
            let written = scan.number()?;
            let value = whole(written).ok_or_else(|| not_a_count(param, written))?;
            Ok(Some(value))
        }
        _ => Err(wrong(scan, param, "a whole number, without quotes")?),
    }
}

/// The value of a number as written, if it is a whole number from 0 to 2^53 − 1.
fn whole(written: &str) -> Option<u64> {
    if let Ok(value) = written.parse::<u64>() {
        return (value <= MAX_INTEGER).then_some(value);
    }
    let value = written.parse::<f64>().ok()?;
    let fits = value.fract() == 0.0 && (0.0..=MAX_INTEGER as f64).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and within 0..=2^53-1, checked in the line above"
    )]
    fits.then_some(value as u64)
}

fn not_a_count(param: &'static str, written: &str) -> BadRequest {
    BadRequest::key(
        param,
        format_args!(
            "`{param}` must be a whole number from 0 to {MAX_INTEGER}, not {}.",
            echo(written)
        ),
    )
}

/// Reads the model's name: a string of 1 to `limit` bytes without control characters.
pub(super) fn model(scan: &mut Scanner<'_>, limit: usize) -> Result<Option<ModelName>, BadRequest> {
    match scan.kind()? {
        Kind::Null => {
            scan.literal(Kind::Null)?;
            Ok(None)
        }
        Kind::String => {
            let name = scan.string()?;
            let bad = name.len() > limit || name.chars().any(char::is_control);
            if bad || name.len() == 0 {
                return Err(BadRequest::key(
                    "model",
                    format_args!(
                        "`model` must be the name of a model: 1 to {limit} bytes, no control \
                         characters. GET /v1/models lists the names."
                    ),
                ));
            }
            Ok(Some(ModelName::from(name.chars().collect::<String>())))
        }
        _ => Err(wrong(scan, "model", "a string")?),
    }
}

/// The refusal of a value of the wrong type, which starts at the scanner.
pub(super) fn wrong(
    scan: &mut Scanner<'_>,
    param: &'static str,
    wanted: &str,
) -> Result<BadRequest, BadRequest> {
    let start = scan.pos();
    let got = match scan.kind()? {
        Kind::Object => "an object".to_owned(),
        Kind::Array => "an array".to_owned(),
        Kind::String => format!("the string \"{}\"", echo(scan.string()?.raw)),
        Kind::Number => format!("the number {}", echo(scan.number()?)),
        kind => {
            scan.literal(kind)?;
            scan.since(start).to_owned()
        }
    };
    Ok(BadRequest::key(param, format_args!("`{param}` must be {wanted}, not {got}.")))
}
