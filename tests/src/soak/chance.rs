//! What a client does next: different from client to client, the same from run to run.

/// Numbers that look random (SplitMix64, by Sebastiano Vigna).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or_default()
    }
}
