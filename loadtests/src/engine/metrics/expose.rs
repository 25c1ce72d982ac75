//! The text form.

use std::fmt::Write;

use super::histogram::Histogram;
use super::{Inner, Metrics};
use crate::engine::backend::Load;
use crate::sync::lock;

/// The whole page.
pub(crate) fn expose(metrics: &Metrics, load: Load, model: &str, block: usize) -> String {
    let inner = lock(&metrics.inner);
    let mut page = Page::new(model, metrics.created);
    let created = metrics.created;
    page.plain("process_start_time_seconds", "gauge", &[("", created)]);
    gauges(&mut page, load);
    counters(&mut page, &inner, load);
    histograms(&mut page, &inner);
    let info = format!(r#"block_size="{block}",enable_prefix_caching="True","#);
    page.family("cache_config_info", "gauge", &[(info.as_str(), 1.0)]);
    let http: Vec<(String, f64)> = inner
        .http
        .iter()
        .map(|((handler, method, status), n)| {
            (format!(r#"handler="{handler}",method="{method}",status="{status}""#), *n as f64)
        })
        .collect();
    let http: Vec<(&str, f64)> = http.iter().map(|(labels, n)| (labels.as_str(), *n)).collect();
    page.plain("http_requests_total", "counter", &http);
    page.text
}

fn gauges(page: &mut Page, load: Load) {
    let waiting = load.waiting as f64;
    page.family("num_requests_running", "gauge", &[("", load.running as f64)]);
    page.family("num_requests_waiting", "gauge", &[("", waiting)]);
    let reasons = [(r#"reason="capacity","#, waiting), (r#"reason="deferred","#, 0.0)];
    page.family("num_requests_waiting_by_reason", "gauge", &reasons);
    let states = [
        (r#"sleep_state="awake","#, 1.0),
        (r#"sleep_state="weights_offloaded","#, 0.0),
        (r#"sleep_state="discard_all","#, 0.0),
    ];
    page.family("engine_sleep_state", "gauge", &states);
    page.family("kv_cache_usage_perc", "gauge", &[("", load.cache_usage)]);
}

fn counters(page: &mut Page, inner: &Inner, load: Load) {
    page.counter("prefix_cache_queries", &[("", load.prefix_queries)]);
    page.counter("prefix_cache_hits", &[("", load.prefix_hits)]);
    page.counter("num_preemptions", &[("", 0)]);
    page.counter("prompt_tokens", &[("", inner.prompt_tokens)]);
    let cached = inner.cached_tokens.min(inner.prompt_tokens);
    let sources = [
        (r#"source="local_compute","#, inner.prompt_tokens - cached),
        (r#"source="local_cache_hit","#, cached),
        (r#"source="external_kv_transfer","#, 0),
    ];
    page.counter("prompt_tokens_by_source", &sources);
    page.counter("prompt_tokens_cached", &[("", cached)]);
    page.counter("generation_tokens", &[("", inner.generation_tokens)]);
    let success: Vec<(String, u64)> = inner
        .success
        .iter()
        .map(|(reason, n)| (format!(r#"finished_reason="{reason}","#), *n))
        .collect();
    let success: Vec<(&str, u64)> = success.iter().map(|(l, n)| (l.as_str(), *n)).collect();
    page.counter("request_success", &success);
    let rejections = [
        (r#"reason="max_num_queued_reqs","#, inner.queue_rejections),
        (r#"reason="max_num_queued_tokens","#, 0),
    ];
    page.counter("admission_rejections", &rejections);
}

fn histograms(page: &mut Page, inner: &Inner) {
    for (name, histogram) in [
        ("request_prompt_tokens", &inner.request_prompt_tokens),
        ("request_generation_tokens", &inner.request_generation_tokens),
        ("iteration_tokens_total", &inner.iteration_tokens),
        ("request_params_n", &inner.params_n),
        ("request_params_max_tokens", &inner.params_max_tokens),
        ("time_to_first_token_seconds", &inner.ttft),
        ("inter_token_latency_seconds", &inner.inter_token),
        ("request_time_per_output_token_seconds", &inner.per_token),
        ("e2e_request_latency_seconds", &inner.e2e),
        ("request_queue_time_seconds", &inner.queue),
    ] {
        page.histogram(name, histogram);
    }
}

struct Page {
    text: String,
    /// Labels of every vLLM series.
    base: String,
    created: f64,
}

impl Page {
    fn new(model: &str, created: f64) -> Self {
        let model = model.replace('\\', r"\\").replace('"', "\\\"");
        let base = format!(r#"engine="0",model_name="{model}""#);
        Self { text: String::with_capacity(32 * 1024), base, created }
    }

    /// A vLLM family; labels end with a comma.
    fn family(&mut self, name: &str, kind: &str, series: &[(&str, f64)]) {
        self.header(&format!("vllm:{name}"), kind);
        for (labels, value) in series {
            self.sample(&format!("vllm:{name}"), labels, *value);
        }
    }

    fn counter(&mut self, name: &str, series: &[(&str, u64)]) {
        let values: Vec<(&str, f64)> = series.iter().map(|(l, n)| (*l, *n as f64)).collect();
        self.family(&format!("{name}_total"), "counter", &values);
        let created: Vec<(&str, f64)> = series.iter().map(|(l, _)| (*l, self.created)).collect();
        self.family(&format!("{name}_created"), "gauge", &created);
    }

    fn histogram(&mut self, name: &str, histogram: &Histogram) {
        let full = format!("vllm:{name}");
        self.header(&full, "histogram");
        for (bound, count) in histogram.cumulative() {
            self.sample(&format!("{full}_bucket"), &format!("le=\"{bound:?}\","), count as f64);
        }
        self.sample(&format!("{full}_bucket"), "le=\"+Inf\",", histogram.total() as f64);
        self.sample(&format!("{full}_count"), "", histogram.total() as f64);
        self.sample(&format!("{full}_sum"), "", histogram.sum());
        self.family(&format!("{name}_created"), "gauge", &[("", self.created)]);
    }

    /// A family without vLLM's labels.
    fn plain(&mut self, name: &str, kind: &str, series: &[(&str, f64)]) {
        self.header(name, kind);
        for (labels, value) in series {
            let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            self.push(format_args!("{name}{labels} {value:?}"));
        }
    }

    fn header(&mut self, name: &str, kind: &str) {
        self.push(format_args!("# HELP {name} Simulated."));
        self.push(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let base = self.base.clone();
        self.push(format_args!("{name}{{{labels}{base}}} {value:?}"));
    }

    fn push(&mut self, line: std::fmt::Arguments<'_>) {
        // A String takes every write.
        let _ = writeln!(self.text, "{line}");
    }
}
