//! Line pictures as SVG.

use super::files::write;
use super::summaries;
use crate::error::LabError;
use crate::row::Row;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Points joined by a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve.
    pub fn named(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Curve {
            name: name.into(),
            points,
        }
    }

    /// One curve of means for each series that has the value.
    pub fn all(rows: &[Row], value: &str) -> Vec<Curve> {
        let mut curves: Vec<Curve> = Vec::new();
        for s in summaries(rows).into_iter().filter(|s| s.name == value) {
            match curves.iter_mut().find(|c| c.name == s.series) {
                Some(curve) => curve.points.push((s.x, s.mean)),
                None => curves.push(Curve::named(s.series, vec![(s.x, s.mean)])),
            }
        }
        for curve in &mut curves {
            curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        curves
    }
}

/// A picture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Picture {
    /// Above it.
    pub title: String,
    /// Below it.
    pub x: String,
    /// Beside it.
    pub y: String,
    /// Where the vertical axis ends, if not at the highest point.
    pub y_max: Option<f64>,
    /// What was measured, with marks.
    pub curves: Vec<Curve>,
    /// What papers and models say, without; a single point is a cross. One whose
    /// name begins with a curve's has its colour.
    pub references: Vec<Curve>,
}

impl Picture {
    /// With room above the highest point, for the names of the curves: a line
    /// takes some 14 of the 508 pixels between the axes' ends.
    #[must_use]
    pub fn with_room_for_names(self) -> Self {
        let all = || self.curves.iter().chain(&self.references);
        let heights = all().flat_map(|curve| curve.points.iter().map(|point| point.1));
        let highest = heights.fold(0.0, f64::max);
        let names = (24.0 + 14.0 * all().count() as f64) / 508.0;
        let y_max = highest / (1.0 - names.min(0.6));
        Picture {
            y_max: (highest > 0.0).then_some(y_max),
            ..self
        }
    }

    /// Without points that are no numbers, which JSON cannot hold.
    #[must_use]
    pub fn finite(mut self) -> Self {
        for curve in self.curves.iter_mut().chain(&mut self.references) {
            curve.points.retain(|p| p.0.is_finite() && p.1.is_finite());
        }
        self.y_max = self.y_max.filter(|max| max.is_finite());
        self
    }

    /// Draws it.
    ///
    /// # Errors
    /// It cannot be drawn or written.
    pub fn draw(&self, path: &Path) -> Result<(), LabError> {
        let mut text = String::new();
        self.try_draw(&mut text)
            .map_err(|error| LabError::Picture(error.to_string()))?;
        write(path, &text)
    }

    fn try_draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let all = self.curves.iter().chain(&self.references);
        let points: Vec<(f64, f64)> = all.flat_map(|c| c.points.iter().copied()).collect();
        let span = |values: Vec<f64>| {
            let low = values.iter().fold(f64::INFINITY, |a, b| a.min(*b));
            let high = values.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            match low < high {
                true => low..high,
                false if low.is_finite() => low - 0.5..high + 0.5,
                false => 0.0..1.0,
            }
        };
        let x = span(points.iter().map(|p| p.0).collect());
        let highest = span(points.iter().map(|p| p.1).collect()).end;
        let y = 0.0..self.y_max.unwrap_or(highest * 1.05);
        let root = SVGBackend::with_string(text, (960, 600)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(x, y.clone())?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .draw()?;
        // What lies beyond the axis is left out.
        let inside = |curve: &Curve| -> Vec<(f64, f64)> {
            let points = curve.points.iter().copied();
            points.filter(|p| p.1.is_finite() && p.1 <= y.end).collect()
        };
        for (at, curve) in self.curves.iter().enumerate() {
            let colour = Palette99::pick(at).to_rgba();
            let points = inside(curve);
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour));
            let marks = points
                .into_iter()
                .map(|p| Circle::new(p, 3, colour.filled()));
            chart.draw_series(marks)?;
        }
        for (at, curve) in self.references.iter().enumerate() {
            // What is said of a curve has its colour.
            let mut curves = self.curves.iter();
            let of = curves.position(|other| curve.name.starts_with(&other.name));
            let colour = match of {
                Some(of) => Palette99::pick(of).to_rgba(),
                None => RGBColor(90, 90, 90).mix(1.0 - 0.25 * at as f64 % 1.0),
            };
            let points = inside(curve);
            if let [point] = points[..] {
                chart
                    .draw_series([Cross::new(point, 5, colour.stroke_width(2))])?
                    .label(&curve.name)
                    .legend(move |(x, y)| Cross::new((x + 8, y), 4, colour.stroke_width(2)));
            } else {
                chart
                    .draw_series(LineSeries::new(points, colour.stroke_width(1)))?
                    .label(&curve.name)
                    .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour));
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        root.present()?;
        Ok(())
    }
}
