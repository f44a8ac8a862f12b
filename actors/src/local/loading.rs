//! Loads a model's weights to where it computes: to the processor, to a card, or cut over several, each rank on a thread of its
//! own. It refuses to know the engine.

use super::device::{Place, Site};
use super::memory::MemoryPlan;
use super::opening::{self, LocalError, LocalSettings};
#[cfg(feature = "cuda")]
use legwork_kernels::cuda::{GroupName, Nvidia, Seat};
use legwork_kernels::{Cpu, Group, Member, Ops, OpsError};
use legwork_model::{Decoder, DecoderConfig, DecoderSettings, Forward, MakeRank, ModelError, ModelFiles, Ranks, Share};
use std::path::{Path, PathBuf};

/// By what cards of one group find each other, where there are none.
#[cfg(not(feature = "cuda"))]
type GroupName = std::convert::Infallible;

/// Loads a model's weights to where it computes, in this process.
pub(super) fn model(path: &Path, settings: &LocalSettings, site: &Site) -> Result<Box<dyn Forward + Send>, LocalError> {
    let config = ModelFiles::open(path)?.decoder()?.clone();
    let loading = Loading { path, settings, site, config: &config };
    match site.0[..] {
        [Place::Processor] => {
            let laid_out = loading.laid_out(&MemoryPlan::on_processor(&config, settings)?);
            Ok(Box::new(decoder(path, Cpu::new(), laid_out, Share::default())?))
        }
        [Place::Card(number)] => loading.on_card(number),
        _ => loading.cut(),
    }
}

/// A decoder, or a rank's part of it.
fn decoder<B: Ops>(path: &Path, ops: B, laid_out: DecoderSettings, share: Share) -> Result<Decoder<B>, ModelError> {
    let mut files = ModelFiles::open(path)?;
    let config = files.decoder()?.clone();
    Decoder::load_share(ops, &config, &mut files.weights, laid_out, share)
}

/// What is loaded, and where to.
struct Loading<'a> {
    path: &'a Path,
    settings: &'a LocalSettings,
    site: &'a Site,
    config: &'a DecoderConfig,
}

impl Loading<'_> {
    /// A model of several ranks, each made on the thread where it stays.
    fn cut(&self) -> Result<Box<dyn Forward + Send>, LocalError> {
        let places = &self.site.0;
        // What each rank holds: the same of all.
        let share = Share { rank: 0, ranks: places.len() }.config(self.config)?;
        let plan = match places[..] {
            [Place::Card(_), ..] => MemoryPlan::on_card(&share, self.settings, self.least_free()?)?,
            _ => MemoryPlan::on_processor(&share, self.settings)?,
        };
        let laid_out = self.laid_out(&plan);
        let name = group_name(places)?;
        let maker = |(place, member): (&Place, Member)| -> MakeRank {
            let (path, kernels) = (self.path.to_path_buf(), self.settings.kernels.clone());
            let share = Share { rank: member.rank(), ranks: member.ranks() };
            match *place {
                Place::Processor => {
                    Box::new(move || Ok(Box::new(decoder(&path, Cpu::new().with_member(member), laid_out, share)?)))
                }
                Place::Card(number) => {
                    Box::new(move || rank_on_card(&path, number, kernels, (name, member), laid_out, share))
                }
            }
        };
        Ok(Box::new(Ranks::start(places.iter().zip(Group::of(places.len())).map(maker).collect())?))
    }

    /// Says where the memory goes, and gives what the decoder is told of it.
    fn laid_out(&self, plan: &MemoryPlan) -> DecoderSettings {
        let (model, device, ranks) = (opening::name_of(self.path), self.site, self.site.0.len());
        tracing::info!(%model, %device, ranks, %plan, "a model is loaded");
        let context = self.config.context.min(self.settings.context);
        if plan.tokens() < context {
            let tokens = plan.tokens();
            tracing::warn!(%model, %device, context, tokens, "the cache holds less than one whole context");
        }
        DecoderSettings { pages: plan.pages, rows_max: self.settings.step_rows(), context_max: self.settings.context }
    }
}

#[cfg(feature = "cuda")]
impl Loading<'_> {
    fn on_card(&self, number: usize) -> Result<Box<dyn Forward + Send>, LocalError> {
        let card = legwork_kernels::Cuda::open(number, self.settings.kernels.clone()).map_err(ModelError::from)?;
        let (free, _) = card.driver().memory().map_err(of_card)?;
        let laid_out = self.laid_out(&MemoryPlan::on_card(self.config, self.settings, free as u64)?);
        Ok(Box::new(decoder(self.path, card, laid_out, Share::default())?))
    }

    /// Bytes that are free on the fullest of its cards: the cache of every rank has as many pages.
    fn least_free(&self) -> Result<u64, LocalError> {
        let mut least = u64::MAX;
        for place in &self.site.0 {
            if let Place::Card(number) = *place {
                let card = Nvidia::open(number, self.settings.kernels.clone()).map_err(of_card)?;
                least = least.min(card.memory().map_err(of_card)?.0 as u64);
            }
        }
        Ok(least)
    }
}

