//! Streamgate: an ingress for LLM inference that admits by what is really running, knows whether
//! a stream really completed, and drains without breaking one.
//!
//! The layers, lowest first; a module may use the layers below it and nothing beside or above it
//! (`tests/layering.rs` enforces it):
//!
//! | layer | modules | what lives there |
//! |---|---|---|
//! | L0 | [`core`] | pure decisions: no I/O, no clock reads, no runtime |
//! | L1 | `telemetry`, `config` | what happened; what was asked for |
//! | L2 | `admission`, `quota`, `tenants`, `upstream`, `lifecycle` | adapters around the core |
//! | L3 | `proxy`, `admin`, `check` | the forwarding loop, the admin API, the checks |
//! | L4 | `app` | composition root: listeners, signals, wiring |

pub mod admin;
pub mod admission;
pub mod app;
pub mod check;
pub mod config;
pub mod core;
pub mod lifecycle;
pub mod proxy;
pub mod quota;
pub mod telemetry;
pub mod tenants;
pub mod upstream;
