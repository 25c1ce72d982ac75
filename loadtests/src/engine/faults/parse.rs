//! Faults from headers and queries.

use std::time::Duration;

use super::{CloseBy, Cut, FaultRule, Faults, LineEnd, Silence};

const PREFIX: &str = "x-sim-";
/// A header with the prefix that is no fault.
pub(crate) const TENANT_HEADER: &str = "x-sim-tenant";

/// A fault that cannot be: the key, its value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault {key}={value}: {reason}")]
pub struct FaultError {
    key: String,
    value: String,
    reason: &'static str,
}

type Parsed<T> = Result<T, &'static str>;

impl Faults {
    /// Faults from `key=value&key=value…`, as in the query of `POST /sim/next`.
    ///
    /// # Errors
    /// The first key that is unknown, or whose value is not allowed.
    pub fn parse(query: &str) -> Result<Self, FaultError> {
        let mut faults = Self::default();
        for (key, value) in pairs(query) {
            faults.set(&key, &value).map_err(|reason| error(&key, &value, reason))?;
        }
        Ok(faults)
    }

    /// Faults from `x-sim-…` headers; `None` if there is none.
    pub(crate) fn from_headers(headers: &[(String, String)]) -> Result<Option<Self>, FaultError> {
        let mut faults = None::<Self>;
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            if name == TENANT_HEADER {
                continue;
            }
            if let Some(key) = name.strip_prefix(PREFIX) {
                let faults = faults.get_or_insert_default();
                faults.set(key, value.trim()).map_err(|reason| error(key, value, reason))?;
            }
        }
        Ok(faults)
    }

    fn set(&mut self, key: &str, value: &str) -> Parsed<()> {
        match key {
            "delay-head" => self.delay_head = Some(duration(value)?),
            "delay-first" => self.delay_first = Some(duration(value)?),
            "cut" => self.cut = Some(cut(value)?),
            "cut-by" => self.cut_by = close_by(value)?,
            "end-after" => self.end_after = Some(number(value)?),
            "error-after" => self.error_after = Some(number(value)?),
            "abort-after" => self.abort_after = Some(number(value)?),
            "stall-after" => self.stall_after = Some(number(value)?),
            "stop-after" => self.stop_after = Some(positive(value)?),
            "status" => self.status = Some(status(value)?),
            "retry-after" => self.retry_after = Some(value.to_owned()),
            "opening-silence" => self.opening_silence = Some(silence(value)?),
            "chunk-bytes" => self.chunk_bytes = Some(positive(value)?),
            "line-end" => self.line_end = line_end(value)?,
            "keep-alive" => self.keep_alive = Some(duration(value)?),
            "big-event" => self.big_event = Some(number(value)?),
            "tokens-per-event" => self.tokens_per_event = Some(positive(value)?),
            "interval" => self.interval = Some(duration(value)?),
            _ => *self.flag_mut(key).ok_or("there is no such fault")? = flag(value)?,
        }
        Ok(())
    }

    fn flag_mut(&mut self, key: &str) -> Option<&mut bool> {
        Some(match key {
            "drain-500" => &mut self.drain_500,
            "refuse" => &mut self.refuse,
            "one-byte" => &mut self.one_byte,
            "no-space" => &mut self.no_space,
            "comments" => &mut self.comments,
            "split-data" => &mut self.split_data,
            "bom" => &mut self.bom,
            "no-usage" => &mut self.no_usage,
            "stamp" => &mut self.stamp,
            _ => return None,
        })
    }
}

impl FaultRule {
    /// A rule from the query of `POST /sim/next`.
    ///
    /// # Errors
    /// The first key that is unknown, or whose value is not allowed.
    pub fn parse(query: &str) -> Result<Self, FaultError> {
        let mut rule = Self::default();
        for (key, value) in pairs(query) {
            let set = match key.as_str() {
                "for" => {
                    rule.path = Some(value.clone());
                    Ok(())
                }
                "times" if value == "all" => {
                    rule.times = None;
                    Ok(())
                }
                "times" => positive(&value).map(|n| rule.times = Some(n)),
                _ => rule.faults.set(&key, &value),
            };
            set.map_err(|reason| error(&key, &value, reason))?;
        }
        Ok(rule)
    }
}

fn error(key: &str, value: &str, reason: &'static str) -> FaultError {
    FaultError { key: key.to_owned(), value: value.to_owned(), reason }
}

