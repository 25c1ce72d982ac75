//! The process itself: threads, log, records, and how broken streams are passed on.

use std::num::NonZeroUsize;
use std::path::PathBuf;

/// How streams are passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub on_engine_abort: OnEngineAbort,
}

/// What a client sees of an engine's own abort (`finish_reason: "abort"`, then `[DONE]`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnEngineAbort {
    /// The final chunks are withheld and an error event is sent.
    #[default]
    Error,
    /// The engine's bytes, unchanged. The outcome is `truncated` all the same.
    Pass,
}

/// One JSON line a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Appended to; its directory existed when the configuration was loaded. `None`: no records.
    pub path: Option<PathBuf>,
}

/// The log on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

/// One line a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Json,
    Text,
}

/// The least important message that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The name that `tracing` filters understand.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Worker threads; by default the cores this process may use.
    pub threads: NonZeroUsize,
}

impl Default for Runtime {
    fn default() -> Self {
        Self { threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN) }
    }
}
