//! Closed sets behind two metrics: why a stream was cut by us, and how an endpoint was chosen.

/// Why this replica ended a stream before its time (`streams_cut_total{cause}`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CutCause {
    /// This replica's drain reached its deadline, or was told a second time.
    Drain,
    /// The drain of the stream's endpoint reached its deadline.
    EndpointDrain,
    /// An operator cut it (`DELETE /api/v1/holders/{request-id}`).
    Operator,
    /// This replica's lease ran out and `quota.on_fence` is `cut`.
    Fence,
}

impl CutCause {
    /// Every cause, in declaration order.
    pub const ALL: [Self; 4] = [Self::Drain, Self::EndpointDrain, Self::Operator, Self::Fence];

    /// The `cause` label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::EndpointDrain => "endpoint_drain",
            Self::Operator => "operator",
            Self::Fence => "fence",
        }
    }
}

/// What decided the choice of an endpoint (`routing_selections_total{pool,selection}`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The pool is one gateway that routes by itself; there was no choice.
    Gateway,
    /// The pool has one endpoint.
    Only,
    Random,
    LeastRequest,
    /// The endpoint whose cache holds the longest known prefix.
    PrefixHit,
    /// No endpoint is known to hold a prefix; chosen by load.
    PrefixMiss,
    /// The endpoint with the prefix was too busy; chosen by load.
    PrefixOverload,
    ExpectedTtft,
    /// Chosen again after a failed attempt, whatever the pool is.
    Retry,
}

impl Selection {
    /// Every selection, in declaration order.
    pub const ALL: [Self; 9] = [
        Self::Gateway,
        Self::Only,
        Self::Random,
        Self::LeastRequest,
        Self::PrefixHit,
        Self::PrefixMiss,
        Self::PrefixOverload,
        Self::ExpectedTtft,
        Self::Retry,
    ];

    /// The `selection` label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Only => "only",
            Self::Random => "random",
            Self::LeastRequest => "least_request",
            Self::PrefixHit => "prefix_hit",
            Self::PrefixMiss => "prefix_miss",
            Self::PrefixOverload => "prefix_overload",
            Self::ExpectedTtft => "expected_ttft",
            Self::Retry => "retry",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_distinct_and_agree_with_serialisation() {
        let causes: BTreeSet<_> = CutCause::ALL.iter().map(|cause| cause.as_str()).collect();
        assert_eq!(causes.len(), CutCause::ALL.len());
        let kinds: BTreeSet<_> = Selection::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(kinds.len(), Selection::ALL.len());
        for cause in CutCause::ALL {
            assert_eq!(serde_json::json!(cause), cause.as_str());
        }
        for kind in Selection::ALL {
            assert_eq!(serde_json::json!(kind), kind.as_str());
        }
    }
}
