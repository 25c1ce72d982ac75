//! A request as data, to be written over HTTP/1 or HTTP/2.

use super::gate::key;
use bytes::Bytes;
use std::fmt::Write as _;

/// A request, ready to be written.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    version: &'static str,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Request {
    /// `POST path` with a JSON body as the tenant.
    pub fn post(path: &str, tenant: &str, body: impl Into<Vec<u8>>) -> Self {
        let request = Self { body: Bytes::from(body.into()), ..Self::new("POST", path, tenant) };
        request.header("content-type", "application/json")
    }

    pub fn get(path: &str, tenant: &str) -> Self {
        Self::new("GET", path, tenant)
    }

    /// A request without a body.
    pub fn new(method: &'static str, path: &str, tenant: &str) -> Self {
        let request = Self {
            method,
            path: path.to_owned(),
            version: "HTTP/1.1",
            headers: Vec::new(),
            body: Bytes::new(),
        };
        request.header("authorization", &format!("Bearer {}", key(tenant)))
    }

    /// The same of another tenant.
    pub fn of(mut self, tenant: &str) -> Self {
        self.headers.retain(|(name, _)| name != "authorization");
        self.header("authorization", &format!("Bearer {}", key(tenant)))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without the tenant's key.
    pub fn without_key(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "authorization");
        self
    }

    /// With this `x-request-id`.
    pub fn id(self, id: &str) -> Self {
        self.header("x-request-id", id)
    }

    /// A fault of the simulated engine for this request: `cut=events:3&cut-by=rst`.
    pub fn fault(self, faults: &str) -> Self {
        faults.split('&').filter(|fault| !fault.is_empty()).fold(self, |request, fault| {
            let (name, value) = fault.split_once('=').unwrap_or((fault, "1"));
            request.header(&format!("x-sim-{name}"), value)
        })
    }

    /// As an old client would send it.
    pub fn http10(mut self) -> Self {
        self.version = "HTTP/1.0";
        self
    }

    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// HTTP/1 with Content-Length.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head(&format!("content-length: {}\r\n", self.body.len()));
        bytes.extend(&self.body);
        bytes
    }

    /// HTTP/1 in chunks of `size`.
    pub fn chunked(&self, size: usize) -> Vec<u8> {
        let mut bytes = self.head("transfer-encoding: chunked\r\n");
        for chunk in self.body.chunks(size) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }

    /// The HTTP/1 head with these framing lines.
    pub fn head(&self, framing: &str) -> Vec<u8> {
        let mut head = format!("{} {} {}\r\nhost: gate\r\n", self.method, self.path, self.version);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str(framing);
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// The HTTP/2 head.
    pub fn http2(&self) -> http::Request<()> {
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(format!("http://gate{}", self.path))
            .version(http::Version::HTTP_2);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(()).unwrap()
    }
}

/// The body of a chat request.
pub fn chat(tokens: u32, stream: bool) -> String {
    format!(
        r#"{{"model":"sim","max_tokens":{tokens},"stream":{stream},"messages":[{{"role":"user","content":"hello"}}]}}"#
    )
}
