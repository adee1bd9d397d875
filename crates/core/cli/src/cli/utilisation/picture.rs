//! Bar charts as SVG.

use plotters::prelude::*;
use std::path::Path;
use varve_console::Failure;

/// Counts, one bar each.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// The caption.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// Each bar's name and height, none below 0.
    pub bars: Vec<(String, f64)>,
}

impl Histogram {
    /// Draws the bars into an SVG file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, path: &Path) -> Result<(), Failure> {
        let mut text = String::new();
        self.try_draw(&mut text)
            .map_err(|error| Failure::new(1, format_args!("cannot draw: {error}")))?;
        std::fs::write(path, text)
            .map_err(|error| Failure::new(1, format_args!("{}: {error}", path.display())))
    }

    fn try_draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let highest = self.bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
        let count = self.bars.len();
        let root = SVGBackend::with_string(text, (960, 600)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..count as f64, 0.0..(highest * 1.05).max(1.0))?;
        // A bar's name is placed below its middle.
        let name = |x: &f64| {
            let at = (x - 0.5).round();
            let bar = self.bars.get(at as usize).filter(|_| at >= 0.0);
            bar.map_or(String::new(), |bar| bar.0.clone())
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * count + 1)
            .x_label_formatter(&|x| match (x - x.floor() - 0.5).abs() < 0.01 {
                true => name(x),
                false => String::new(),
            })
            .x_desc(&self.x)
            .y_desc(&self.y)
            .draw()?;
        let colour = Palette99::pick(0).to_rgba();
        let bars = self.bars.iter().enumerate().map(|(at, bar)| {
            let corners = [(at as f64 + 0.08, 0.0), (at as f64 + 0.92, bar.1)];
            Rectangle::new(corners, colour.filled())
        });
        chart.draw_series(bars)?;
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_names_and_heights() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("picture.svg");
        let histogram = Histogram {
            title: "Segments".into(),
            x: "utilisation".into(),
            y: "segments".into(),
            bars: vec![("clean".into(), 3.0), ("full".into(), 0.0)],
        };
        histogram.draw(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("clean") && text.contains("full"));
    }
}
