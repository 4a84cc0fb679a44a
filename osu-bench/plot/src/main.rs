//! Draws figures as SVG: `plot FIGURES.json DIR` writes `DIR/NAME.svg` for each figure of a JSON list.
//!
//! It knows nothing of MPI: `../report.py` says what a figure shows, and under which conditions it was measured.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use serde::Deserialize;
use std::error::Error;
use std::path::Path;

/// One figure.
#[derive(Deserialize)]
struct Figure {
    /// Of the file, without `.svg`.
    name: String,
    title: String,
    /// Small print under the figure: machine, versions, command.
    notes: Vec<String>,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

/// A logarithmic or linear axis.
#[derive(Deserialize)]
struct Axis {
    label: String,
    log: bool,
    /// Labels are bytes: 1K, 64K, 1M.
    #[serde(default)]
    bytes: bool,
    /// A line to mark, such as the ratio 1.
    #[serde(default)]
    mark: Option<f64>,
}

/// One line with its spread.
#[derive(Deserialize)]
struct Series {
    name: String,
    /// Which of the colours, so that an MPI has the same in every figure.
    color: usize,
    #[serde(default)]
    dashed: bool,
    points: Vec<Point>,
}

/// What was measured at `x`: median, least and most.
#[derive(Deserialize, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
    least: f64,
    most: f64,
}

const WIDTH: u32 = 1080;
const HEIGHT: u32 = 520;
const NOTE: u32 = 16;
const LEGEND: u32 = 220;

/// Colours that people who see some colours alike can tell apart (Okabe and Ito).
const COLORS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(120, 120, 120),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [help] if help == "--help" || help == "-h" => {
            println!("usage: plot FIGURES.json DIR");
            Ok(())
        }
        [figures, dir] => run(figures, Path::new(dir)),
        _ => Err("usage: plot FIGURES.json DIR".into()),
    };
    if let Err(error) = done {
        eprintln!("plot: {error}");
        std::process::exit(1);
    }
}

fn run(figures: &str, dir: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(figures).map_err(|error| format!("{figures}: {error}"))?;
    let figures: Vec<Figure> = serde_json::from_str(&text)?;
    std::fs::create_dir_all(dir)?;
    for figure in &figures {
        let drawn = draw(figure).map_err(|error| format!("{}: {error}", figure.name))?;
        std::fs::write(dir.join(format!("{}.svg", figure.name)), drawn)?;
    }
    Ok(())
}

