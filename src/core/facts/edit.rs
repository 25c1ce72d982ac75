//! The one change that is made to a request body: a stream reports its usage.
//!
//! The change is made at byte level: every other byte goes upstream as the client sent it, and a
//! large body is not copied.

use super::RequestFacts;
use super::options::StreamOptions;
use bytes::Bytes;
use std::ops::Range;

/// Replaces `span` by `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Splice {
    span: Range<usize>,
    text: &'static str,
}

/// How a body must be changed so that the stream ends with its usage.
///
/// A client that switched `include_usage` off but `continuous_usage_stats` on gets no usage in its
/// chunks from an engine; switching the former on would bring them, so the latter is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyEdit {
    /// In the order of the body, not overlapping.
    splices: Vec<Splice>,
}

/// A body as it goes upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamBody {
    /// Slices of the client's body and inserted text, in order.
    pub parts: Vec<Bytes>,
    /// The usage chunk will come although the client did not ask for it: remove it.
    pub usage_injected: bool,
}

impl UpstreamBody {
    /// Bytes in all parts: the `content-length`.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Whether there is no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl BodyEdit {
    /// The edit that makes a stream with `options` report its usage; `start` is the offset just
    /// after the opening brace of the body, which has at least one member.
    pub(super) fn include_usage(options: &StreamOptions, start: usize) -> Option<Self> {
        let splices = match options {
            StreamOptions::Absent => {
                vec![Splice::insert(start, r#""stream_options":{"include_usage":true},"#)]
            }
            StreamOptions::Null { span } => {
                vec![Splice { span: span.clone(), text: r#"{"include_usage":true}"# }]
            }
            StreamOptions::Object { include_usage, .. } if include_usage.on => return None,
            StreamOptions::Object { inside, empty, include_usage, continuous } => {
                match (&include_usage.span, &continuous.span) {
                    (None, _) if *empty => {
                        vec![Splice::insert(*inside, r#""include_usage":true"#)]
                    }
                    (None, _) => vec![Splice::insert(*inside, r#""include_usage":true,"#)],
                    (Some(usage), Some(stats)) if continuous.on => {
                        let mut both = vec![
                            Splice { span: usage.clone(), text: "true" },
                            Splice { span: stats.clone(), text: "false" },
                        ];
                        both.sort_by_key(|splice| splice.span.start);
                        both
                    }
                    (Some(usage), _) => vec![Splice { span: usage.clone(), text: "true" }],
                }
            }
        };
        Some(Self { splices })
    }

    fn apply(&self, body: &Bytes) -> Vec<Bytes> {
        let mut parts = Vec::with_capacity(2 * self.splices.len() + 1);
        let mut done = 0;
        for Splice { span, text } in &self.splices {
            parts.push(body.slice(done..span.start));
            parts.push(Bytes::from_static(text.as_bytes()));
            done = span.end;
        }
        parts.push(body.slice(done..));
        parts
    }
}

impl Splice {
    const fn insert(at: usize, text: &'static str) -> Self {
        Self { span: at..at, text }
    }
}

/// `body` as it goes upstream. `facts` must have been read from this body; if the lengths differ
/// it is passed on unchanged.
pub fn upstream_body(facts: &RequestFacts, body: Bytes) -> UpstreamBody {
    match &facts.edit {
        Some(edit) if body.len() == facts.body_len => {
            UpstreamBody { parts: edit.apply(&body), usage_injected: true }
        }
        _ => UpstreamBody { parts: vec![body], usage_injected: false },
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
