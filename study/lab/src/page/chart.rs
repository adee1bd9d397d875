//! A picture inside the page: colours and type of the page itself, in the light
//! and in the dark, with names of curves below it and its figures as a table.
//!
//! Curves are told apart by colour, mark and dashes, never by colour alone.

use super::markup::{escaped, number};
use crate::report::{Curve, Picture};

/// The drawing, in units of its view box: small, so that type is large on a
/// narrow screen.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;
/// Colours of the style sheet.
const COLOURS: usize = 8;
/// Points beyond which the table is left to the file.
const LISTED: usize = 400;

/// See the module's head.
pub fn figure(id: &str, picture: &Picture) -> String {
    let title = escaped(&picture.title);
    let mut text = format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"{id}-chart {id}-text\">\n\
         <title id=\"{id}-chart\">{title}</title>\n<desc id=\"{id}-text\">{}</desc>\n",
        escaped(&described(picture))
    );
    let plane = Plane::of(picture);
    text += &plane.axes(picture);
    for (at, curve) in picture.references.iter().enumerate() {
        text += &plane.reference(curve, at);
    }
    for (at, curve) in picture.curves.iter().enumerate() {
        text += &plane.line(curve, &class(at));
        text += &plane.marks(curve, at);
    }
    text += "</svg>\n";
    text += &legend(picture);
    text += &format!("<figcaption>{title}</figcaption>\n");
    text += &listed(picture);
    text + "</figure>\n"
}

/// Colour and dashes of the nth curve.
fn class(nth: usize) -> String {
    let dashes = match nth / COLOURS % 3 {
        0 => "",
        1 => " dashed",
        _ => " dotted",
    };
    format!("c{}{dashes}", nth % COLOURS)
}

/// Where values lie in the drawing.
struct Plane {
    x: (f64, f64),
    /// It begins at 0.
    y_max: f64,
}

impl Plane {
    fn of(picture: &Picture) -> Self {
        let points = || points(picture);
        let low = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let high = points().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
        let x = match low < high {
            true => (low, high),
            false if low.is_finite() => (low - 0.5, low + 0.5),
            false => (0.0, 1.0),
        };
        let highest = points().map(|p| p.1).fold(0.0, f64::max);
        // Room for names of curves, which stand below here.
        let within = picture.y_max.filter(|max| *max < highest);
        let y_max = within.unwrap_or(highest * 1.05);
        Plane {
            x,
            y_max: if y_max > 0.0 { y_max } else { 1.0 },
        }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let right = LEFT + (x - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT);
        let down = HEIGHT - BOTTOM - y / self.y_max * (HEIGHT - TOP - BOTTOM);
        (right, down)
    }

    /// What lies beyond the axis is left out.
    fn inside(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let points = curve.points.iter().copied();
        let shown = points.filter(|p| finite(p) && p.1 >= 0.0 && p.1 <= self.y_max);
        shown.map(|point| self.at(point)).collect()
    }

    fn axes(&self, picture: &Picture) -> String {
        let mut text = String::from("<g class=\"axes\">\n");
        let (left, right) = (LEFT, WIDTH - RIGHT);
        for y in ticks(0.0, self.y_max) {
            let down = self.at((self.x.0, y)).1;
            text += &format!(
                "<path d=\"M{left:.1} {down:.1}H{right:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                left - 6.0,
                down + 4.0,
                number(y)
            );
        }
        let bottom = HEIGHT - BOTTOM;
        for x in ticks(self.x.0, self.x.1) {
            let across = self.at((x, 0.0)).0;
            text += &format!(
                "<path d=\"M{across:.1} {bottom:.1}v4\"/>\
                 <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 16.0,
                number(x)
            );
        }
        text += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            (left + right) / 2.0,
            HEIGHT - 6.0,
            escaped(&picture.x)
        );
        let middle = (TOP + bottom) / 2.0;
        text += &format!(
            "<text transform=\"translate(12 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>\n</g>\n",
            escaped(&picture.y)
        );
        text
    }

    fn line(&self, curve: &Curve, class: &str) -> String {
        let points = self.inside(curve);
        if points.len() < 2 {
            return String::new();
        }
        let places = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let places: Vec<String> = places.collect();
        format!(
            "<polyline class=\"{class}\" points=\"{}\"/>\n",
            places.join(" ")
        )
    }

    /// What is said of one place alone is a cross.
    fn reference(&self, curve: &Curve, nth: usize) -> String {
        let class = format!("ref ref{}", nth % 3);
        match self.inside(curve)[..] {
            [place] => format!("<path class=\"{class} cross\" d=\"{}\"/>\n", cross(place)),
            _ => self.line(curve, &class),
        }
    }

    fn marks(&self, curve: &Curve, nth: usize) -> String {
        let class = class(nth);
        let points = self.inside(curve);
        let marks = points.into_iter().map(|place| mark(place, nth));
        let path: String = marks.collect();
        format!("<path class=\"mark {class}\" d=\"{path}\"/>\n")
    }
}

fn finite(point: &(f64, f64)) -> bool {
    point.0.is_finite() && point.1.is_finite()
}

fn points(picture: &Picture) -> impl Iterator<Item = (f64, f64)> {
    let curves = picture.curves.iter().chain(&picture.references);
    curves
        .flat_map(|curve| curve.points.iter().copied())
        .filter(finite)
}

