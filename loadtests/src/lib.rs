//! Load tests of Streamgate: a simulated engine, an open- and closed-loop client, scenarios that
//! reproduce the published studies, and reports that can be recomputed from their records.

pub mod cli;
pub mod client;
pub mod clock;
pub mod demo;
pub mod figures;
pub mod history;
pub mod manifest;
pub mod null;
pub mod plan;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod target;
