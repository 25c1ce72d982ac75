//! The report as one page without a single outside reference.

use std::fmt::Write;

use super::tables::{self, Table};
use super::{Material, markdown, plots};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2rem auto;\
padding:0 1rem;color:#1b1f24}h1{margin-bottom:.2rem}table{border-collapse:collapse;margin:.5rem 0 \
1.5rem;font-size:13px;display:block;overflow-x:auto}th,td{border:1px solid #d0d7de;padding:.25rem \
.5rem;text-align:left;vertical-align:top}th{background:#f3f5f7}.bad{background:#ffe3e0;padding:\
.6rem .9rem;border-radius:6px}.good{background:#e2f5e6;padding:.6rem .9rem;border-radius:6px}\
figure{margin:0 0 1.5rem}figcaption{font-size:13px;color:#57606a}svg{max-width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th{background:#1f2630}\
th,td{border-color:#30363d}svg{background:#fff}.good{background:#173d22}.bad{background:#5a1d1a}}";

/// The whole page.
pub(super) fn render(material: &Material) -> String {
    let figures = &material.figures;
    let mut out = String::new();
    let title = escape(&figures.scenario);
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>\
         <h1>{title}</h1>"
    );
    heading(&mut out, material);
    section(&mut out, "Measured beside published", &tables::compared(figures));
    section(&mut out, "What became of the planned requests", &tables::counts(figures));
    section(&mut out, "Spread over the seeds", &tables::across(figures));
    for plot in plots::all(material) {
        let caption = escape(&plot.caption);
        let _ = write!(out, "<figure>{}<figcaption>{caption}</figcaption></figure>", plot.svg);
    }
    section(&mut out, "Times of complete streams", &tables::times(figures));
    section(&mut out, "Evidence", &tables::evidence(figures));
    section(&mut out, "Prefix groups", &tables::mapping(figures));
    section(&mut out, "Counted by engines and router", &markdown::counted(material));
    section(&mut out, "Actions", &markdown::actions(material));
    out.push_str("</body></html>\n");
    out
}

fn heading(out: &mut String, material: &Material) {
    if let Some(header) = &material.records.header {
        let _ = write!(
            out,
            "<p>{}</p><p>Target: {}<br>Command: <code>{}</code><br>{} times real speed, started {}\
             </p>",
            escape(&header.about),
            escape(&header.target),
            escape(&header.command),
            header.time_scale,
            escape(&header.started)
        );
    }
    let validity = &material.figures.validity;
    let lag = super::shown(validity.lag_p99_virtual_ms, 1);
    let (class, text) = if validity.valid {
        ("good", format!("Valid run: the generator was late by {lag} ms of virtual time at P99."))
    } else {
        ("bad", format!("NOT A VALID RUN: {}.", validity.reasons.join("; ")))
    };
    let _ = write!(out, "<p class=\"{class}\">{}</p>", escape(&text));
    for line in markdown::missed(&material.figures) {
        let _ = write!(out, "<p class=\"bad\">{}</p>", escape(&line));
    }
}

fn section(out: &mut String, title: &str, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let _ = write!(out, "<h2>{}</h2><table><thead><tr>", escape(title));
    for cell in &table.head {
        let _ = write!(out, "<th>{}</th>", escape(cell));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
