//! Sections whose file form and validated form are the same.

use super::{HOUR, ms, secs};
use crate::config::model::{
    Drain, Limits, Listen, Log, LogFormat, LogLevel, OnEngineAbort, Runtime, Slo, Streams,
    Timeouts, TlsFiles,
};
use crate::config::read::Section;
use crate::config::read::kind::{duration, flag, one_of, path, size, socket, whole};
use std::num::NonZeroUsize;
use std::time::Duration;

const ZERO: Duration = Duration::ZERO;
const LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

/// `proxy` (default `0.0.0.0:8080`), `admin` (default `127.0.0.1:9180`), `tls: {cert, key}`
/// (default none).
pub(super) fn listen(s: &mut Section<'_>) -> Listen {
    let default = Listen::default();
    Listen {
        proxy: s.or("proxy", socket, default.proxy),
        admin: s.or("admin", socket, default.admin),
        tls: s.optional_section("tls", |tls| TlsFiles {
            cert: tls.required("cert", path, "name the PEM file of the certificate chain"),
            key: tls.required("key", path, "name the PEM file of the private key"),
        }),
    }
}

/// `ttft` (1 ms to 1 h, default 2 s), `tpot` (1 ms to 1 min, default 150 ms), `e2e` (1 ms to 1
/// day, default 30 s). `ttft` is by default no longer than `e2e`.
pub(super) fn slo(s: &mut Section<'_>) -> Slo {
    let default = Slo::default();
    let e2e = s.or("e2e", duration(ms(1)..=24 * HOUR), default.e2e);
    Slo {
        e2e,
        ttft: s.or("ttft", duration(ms(1)..=HOUR), default.ttft.min(e2e)),
        tpot: s.or("tpot", duration(ms(1)..=secs(60)), default.tpot),
    }
}

/// Durations; ranges below, defaults in [`Timeouts::default`]. `total: 0s` is no limit.
/// `connect` and `head_hold` are by default no longer than `first_byte`.
pub(super) fn timeouts(s: &mut Section<'_>) -> Timeouts {
    let default = Timeouts::default();
    let total = s.or("total", duration(ZERO..=24 * HOUR), ZERO);
    let first_byte = s.or("first_byte", duration(ms(1)..=HOUR), default.first_byte);
    let (connect, head_hold) = (default.connect.min(first_byte), default.head_hold.min(first_byte));
    Timeouts {
        first_byte,
        connect: s.or("connect", duration(ms(1)..=secs(60)), connect),
        head_hold: s.or("head_hold", duration(ZERO..=HOUR), head_hold),
        stream_idle: s.or("stream_idle", duration(ms(1)..=HOUR), default.stream_idle),
        write_stall: s.or("write_stall", duration(ms(1)..=HOUR), default.write_stall),
        total: (!total.is_zero()).then_some(total),
        client_header: s.or("client_header", duration(ms(1)..=HOUR), default.client_header),
        client_body: s.or("client_body", duration(ms(1)..=HOUR), default.client_body),
        upstream_idle: s.or("upstream_idle", duration(ZERO..=ms(4900)), default.upstream_idle),
    }
}

/// `body` (1 KiB to 1 GiB, default 16 MiB), `bodies` (2 KiB to 1 TiB, default 256 MiB), `header`
/// (1 KiB to 1 MiB, default 64 KiB). By default `bodies` is at least twice `body`.
pub(super) fn limits(s: &mut Section<'_>) -> Limits {
    let default = Limits::default();
    let bodies = s.optional("bodies", size(2 << 10..=1 << 40));
    let most = bodies.map_or(default.body, |bodies| default.body.min(bodies / 2));
    let body = s.or("body", size(1 << 10..=1 << 30), most);
    Limits {
        body,
        bodies: bodies.unwrap_or(default.bodies.max(2 * body)),
        header: s.or("header", size(1 << 10..=1 << 20), default.header),
    }
}

/// `on_engine_abort` (`error` or `pass`, default `error`).
pub(super) fn streams(s: &mut Section<'_>) -> Streams {
    let choices = one_of(&[("error", OnEngineAbort::Error), ("pass", OnEngineAbort::Pass)]);
    Streams { on_engine_abort: s.or("on_engine_abort", choices, OnEngineAbort::Error) }
}

/// `propagation` (0 s to 1 h, default 10 s), `deadline` (1 s to 1 day, default 150 s),
/// `cut_margin` (0 s to 1 h, default 5 s), `http_prestop` (default `false`).
pub(super) fn drain(s: &mut Section<'_>) -> Drain {
    let default = Drain::default();
    Drain {
        propagation: s.or("propagation", duration(ZERO..=HOUR), default.propagation),
        deadline: s.or("deadline", duration(ms(1)..=24 * HOUR), default.deadline),
        cut_margin: s.or("cut_margin", duration(ZERO..=HOUR), default.cut_margin),
        http_prestop: s.or("http_prestop", flag, default.http_prestop),
    }
}

/// `format` (`json` or `text`, default `json`), `level` (`error` … `trace`, default `info`).
pub(super) fn log(s: &mut Section<'_>) -> Log {
    let formats = one_of(&[("json", LogFormat::Json), ("text", LogFormat::Text)]);
    Log {
        format: s.or("format", formats, LogFormat::Json),
        level: s.or("level", one_of(&LEVELS), LogLevel::Info),
    }
}

/// `threads` (1 to 1024, default: the cores this process may use).
pub(super) fn runtime(s: &mut Section<'_>) -> Runtime {
    let threads = s.optional("threads", whole(1..=1024_usize)).and_then(NonZeroUsize::new);
    threads.map_or_else(Runtime::default, |threads| Runtime { threads })
}
