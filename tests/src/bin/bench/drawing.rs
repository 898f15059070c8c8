//! The figures as an SVG: a bar for each, its bound as a line across, the rounds as a whisker.

use std::fmt::Write as _;

use super::figures::{Bound, Figure};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 300.0;
const TRACK: f64 = 380.0;
const ROW: f64 = 46.0;
const TOP: f64 = 56.0;

const STYLE: &str = "\
    text { font: 14px system-ui, sans-serif; fill: #1f2328 }\
    .small { font-size: 12px; fill: #59636e }\
    .title { font-size: 17px; font-weight: 600 }\
    .track { fill: #eaeef2 } .good { fill: #2f7d4f } .bad { fill: #b3261e }\
    .bound { stroke: #1f2328; stroke-width: 2 } .whisker { stroke: #8c959f; stroke-width: 1.5 }\
    @media (prefers-color-scheme: dark) {\
    text { fill: #e6edf3 } .small { fill: #9198a1 }\
    .track { fill: #2a313c } .good { fill: #4fae78 } .bad { fill: #f2766b }\
    .bound { stroke: #e6edf3 } .whisker { stroke: #9198a1 } }";

/// Draws the figures. `place` says where they were measured.
pub(crate) fn draw(figures: &[Figure], place: &str) -> String {
    let height = figures.iter().fold(TOP + 34.0, |height, _| height + ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"t\">\
         <title id=\"t\">Denizen's measured figures and their bounds</title><style>{STYLE}</style>\n\
         <text class=\"title\" x=\"16\" y=\"28\">What Denizen costs beside the bare work</text>\n"
    );
    let mut y = TOP;
    for figure in figures {
        row(&mut svg, figure, y);
        y += ROW;
    }
    let note = format!("Bar: median. Whisker: all rounds. Line across: the bound. {place}");
    _ = writeln!(svg, "<text class=\"small\" x=\"16\" y=\"{:.1}\">{}</text>\n</svg>", y + 14.0, escaped(&note));
    svg
}

fn row(svg: &mut String, figure: &Figure, y: f64) {
    let spread = &figure.spread;
    let whole = match figure.bound {
        Bound::AtLeast(_) => spread.max().max(1.0),
        Bound::AtMost(bound) => (bound * 1.2).max(spread.median() * 1.1),
    };
    let at = |value: f64| LEFT + TRACK * (value / whole).clamp(0.0, 1.0);
    let (class, end) = (if figure.holds() { "good" } else { "bad" }, at(spread.median()));
    let better = match figure.bound {
        Bound::AtLeast(_) => "more is better",
        Bound::AtMost(_) => "less is better",
    };
    let (low, high, bound, middle) = (at(spread.min()), at(spread.max()), at(figure.limit()), y + 19.0);
    _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.1}\">{}</text><text class=\"small\" x=\"16\" y=\"{:.1}\">{better}</text>\
         <rect class=\"track\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{TRACK}\" height=\"14\" rx=\"3\"/>\
         <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"14\" rx=\"3\"/>\
         <path class=\"whisker\" fill=\"none\" d=\"M{low:.1} {:.1}v6M{low:.1} {middle:.1}H{high:.1}M{high:.1} {:.1}v6\"/>\
         <line class=\"bound\" x1=\"{bound:.1}\" x2=\"{bound:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text><text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">bound {}</text>",
        y + 7.0,
        escaped(figure.name),
        y + 23.0,
        (end - LEFT).max(1.0),
        middle - 3.0,
        middle - 3.0,
        y - 4.0,
        y + 24.0,
        LEFT + TRACK + 14.0,
        y + 7.0,
        escaped(&figure.told(spread.median())),
        LEFT + TRACK + 14.0,
        y + 23.0,
        escaped(&figure.bound_told()),
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{
        super::figures::{Figure, Spread, Unit},
        *,
    };

    #[test]
    fn a_bar_ends_at_its_figure_and_turns_red_beyond_its_bound() {
        let figure =
            |value, bound| Figure { name: "a < b", unit: Unit::Ratio, spread: Spread::new(vec![value]), bound, detail: String::new() };
        let svg = draw(&[figure(0.5, Bound::AtLeast(0.6))], "here & now");
        assert!(svg.contains("class=\"bad\" x=\"300\" y=\"56.0\" width=\"190.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("here &amp; now") && !svg.contains("class=\"good\" x"));
        assert!(draw(&[figure(0.7, Bound::AtLeast(0.6))], "").contains("class=\"good\" x=\"300\""));
    }
}
