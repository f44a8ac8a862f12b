//! How a model's memory is laid out before it is loaded: on a card what is left beside weights and buffers becomes the
//! key-value cache, on the processor as much as the settings say. Pure: what is free comes in.

use super::opening::{LocalError, LocalSettings};
use legwork_kernels::PAGE_TOKENS;
use legwork_model::DecoderConfig;
use std::fmt;

/// Mebibytes of the cache on the processor where none are given.
pub(super) const PROCESSOR_CACHE_MIB: usize = 2_048;
/// The share of a card's free memory that is kept for what grows while it computes: workspaces, graphs, batches.
const RESERVE_SHARE: u64 = 20;
/// The least and the most of it.
const RESERVE_BYTES: std::ops::RangeInclusive<u64> = (512 << 20)..=(4 << 30);
/// Bytes of a number on a card (bf16) and on the processor (`f32`).
const CARD_VALUE_BYTES: u64 = 2;
const PROCESSOR_VALUE_BYTES: u64 = 4;
/// Pages of a card's cache where none are given, at most: 8 million tokens. Beyond that the engine's tables cost more than
/// pages of so small a model are worth.
const DEFAULT_PAGES_MAX: u64 = 1 << 17;
/// Pages of a cache at most: slots of tokens are numbers of 32 bits.
const PAGES_MAX: u64 = u32::MAX as u64 / PAGE_TOKENS as u64;

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    /// Of the weights where they are copied; 0 where they stay mapped from their files.
    weights: u64,
    /// Of what a step fills.
    buffers: u64,
    /// Left free.
    reserve: u64,
    page: u64,
    pub(super) pages: usize,
}

impl MemoryPlan {
    /// On the processor. Weights are mapped, and memory is the system's to give.
    pub(super) fn on_processor(config: &DecoderConfig, settings: &LocalSettings) -> Result<Self, LocalError> {
        let page = page_values(config) * PROCESSOR_VALUE_BYTES;
        let cache_mib = settings.cache_mib.unwrap_or(PROCESSOR_CACHE_MIB);
        let buffers = config.step_values(settings.step_rows()) * PROCESSOR_VALUE_BYTES;
        Ok(Self { weights: 0, buffers, reserve: 0, page, pages: pages(mebibytes(cache_mib), page)? })
    }

    /// On a card with so many bytes free before anything is loaded.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "tests hold it without cards, too"))]
    pub(super) fn on_card(config: &DecoderConfig, settings: &LocalSettings, free: u64) -> Result<Self, LocalError> {
        let page = page_values(config) * CARD_VALUE_BYTES;
        let weights = config.weight_values() * CARD_VALUE_BYTES;
        let buffers = config.step_values(settings.step_rows()) * CARD_VALUE_BYTES;
        let reserve = (free / RESERVE_SHARE).clamp(*RESERVE_BYTES.start(), *RESERVE_BYTES.end());
        let left = free.saturating_sub(weights.saturating_add(buffers).saturating_add(reserve));
        let cache = settings.cache_mib.map_or(left.min(DEFAULT_PAGES_MAX * page), mebibytes);
        if cache > left || left < page {
            let least = cache.max(page);
            return Err(LocalError::CardMemory { free, weights, buffers, reserve, cache: least, left });
        }
        Ok(Self { weights, buffers, reserve, page, pages: pages(cache, page)? })
    }

    /// Tokens that the cache holds.
    pub(super) fn tokens(&self) -> usize {
        self.pages * PAGE_TOKENS
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weights, buffers, reserve, page, pages } = *self;
        let mib = |bytes: u64| bytes >> 20;
        match weights {
            0 => f.write_str("weights as mapped")?,
            _ => write!(f, "weights {} MiB", mib(weights))?,
        }
        let cache = mib(pages as u64 * page);
        let tokens = self.tokens();
        write!(f, ", buffers {} MiB, cache {cache} MiB ({pages} pages, {tokens} tokens)", mib(buffers))?;
        if reserve > 0 { write!(f, ", left free {} MiB", mib(reserve)) } else { Ok(()) }
    }
}

