//! What is published on the domain's channel (docs/quota-protocol.md, section 3.7).

use crate::quota::replica::Hint;
use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;

/// More hints than that are dropped; they are only hints.
const MOST: usize = 1024;

/// Something that came without being asked for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::quota::redis) enum Heard {
    Hint(Hint),
    /// The connection is gone.
    Gone,
    /// The sentinels lead to another primary.
    Moved,
}

/// What one connection hears.
pub(in crate::quota::redis) type Hints = mpsc::Receiver<Heard>;

/// Where the client library puts what it hears.
#[derive(Clone)]
pub(super) struct Hear(mpsc::Sender<Heard>);

impl Hear {
    /// Something that must not be dropped.
    pub async fn tell(&self, heard: Heard) {
        // Closed: nobody listens any more.
        let _ = self.0.send(heard).await;
    }
}

impl AsyncPushSender for Hear {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        if let Some(heard) = heard(&push) {
            // Full: dropped. Closed: nobody listens any more.
            let _ = self.0.try_send(heard);
        }
        Ok(())
    }
}

/// The two ends of a connection's hearing.
pub(super) fn channel() -> (Hear, Hints) {
    let (sender, receiver) = mpsc::channel(MOST);
    (Hear(sender), receiver)
}

fn heard(push: &PushInfo) -> Option<Heard> {
    match push.kind {
        PushKind::Message => hint(push.data.get(1)?).map(Heard::Hint),
        PushKind::Disconnection => Some(Heard::Gone),
        _ => None,
    }
}

fn hint(payload: &Value) -> Option<Hint> {
    let Value::BulkString(bytes) = payload else { return None };
    let (kind, scope) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    match kind {
        "p" => Some(Hint::Pressure(scope.to_owned())),
        "f" => Some(Hint::Free(scope.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &str) -> PushInfo {
        let data = ["sg:{q0}", payload].map(|text| Value::BulkString(text.into()));
        PushInfo { kind: PushKind::Message, data: data.to_vec() }
    }

    #[test]
    fn hints_are_heard_and_anything_else_is_not() {
        let pressure = Heard::Hint(Hint::Pressure("t:a".to_owned()));
        assert_eq!(heard(&message("p t:a")), Some(pressure));
        assert_eq!(heard(&message("f p:b")), Some(Heard::Hint(Hint::Free("p:b".to_owned()))));
        assert_eq!(heard(&message("x t:a")), None);
        assert_eq!(heard(&message("")), None);
    }
}
