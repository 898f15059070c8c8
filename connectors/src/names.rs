//! When two names are the same: without regard to case, and to how a letter is composed, and with nothing left out.

use unicode_normalization::UnicodeNormalization as _;

/// The form in which names, addresses and searched texts are compared.
pub(crate) fn folded(text: &str) -> String {
    text.nfkc().collect::<String>().to_lowercase().nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_composition_do_not_matter_and_invisible_characters_do() {
        assert_eq!(folded("JOSÉ"), folded("jose\u{301}"));
        for other in ["joe ", "joe\u{200b}", "jo\u{ad}e", "joe\0"] {
            assert_ne!(folded("joe"), folded(other), "{other:?}");
        }
    }
}
