//! HTTP/1.1 framed by hand.
//!
//! A library would hide exactly what the tests need: where a response is cut, how it is split
//! into writes, and the moment a client closes its side. Parsing is `httparse`'s; everything
//! that touches the socket is here.

mod body;
mod io;
mod request;
mod response;

pub(crate) use body::{BodyError, read_body};
pub use io::CloseBy;
pub(crate) use io::{Io, PeerGone};
pub(crate) use request::{Head, HeadError, read_head};
pub(crate) use response::{Answer, HeadFields, encode_head, reason_phrase, write_chunk};
