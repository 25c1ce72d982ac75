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
    page.family("process_start_time_seconds", "gauge");
    page.sample("process_start_time_seconds", &[], metrics.created);
    gauges(&mut page, load);
    counters(&mut page, &inner, load);
    histograms(&mut page, &inner);
    let block = block.to_string();
    let info = [("block_size", block.as_str()), ("enable_prefix_caching", "True"), ENGINE];
    page.family("vllm:cache_config_info", "gauge");
    page.sample("vllm:cache_config_info", &info, 1.0);
    page.family("http_requests_total", "counter");
    for ((handler, method, status), n) in &inner.http {
        let labels = [("handler", handler.as_str()), ("method", method), ("status", status)];
        page.sample("http_requests_total", &labels, *n as f64);
    }
    page.text
}

const ENGINE: Label<'static> = ("engine", "0");

/// Name and value.
type Label<'a> = (&'a str, &'a str);

fn gauges(page: &mut Page, load: Load) {
    let waiting = load.waiting as f64;
    page.gauge("num_requests_running", "", &[("", load.running as f64)]);
    page.gauge("num_requests_waiting", "", &[("", waiting)]);
    page.gauge(
        "num_requests_waiting_by_reason",
        "reason",
        &[("capacity", waiting), ("deferred", 0.0)],
    );
    let states = [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)];
    page.gauge("engine_sleep_state", "sleep_state", &states);
    page.gauge("kv_cache_usage_perc", "", &[("", load.cache_usage)]);
}

fn counters(page: &mut Page, inner: &Inner, load: Load) {
    page.counter("prefix_cache_queries", "", &[("", load.prefix_queries)]);
    page.counter("prefix_cache_hits", "", &[("", load.prefix_hits)]);
    page.counter("num_preemptions", "", &[("", 0)]);
    page.counter("prompt_tokens", "", &[("", inner.prompt_tokens)]);
    let cached = inner.cached_tokens.min(inner.prompt_tokens);
    let sources = [
        ("local_compute", inner.prompt_tokens - cached),
        ("local_cache_hit", cached),
        ("external_kv_transfer", 0),
    ];
    page.counter("prompt_tokens_by_source", "source", &sources);
    page.counter("prompt_tokens_cached", "", &[("", cached)]);
    page.counter("generation_tokens", "", &[("", inner.generation_tokens)]);
    let success: Vec<(&str, u64)> = inner.success.iter().map(|(r, n)| (*r, *n)).collect();
    page.counter("request_success", "finished_reason", &success);
    page.rejections(inner.queue_rejections);
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
    model: String,
    created: f64,
}

impl Page {
    fn new(model: &str, created: f64) -> Self {
        let model = model.replace('\\', r"\\").replace('"', "\\\"");
        Self { text: String::with_capacity(32 * 1024), model, created }
    }

    /// A vLLM family with one further label, if it has a name.
    fn gauge(&mut self, name: &str, label: &str, series: &[(&str, f64)]) {
        let name = format!("vllm:{name}");
        self.family(&name, "gauge");
        for (value, number) in series {
            self.vllm(&name, (label, value), *number);
        }
    }

    fn counter(&mut self, name: &str, label: &str, series: &[(&str, u64)]) {
        let total = format!("vllm:{name}_total");
        self.family(&total, "counter");
        for (value, number) in series {
            self.vllm(&total, (label, value), *number as f64);
        }
        let created: Vec<(&str, f64)> = series.iter().map(|(v, _)| (*v, self.created)).collect();
        self.gauge(&format!("{name}_created"), label, &created);
    }

    /// The one family without the engine's number.
    fn rejections(&mut self, queued: u64) {
        let reasons = [("max_num_queued_reqs", queued as f64), ("max_num_queued_tokens", 0.0)];
        let created = reasons.map(|(reason, _)| (reason, self.created));
        for (suffix, kind, series) in [("total", "counter", reasons), ("created", "gauge", created)]
        {
            let name = format!("vllm:admission_rejections_{suffix}");
            self.family(&name, kind);
            for (reason, number) in series {
                let model = self.model.clone();
                self.sample(&name, &[("model_name", &model), ("reason", reason)], number);
            }
        }
    }

    fn histogram(&mut self, name: &str, histogram: &Histogram) {
        let full = format!("vllm:{name}");
        let bucket = format!("{full}_bucket");
        self.family(&full, "histogram");
        for (bound, count) in histogram.cumulative() {
            self.vllm(&bucket, ("le", &format!("{bound:?}")), count as f64);
        }
        self.vllm(&bucket, ("le", "+Inf"), histogram.total() as f64);
        self.vllm(&format!("{full}_count"), ("", ""), histogram.total() as f64);
        self.vllm(&format!("{full}_sum"), ("", ""), histogram.sum());
        self.gauge(&format!("{name}_created"), "", &[("", self.created)]);
    }

    /// A sample with the labels of the engine and one more.
    fn vllm(&mut self, name: &str, label: Label<'_>, value: f64) {
        let model = self.model.clone();
        self.sample(name, &[ENGINE, label, ("model_name", &model)], value);
    }

    fn family(&mut self, name: &str, kind: &str) {
        self.push(format_args!("# HELP {name} Simulated."));
        self.push(format_args!("# TYPE {name} {kind}"));
    }

    /// A sample; labels without a name are left out, the others sorted by name.
    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        let mut labels: Vec<&Label<'_>> = labels.iter().filter(|(n, _)| !n.is_empty()).collect();
        labels.sort();
        let labels: Vec<String> = labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
        if labels.is_empty() {
            self.push(format_args!("{name} {value:?}"));
        } else {
            self.push(format_args!("{name}{{{}}} {value:?}", labels.join(",")));
        }
    }

    fn push(&mut self, line: std::fmt::Arguments<'_>) {
        // A String takes every write.
        let _ = writeln!(self.text, "{line}");
    }
}
