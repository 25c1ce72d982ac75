//! Response heads in uvicorn's order: date, server, the application's fields, `connection`,
//! `transfer-encoding`.

use std::io::Write;
use std::time::SystemTime;

/// What the application puts into a head, in the order of its fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeadFields {
    pub(crate) allow: Option<&'static str>,
    /// `None` for a stream: then the body is chunked.
    pub(crate) content_length: Option<usize>,
    pub(crate) content_type: Option<&'static str>,
    /// Sent by the layer that most answers pass, but not those made outside it.
    pub(crate) vary: bool,
    pub(crate) retry_after: Option<String>,
    pub(crate) close: bool,
}

/// A whole answer that is not a stream.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeadFields,
    pub(crate) body: Vec<u8>,
    /// Answer a `HEAD` request: the fields of the body without the body.
    pub(crate) omit_body: bool,
    /// Close after the answer without saying so in the head.
    pub(crate) close_after: bool,
}

impl Answer {
    /// A JSON answer.
    pub(crate) fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::with_type(status, "application/json", body)
    }

    /// An answer of the given content type.
    pub(crate) fn with_type(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let fields = HeadFields { content_type: Some(kind), vary: true, ..HeadFields::default() };
        Self { status, fields, body: body.into(), omit_body: false, close_after: false }
    }

    /// An empty answer, as `/health` gives it.
    pub(crate) fn empty(status: u16) -> Self {
        let fields = HeadFields { vary: true, ..HeadFields::default() };
        Self { status, fields, body: Vec::new(), omit_body: false, close_after: false }
    }

    /// The head, with the body's length.
    pub(crate) fn head(&self) -> Vec<u8> {
        let fields = HeadFields { content_length: Some(self.body.len()), ..self.fields.clone() };
        encode_head(self.status, &fields)
    }
}

/// The bytes of a head.
pub(crate) fn encode_head(status: u16, fields: &HeadFields) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let date = httpdate::HttpDate::from(SystemTime::now());
    line(&mut out, format_args!("HTTP/1.1 {status} {}", reason_phrase(status)));
    line(&mut out, format_args!("date: {date}"));
    line(&mut out, format_args!("server: uvicorn"));
    if let Some(methods) = fields.allow {
        line(&mut out, format_args!("allow: {methods}"));
    }
    if let Some(len) = fields.content_length {
        line(&mut out, format_args!("content-length: {len}"));
    }
    if let Some(kind) = fields.content_type {
        line(&mut out, format_args!("content-type: {kind}"));
    }
    if let Some(seconds) = &fields.retry_after {
        line(&mut out, format_args!("retry-after: {seconds}"));
    }
    if fields.vary {
        line(&mut out, format_args!("vary: Origin"));
    }
    if fields.close {
        line(&mut out, format_args!("connection: close"));
    }
    if fields.content_length.is_none() {
        line(&mut out, format_args!("transfer-encoding: chunked"));
    }
    out.extend_from_slice(b"\r\n");
    out
}

fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec takes every write.
    let _ = write!(out, "{text}\r\n");
}

/// Appends `data` as one chunk; nothing for empty data, which would end the body.
pub(crate) fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        line(out, format_args!("{:x}", data.len()));
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reason phrase of the statuses an engine gives.
pub(crate) fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Request Entity Too Large",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}
