//! Walks through one value of any shape without recursion: the depth is a number, bounded by the
//! caller, and the stack of open containers is a vector that is kept from value to value.

use super::scan::{Fault, Kind, Scanner, Str, Why};

/// Learns what a walk passes.
pub(super) trait Sink {
    /// A string value; `key` is the nearest key above it as written, `""` if there is none.
    /// `depth` is the number of containers of this value that are open around it.
    fn text(&mut self, _key: &str, _text: Str<'_>, _depth: usize) {}
    /// A number.
    fn number(&mut self, _depth: usize) {}
    /// An array opens.
    fn array(&mut self, _depth: usize) {}
}

/// Learns nothing.
pub(super) struct Ignore;

impl Sink for Ignore {}

/// An open container.
#[derive(Clone, Copy)]
struct Frame<'a> {
    object: bool,
    /// The key of the member being read; in an array, the nearest key above.
    key: &'a str,
}

/// Walks values of one body.
pub(super) struct Walker<'a> {
    open: Vec<Frame<'a>>,
    limit: usize,
}

impl<'a> Walker<'a> {
    /// `limit`: containers that may be open at once, in the whole body.
    pub fn new(limit: usize) -> Self {
        Self { open: Vec::new(), limit }
    }

    /// Reads the value that starts at the scanner; `around` containers are open around it.
    pub fn walk(
        &mut self,
        scan: &mut Scanner<'a>,
        around: usize,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        self.open.clear();
        loop {
            if !self.value(scan, around, sink)? && self.close(scan)? {
                return Ok(());
            }
        }
    }

    /// Reads a scalar or an empty container (`false`), or opens a container (`true`).
    fn value(
        &mut self,
        scan: &mut Scanner<'a>,
        around: usize,
        sink: &mut impl Sink,
    ) -> Result<bool, Fault> {
        let depth = self.open.len();
        let key = self.open.last().map_or("", |frame| frame.key);
        match scan.kind()? {
            Kind::String => sink.text(key, scan.string()?, depth),
            Kind::Number => {
                scan.number()?;
                sink.number(depth);
            }
            kind @ (Kind::True | Kind::False | Kind::Null) => scan.literal(kind)?,
            Kind::Object | Kind::Array if around + depth >= self.limit => {
                return scan.fail(Why::TooDeep(self.limit));
            }
            Kind::Object => {
                scan.eat(b'{');
                if !scan.eat(b'}') {
                    let key = scan.key()?.raw;
                    self.open.push(Frame { object: true, key });
                    return Ok(true);
                }
            }
            Kind::Array => {
                sink.array(depth);
                scan.eat(b'[');
                if !scan.eat(b']') {
                    self.open.push(Frame { object: false, key });
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// After a value: goes to the next one (`false`), or closes all that ends (`true`: the walk
    /// is over).
    fn close(&mut self, scan: &mut Scanner<'a>) -> Result<bool, Fault> {
        while let Some(frame) = self.open.last_mut() {
            let end = if frame.object { b'}' } else { b']' };
            if scan.eat(b',') {
                if frame.object {
                    frame.key = scan.key()?.raw;
                }
                return Ok(false);
            }
            if !scan.eat(end) {
                let wanted = if frame.object { "',' or '}'" } else { "',' or ']'" };
                return scan.fail(Why::Expected(wanted));
            }
            self.open.pop();
        }
        Ok(true)
    }
}
