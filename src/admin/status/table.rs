//! Aligned columns: text to the left, numbers to the right, colour after padding.

use std::fmt::Write;

const GAP: &str = "  ";

/// How a cell is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
}

/// One value of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    number: bool,
    tone: Tone,
}

impl Cell {
    pub fn text(text: &str) -> Self {
        Self { text: printable(text), number: false, tone: Tone::Plain }
    }

    pub fn toned(text: &str, tone: Tone) -> Self {
        Self::text(text).with(tone)
    }

    pub fn number(number: u64) -> Self {
        Self { text: number.to_string(), number: true, tone: Tone::Plain }
    }

    pub const fn with(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// The value without padding.
    pub fn shown(&self, colour: bool) -> String {
        self.padded(0, colour)
    }

    fn padded(&self, width: usize, colour: bool) -> String {
        let text = &self.text;
        let padded =
            if self.number { format!("{text:>width$}") } else { format!("{text:<width$}") };
        let code = match self.tone {
            Tone::Plain => return padded,
            Tone::Good => 32,
            Tone::Warn => 33,
            Tone::Bad => 31,
        };
        if colour { format!("\x1b[{code}m{padded}\x1b[0m") } else { padded }
    }
}

/// Rows under a heading.
#[derive(Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Self {
        let heading = heading.into_iter().map(|name| printable(name).to_uppercase());
        Self { heading: heading.collect(), rows: Vec::new() }
    }

    /// A row has as many cells as the heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn render(&self, colour: bool) -> String {
        let widths: Vec<usize> = (0..self.heading.len()).map(|column| self.width(column)).collect();
        let numeric = |column: usize| {
            self.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.number))
        };
        let heading: Vec<Cell> = self
            .heading
            .iter()
            .enumerate()
            .map(|(column, name)| Cell {
                text: name.clone(),
                number: numeric(column),
                tone: Tone::Plain,
            })
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let cells = row.iter().zip(&widths).map(|(cell, width)| cell.padded(*width, colour));
            let line = cells.collect::<Vec<_>>().join(GAP);
            writeln!(text, "{}", line.trim_end()).ok();
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0);
        widest.max(self.heading[column].chars().count())
    }
}

/// Text of another process, fit for a terminal: no escape sequence survives.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
