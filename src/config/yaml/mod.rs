//! Text → a tree of untyped values that know their line. Nothing is interpreted here beyond
//! YAML 1.2's own scalars (`off` and `yes` are text), and duplicate keys are kept so that the
//! reader can report each of them.

mod node;
mod parse;

pub(super) use node::{Entry, Node, Value};
pub(super) use parse::parse;
