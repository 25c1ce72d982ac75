//! `streamgate-loadtests`: see [`streamgate_loadtests::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    streamgate_loadtests::cli::main()
}
