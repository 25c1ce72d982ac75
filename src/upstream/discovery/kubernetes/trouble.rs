//! What went wrong with the API server, in an operator's words.

use super::client::NoCluster;
use kube::runtime::watcher::Error as WatchError;
use std::error::Error;

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub text: String,
    /// What an operator can do.
    pub remedy: String,
    /// It happens to a healthy watch now and then.
    pub passing: bool,
    /// A version that the API server no longer has: it answers, and knows a newer one.
    pub expired: bool,
    /// The watch cannot go on: a new client, and a new list.
    pub begin_again: bool,
}

impl Trouble {
    /// The failure of a watch in `namespace`.
    pub fn of(error: &WatchError, namespace: &str) -> Self {
        let code = status(error);
        let cut = matches!(error, WatchError::WatchFailed(_)) && code.is_none();
        let passing = cut || code == Some(410);
        Self {
            text: chain(error),
            remedy: match code {
                Some(403) => format!(
                    "allow this service account the verbs list and watch on the resource \
                     endpointslices of the API group discovery.k8s.io in namespace {namespace}"
                ),
                Some(401) => {
                    "check the token of the service account, or the kubeconfig; it is read \
                              again"
                        .to_owned()
                }
                _ => "check that the API server can be reached from here, and the address and \
                      credentials in the kubeconfig; it is read again"
                    .to_owned(),
            },
            passing,
            expired: code == Some(410),
            // The watcher lists anew only if the stream itself says 410. Where nothing was heard,
            // the address or the credentials may be wrong, or renewed since the client was made.
            begin_again: match error {
                WatchError::InitialListFailed(_) | WatchError::WatchStartFailed(_) => true,
                WatchError::WatchFailed(_) => matches!(code, Some(401 | 410)),
                WatchError::WatchError(_) | WatchError::NoResourceVersion => false,
            },
        }
    }

    /// No configuration for a client.
    pub fn no_cluster(error: &NoCluster) -> Self {
        Self {
            text: chain(error),
            remedy: match error {
                NoCluster::Token => {
                    "write the token on one line in the kubeconfig; it is read again"
                }
                NoCluster::Config(_) | NoCluster::Client(_) => {
                    "run in a cluster with a service account whose token is mounted, or set \
                     KUBECONFIG to a file that is in order; it is read again"
                }
            }
            .to_owned(),
            passing: false,
            expired: false,
            begin_again: true,
        }
    }

    /// The client library panicked. Its message is not repeated: it may hold a credential.
    pub fn panicked() -> Self {
        Self {
            text: "the Kubernetes client failed by a panic".to_owned(),
            remedy: "check the kubeconfig and what its credential plugin prints; it is read again"
                .to_owned(),
            passing: false,
            expired: false,
            begin_again: true,
        }
    }

    /// No answer in time.
    pub fn silent() -> Self {
        Self {
            text: "the API server does not answer in time".to_owned(),
            remedy: "check that the API server can be reached from here".to_owned(),
            passing: false,
            expired: false,
            begin_again: true,
        }
    }
}

/// The status that the API server gave.
fn status(error: &WatchError) -> Option<u16> {
    match error {
        WatchError::InitialListFailed(kube::Error::Api(status))
        | WatchError::WatchStartFailed(kube::Error::Api(status))
        | WatchError::WatchFailed(kube::Error::Api(status))
        | WatchError::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// The error and what caused it; the server's own message instead of its whole status.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => {
                text = format!("the API server says {}: {}", status.code, status.message);
                break;
            }
            _ => error.to_string(),
        };
        // Many errors repeat their source in their own text.
        if !text.contains(&said) {
            text = if text.is_empty() { said } else { format!("{text}: {said}") };
        }
        next = error.source();
    }
    text
}
