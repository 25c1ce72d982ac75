//! Log output: one line an event on standard output, JSON or text.
//!
//! Two rules protect the clients' data whatever level is asked for. Libraries are never heard
//! below `warn`, because their debug output quotes heads and bodies; and the parts of Pingora
//! whose error lines quote a request that could not be parsed, key included, are not heard at
//! all. A panic is logged with its place, and with its text only if that is a literal.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_log::LogTracer;
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Overrides [`LogParams::level`]; takes `tracing` directives such as
/// `info,streamgate::admission=debug`.
pub const LOG_VARIABLE: &str = "STREAMGATE_LOG";

/// Their error lines quote requests; or, the last, come with each of many attempts of which we
/// log the first.
const SILENCED: &[&str] = &["pingora_core::apps", "kube_runtime::watcher", "kube_client"];

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Json,
    Text,
}

/// What the `log` section asks for.
#[derive(Clone, Debug)]
pub struct LogParams {
    pub format: LogFormat,
    /// The least severe level of this program's own lines.
    pub level: Level,
}

/// Keeps the log's thread; dropping it writes what is queued.
#[must_use = "dropping it ends the log"]
#[derive(Debug)]
pub struct LogGuard {
    _worker: tracing_appender::non_blocking::WorkerGuard,
}

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "{LOG_VARIABLE} is not understood: {0}; give a level or directives like streamgate=debug"
    )]
    Directives(#[from] tracing_subscriber::filter::ParseError),
    #[error("logging is set up already")]
    AlreadySet,
}

/// Log to standard output from here on, for the whole process; panics too.
///
/// Lines go through a bounded queue to a thread of their own, so a reader that stops reading
/// costs log lines and never a request: what does not fit is dropped. Keep the guard to the end of
/// the process; dropping it writes what is queued, within about a second.
pub fn init(params: &LogParams) -> Result<LogGuard, LogError> {
    let (writer, guard) = tracing_appender::non_blocking(std::io::stdout());
    let directives = std::env::var(LOG_VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let layer = layer(params, directives.as_deref(), writer)?;
    // Libraries' debug and trace calls cost one comparison.
    let bridge = LogTracer::builder().with_max_level(tracing_log::log::LevelFilter::Warn);
    bridge.init().map_err(|_| LogError::AlreadySet)?;
    tracing::subscriber::set_global_default(Registry::default().with(layer))
        .map_err(|_| LogError::AlreadySet)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(LogGuard { _worker: guard })
}

/// The layer that [`init`] installs, writing to `writer`. `directives` replace the level.
pub fn layer<S, W>(
    params: &LogParams,
    directives: Option<&str>,
    writer: W,
) -> Result<Box<dyn Layer<S> + Send + Sync>, LogError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = LevelFilter::from_level(params.level);
    let asked = match directives {
        Some(directives) => EnvFilter::builder().parse(directives)?,
        None => EnvFilter::default().add_directive(level.into()),
    };
    let hint = asked.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let filter = asked.and(filter_fn(audible).with_max_level_hint(hint));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match params.format {
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines.with_current_span(false).with_span_list(false).with_filter(filter).boxed()
        }
        LogFormat::Text => {
            let colour = std::io::stdout().is_terminal();
            lines.with_ansi(colour).with_filter(filter).boxed()
        }
    })
}

/// Whether a line may be written at all, at any level.
fn audible(line: &Metadata<'_>) -> bool {
    let target = line.target();
    let own = target == "streamgate" || target.starts_with("streamgate::");
    own || (*line.level() <= Level::WARN
        && !SILENCED.iter().any(|silenced| target.starts_with(silenced)))
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    tracing::error!(
        place = place.as_deref().unwrap_or("unknown"),
        text = harmless(panic.payload()),
        thread = std::thread::current().name().unwrap_or("unnamed"),
        backtrace = trace,
        "panicked: a defect of this program"
    );
}

/// A panic's text, unless it was formatted at run time: those quote values, for instance the
/// text a slice was out of.
fn harmless(payload: &(dyn Any + Send)) -> &str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("withheld: it may quote a request")
}

#[cfg(test)]
mod tests;
