//! Server-sent events as bytes: where each event begins and ends, and what its fields say.
//!
//! Follows the event stream rules of the WHATWG HTML standard (section "Server-sent events"):
//! lines end with LF, CRLF or CR, a blank line ends an event, a byte order mark may open the
//! stream, `:` opens a comment, one space after a field's colon is dropped, several `data` lines
//! are joined by LF. Unlike a browser's parser, the [`Scanner`] keeps the exact bytes of every
//! event, so that whoever forwards them changes nothing.
//!
//! Guarantees: any split of the stream into chunks gives the same frames; the frames, in order,
//! are exactly the stream; each byte is searched once; an event inside one chunk is not copied;
//! at most `max_event` bytes and one chunk are held. An event above that limit is never an error:
//! it passes as [`FrameKind::Opaque`] parts.

mod event;
mod lines;
mod scanner;
#[cfg(test)]
mod tests;

pub use event::Event;
pub use scanner::{Frame, FrameKind, Scanner};
