//! Commands and answers as bytes: the layouts of docs/quota-protocol.md, section 3.

mod board;
mod decode;
mod encode;
mod scripts;

pub(super) use board::{BoardEncoder, view};
pub(super) use decode::answer;
pub(super) use encode::Encoder;
