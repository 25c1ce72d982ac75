//! Each pool by itself, and endpoints over all pools.

use crate::config::errors::Report;
use crate::config::model::PoolKind;
use crate::config::raw::{RawConfig, RawDiscovery, RawPool};
use crate::config::read::At;
use std::collections::HashMap;
use std::net::SocketAddr;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let mut names = HashMap::new();
    let mut endpoints = HashMap::new();
    let mut sources_seen = HashMap::new();
    for pool in &raw.pools {
        unique_name(pool, &mut names, report);
        models(&pool.path, &pool.models, report);
        sources(pool, report);
        unique_source(pool, &mut sources_seen, report);
        gateway(pool, report);
        credential(pool, report);
        shutdown(pool, raw, report);
        for endpoint in &pool.endpoints {
            unique_endpoint(endpoint, &mut endpoints, report);
        }
    }
}

fn unique_name<'r>(
    pool: &'r At<RawPool>,
    names: &mut HashMap<&'r str, String>,
    report: &Report<'_>,
) {
    let path = format!("{}.name", pool.path);
    if let Some(first) = names.get(pool.name.as_str()) {
        let problem = format!("{first} has the same name");
        report.contradiction(&path, &[], problem, "give each pool a name of its own");
    } else if !report.in_error(&path) {
        names.insert(&pool.name, path);
    }
}

/// Also the rule for a tenant's `models`.
pub(super) fn models(owner: &str, models: &[At<String>], report: &Report<'_>) {
    for (n, model) in models.iter().enumerate() {
        if model.value == "*" && models.len() > 1 {
            let remedy = "write `[\"*\"]` alone, or remove it";
            report.contradiction(
                &model.path,
                &[],
                format!("{owner} lists other models too"),
                remedy,
            );
        } else if models[..n].iter().any(|other| other.value == model.value) {
            report.contradiction(&model.path, &[], "listed twice", "remove one of the two");
        }
    }
}

fn sources(pool: &At<RawPool>, report: &Report<'_>) {
    let endpoints = format!("{}.endpoints", pool.path);
    let discovery = format!("{}.discovery", pool.path);
    let related = [discovery.as_str()];
    match (&pool.discovery, pool.endpoints.is_empty()) {
        (None, true) => {
            let remedy = "list the engines as host:port";
            report.contradiction(&endpoints, &related, "the pool has no endpoints", remedy);
        }
        (Some(_), false) => {
            let remedy = "keep either endpoints or discovery";
            report.contradiction(&discovery, &[&endpoints], "endpoints are listed too", remedy);
        }
        (Some(found), true) if found.dns.is_some() == found.kubernetes.is_some() => {
            let problem = "exactly one source is needed";
            report.contradiction(&discovery, &[], problem, "write either `dns` or `kubernetes`");
        }
        _ => {}
    }
    let name = pool.discovery.as_ref().and_then(|found| found.dns.as_ref());
    if name.is_some_and(|name| name.parse::<SocketAddr>().is_ok()) {
        let remedy = format!("write it under {endpoints}, or give a name");
        report.contradiction(&format!("{discovery}.dns"), &[], "an address, not a name", remedy);
    }
}

/// Two pools that find the same engines would count and drain each of them by half.
fn unique_source<'r>(
    pool: &'r At<RawPool>,
    seen: &mut HashMap<&'r RawDiscovery, String>,
    report: &Report<'_>,
) {
    let path = format!("{}.discovery", pool.path);
    let Some(source) = pool.discovery.as_ref().filter(|_| !report.in_error(&path)) else { return };
    match seen.get(source) {
        Some(first) => {
            let problem = format!("the same source as {first}");
            report.contradiction(&path, &[], problem, "serve its models from one pool");
        }
        None => {
            seen.insert(source, path);
        }
    }
}

fn gateway(pool: &At<RawPool>, report: &Report<'_>) {
    if pool.kind != PoolKind::Gateway {
        return;
    }
    let kind = format!("{}.kind", pool.path);
    if pool.endpoints.len() > 1 {
        report.contradiction(
            &format!("{}.endpoints", pool.path),
            &[&kind],
            format!("a gateway has one address, {} are listed", pool.endpoints.len()),
            "keep one, or write `kind: engines`",
        );
    }
    if pool.discovery.is_some() {
        report.contradiction(
            &format!("{}.discovery", pool.path),
            &[&kind],
            "a gateway has one address, which is not discovered",
            "list it under endpoints, or write `kind: engines`",
        );
    }
    if pool.strategy.is_some() {
        report.contradiction(
            &format!("{}.strategy", pool.path),
            &[&kind],
            "without effect: a gateway chooses by itself",
            "remove it, or write `kind: engines`",
        );
    }
}

fn credential(pool: &At<RawPool>, report: &Report<'_>) {
    if pool.api_key_env.is_some() && pool.api_key_file.is_some() {
        let (env, file) =
            (format!("{}.api_key_env", pool.path), format!("{}.api_key_file", pool.path));
        report.contradiction(&file, &[&env], "api_key_env is given too", "keep one of the two");
    }
}

/// An engine whose streams are cut as soon as it is told to stop never gets to end one.
fn shutdown(pool: &At<RawPool>, raw: &RawConfig, report: &Report<'_>) {
    let (timeout, margin) = (pool.engine_shutdown_timeout, raw.drain.cut_margin);
    if timeout.is_zero() || timeout > margin {
        return;
    }
    report.contradiction(
        &format!("{}.engine_shutdown_timeout", pool.path),
        &["drain.cut_margin"],
        format!(
            "streams are cut drain.cut_margin ({}) before it, so they would have no time at all",
            humantime::format_duration(margin)
        ),
        "give the engines' own `--shutdown-timeout`, longer than drain.cut_margin, or 0s",
    );
}

/// One engine in two pools, or twice in one, would be counted twice and drained by half.
fn unique_endpoint(endpoint: &At<String>, seen: &mut HashMap<String, String>, report: &Report<'_>) {
    match seen.get(&endpoint.to_ascii_lowercase()) {
        Some(first) => {
            let problem = format!("the same endpoint as {first}");
            report.contradiction(&endpoint.path, &[], problem, "list each endpoint once");
        }
        None => {
            seen.insert(endpoint.to_ascii_lowercase(), endpoint.path.clone());
        }
    }
}
