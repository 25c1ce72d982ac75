//! HTTP/2 with prior knowledge.

use super::{Answer, Ask, PATH};
use anyhow::{Result, ensure};
use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use http::Request;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A place for one stream after another on a shared connection.
#[derive(Clone)]
pub struct Stream(SendRequest<Bytes>);

impl Stream {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (send, connection) = handshake(stream).await?;
        // Ends with the last lane; what broke is told by the streams.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self(send))
    }

    pub async fn ask(&mut self, ask: &Ask, answer: &mut Answer) -> Result<()> {
        let mut request = Request::post(format!("http://gate{PATH}"));
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let mut send = self.0.clone().ready().await?;
        let (response, mut body) = send.send_request(request.body(())?, false)?;
        body.send_data(Bytes::from(ask.body.clone()), true)?;
        let response = response.await?;
        ensure!(response.status() == 200, "answered {}", response.status());
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            let data = data?;
            answer.bytes(&data);
            body.flow_control().release_capacity(data.len())?;
        }
        answer.end();
        Ok(())
    }
}
