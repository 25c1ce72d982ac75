//! The way to the API server.

use super::pace::Paced;
use futures::future::BoxFuture;
use http::HeaderValue;
use kube::client::ClientBuilder;
use kube::config::InferConfigError;
use kube::{Client, Config};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use std::time::Duration;
use tower::layer::layer_fn;

/// How long one watch lasts before the API server ends it and it is taken up again. A connection
/// that died unnoticed is given up a few seconds after that, so this bounds how long we may be
/// deaf.
pub(super) const WATCH_SECONDS: u32 = 30;
/// The longest silence on a connection.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);
const LINE_ENDS: [char; 2] = ['\r', '\n'];
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Makes a client.
pub(super) type Connect =
    Arc<dyn Fn() -> BoxFuture<'static, Result<Client, NoCluster>> + Send + Sync>;

/// No client can be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCluster {
    #[error(transparent)]
    Config(#[from] InferConfigError),
    #[error(transparent)]
    Client(#[from] kube::Error),
    /// The client library panics on such a token.
    #[error("the user's token in the kubeconfig has a character that no HTTP header can hold")]
    Token,
}

/// The cluster of `KUBECONFIG` or `~/.kube/config`, else the one this process runs in: read anew
/// for each client, so that what was mended there counts.
pub(super) fn cluster() -> Connect {
    Arc::new(|| Box::pin(async { client(Config::infer().await?) }))
}

/// A client by this configuration, with the line ends that a YAML block leaves behind credentials
/// taken away. It does not repeat requests by itself: its user does.
pub(super) fn client(mut config: Config) -> Result<Client, NoCluster> {
    config.connect_timeout = Some(CONNECT_LIMIT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    let user = &mut config.auth_info;
    if let Some(token) = &mut user.token {
        *token = SecretString::from(token.expose_secret().trim());
        let header = format!("Bearer {}", token.expose_secret());
        HeaderValue::try_from(header).map_err(|_| NoCluster::Token)?;
    }
    if let Some(name) = &mut user.username {
        name.truncate(name.trim_end_matches(LINE_ENDS).len());
    }
    if let Some(password) = &mut user.password {
        *password = SecretString::from(password.expose_secret().trim_end_matches(LINE_ENDS));
    }
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&layer_fn(Paced::new)).build())
}
