//! The listener: accepts while it is wanted, and gives each connection its task.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use super::connection;
use crate::engine::shared::Shared;
use crate::http1::{CloseBy, Io};

/// Accepts connections until the engine stops. While the listener is not wanted, the port is
/// closed: connects are refused.
pub(crate) async fn listen(shared: Arc<Shared>, listener: TcpListener, addr: SocketAddr) {
    let mut wanted = shared.listening.subscribe();
    let mut listener = Some(listener);
    loop {
        let on = *wanted.borrow_and_update();
        match (&listener, on) {
            (Some(_), false) => listener = None,
            (None, true) => listener = TcpListener::bind(addr).await.ok(),
            _ => {}
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = wanted.changed() => {}
            stream = accept(listener.as_ref()) => start(&shared, stream),
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    loop {
        match listener {
            None => return std::future::pending().await,
            Some(listener) => match listener.accept().await {
                Ok((stream, _)) => return stream,
                // Out of descriptors, most likely: let other tasks close some.
                Err(_) => tokio::task::yield_now().await,
            },
        }
    }
}

fn start(shared: &Arc<Shared>, stream: TcpStream) {
    shared.recorder.connection_opened();
    let shared = Arc::clone(shared);
    let counted = shared.connections.up();
    tokio::spawn(async move {
        let mut io = Io::new(stream);
        let by = match shared.faults.take_refusal() {
            Some(faults) => faults.cut_by,
            None => tokio::select! {
                biased;
                () = shared.kill.cancelled() => CloseBy::Rst,
                () = shared.stop.cancelled() => CloseBy::Fin,
                by = connection::serve(&mut io, &shared) => by,
            },
        };
        io.close(by).await;
        drop(counted);
        shared.recorder.touch();
    });
}
