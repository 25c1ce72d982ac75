//! One exchange: write, read, judge.

use std::io::Write;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::framing::{Body, Head, Malformed, parse_head};
use super::pool::Conn;
use super::stream::{Seen, StreamState, Usage, error_code};
use super::{Call, Client};

const READ_CHUNK: usize = 16 * 1024;
/// Bytes of an error body that are kept.
const ERROR_BODY: usize = 64 * 1024;

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Content, terminal event and usage with the expected number of tokens.
    Complete,
    /// A status other than 200.
    Refused,
    /// The body ended as its framing says, without the terminal event.
    NoTerminal,
    /// The connection ended inside the body.
    Cut,
    /// An error event in the stream.
    ErrorEvent,
    /// The engine's own abort: `finish_reason: "abort"`.
    Abort,
    /// A terminal event, but no content before it.
    NoContent,
    /// A terminal event, but no usage.
    NoUsage,
    /// A terminal event, but not the expected number of output tokens.
    WrongTokens,
    /// An answer that is not HTTP, or events that are not JSON.
    Garbage,
    /// No byte for the time allowed.
    Silence,
    /// The whole exchange took longer than allowed.
    TotalTimeout,
    /// No connection.
    ConnectFailed,
    /// No connection within the time allowed.
    ConnectTimeout,
    /// The connection ended before an answer.
    NoAnswer,
}

impl Ended {
    /// The word in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Refused => "refused",
            Self::NoTerminal => "no_terminal_event",
            Self::Cut => "cut",
            Self::ErrorEvent => "error_event",
            Self::Abort => "engine_abort",
            Self::NoContent => "no_content",
            Self::NoUsage => "no_usage",
            Self::WrongTokens => "wrong_tokens",
            Self::Garbage => "garbage",
            Self::Silence => "read_timeout",
            Self::TotalTimeout => "total_timeout",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::NoAnswer => "no_answer",
        }
    }
}

/// What the client saw.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// How it ended.
    pub ended: Ended,
    /// Begin of the request.
    pub start: Instant,
    /// Response head.
    pub head: Option<Instant>,
    /// First content.
    pub first: Option<Instant>,
    /// Last content.
    pub last: Option<Instant>,
    /// End of the answer, or of the wait for it.
    pub end: Instant,
    /// HTTP status.
    pub status: Option<u16>,
    /// Reason of a refusal, or code of an error event.
    pub reason: Option<String>,
    /// Seconds after which to come back, as the answer says.
    pub retry_after: Option<f64>,
    /// Token counts.
    pub usage: Option<Usage>,
    /// `finish_reason`.
    pub finish: Option<String>,
    /// Events with content.
    pub content_events: u64,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// The replica, where the answer tells.
    pub target: Option<String>,
    /// Sent on a connection that had carried a request before.
    pub reused: bool,
}

impl Exchange {
    pub(super) fn begin(start: Instant) -> Self {
        Self {
            ended: Ended::NoAnswer,
            start,
            head: None,
            first: None,
            last: None,
            end: start,
            status: None,
            reason: None,
            retry_after: None,
            usage: None,
            finish: None,
            content_events: 0,
            request_id: None,
            target: None,
            reused: false,
        }
    }

    pub(super) fn end(&mut self, ended: Ended) {
        self.ended = ended;
        self.end = Instant::now();
    }

    fn head(&mut self, head: &Head) {
        self.head = Some(Instant::now());
        self.status = Some(head.status);
        self.request_id.clone_from(&head.request_id);
        self.target.clone_from(&head.target);
        self.reason.clone_from(&head.reason);
        let number = |text: &Option<String>| text.as_ref().and_then(|t| t.parse::<f64>().ok());
        let ms = number(&head.retry_after_ms).map(|ms| ms / 1000.0);
        self.retry_after = ms.or_else(|| number(&head.retry_after));
    }

