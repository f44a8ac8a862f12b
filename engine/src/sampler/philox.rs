//! Random numbers by counting: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
//! 3" (SC 2011). A number is a function of seed and position, so nothing has to be remembered between draws, and a device
//! can compute the same. It refuses to know what is drawn.

/// Four words for a counter of four words under a key of two.
pub fn block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let left = u64::from(counter[0]) * 0xD251_1F53;
        let right = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (right >> 32) as u32 ^ counter[1] ^ key[0],
            right as u32,
            (left >> 32) as u32 ^ counter[3] ^ key[1],
            left as u32,
        ];
    }
    counter
}

/// 64 random bits for the token at `position`: words 0 (low) and 1 of the block whose counter is the position, low word
/// first, and whose key is the seed, low word first.
pub fn draw(seed: u64, position: u64) -> u64 {
    let words = block([position as u32, (position >> 32) as u32, 0, 0], [seed as u32, (seed >> 32) as u32]);
    u64::from(words[0]) | u64::from(words[1]) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' Random123 library.
    #[test]
    fn known_answers() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(block([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            block([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn seeds_and_positions_beyond_32_bits_count() {
        assert_ne!(draw(1, 1 << 32), draw(1, 0));
        assert_ne!(draw(1 << 32, 1), draw(0, 1));
    }
}
