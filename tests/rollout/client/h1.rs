//! HTTP/1.1 with one kept connection.

use super::{Ask, Fate};
use crate::cluster::Service;
use crate::support::wire::{Ending, Wire};
use socket2::SockRef;
use std::mem::MaybeUninit;

/// A client that keeps its connection until the server closes it or says that it will.
pub struct Kept {
    service: Service,
    wire: Option<Wire>,
}

impl Kept {
    pub fn new(service: Service) -> Self {
        Self { service, wire: None }
    }

    pub async fn ask(&mut self, ask: &Ask) -> Fate {
        let kept = self.wire.take().filter(|wire| !has_ended(wire));
        let was_kept = kept.is_some();
        let mut wire = match kept {
            Some(wire) => wire,
            None => match self.connect().await {
                Ok(wire) => wire,
                Err(fate) => return fate,
            },
        };
        let lost = |at: &str| Fate::Lost(format!("{at}, kept connection: {was_kept}"));
        if let Err(error) = wire.try_send(&ask.request.bytes()).await {
            return lost(&error.to_string());
        }
        let Some(answer) = wire.try_answer().await else { return lost("no answer") };
        let closes = answer.headers.get("connection").is_some_and(|word| word == "close");
        if !closes && answer.ending == Ending::Whole {
            self.wire = Some(wire);
        }
        ask.judge(&answer)
    }

    async fn connect(&self) -> Result<Wire, Fate> {
        let to = self.service.pick().ok_or(Fate::NoEndpoint)?;
        let wire = Wire::try_connect(to).await;
        wire.map_err(|error| Fate::ConnectionRefused(format!("{to}: {error}")))
    }
}

/// Whether the server has closed the connection, as far as this host knows: every client looks
/// before it uses a connection again.
fn has_ended(wire: &Wire) -> bool {
    let peeked = SockRef::from(&wire.stream).peek(&mut [MaybeUninit::uninit()]);
    !peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
