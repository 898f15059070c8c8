//! Colours, and whether one can be read on another (WCAG 2.2, 1.4.3).

use std::fmt;

/// A colour of sRGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour([u8; 3]);

impl Colour {
    pub(super) const BLACK: Self = Self([0, 0, 0]);
    /// The surfaces and grounds of `assets/denizen.css`.
    pub(super) const LIGHT_SURFACE: Self = Self([255, 255, 255]);
    pub(super) const LIGHT_GROUND: Self = Self([0xee, 0xf2, 0xf4]);
    pub(super) const DARK_SURFACE: Self = Self([0x17, 0x21, 0x27]);
    pub(super) const DARK_GROUND: Self = Self([0x0e, 0x15, 0x19]);
    /// The contrast that text needs.
    pub(super) const LEGIBLE: f64 = 4.5;

    /// `#` and six hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self([red, green, blue]))
    }

    /// From 1 (none) to 21 (black on white).
    pub(super) fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// So much of another colour in it, from 0 to 1.
    pub(super) fn mixed(self, other: Self, share: f64) -> Self {
        let mut mixed = self.0;
        for (own, other) in mixed.iter_mut().zip(other.0) {
            let value = f64::from(*own) * (1.0 - share) + f64::from(other) * share;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the two, so that it is 0 to 255")]
            let value = value.round() as u8;
            *own = value;
        }
        Self(mixed)
    }

    /// This colour, with as much white in it as it needs to be read on a dark surface.
    pub(super) fn readable_on(self, surface: Self) -> Self {
        let lighter = (0..=20_u32).map(|step| self.mixed(Self([255, 255, 255]), f64::from(step) / 20.0));
        lighter.into_iter().find(|colour| colour.contrast(surface) >= Self::LEGIBLE + 1.5).unwrap_or(Self([255, 255, 255]))
    }

    /// Relative luminance.
    fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = self.0;
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::Colour;

    #[test]
    fn contrast_is_that_of_wcag() {
        let of = |a, b| (Colour::parse(a).unwrap().contrast(Colour::parse(b).unwrap()) * 100.0).round() / 100.0;
        assert_eq!(of("#000000", "#ffffff"), 21.0);
        assert_eq!(of("#ffffff", "#777777"), 4.48);
        assert_eq!(of("#0000ff", "#ffffff"), 8.59);
    }

    #[test]
    fn only_six_digits_are_a_colour() {
        for text in ["", "#", "#fff", "#12345g", "123456", "#1234567", "#+12345", "red"] {
            assert_eq!(Colour::parse(text), None, "{text}");
        }
        assert_eq!(Colour::parse("#A1b2C3").unwrap().to_string(), "#a1b2c3");
    }
}
