//! The client of an admin port, for `streamgate status` and `streamgate drain`.
//!
//! Plain HTTP only: the port is reached over loopback, a port-forward or the pod network.

use super::status::{Holder, StateView};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;
use tokio::net::TcpStream;

/// Where `streamgate serve` listens by default.
pub const DEFAULT_URL: &str = "http://127.0.0.1:9180";

/// For calls that answer at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// On top of a drain's `wait`.
const DRAIN_MARGIN: Duration = Duration::from_secs(10);
/// Largest answer read.
const MAX_ANSWER: usize = 16 << 20;
const DEFAULT_PORT: u16 = 80;

/// Why a call failed, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("--admin {url:?}: {problem}; write it like {DEFAULT_URL}")]
    Url { url: String, problem: &'static str },
    #[error("no admin port answers at {address}: {error}; is `listen.admin` reachable from here?")]
    Connect { address: String, error: std::io::Error },
    #[error("{address} did not answer within {}", humantime::format_duration(*.limit))]
    Timeout { address: String, limit: Duration },
    #[error("{address} broke the connection before it answered: {error}")]
    Broken { address: String, error: String },
    #[error("{address} refused: {message} (HTTP {status})")]
    Refused { address: String, status: u16, message: String },
    #[error("{address} does not answer like a Streamgate admin port: {error}")]
    Unlike { address: String, error: String },
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

/// One admin port.
#[derive(Clone)]
pub struct AdminClient {
    host: String,
    port: u16,
    /// `host:port` as given, for the `Host` header and messages.
    address: String,
    token: Option<String>,
}

impl fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminClient").field("address", &self.address).finish_non_exhaustive()
    }
}

/// How a drain call ended.
#[derive(Clone, Debug, Deserialize)]
pub struct DrainReport {
    pub drained: bool,
    pub state: String,
    pub waited_seconds: f64,
    pub in_flight: u64,
    #[serde(default)]
    pub queued: u64,
    #[serde(default)]
    pub left: Vec<Holder>,
}

impl DrainReport {
    /// 0: drained; 2: the deadline passed with requests left.
    pub const fn exit_code(&self) -> u8 {
        if self.drained { 0 } else { 2 }
    }
}

/// How the drain of an endpoint ended.
#[derive(Clone, Debug, Deserialize)]
pub struct EndpointDrainReport {
    pub drained: bool,
    pub state: String,
    pub waited_seconds: f64,
    pub in_flight: u64,
    pub confirmed: u64,
    /// Whether every live replica is known.
    pub fleet_known: bool,
    #[serde(default)]
    pub replicas: Vec<serde_json::Value>,
}

impl EndpointDrainReport {
    /// 0: drained; 2: the deadline passed.
    pub const fn exit_code(&self) -> u8 {
        if self.drained { 0 } else { 2 }
    }
}

/// As one segment of a path.
fn escaped(text: &str) -> impl fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

