//! The figures of the demo while it runs: lines that refresh on a terminal, a line now and then
//! otherwise.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::load::{Figures, Load};
use super::settings::Settings;
use crate::history::{fetch, parse};

const ON_TERMINAL: Duration = Duration::from_millis(500);
const OTHERWISE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows the figures for ever.
pub(super) async fn show(load: &Load, settings: &Settings) {
    let Ok(client) = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build() else {
        return std::future::pending().await;
    };
    let terminal = std::io::stdout().is_terminal();
    let bars = MultiProgress::new();
    let lines: Vec<ProgressBar> = settings.tenants.iter().map(|_| bars.add(line())).collect();
    let url = format!("http://{}/metrics", settings.admin);
    loop {
        tokio::time::sleep(if terminal { ON_TERMINAL } else { OTHERWISE }).await;
        let gauges = fetch(&client, &url).await.map(|page| parse(&page)).unwrap_or_default();
        for (nth, (id, figures)) in load.figures().iter().enumerate() {
            let limit = settings.tenants.get(nth).map_or(0, |t| t.limit);
            let text = text(id, figures, limit, &gauges);
            match lines.get(nth).filter(|_| terminal) {
                Some(line) => line.set_message(text),
                None => println!("{text}"),
            }
        }
    }
}

fn line() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

fn text(id: &str, f: &Figures, limit: u32, gauges: &BTreeMap<String, f64>) -> String {
    let gauge = |name: &str| gauges.get(&format!("streamgate_{name}{{tenant=\"{id}\"}}")).copied();
    let running = gauge("in_flight").map_or_else(|| "?".to_owned(), |n| n.to_string());
    let queued = gauge("queued").unwrap_or(0.0);
    let ms = |q: f64| f.ttft.value_at_quantile(q) / 1000;
    let ttft = match f.ttft.len() {
        0 => "no data".to_owned(),
        _ => format!("{} / {} ms", ms(0.5), ms(0.95)),
    };
    format!(
        "{id:<12} in flight {running}/{limit}  queued {queued}  good {}  late {}  refused {}  \
         broken {}  TTFT P50 / P95 {ttft}",
        f.good, f.late, f.refused, f.broken
    )
}
