//! `stream_options`: what the client wants to be told about usage, and where that is written.

use super::bad::BadRequest;
use super::fields::{boolean, duplicate, wrong};
use super::scan::{Kind, Scanner, Why};
use super::walk::{Ignore, Walker};
use std::ops::Range;

const INCLUDE_USAGE: &str = "stream_options.include_usage";
const CONTINUOUS: &str = "stream_options.continuous_usage_stats";

/// One member and where its value stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Switch {
    pub on: bool,
    /// `None`: not written.
    pub span: Option<Range<usize>>,
}

/// `stream_options` as the body has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamOptions {
    #[default]
    Absent,
    Null {
        span: Range<usize>,
    },
    Object {
        /// Just after the opening brace.
        inside: usize,
        empty: bool,
        include_usage: Switch,
        continuous: Switch,
    },
}

impl StreamOptions {
    /// Whether the client asked for the usage chunk in so many words.
    pub fn include_usage(&self) -> bool {
        matches!(self, Self::Object { include_usage, .. } if include_usage.on)
    }

    /// Whether it asked for usage in every chunk.
    pub fn continuous(&self) -> bool {
        matches!(self, Self::Object { continuous, .. } if continuous.on)
    }

    /// Reads the value that starts at the scanner.
    pub fn read<'a>(scan: &mut Scanner<'a>, walker: &mut Walker<'a>) -> Result<Self, BadRequest> {
        let kind = scan.kind()?;
        let start = scan.pos();
        match kind {
            Kind::Null => {
                scan.literal(Kind::Null)?;
                Ok(Self::Null { span: start..scan.pos() })
            }
            Kind::Object => Self::object(scan, walker),
            _ => Err(wrong(scan, "stream_options", "an object or null")?),
        }
    }

    fn object<'a>(scan: &mut Scanner<'a>, walker: &mut Walker<'a>) -> Result<Self, BadRequest> {
        scan.eat(b'{');
        let inside = scan.pos();
        let (mut include_usage, mut continuous) = (Switch::default(), Switch::default());
        let empty = scan.eat(b'}');
        let mut more = !empty;
        while more {
            let key = scan.key()?;
            if key.is("include_usage") {
                switch(scan, INCLUDE_USAGE, &mut include_usage)?;
            } else if key.is("continuous_usage_stats") {
                switch(scan, CONTINUOUS, &mut continuous)?;
            } else {
                walker.walk(scan, 2, &mut Ignore)?;
            }
            more = scan.eat(b',');
            if !more && !scan.eat(b'}') {
                scan.fail(Why::Expected("',' or '}'"))?;
            }
        }
        Ok(Self::Object { inside, empty, include_usage, continuous })
    }
}

fn switch(
    scan: &mut Scanner<'_>,
    param: &'static str,
    switch: &mut Switch,
) -> Result<(), BadRequest> {
    if switch.span.is_some() {
        return Err(duplicate(param));
    }
    scan.skip_space();
    let start = scan.pos();
    switch.on = boolean(scan, param)?.unwrap_or(false);
    switch.span = Some(start..scan.pos());
    Ok(())
}