#[cfg(feature = "cuda")]
fn rank_on_card(
    path: &Path,
    number: usize,
    kernels: Option<PathBuf>,
    (name, member): (Option<GroupName>, Member),
    laid_out: DecoderSettings,
    share: Share,
) -> Result<Box<dyn Forward>, ModelError> {
    let name = name.ok_or_else(|| OpsError::Device("a group of cards has no name".to_owned()))?;
    let seat = Seat { name, rank: share.rank, ranks: share.ranks, meeting: Some(member) };
    Ok(Box::new(decoder(path, legwork_kernels::Cuda::open_rank(number, kernels, seat)?, laid_out, share)?))
}

/// A new name for a group of cards; the processor needs none.
#[cfg(feature = "cuda")]
fn group_name(places: &[Place]) -> Result<Option<GroupName>, LocalError> {
    matches!(places, [Place::Card(_), ..]).then(GroupName::new).transpose().map_err(of_card)
}

#[cfg(feature = "cuda")]
fn of_card(error: legwork_kernels::cuda::CardError) -> LocalError {
    ModelError::from(OpsError::from(error)).into()
}

#[cfg(not(feature = "cuda"))]
impl Loading<'_> {
    fn on_card(&self, _number: usize) -> Result<Box<dyn Forward + Send>, LocalError> {
        Err(LocalError::BuiltWithoutCards { device: self.settings.device.clone() })
    }

    fn least_free(&self) -> Result<u64, LocalError> {
        Err(LocalError::BuiltWithoutCards { device: self.settings.device.clone() })
    }
}

#[cfg(not(feature = "cuda"))]
fn rank_on_card(
    _path: &Path,
    _number: usize,
    _kernels: Option<PathBuf>,
    _seat: (Option<GroupName>, Member),
    _laid_out: DecoderSettings,
    _share: Share,
) -> Result<Box<dyn Forward>, ModelError> {
    Err(OpsError::Device("this program was built without cards".to_owned()).into())
}

#[cfg(not(feature = "cuda"))]
#[allow(clippy::unnecessary_wraps, reason = "as with cards")]
fn group_name(_places: &[Place]) -> Result<Option<GroupName>, LocalError> {
    Ok(None)
}

/// Cards of NVIDIA here; none where the program was built without them.
pub(crate) fn cards() -> Option<usize> {
    #[cfg(feature = "cuda")]
    let cards = Some(legwork_kernels::cuda::Nvidia::count());
    #[cfg(not(feature = "cuda"))]
    let cards = None;
    cards
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_kernels::Batch;

    /// Logits of ranks may differ by rounding: their sums have another order.
    const APART_MAX: f32 = 1e-4;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder/tiny-qwen3")
    }

    fn on_processors(ranks: usize, cache_mib: usize) -> Result<Box<dyn Forward + Send>, LocalError> {
        let settings = LocalSettings { cache_mib: Some(cache_mib), ..LocalSettings::default() };
        model(&golden(), &settings, &Site(vec![Place::Processor; ranks]))
    }

    #[test]
    fn a_model_cut_over_two_places_says_what_it_says_whole_and_its_cache_holds_twice_as_much() {
        let (mut whole, mut cut) = (on_processors(1, 8).unwrap(), on_processors(2, 8).unwrap());
        assert_eq!(cut.limits().pages, 2 * whole.limits().pages);
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for (tokens, past) in [(3..60, 0), (7..8, 57), (9..10, 58)] {
            let mut batch = Batch::default();
            batch.push(&tokens.collect::<Vec<u32>>(), past, &[1], true);
            whole.forward(&batch, &mut expected).unwrap();
            cut.forward(&batch, &mut got).unwrap();
            let apart = expected.iter().zip(&got).map(|(one, two)| (one - two).abs()).fold(0.0, f32::max);
            assert!(!expected.is_empty() && expected.len() == got.len() && apart < APART_MAX, "{apart}");
        }
    }

    #[test]
    fn a_model_that_cannot_be_cut_so_is_refused_before_memory_is_laid_out() {
        let error = on_processors(7, 8).err().unwrap().to_string();
        assert!(error.contains("divides") && error.contains("of 7"), "{error}");
    }
}
