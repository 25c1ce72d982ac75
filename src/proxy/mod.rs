//! L3: the forwarding loop on Pingora's sessions (`docs/decisions/0001`).
//!
//! | room | what lives there |
//! |---|---|
//! | `connection/` | one accepted connection: protocol detection, HTTP/1 and HTTP/2 |
//! | `exchange/` | one request on its way: ingress, admission, attempts, streaming, the end |
//! | `client` | the client's side of a request |
//! | `engine` | the engine's side of an attempt |
//! | `heads` | which headers pass |
//! | `gather` | pieces of a body made one |
//! | `bodies` | how much of request bodies is held, and by whom |
//! | `gateway` | what all requests share |

mod bodies;
mod client;
mod connection;
mod engine;
mod exchange;
mod gateway;
mod gather;
mod heads;

pub use connection::{ClientSocket, ConnectionLimits, Protocol, serve as serve_connection};
pub use engine::{EngineTimeouts, Engines};
pub use gateway::{Gateway, Live, Parts};