impl AdminClient {
    /// A client for `url` (`http://host:port`); `token` is the content of `admin.token_file`,
    /// needed for changes from elsewhere than loopback.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, ClientError> {
        let wrong = |problem| ClientError::Url { url: url.to_owned(), problem };
        let parsed: Uri = url.parse().map_err(|_| wrong("not a URL"))?;
        if parsed.scheme_str() != Some("http") {
            return Err(wrong("only http is spoken"));
        }
        if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() {
            return Err(wrong("no path is allowed"));
        }
        let authority = parsed.authority().ok_or_else(|| wrong("it names no host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(DEFAULT_PORT),
            address: authority.as_str().to_owned(),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
        })
    }

    /// `host:port`, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// `GET /api/v1/state` as it came.
    pub async fn state_json(&self) -> Result<serde_json::Value, ClientError> {
        self.get("/api/v1/state").await
    }

    /// `GET /api/v1/state`.
    pub async fn state(&self) -> Result<StateView, ClientError> {
        self.get("/api/v1/state").await
    }

    /// `POST /api/v1/drain`: begin a drain and wait for it at most `wait`. Both 200 and 504 are
    /// reports; anything else is an error. Dropping the future ends the waiting, not the drain.
    pub async fn drain(&self, wait: Duration) -> Result<DrainReport, ClientError> {
        let path = format!("/api/v1/drain?wait={}ms", wait.as_millis());
        let (status, body) = self.call(Method::POST, &path, wait + DRAIN_MARGIN).await?;
        match status {
            StatusCode::OK | StatusCode::GATEWAY_TIMEOUT => self.parse(&body),
            _ => Err(self.refused(status, &body)),
        }
    }

    /// `POST /api/v1/endpoints/{endpoint}/drain`: the same for an engine endpoint, fleet-wide.
    pub async fn drain_endpoint(
        &self,
        endpoint: &str,
        wait: Duration,
    ) -> Result<EndpointDrainReport, ClientError> {
        let path =
            format!("/api/v1/endpoints/{}/drain?wait={}ms", escaped(endpoint), wait.as_millis());
        let (status, body) = self.call(Method::POST, &path, wait + DRAIN_MARGIN).await?;
        match status {
            StatusCode::OK | StatusCode::GATEWAY_TIMEOUT => self.parse(&body),
            _ => Err(self.refused(status, &body)),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (status, body) = self.call(Method::GET, path, PATIENCE).await?;
        if status == StatusCode::OK { self.parse(&body) } else { Err(self.refused(status, &body)) }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let late = |_| ClientError::Timeout { address: self.address.clone(), limit };
        tokio::time::timeout(limit, self.exchange(method, path)).await.map_err(late)?
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.address);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| self.broken(error))?;
        let address = (self.host.as_str(), self.port);
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| ClientError::Connect { address: self.address.clone(), error })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(error))?;
        let answering = async {
            let response = sender.send_request(request).await.map_err(|e| self.broken(e))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            Ok((status, body.map_err(|error| self.broken(error))?.to_bytes()))
        };
        // The connection is driven here, so nothing outlives a dropped call.
        tokio::pin!(answering);
        tokio::select! {
            answer = &mut answering => answer,
            _ = connection => answering.await,
        }
    }

    fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|error| ClientError::Unlike {
            address: self.address.clone(),
            error: error.to_string(),
        })
    }

    fn broken(&self, error: impl ToString) -> ClientError {
        ClientError::Broken { address: self.address.clone(), error: error.to_string() }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> ClientError {
        #[derive(Deserialize)]
        struct Refusal {
            message: String,
        }
        let message = serde_json::from_slice(body).map_or_else(
            |_| status.canonical_reason().unwrap_or("no reason given").to_owned(),
            |refusal: Refusal| refusal.message,
        );
        ClientError::Refused { address: self.address.clone(), status: status.as_u16(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (url, host, port) in [
            ("http://127.0.0.1:9180", "127.0.0.1", 9180),
            ("http://localhost:9180/", "localhost", 9180),
            ("http://[::1]:9180", "::1", 9180),
            ("http://streamgate", "streamgate", 80),
        ] {
            let client = AdminClient::new(url, None).expect(url);
            assert_eq!((client.host.as_str(), client.port), (host, port), "{url}");
        }
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        for (url, problem) in [
            ("https://127.0.0.1:9180", "only http"),
            ("127.0.0.1:9180", "only http"),
            ("http://127.0.0.1:9180/api", "no path"),
            ("", "not a URL"),
        ] {
            let error = AdminClient::new(url, None).expect_err(url).to_string();
            assert!(error.contains(problem) && error.contains(DEFAULT_URL), "{url}: {error}");
        }
    }

    #[test]
    fn the_token_is_not_shown() {
        let client = AdminClient::new(DEFAULT_URL, Some("s3cret\n".into())).expect("valid");
        assert_eq!(client.token.as_deref(), Some("s3cret"));
        assert!(!format!("{client:?}").contains("s3cret"));
    }
}