    fn content(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    fn facts(&mut self, seen: &Seen) {
        self.content_events = seen.content;
        self.usage = seen.usage;
        self.finish.clone_from(&seen.finish);
        if let Some(code) = &seen.error {
            self.reason = Some(code.clone());
        }
    }
}

pub(super) async fn talk(client: &Client, call: &Call<'_>, seen: &mut Exchange) -> Ended {
    let mut conn = match client.connect(call.addr).await {
        Ok(conn) => conn,
        Err(ended) => return ended,
    };
    seen.reused = conn.reused;
    if conn.stream.write_all(&encode(call)).await.is_err() {
        return Ended::NoAnswer;
    }
    let head = match read_head(client, &mut conn).await {
        Ok(head) => head,
        Err(ended) => return ended,
    };
    seen.head(&head);
    let mut body = Body::new(head.framing);
    let ended = if head.status == 200 {
        read_stream(client, &mut conn, &mut body, call.tokens, seen).await
    } else {
        read_refusal(client, &mut conn, &mut body, seen).await
    };
    if body.done() && !head.close && conn.buffer.is_empty() {
        client.pool.put(call.addr, conn);
    }
    ended
}

fn encode(call: &Call<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(call.body.len() + 512);
    // A Vec takes every write.
    let _ = write!(
        out,
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         accept: text/event-stream\r\nuser-agent: streamgate-loadtests\r\ncontent-length: {}\r\n",
        call.path,
        call.host,
        call.body.len()
    );
    for (name, value) in call.headers {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(call.body);
    out
}

/// One read into the connection's buffer. `Ok(false)` at the end of input.
async fn fill(client: &Client, conn: &mut Conn) -> Result<bool, Fill> {
    conn.buffer.reserve(READ_CHUNK);
    match timeout(client.limits.silence, conn.stream.read_buf(&mut conn.buffer)).await {
        Err(_) => Err(Fill::Silence),
        Ok(Err(_)) => Err(Fill::Reset),
        Ok(Ok(n)) => Ok(n > 0),
    }
}

enum Fill {
    Silence,
    Reset,
}

async fn read_head(client: &Client, conn: &mut Conn) -> Result<Head, Ended> {
    loop {
        match parse_head(&mut conn.buffer) {
            // Interim answers (100 Continue and its like) are not the answer.
            Ok(Some(head)) if head.status < 200 => continue,
            Ok(Some(head)) => return Ok(head),
            Ok(None) => {}
            Err(Malformed) => return Err(Ended::Garbage),
        }
        match fill(client, conn).await {
            Ok(true) => {}
            Err(Fill::Silence) => return Err(Ended::Silence),
            Ok(false) | Err(Fill::Reset) => return Err(Ended::NoAnswer),
        }
    }
}

async fn read_stream(
    client: &Client,
    conn: &mut Conn,
    body: &mut Body,
    tokens: Option<u32>,
    seen: &mut Exchange,
) -> Ended {
    let mut state = StreamState::default();
    let cause = loop {
        let now = Instant::now();
        match consume(conn, body, &mut state) {
            Ok(true) => seen.content(now),
            Ok(false) => {}
            Err(Malformed) => break Some(Ended::Garbage),
        }
        if body.done() {
            break None;
        }
        match fill(client, conn).await {
            Ok(true) => {}
            Ok(false) if body.ends_at_close() => break None,
            Ok(false) | Err(Fill::Reset) => break Some(Ended::Cut),
            Err(Fill::Silence) => break Some(Ended::Silence),
        }
    };
    seen.facts(state.seen());
    judge(state.seen(), cause, tokens)
}

/// Feeds all that is buffered; `true` if it brought content.
fn consume(conn: &mut Conn, body: &mut Body, state: &mut StreamState) -> Result<bool, Malformed> {
    let mut content = false;
    while let Some(piece) = body.next(&mut conn.buffer)? {
        content |= state.feed(&piece).map_err(|_| Malformed)?;
    }
    Ok(content)
}

/// An error that the stream itself tells comes before what happened to the connection after it.
fn judge(seen: &Seen, cause: Option<Ended>, tokens: Option<u32>) -> Ended {
    if seen.error.is_some() {
        return Ended::ErrorEvent;
    }
    if seen.finish.as_deref() == Some("abort") {
        return Ended::Abort;
    }
    if let Some(cause) = cause {
        return cause;
    }
    match seen.usage {
        _ if seen.garbage => Ended::Garbage,
        _ if !seen.terminal => Ended::NoTerminal,
        _ if seen.content == 0 => Ended::NoContent,
        None => Ended::NoUsage,
        Some(usage) if tokens.is_some_and(|t| t != usage.completion) => Ended::WrongTokens,
        Some(_) => Ended::Complete,
    }
}

async fn read_refusal(
    client: &Client,
    conn: &mut Conn,
    body: &mut Body,
    seen: &mut Exchange,
) -> Ended {
    let mut text = Vec::new();
    loop {
        match body.next(&mut conn.buffer) {
            Ok(Some(piece)) if text.len() < ERROR_BODY => text.extend_from_slice(&piece),
            Ok(Some(_)) => {}
            Err(Malformed) => break,
            Ok(None) if body.done() => break,
            Ok(None) => {
                if !matches!(fill(client, conn).await, Ok(true)) {
                    break;
                }
            }
        }
    }
    if seen.reason.is_none() {
        let json: Option<Value> = serde_json::from_slice(&text).ok();
        let error = json.as_ref().and_then(|v| v.get("error"));
        let code = error.map(|e| error_code(Some(e))).filter(|c| c != "error");
        seen.reason = code.or_else(|| seen.status.map(|s| format!("http_{s}")));
    }
    Ended::Refused
}
