//! How streams end before their regular end.

use super::{Stop, Stream};
use crate::engine::config::AbortForm;
use crate::engine::faults::{Faults, Trigger};
use crate::engine::phase::Phase;
use crate::engine::serve::connection::After;
use crate::engine::serve::reply;
use crate::engine::wire::{Failure, Finish};
use crate::http1::{CloseBy, PeerGone};

impl Stream<'_, '_> {
    /// Does what a stop asks for.
    pub(super) async fn stopped(mut self, stop: Stop) -> Result<After, PeerGone> {
        let form = self.exchange.shared.config.shutdown.abort_form;
        match stop {
            Stop::Gone => Err(PeerGone),
            Stop::Fault(Trigger::Stall) => {
                self.send_rest().await?;
                Err(reply::stall(self.exchange.io).await)
            }
            Stop::Phase(Phase::Frozen) => {
                self.release(Finish::Abort);
                self.send_rest().await?;
                Err(reply::stall(self.exchange.io).await)
            }
            Stop::Fault(Trigger::Cut) => {
                self.release(Finish::Abort);
                self.send_rest().await?;
                Ok(After::Close(self.exchange.faults.cut_by))
            }
            Stop::Fault(Trigger::End) => {
                self.release(Finish::Abort);
                self.close_body(true).await
            }
            Stop::Fault(Trigger::Abort) => self.abort().await,
            Stop::Phase(Phase::Aborting) if form == AbortForm::Finish => self.abort().await,
            Stop::Fault(Trigger::Error) | Stop::Phase(_) => self.fail().await,
        }
    }

    /// The engine's own abort.
    async fn abort(mut self) -> Result<After, PeerGone> {
        if !self.running.wire.shows_abort() {
            return self.fail().await;
        }
        self.release(Finish::Abort);
        // No further fault: the stream ends here in any case.
        self.exchange.faults = formats_only(&self.exchange.faults);
        self.abort_events().await.map_err(|_| PeerGone)?;
        self.close_body(true).await
    }

    async fn abort_events(&mut self) -> Result<(), Stop> {
        self.open().await?;
        let open: Vec<u32> =
            (0..).zip(&self.choices).filter(|(_, c)| !c.done).map(|(i, _)| i).collect();
        for (at, choice) in open.iter().enumerate() {
            self.left = open.len() - at - 1;
            self.piece(*choice, Some(Finish::Abort)).await?;
        }
        let usage = self.usage();
        for event in self.running.wire.closing(usage) {
            self.emit(&event).await?;
        }
        Ok(())
    }

    /// The engine's death.
    async fn fail(mut self) -> Result<After, PeerGone> {
        self.release(Finish::Abort);
        let Failure { events, proper_end } = self.running.wire.failure();
        for event in events {
            if self.writer.event(&event).is_err() {
                return self.close_body(false).await;
            }
        }
        self.close_body(proper_end).await
    }

    async fn close_body(mut self, proper_end: bool) -> Result<After, PeerGone> {
        if proper_end {
            self.writer.end();
        }
        self.send_rest().await?;
        if proper_end { self.ended() } else { Ok(After::Close(CloseBy::Fin)) }
    }

    async fn send_rest(&mut self) -> Result<(), PeerGone> {
        self.flush().await.map_err(|_| PeerGone)
    }
}

/// The faults that only change the form of what is sent.
fn formats_only(faults: &Faults) -> Faults {
    Faults {
        cut: None,
        end_after: None,
        error_after: None,
        abort_after: None,
        stall_after: None,
        ..faults.clone()
    }
}