/// The figure as SVG.
fn draw(figure: &Figure) -> Result<String, Box<dyn Error>> {
    let (x, y) = (
        range(figure, &figure.x, |point| [point.x; 2])?,
        range(figure, &figure.y, |point| [point.least, point.most])?,
    );
    let mut text = String::new();
    {
        let height = HEIGHT + NOTE * figure.notes.len() as u32;
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, notes) = area.split_vertically(HEIGHT);
        let (chart, legend) = above.split_horizontally(WIDTH - LEGEND);
        draw_legend(figure, &legend)?;
        match (figure.x.log, figure.y.log) {
            (true, true) => draw_chart(figure, &chart, x.log_scale().base(2.0), y.log_scale().base(10.0))?,
            (true, false) => draw_chart(figure, &chart, x.log_scale().base(2.0), y)?,
            (false, true) => draw_chart(figure, &chart, x, y.log_scale().base(10.0))?,
            (false, false) => draw_chart(figure, &chart, x, y)?,
        }
        for (index, note) in figure.notes.iter().enumerate() {
            let style = ("sans-serif", 11).into_font().color(&BLACK.mix(0.7));
            notes.draw(&Text::new(note.as_str(), (14, index as i32 * NOTE as i32), style))?;
        }
        area.present()?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Span = std::ops::Range<f64>;

/// From the least to the most of all series, with a margin; what a logarithm cannot show is an error.
fn range(figure: &Figure, axis: &Axis, values: impl Fn(&Point) -> [f64; 2]) -> Result<Span, Box<dyn Error>> {
    let points = figure.series.iter().flat_map(|series| &series.points);
    let all: Vec<f64> = points.flat_map(values).chain(axis.mark).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !least.is_finite() || !most.is_finite() {
        return Err("nothing to draw".into());
    }
    match axis.log {
        true if least <= 0.0 => Err(format!("{least} is on the logarithmic axis {:?}", axis.label).into()),
        true => Ok(least / 1.2..most * 1.2),
        false => Ok(least.min(0.0)..if most > least.min(0.0) { most * 1.05 } else { 1.0 }),
    }
}

fn draw_chart<X, Y>(figure: &Figure, area: &Area<'_>, x: X, y: Y) -> Result<(), Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&figure.title, ("sans-serif", 19))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(74)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(BLACK.mix(0.15))
        .x_desc(&figure.x.label)
        .y_desc(&figure.y.label)
        .x_labels(12)
        .y_labels(10)
        .x_label_formatter(&|value| label(*value, figure.x.bytes))
        .y_label_formatter(&|value| label(*value, figure.y.bytes))
        .draw()?;
    if let Some(mark) = figure.y.mark {
        let span = range(figure, &figure.x, |point| [point.x; 2])?;
        chart.draw_series(LineSeries::new([(span.start, mark), (span.end, mark)], BLACK.mix(0.6)))?;
    }
    for (index, series) in figure.series.iter().enumerate() {
        let color = COLORS[series.color % COLORS.len()];
        let style = stroke(index, series);
        let line: Vec<(f64, f64)> = series.points.iter().map(|point| (point.x, point.y)).collect();
        match series.dashed {
            true => chart.draw_series(DashedLineSeries::new(line, 6, 4, style))?,
            false => chart.draw_series(LineSeries::new(line, style))?,
        };
        chart.draw_series(
            series
                .points
                .iter()
                .map(|point| Circle::new((point.x, point.y), 3, color.filled())),
        )?;
        let spread = |point: &Point| PathElement::new([(point.x, point.least), (point.x, point.most)], color.mix(0.6));
        chart.draw_series(series.points.iter().map(spread))?;
    }
    Ok(())
}

/// How a series is drawn: the first one is ours, and bolder.
fn stroke(index: usize, series: &Series) -> ShapeStyle {
    COLORS[series.color % COLORS.len()].stroke_width(if index == 0 { 3 } else { 2 })
}

/// Which line is whose, beside the chart, where it hides nothing.
fn draw_legend(figure: &Figure, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    for (index, series) in figure.series.iter().enumerate() {
        let style = stroke(index, series);
        let mut y = 60 + 34 * index as i32;
        match series.dashed {
            true => area.draw(&DashedPathElement::new([(4, y), (30, y)], 6, 4, style))?,
            false => area.draw(&PathElement::new([(4, y), (30, y)], style))?,
        }
        for words in folded(&series.name, 22) {
            area.draw(&Text::new(words, (36, y - 6), ("sans-serif", 12).into_font()))?;
            y += 14;
        }
    }
    Ok(())
}

/// The words in lines of about `most` letters; a longer word has a line of its own.
fn folded(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < most => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A number at an axis: 64K and 4M for bytes, else as short as can be.
fn label(value: f64, bytes: bool) -> String {
    const UNITS: [(f64, &str); 3] = [(1073741824.0, "G"), (1048576.0, "M"), (1024.0, "K")];
    let unit = UNITS.iter().find(|(size, _)| bytes && value >= *size);
    match unit {
        Some((size, name)) => format!("{}{name}", short(value / size)),
        None => short(value),
    }
}

fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            least: y * 0.9,
            most: y * 1.1,
        }
    }

    fn figure(points: Vec<Point>) -> Figure {
        let axis = |label: &str| Axis {
            label: label.into(),
            log: true,
            bytes: label == "bytes",
            mark: None,
        };
        let line = |name: &str, dashed| Series {
            name: name.into(),
            dashed,
            color: dashed as usize,
            points: points.clone(),
        };
        Figure {
            name: "one".into(),
            title: "A <title>".into(),
            notes: vec!["on a machine".into(), "by a command".into()],
            x: axis("bytes"),
            y: axis("us"),
            series: vec![line("ours", false), line("theirs", true)],
        }
    }

    #[test]
    fn a_figure_names_everything() {
        let text = draw(&figure(vec![
            point(1.0, 0.2),
            point(1024.0, 0.5),
            point(1048576.0, 60.0),
        ]))
        .unwrap();
        for what in [
            "A &lt;title&gt;",
            "on a machine",
            "by a command",
            "bytes",
            "us",
            "ours",
            "theirs",
            "1K",
        ] {
            assert!(text.contains(what), "{what} is missing");
        }
        assert_eq!(text.matches("<circle").count(), 6);
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let zero = draw(&figure(vec![point(0.0, 1.0)])).unwrap_err().to_string();
        assert!(zero.contains("logarithmic axis \"bytes\""), "{zero}");
        assert!(draw(&figure(vec![])).unwrap_err().to_string().contains("nothing"));
        let mut linear = figure(vec![point(0.0, 1.0)]);
        linear.x.log = false;
        assert!(draw(&linear).is_ok());
    }

    #[test]
    fn long_names_are_folded() {
        assert_eq!(
            folded("nearmpi NEARMPI_ONE_COPY=0", 22),
            ["nearmpi", "NEARMPI_ONE_COPY=0"]
        );
        assert_eq!(folded("Open MPI 5", 22), ["Open MPI 5"]);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(65536.0, true), "64K");
        assert_eq!(label(65536.0, false), "65536");
        assert_eq!(label(0.125, false), "0.125");
        assert_eq!(label(2.0, true), "2");
    }
}
