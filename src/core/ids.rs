//! Names of things. All are cheap to clone (one reference count).

use std::fmt;
use std::sync::Arc;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: AsRef<str>> From<T> for $name {
            fn from(name: T) -> Self {
                Self(Arc::from(name.as_ref()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// A tenant of the platform, as the configuration names it.
    TenantId
}
name! {
    /// A pool of engine endpoints, or one upstream gateway.
    PoolId
}
name! {
    /// One engine replica, `host:port` as configured or discovered.
    EndpointId
}
name! {
    /// A model name as clients send it.
    ModelName
}
name! {
    /// One request: the client's `x-request-id` if it is sane, else one made here.
    RequestId
}

name! {
    /// One life of a replica between two leases, as a shared store knows it.
    ReplicaId
}

impl TenantId {
    /// Stands for "nobody we know" in metrics and logs; no tenant may be configured under it.
    pub const UNKNOWN: &'static str = "unknown";

    /// The tenant label of a request that could not be attributed to anybody.
    pub fn unknown() -> Self {
        Self::from(Self::UNKNOWN)
    }
}
