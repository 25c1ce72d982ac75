//! What a scenario says its figures should be.

use serde::{Deserialize, Serialize};

/// A published figure that a scenario reproduces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Phase; absent: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Tenant; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Name of the figure.
    pub figure: String,
    /// What the study gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// How far the measured figure may be from it; absent where the replica was not fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// What the reference model of the replica gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
    /// Smallest value that is a success, for figures that no study gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Largest value that is a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Why the figures may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
