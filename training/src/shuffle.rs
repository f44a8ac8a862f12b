//! CPython's shuffle: a seed orders rows here as `random.seed(seed); random.shuffle(rows)` does there.
//! It refuses to know what is ordered.

use rand_mt::Mt;

/// Rows of an order at most: their places are of 32 bits.
pub const ORDER_MAX: usize = u32::MAX as usize;

/// The places `0..n` in the order that CPython's `random.shuffle` gives them after `random.seed(seed)`: MT19937 seeded by the
/// 32-bit words of the number, then from the last place down an exchange with one that is drawn by rejection. `n` is taken as
/// [`ORDER_MAX`] at most.
pub fn shuffled(seed: u64, n: usize) -> Vec<u32> {
    let mut dice = Dice::seeded(seed);
    let mut order: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
    for last in (1..order.len()).rev() {
        let other = dice.below(last as u32 + 1);
        order.swap(last, other as usize);
    }
    order
}

/// CPython's `random.Random`, as far as a shuffle asks it.
struct Dice(Mt);

impl Dice {
    /// As `random.seed` of a whole number: its 32-bit words, the lowest first, without leading zeros but at least one.
    fn seeded(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = [low, high];
        let used = if high == 0 { 1 } else { 2 };
        Self(Mt::new_with_key(words[..used].iter().copied()))
    }

    /// A number below `limit`, which is not 0: as many bits as the limit has, drawn until they are below it.
    fn below(&mut self, limit: u32) -> u32 {
        let unused = limit.leading_zeros();
        loop {
            let drawn = self.0.next_u32() >> unused;
            if drawn < limit {
                return drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use sha2::{Digest, Sha256};

    fn numbers(value: &Value) -> Vec<u32> {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn a_seed_orders_rows_as_cpython_does() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("../goldens/shuffle.json")).unwrap();
        assert!(cases.len() > 80);
        for case in cases {
            let (seed, n) = (case["seed"].as_u64().unwrap(), case["n"].as_u64().unwrap() as usize);
            let order = shuffled(seed, n);
            if case["order"].is_array() {
                assert_eq!(order, numbers(&case["order"]), "seed {seed}, {n} rows");
                continue;
            }
            assert_eq!(order[..8], numbers(&case["first"]), "seed {seed}, {n} rows");
            assert_eq!(order[n - 8..], numbers(&case["last"]), "seed {seed}, {n} rows");
            let bytes: Vec<u8> = order.iter().flat_map(|place| place.to_le_bytes()).collect();
            let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, case["sha256"].as_str().unwrap(), "seed {seed}, {n} rows");
        }
    }

    proptest! {
        #[test]
        fn every_place_comes_once(seed in any::<u64>(), n in 0_usize..300) {
            let mut order = shuffled(seed, n);
            order.sort_unstable();
            prop_assert_eq!(order, (0..n as u32).collect::<Vec<_>>());
        }
    }
}
