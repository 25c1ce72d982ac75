//! L4: the composition root.

pub mod cli;