/// One of five forms around a place.
fn mark((x, y): (f64, f64), nth: usize) -> String {
    match nth % 5 {
        0 => format!("M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", x - 3.0),
        1 => format!("M{:.1} {:.1}h5.4v5.4h-5.4z", x - 2.7, y - 2.7),
        2 => format!("M{x:.1} {:.1}l3.6 6.2h-7.2z", y - 3.8),
        3 => format!("M{x:.1} {:.1}l3.8 3.8l-3.8 3.8l-3.8-3.8z", y - 3.8),
        _ => format!("M{x:.1} {:.1}l3.6-6.2h-7.2z", y + 3.8),
    }
}

fn cross((x, y): (f64, f64)) -> String {
    format!("M{:.1} {:.1}l8 8m0-8l-8 8", x - 4.0, y - 4.0)
}

/// Round values between two others, some five of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let span = high - low;
    let power = 10f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|round| round * power);
    let step = step.into_iter().find(|step| span / step <= 5.5);
    let step = step.unwrap_or(span);
    let first = (low / step - 1e-9).ceil() as i64;
    (first..first + 8)
        .map(|nth| nth as f64 * step)
        .take_while(|tick| *tick <= high + span * 1e-9)
        .collect()
}

fn legend(picture: &Picture) -> String {
    let mut text = String::from("<ul class=\"legend\">\n");
    let swatch = "<svg viewBox=\"0 0 24 12\" width=\"24\" height=\"12\" aria-hidden=\"true\">";
    for (at, curve) in picture.curves.iter().enumerate() {
        text += &format!(
            "<li>{swatch}<path class=\"{class}\" d=\"M1 6h22\"/>\
             <path class=\"mark {class}\" d=\"{}\"/></svg>{}</li>\n",
            mark((12.0, 6.0), at),
            escaped(&curve.name),
            class = class(at),
        );
    }
    for (at, curve) in picture.references.iter().enumerate() {
        let (class, form) = match curve.points[..] {
            [_] => (" cross", cross((12.0, 6.0))),
            _ => ("", "M1 6h22".into()),
        };
        text += &format!(
            "<li>{swatch}<path class=\"ref ref{}{class}\" d=\"{form}\"/></svg>{}</li>\n",
            at % 3,
            escaped(&curve.name),
        );
    }
    text + "</ul>\n"
}

/// What one would say to somebody who does not see it.
fn described(picture: &Picture) -> String {
    let mut text = format!("{} against {}.", picture.y, picture.x);
    let measured = picture.curves.iter().map(|curve| (curve, ""));
    let references = picture
        .references
        .iter()
        .map(|curve| (curve, ", for comparison"));
    for (curve, note) in measured.chain(references) {
        let points: Vec<_> = curve.points.iter().filter(|p| finite(p)).collect();
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            text += &format!(
                " {}{note}: from {} at {} to {} at {}.",
                curve.name,
                number(first.1),
                number(first.0),
                number(last.1),
                number(last.0)
            );
        }
    }
    text
}

fn listed(picture: &Picture) -> String {
    let count = points(picture).count();
    if count > LISTED || count == 0 {
        return String::new();
    }
    let mut text = format!(
        "<details>\n<summary>The figures of this picture</summary>\n<div class=\"scroll\" \
         tabindex=\"0\" role=\"region\" aria-label=\"Figures\">\n<table class=\"figures\">\n\
         <caption>{}</caption>\n<thead><tr><th scope=\"col\">Curve</th><th scope=\"col\">{}</th>\
         <th scope=\"col\">{}</th></tr></thead>\n<tbody>\n",
        escaped(&picture.title),
        escaped(&picture.x),
        escaped(&picture.y),
    );
    for curve in picture.curves.iter().chain(&picture.references) {
        for point in curve.points.iter().filter(|point| finite(point)) {
            text += &format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n",
                escaped(&curve.name),
                number(point.0),
                number(point.1)
            );
        }
    }
    text + "</tbody>\n</table>\n</div>\n</details>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 10.5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let tenths = ticks(0.48, 0.9);
        assert!(tenths.len() >= 4, "{tenths:?}");
        assert!(tenths.iter().all(|t| (0.48..=0.9).contains(t)));
        assert_eq!(ticks(1.0, 4.0), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_reference_of_one_point_is_a_cross() {
        let text = figure(
            "Z1",
            &Picture {
                title: "t".into(),
                x: "x".into(),
                y: "y".into(),
                y_max: None,
                curves: vec![Curve::named("a", vec![(1.0, 1.0), (3.0, 1.0)])],
                references: vec![Curve::named("paper", vec![(2.0, 1.0)])],
            },
        );
        let crosses = text.matches("l8 8m0-8l-8 8").count();
        assert_eq!(crosses, 2, "in the picture and beside its name");
        // Whole, not in dashes as lines are.
        assert_eq!(text.matches("ref0 cross").count(), 2);
    }

    #[test]
    fn a_picture_is_drawn_whatever_its_values_are() {
        let picture = |points: Vec<(f64, f64)>, y_max| Picture {
            title: "<title>".into(),
            x: "x".into(),
            y: "y".into(),
            y_max,
            curves: vec![Curve::named("a & b", points)],
            references: vec![Curve::named("paper", Vec::new())],
        };
        let odd = [
            vec![],
            vec![(1.0, 1.0)],
            vec![(1.0, 0.0), (2.0, 0.0)],
            vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (2.0, -1.0)],
            vec![(1e300, 1e300), (-1e300, 1e-300)],
        ];
        for points in odd {
            for y_max in [None, Some(0.0), Some(0.5)] {
                let text = figure("Z1", &picture(points.clone(), y_max));
                assert!(text.contains("a &amp; b") && text.contains("&lt;title&gt;"));
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}
