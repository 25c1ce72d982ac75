//! Probes, and the ports they name.

use crate::check::manifests::view::View;

/// A port by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Port {
    Number(u64),
    Name(String),
}

/// What the kubelet does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) enum Handler {
    Http {
        path: String,
        port: Option<Port>,
        /// What leads it elsewhere than to plain HTTP at the pod: the key and its value.
        aside: Option<(&'static str, String)>,
    },
    Tcp,
    Exec(Vec<String>),
    /// gRPC, or nothing that is known.
    Other,
}

/// A probe and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct Probe {
    pub handler: Handler,
    /// The key path of the probe.
    pub key: String,
}

impl Port {
    pub fn read(view: &View<'_>, key: &str) -> Option<Self> {
        let port = view.get(key)?;
        match port.value() {
            serde_json::Value::String(name) => Some(Self::Name(name.clone())),
            _ => view.whole(key, 1..=65535).map(Self::Number),
        }
    }
}

impl Handler {
    /// The handler in a probe or a hook.
    pub fn read(view: &View<'_>) -> Self {
        if let Some(http) = view.get("httpGet") {
            let path = http.text("path").unwrap_or_else(|| "/".to_owned());
            let scheme = http.text("scheme").filter(|scheme| scheme != "HTTP");
            let scheme = scheme.map(|scheme| ("scheme", scheme));
            let aside = scheme.or_else(|| Some(("host", http.text("host")?)));
            return Self::Http { path, port: Port::read(&http, "port"), aside };
        }
        if view.get("tcpSocket").is_some() {
            return Self::Tcp;
        }
        view.get("exec").map_or(Self::Other, |exec| Self::Exec(exec.texts("command")))
    }
}

impl Probe {
    pub fn read(view: &View<'_>, key: &str) -> Option<Self> {
        let probe = view.get(key)?;
        Some(Self { handler: Handler::read(&probe), key: probe.path })
    }
}
