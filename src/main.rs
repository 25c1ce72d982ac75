//! The `streamgate` binary: everything is in the library.

use std::process::ExitCode;
use streamgate::app::cli::{Hooks, run};
use streamgate::app::{commands, serve};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    run(Hooks { serve, drain: commands::drain, status: commands::status })
}
