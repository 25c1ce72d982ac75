//! Charts as SVG text.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::series::Points;

const SIZE: (u32, u32) = (1100, 320);
/// Room above the highest value, for the legend.
const HEADROOM: f64 = 1.3;

/// What goes wrong in drawing to a string: nothing that a user can mend.
pub(super) type DrawError = Box<dyn std::error::Error>;

/// A named line or cloud.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) points: Points,
    /// Dots instead of a line.
    pub(super) dots: bool,
}

/// Axes of a chart.
pub(super) struct Axes {
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// Horizontal mark, such as a bound.
    pub(super) mark: Option<f64>,
}

/// Draws lines and clouds; empty if there is nothing to draw.
pub(super) fn chart(series: &[Named], axes: &Axes) -> String {
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area, series, axes)
    };
    if drawn.is_ok() { text } else { String::new() }
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    series: &[Named],
    axes: &Axes,
) -> Result<(), DrawError> {
    let all = || series.iter().flat_map(|s| s.points.iter());
    if all().next().is_none() {
        return Err("nothing to draw".into());
    }
    let x_min = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let x_max = all().map(|p| p.0).fold(x_min + 1e-3, f64::max);
    let y_max = all().map(|p| p.1).chain(axes.mark).fold(1e-3, f64::max) * HEADROOM;
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(56)
        .build_cartesian_2d(x_min..x_max, 0.0..y_max)?;
    chart.configure_mesh().x_desc(axes.x).y_desc(axes.y).light_line_style(WHITE).draw()?;
    for (i, named) in series.iter().enumerate() {
        let color = Palette99::pick(i).to_rgba();
        let points = thinned(&named.points);
        let drawn = if named.dots {
            let dot = |p: (f64, f64)| Circle::new(p, 2, color.filled());
            chart.draw_series(points.into_iter().map(dot))?
        } else {
            chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?
        };
        let mark = move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], color.filled());
        drawn.label(&named.name).legend(mark);
    }
    if let Some(mark) = axes.mark {
        let line = vec![(x_min, mark), (x_max, mark)];
        chart.draw_series(LineSeries::new(line, RED.stroke_width(1)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// At most about a thousand points, so that a page stays small; first and last are kept.
fn thinned(points: &Points) -> Points {
    const MOST: usize = 1200;
    let step = points.len().div_ceil(MOST).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
    kept.map(|(_, p)| *p).collect()
}

/// Draws bars of stacked parts: one bar a row, shares of the row's sum.
pub(super) fn stacked(rows: &[(String, Vec<f64>)], parts: &[(&str, RGBColor)]) -> String {
    let mut text = String::new();
    let height = 70 + 26 * u32::try_from(rows.len()).unwrap_or(0);
    let drawn = {
        let area = SVGBackend::with_string(&mut text, (SIZE.0, height)).into_drawing_area();
        bars(&area, rows, parts)
    };
    if drawn.is_ok() && !rows.is_empty() { text } else { String::new() }
}

fn bars(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    rows: &[(String, Vec<f64>)],
    parts: &[(&str, RGBColor)],
) -> Result<(), DrawError> {
    const LEFT: i32 = 230;
    const WIDTH: f64 = 840.0;
    area.fill(&WHITE)?;
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    for (i, (name, color)) in parts.iter().enumerate() {
        let x = LEFT + 130 * i as i32;
        area.draw(&Rectangle::new([(x, 12), (x + 14, 24)], color.filled()))?;
        area.draw(&Text::new((*name).to_owned(), (x + 20, 11), text(14)))?;
    }
    for (row, (name, values)) in rows.iter().enumerate() {
        let y = 40 + 26 * row as i32;
        area.draw(&Text::new(name.clone(), (10, y + 4), text(14)))?;
        let whole = values.iter().sum::<f64>().max(1e-9);
        let mut x = f64::from(LEFT);
        for (value, (_, color)) in values.iter().zip(parts) {
            let next = x + WIDTH * value / whole;
            let corners = [(x as i32, y), (next as i32, y + 18)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
            if *value > 0.0 && next - x > 24.0 {
                area.draw(&Text::new(format!("{value}"), (x as i32 + 4, y + 3), text(13)))?;
            }
            x = next;
        }
    }
    area.present()?;
    Ok(())
}
