//! What an operator sees: metrics, logs, records, the admin port, the command line's client.

mod exposition;
mod fake;
mod records;
mod telemetry;
