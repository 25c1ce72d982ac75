//! The `streamgate` binary: everything is in the library.

use std::process::ExitCode;
use streamgate::app::cli::{Hooks, run};

fn main() -> ExitCode {
    run(Hooks { serve: |_| absent(), drain: |_| absent(), status: |_| absent() })
}

fn absent() -> ExitCode {
    eprintln!("streamgate: this command is not supported by this version");
    ExitCode::FAILURE
}
