//! The closed list of metrics. Nothing is exposed that is not defined here, apart from the
//! standard `process_*` families; a test compares this list with a real exposition.

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric family.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
}

macro_rules! metrics {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric {
                name: concat!("streamgate_", $name),
                help: $help,
                kind: Kind::$kind,
                labels: &[$($label),*],
            };
        )*

        /// Every metric family of this process.
        pub const ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    ARRIVALS: Counter "arrivals_total" ["tenant"]
        "Requests that arrived. Equals the sum of requests_total, in_flight and queued in every scrape.";
    REQUESTS: Counter "requests_total" ["tenant", "model", "outcome"]
        "Requests that ended, by how they ended. Every arrival ends in exactly one outcome.";
    REJECTIONS: Counter "rejections_total" ["tenant", "reason"]
        "Answers of this proxy's own that carry x-streamgate-reason, by reason.";
    SHADOW_REJECTIONS: Counter "shadow_rejections_total" ["tenant", "reason"]
        "Requests of shadow tenants that would have been refused, by reason.";
    IN_FLIGHT: Gauge "in_flight" ["tenant"]
        "Admitted requests of this replica that have not ended.";
    IN_FLIGHT_LIMIT: Gauge "in_flight_limit" ["tenant"]
        "The tenant's cap on requests in flight over all replicas.";
    FLEET_IN_FLIGHT: Gauge "fleet_in_flight" ["tenant"]
        "Slots held over all replicas, as the quota store last said.";
    QUEUED: Gauge "queued" ["tenant"]
        "Requests that wait for an admission decision or in the tenant's queue.";
    QUEUE_WAIT: Histogram "queue_wait_seconds" ["tenant"]
        "Time from arrival to the admission decision.";
    TIME_TO_FIRST_TOKEN: Histogram "time_to_first_token_seconds" ["tenant", "model"]
        "Time from arrival to the first content sent to the client.";
    TIME_PER_OUTPUT_TOKEN: Histogram "time_per_output_token_seconds" ["tenant", "model"]
        "(last content - first content) / (output tokens - 1), one value a request.";
    REQUEST_DURATION: Histogram "request_duration_seconds" ["tenant", "model"]
        "Time from arrival to the end of the request, for every request that was not refused.";
    SLO_GOOD: Counter "slo_good_requests_total" ["tenant", "model"]
        "Complete requests within all limits of the slo section.";
    TOKENS: Counter "tokens_total" ["tenant", "model", "kind"]
        "Tokens of ended requests: prompt, completion, and cached (the part of prompt found in a cache).";
    CLIENT_RETRIES: Counter "client_retries_total" ["tenant"]
        "Arrivals that a client library marked as a retry of its own.";
    POOL_DEMAND: Gauge "pool_demand" ["pool"]
        "Requests in flight at the pool or waiting for it.";
    ENDPOINT_IN_FLIGHT: Gauge "endpoint_in_flight" ["pool", "endpoint"]
        "Requests of this replica in flight at the endpoint.";
    ENDPOINT_STATE: Gauge "endpoint_state" ["pool", "endpoint", "state"]
        "1 for the state the endpoint is in, 0 for the others.";
    ROUTING_SELECTIONS: Counter "routing_selections_total" ["pool", "selection"]
        "Choices of an endpoint, by what decided them.";
    DRAIN_STATE: Gauge "drain_state" ["state"]
        "1 for the state this replica's drain is in, 0 for the others.";
    STREAMS_CUT: Counter "streams_cut_total" ["cause"]
        "Requests this replica ended before their time, by cause.";
    QUOTA_STORE_UP: Gauge "quota_store_up" []
        "1 if the quota store answered lately.";
    QUOTA_STORE_SECONDS: Histogram "quota_store_seconds" ["op"]
        "Time from a question to the quota store's answer, or until it was given up.";
    QUOTA_STORE_FAULTS: Counter "quota_store_faults_total" ["fault"]
        "Questions that the quota store did not answer, by why.";
    QUOTA_HELD: Gauge "quota_held_slots" []
        "Slots this replica was granted, used or not.";
    QUOTA_SPARE: Gauge "quota_spare_slots" []
        "Slots this replica was granted that no request uses.";
    QUOTA_UNFENCED: Gauge "quota_unfenced_requests" []
        "Requests of this replica that go on although the store does not count them.";
    QUOTA_REPLICAS: Gauge "quota_replicas" []
        "Replicas with a live lease, as the quota store last said.";
    QUOTA_FENCED: Gauge "quota_fenced" []
        "1 if this replica's lease ran out and its streams are not counted by the store.";
    QUOTA_LEARNING: Gauge "quota_learning" []
        "1 if the store lost its memory and is learning what is held.";
    QUOTA_ESCROW: Gauge "quota_escrow" []
        "Slots served from this replica's own floor because the store is away.";
    CONFIG_RELOAD_FAILED: Gauge "config_reload_failed" []
        "1 if the last reload was refused and the previous configuration is in force.";
    RECORDS_DROPPED: Counter "records_dropped_total" []
        "Request records that were not written to records.path (writer too slow, or disk errors).";
    BUILD_INFO: Gauge "build_info" ["version"]
        "Always 1; the version of this binary.";
    START_TIME: Gauge "start_time_seconds" []
        "When this process started, in seconds since the Unix epoch.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_follow_the_conventions() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len(), "a name is used twice");
        for metric in ALL {
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{metric:?}");
            if metric.kind == Kind::Histogram {
                assert!(metric.name.ends_with("_seconds"), "{metric:?}");
            }
            for unit in ["_ms", "_milliseconds", "_minutes", "_percent", "_kb"] {
                assert!(!metric.name.contains(unit), "not a base unit: {metric:?}");
            }
            assert!(metric.help.ends_with('.'), "{metric:?}");
        }
    }
}