/// Numbers of a page over all layers.
fn page_values(config: &DecoderConfig) -> u64 {
    2 * (config.layers * config.kv_width() * PAGE_TOKENS) as u64
}

fn mebibytes(mib: usize) -> u64 {
    (mib as u64).saturating_mul(1 << 20)
}

fn pages(cache: u64, page: u64) -> Result<usize, LocalError> {
    match cache / page.max(1) {
        0 => Err(LocalError::Cache { cache_mib: (cache >> 20) as usize, page_bytes: page as usize }),
        pages => Ok(pages.min(PAGES_MAX) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_model::ModelFiles;
    use std::path::Path;

    const GIB: u64 = 1 << 30;

    fn tiny() -> DecoderConfig {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder/tiny-qwen3");
        ModelFiles::open(&folder).unwrap().decoder().unwrap().clone()
    }

    /// Qwen3-4B's shape.
    fn four_billion() -> DecoderConfig {
        let shape = DecoderConfig { hidden: 2_560, layers: 36, heads: 32, kv_heads: 8, head_dim: 128, ..tiny() };
        DecoderConfig { ffn: 9_728, vocabulary: 151_936, tied: true, ..shape }
    }

    fn on_card(settings: LocalSettings, free: u64) -> Result<MemoryPlan, String> {
        let settings = LocalSettings { device: "cuda".parse().unwrap(), ..settings };
        MemoryPlan::on_card(&four_billion(), &settings, free).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_card_has_left_becomes_the_cache() {
        let plan = on_card(LocalSettings::default(), 138 * GIB).unwrap();
        // 4,022,468,096 parameters in bf16; a page is keys and values of 36 layers, 8 heads of 128, 64 tokens.
        assert_eq!((plan.weights, plan.page), (8_044_936_192, 2 * 36 * 1_024 * 64 * 2));
        assert_eq!(plan.reserve, 4 * GIB);
        let used = plan.weights + plan.buffers + plan.reserve + plan.pages as u64 * plan.page;
        assert!((138 * GIB - plan.page..=138 * GIB).contains(&used), "{plan}");
        assert!(plan.tokens() > 800_000, "{plan}");
        let given = on_card(LocalSettings { cache_mib: Some(1_024), ..LocalSettings::default() }, 138 * GIB).unwrap();
        assert_eq!(given.pages as u64, GIB / plan.page);
        assert!(given.to_string().contains("113 pages, 7232 tokens"), "{given}");
    }

    #[test]
    fn a_small_model_leaves_most_of_a_large_card_alone() {
        let settings = LocalSettings { device: "cuda".parse().unwrap(), ..LocalSettings::default() };
        let plan = MemoryPlan::on_card(&tiny(), &settings, 138 * GIB).unwrap();
        assert_eq!(plan.pages as u64, DEFAULT_PAGES_MAX, "{plan}");
    }

    #[test]
    fn a_card_that_is_too_small_is_told_in_numbers() {
        for (free, cache_mib) in
            [(4 * GIB, None), (0, None), (138 * GIB, Some(200 << 10)), (16 * GIB, Some(usize::MAX))]
        {
            let error = on_card(LocalSettings { cache_mib, ..LocalSettings::default() }, free).unwrap_err();
            let free = format!("{} MiB free", free >> 20);
            assert!(error.contains(&free) && error.contains("weights take 7672 MiB"), "{error}");
        }
        let error = on_card(LocalSettings { cache_mib: Some(0), ..LocalSettings::default() }, 138 * GIB).unwrap_err();
        assert!(error.contains("no page"), "{error}");
    }

    #[test]
    fn on_the_processor_the_cache_is_as_large_as_the_settings_say() {
        let plan = |cache_mib| {
            let settings = LocalSettings { cache_mib, ..LocalSettings::default() };
            MemoryPlan::on_processor(&four_billion(), &settings).unwrap()
        };
        assert_eq!(plan(None), plan(Some(PROCESSOR_CACHE_MIB)));
        assert_eq!(plan(Some(1_024)).pages as u64, GIB / (2 * 36 * 1_024 * 64 * 4));
    }
}
