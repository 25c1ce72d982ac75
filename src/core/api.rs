//! Which API a request speaks: decides how its model, its stream and its errors are read and
//! written.

use std::borrow::Cow;
use std::fmt;

/// The APIs whose requests and streams are understood; the rest is [`Api::Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/messages` (Anthropic)
    Messages,
    /// Everything else: forwarded, admitted and counted, its stream not interpreted.
    Plain,
}

impl Api {
    /// Every API, in declaration order.
    pub const ALL: [Self; 5] =
        [Self::Completions, Self::Chat, Self::Responses, Self::Messages, Self::Plain];

    /// The API of a request line. `path` may carry a query, which is ignored. Only `POST` on one
    /// of the four exact paths is understood; sub-resources such as `/v1/responses/{id}` are plain.
    pub fn of(method: &str, path: &str) -> Self {
        if method != "POST" {
            return Self::Plain;
        }
        match without_query(path) {
            "/v1/completions" => Self::Completions,
            "/v1/chat/completions" => Self::Chat,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            _ => Self::Plain,
        }
    }

    /// The family whose error shapes the client of this API expects.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Messages => Dialect::Anthropic,
            Self::Completions | Self::Chat | Self::Responses | Self::Plain => Dialect::OpenAi,
        }
    }

    /// A stable name for logs and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completions => "completions",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Plain => "plain",
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The family of APIs a client library was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Errors are `{"error":{message,type,code,param}}`.
    OpenAi,
    /// Errors are `{"type":"error","error":{type,message}}`.
    Anthropic,
}

impl Dialect {
    /// The dialect of any path, also of those that are [`Api::Plain`]: everything under
    /// `/v1/messages` (token counting, batches) is Anthropic's.
    pub fn of(path: &str) -> Self {
        match without_query(path).strip_prefix("/v1/messages") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Self::Anthropic,
            _ => Self::OpenAi,
        }
    }
}

/// A decoded path as servers see it that merge slashes and resolve dot segments (RFC 3986 §5.2.4;
/// Envoy and nginx do both), so that no spelling of an understood path passes as another one. A
/// slash at the end stays.
pub fn clean(path: &str) -> Cow<'_, str> {
    if !path.contains("//") && !path.contains("/.") {
        return path.into();
    }
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let directory = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    let end = if directory && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/")).into()
}

fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_post_on_the_exact_paths_is_understood() {
        for (method, path, api) in [
            ("POST", "/v1/completions", Api::Completions),
            ("POST", "/v1/chat/completions", Api::Chat),
            ("POST", "/v1/chat/completions?api-version=1", Api::Chat),
            ("POST", "/v1/responses", Api::Responses),
            ("POST", "/v1/messages?beta=true", Api::Messages),
            ("GET", "/v1/responses", Api::Plain),
            ("post", "/v1/messages", Api::Plain),
            ("POST", "/v1/messages/", Api::Plain),
            ("POST", "/v1/messages/count_tokens", Api::Plain),
            ("POST", "/v1/responses/resp_1/cancel", Api::Plain),
            ("POST", "/v1/embeddings", Api::Plain),
            ("POST", "//v1/completions", Api::Plain),
            ("POST", "", Api::Plain),
        ] {
            assert_eq!(Api::of(method, path), api, "{method} {path}");
        }
    }

    #[test]
    fn a_cleaned_path_has_one_spelling() {
        for (path, cleaned) in [
            ("/v1/completions", "/v1/completions"),
            ("//v1///completions", "/v1/completions"),
            ("/v1/./chat/completions", "/v1/chat/completions"),
            ("/x/../v1/messages", "/v1/messages"),
            ("/../../v1/messages", "/v1/messages"),
            ("/v1/messages/.", "/v1/messages/"),
            ("/v1/messages/x/..", "/v1/messages/"),
            ("/v1//messages/", "/v1/messages/"),
            ("/.well-known", "/.well-known"),
            ("/a/...", "/a/..."),
            ("//", "/"),
            ("/..", "/"),
            ("", ""),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn the_dialect_follows_the_path_family() {
        assert_eq!(Api::Messages.dialect(), Dialect::Anthropic);
        assert_eq!(Api::Chat.dialect(), Dialect::OpenAi);
        for (path, dialect) in [
            ("/v1/messages", Dialect::Anthropic),
            ("/v1/messages?x=1", Dialect::Anthropic),
            ("/v1/messages/count_tokens", Dialect::Anthropic),
            ("/v1/messagesx", Dialect::OpenAi),
            ("/v1/models", Dialect::OpenAi),
        ] {
            assert_eq!(Dialect::of(path), dialect, "{path}");
        }
    }
}
