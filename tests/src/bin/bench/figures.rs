//! Figures: what was measured in several rounds, and the bound that it is held against.

use std::fmt;

/// Rounds, in order of size.
#[derive(Debug, Clone)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    /// The rounds in any order; there must be one.
    pub(crate) fn new(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        Self(rounds)
    }
    /// The smallest.
    pub(crate) fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }
    /// The largest.
    pub(crate) fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
    /// The middle one; of an even number, the mean of the middle two.
    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        let at = |index: usize| self.0.get(index).copied().unwrap_or(f64::NAN);
        if self.0.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) }
    }
}

/// What a figure must hold against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// It must not be smaller.
    AtLeast(f64),
    /// It must not be larger.
    AtMost(f64),
}

/// In what a figure is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Parts of the floor.
    Ratio,
    /// Milliseconds.
    Milliseconds,
    /// 10^6 bytes.
    Megabytes,
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) spread: Spread,
    pub(crate) bound: Bound,
    /// What the floor did, and what Denizen did.
    pub(crate) detail: String,
}

impl Figure {
    /// Whether the median is within its bound.
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.spread.median() >= bound,
            Bound::AtMost(bound) => self.spread.median() <= bound,
        }
    }
    /// The number of the bound.
    pub(crate) const fn limit(&self) -> f64 {
        match self.bound {
            Bound::AtLeast(limit) | Bound::AtMost(limit) => limit,
        }
    }
    /// A number in the figure's unit.
    pub(crate) fn told(&self, number: f64) -> String {
        match self.unit {
            Unit::Ratio => format!("{number:.2}"),
            Unit::Milliseconds if number < 10.0 => format!("{number:.2} ms"),
            Unit::Milliseconds => format!("{number:.0} ms"),
            Unit::Megabytes => format!("{number:.1} MB"),
        }
    }
    /// The bound, in words.
    pub(crate) fn bound_told(&self) -> String {
        let sign = match self.bound {
            Bound::AtLeast(_) => "≥",
            Bound::AtMost(_) => "≤",
        };
        format!("{sign} {}", self.told(self.limit()))
    }
    /// What became of the bound.
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.holds(), self.bound) {
            (true, _) => "holds",
            (false, Bound::AtLeast(_)) => "below its bound",
            (false, Bound::AtMost(_)) => "above its bound",
        }
    }
}

/// All lines, aligned for a terminal.
pub(crate) struct Table<'a>(pub(crate) &'a [Figure]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<40} {:>9}  {:>20}  {:>10}", "", "median", "min to max", "bound")?;
        for figure in self.0 {
            let (low, high) = (figure.told(figure.spread.min()), figure.told(figure.spread.max()));
            writeln!(
                f,
                "{:<40} {:>9}  {:>20}  {:>10}  {}",
                figure.name,
                figure.told(figure.spread.median()),
                format!("{low} to {high}"),
                figure.bound_told(),
                figure.verdict(),
            )?;
            writeln!(f, "    {}", figure.detail)?;
        }
        Ok(())
    }
}

/// All lines, as a table in Markdown.
pub(crate) struct Markdown<'a>(pub(crate) &'a [Figure]);

impl fmt::Display for Markdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | median | min to max | bound | |\n|---|---:|---:|---:|---|")?;
        for figure in self.0 {
            let told = |number| figure.told(number);
            writeln!(
                f,
                "| {} | {} | {} to {} | {} | {} |",
                figure.name,
                told(figure.spread.median()),
                told(figure.spread.min()),
                told(figure.spread.max()),
                figure.bound_told(),
                figure.detail
            )?;
        }
        Ok(())
    }
}

/// A number with thin gaps between thousands, as in 12 345.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::with_capacity(digits.len() + 4);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::new(vec![3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Spread::new(vec![4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!((Spread::new(vec![3.0, 1.0]).min(), Spread::new(vec![3.0, 1.0]).max()), (1.0, 3.0));
    }

    #[test]
    fn bounds_have_a_side() {
        let figure = |bound| Figure { name: "", unit: Unit::Ratio, spread: Spread::new(vec![0.6]), bound, detail: String::new() };
        assert!(figure(Bound::AtLeast(0.6)).holds() && figure(Bound::AtMost(0.6)).holds());
        assert!(!figure(Bound::AtLeast(0.61)).holds() && !figure(Bound::AtMost(0.59)).holds());
        assert_eq!(figure(Bound::AtLeast(0.61)).verdict(), "below its bound");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0.0, 999.0, 1_000.0, 1_234_567.0].map(grouped), ["0", "999", "1 000", "1 234 567"]);
    }
}