/// Keys and values of a query, percent-decoded.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|p| !p.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (percent_decode(key), percent_decode(value))
    })
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|h| std::str::from_utf8(h).ok());
        match (bytes[at], hex.and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A duration with a unit.
pub(crate) fn duration(value: &str) -> Parsed<Duration> {
    humantime::parse_duration(value).map_err(|_| "give a duration with a unit, as 150ms or 2s")
}

fn number<T: std::str::FromStr>(value: &str) -> Parsed<T> {
    value.parse().map_err(|_| "give a whole number of at least 0")
}

fn positive<T: std::str::FromStr + PartialOrd + From<u8>>(value: &str) -> Parsed<T> {
    let number = number(value)?;
    if number >= T::from(1) { Ok(number) } else { Err("give a whole number of at least 1") }
}

fn status(value: &str) -> Parsed<u16> {
    let status = number(value)?;
    if (400..=599).contains(&status) { Ok(status) } else { Err("give a status of 400 to 599") }
}

fn flag(value: &str) -> Parsed<bool> {
    match value {
        "" | "1" | "true" | "on" => Ok(true),
        "0" | "false" | "off" => Ok(false),
        _ => Err("give 1 or 0"),
    }
}

fn cut(value: &str) -> Parsed<Cut> {
    match value.split_once(':') {
        None if value == "before-head" => Ok(Cut::BeforeHead),
        None if value == "after-head" => Ok(Cut::AfterHead),
        Some(("events", n)) => number(n).map(Cut::Events),
        Some(("bytes", n)) => number(n).map(Cut::Bytes),
        _ => Err("give before-head, after-head, events:N or bytes:N"),
    }
}

fn close_by(value: &str) -> Parsed<CloseBy> {
    match value {
        "fin" => Ok(CloseBy::Fin),
        "rst" => Ok(CloseBy::Rst),
        _ => Err("give fin or rst"),
    }
}

fn line_end(value: &str) -> Parsed<LineEnd> {
    match value {
        "lf" => Ok(LineEnd::Lf),
        "crlf" => Ok(LineEnd::CrLf),
        "cr" => Ok(LineEnd::Cr),
        _ => Err("give lf, crlf or cr"),
    }
}

fn silence(value: &str) -> Parsed<Silence> {
    if value == "forever" { Ok(Silence::Forever) } else { duration(value).map(Silence::For) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
        super::super::TABLE.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let key = cells.next()?.trim().trim_matches('`');
            Some((key, cells.next()?.trim()))
        })
    }

    fn example(kind: &str) -> Vec<String> {
        let quoted = kind.split('`').skip(1).step_by(2).map(|v| v.replace(":N", ":3"));
        match kind.split(',').next().unwrap_or_default() {
            "duration" => vec!["20ms".into()],
            "N" => vec!["3".into()],
            "flag" => vec!["".into(), "1".into(), "0".into()],
            "text" | "path" => vec!["/x".into()],
            "400 to 599" => vec!["503".into()],
            _ => Vec::new(),
        }
        .into_iter()
        .chain(quoted)
        .collect()
    }

    #[test]
    fn every_row_of_the_table_is_understood_with_each_value_it_names() {
        let mut seen = 0;
        for (key, kind) in rows() {
            let values = example(kind);
            assert!(!values.is_empty(), "no example for {key}: {kind}");
            for value in values {
                let query = format!("{key}={value}");
                assert_eq!(FaultRule::parse(&query).map(|_| ()), Ok(()), "{query}");
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen}");
    }

    #[test]
    fn values_arrive_where_they_belong() {
        let faults = Faults::parse("cut=bytes:17&cut-by=rst&delay-head=1500ms&no-space").unwrap();
        let wanted = Faults {
            cut: Some(Cut::Bytes(17)),
            cut_by: CloseBy::Rst,
            delay_head: Some(Duration::from_millis(1500)),
            no_space: true,
            ..Faults::default()
        };
        assert_eq!(faults, wanted);
        let headers = [
            ("X-Sim-Status".to_owned(), " 503 ".to_owned()),
            ("x-sim-tenant".into(), "a".into()),
            ("host".into(), "x".into()),
        ];
        let parsed = Faults::from_headers(&headers).unwrap().unwrap();
        assert_eq!(parsed, Faults { status: Some(503), ..Faults::default() });
        assert_eq!(Faults::from_headers(&headers[1..]), Ok(None));
        let rule = FaultRule::parse("for=%2Fhealth&times=all&status=500").unwrap();
        assert_eq!((rule.path.as_deref(), rule.times), (Some("/health"), None));
    }

    #[test]
    fn mistakes_name_key_value_and_remedy() {
        for (query, text) in [
            ("cut=later", "fault cut=later: give before-head, after-head, events:N or bytes:N"),
            ("delay-head=5", "fault delay-head=5: give a duration with a unit, as 150ms or 2s"),
            ("status=200", "fault status=200: give a status of 400 to 599"),
            ("chunk-bytes=0", "fault chunk-bytes=0: give a whole number of at least 1"),
            ("nonsense=1", "fault nonsense=1: there is no such fault"),
            ("bom=maybe", "fault bom=maybe: give 1 or 0"),
        ] {
            assert_eq!(Faults::parse(query).unwrap_err().to_string(), text);
        }
    }
}
