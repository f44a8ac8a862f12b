//! A dense decoder that learns, over any backend: packed sequences forwards and back, gradients added up over packs, then one
//! update. It has the shape of `legwork_model::Decoder`, with `f32` weights, moments and gradients in place of stored ones.
//!
//! It refuses to know files, samples and the order of steps.

mod arena;
mod fit;
mod flops;
mod head;
mod layer;
mod pooled;
mod tensors;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod update;

use crate::error::TrainingError;
use crate::pack::Pack;
use crate::replicas::shared_out;
use crate::shard::{Fused, Shard};
use arena::Arena;
use fit::Limits;
pub use flops::step_flops;
use head::{Columns, head_rows};
use layer::{Found, Pass};
use legwork_kernels::{Learn, OpsError, Part, Rope};
use legwork_model::DecoderConfig;
pub use tensors::{HeadNorms, LayerTensors, Tensors};

/// How a network is to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Rows of a pack at most: the room that is made.
    pub rows_max: usize,
    /// Whether what attention gave stays of every layer until the way back, and is not computed again: the same numbers in less
    /// time and more memory, of a row and layer the width of all query heads and that of the stream.
    pub keep_attention: bool,
    /// Whether what the first products of both halves of a layer gave stays too: of a row and layer the width of all heads and twice
    /// that of the feed-forward part.
    pub keep_products: bool,
    /// Whether the rows that pad the vocabulary are in the softmax, as Megatron-LM seems to have them. They are 0 at first, so
    /// that they change the loss a little, and the more the smaller the vocabulary.
    pub softmax_over_padding: bool,
}

/// A rank's part of a decoder with its gradients and moments, and the rows of a pass.
pub struct Network<B: Learn> {
    ops: B,
    config: DecoderConfig,
    shard: Shard,
    rope: Rope,
    layout: Tensors<Fused>,
    params: Tensors<B::Param>,
    /// The replica that each tensor belongs to, in the layout's order: it alone has its moments, and updates it.
    owners: Vec<usize>,
    arena: Arena<B>,
    limits: Limits,
    columns: Columns,
}

impl<B: Learn> Network<B> {
    /// Makes a network of this rank's values, which `values` gives for each tensor; moments and gradients are 0.
    ///
    /// # Errors
    /// A group that does not divide the model, values that are not there, or too little memory.
    pub fn new(
        ops: B,
        config: &DecoderConfig,
        settings: NetworkSettings,
        mut values: impl FnMut(&Shard, &Fused) -> Result<Vec<f32>, TrainingError>,
    ) -> Result<Self, TrainingError> {
        if settings.rows_max == 0 {
            let expected = "a number from 1".to_owned();
            return Err(TrainingError::Setting { setting: "rows of a pack", expected, got: "0".to_owned() });
        }
        let shard = Shard::new(config, ops.rank(), ops.ranks())?;
        let layout = Tensors::of(config, shard.padded_vocabulary());
        let params = layout
            .map(|fused| -> Result<_, TrainingError> { Ok(ops.param(shard.shape(fused), &values(&shard, fused)?)?) })?;
        let sizes: Vec<u64> = layout.each().map(|fused| shard.shape(fused).iter().product::<usize>() as u64).collect();
        let owners = shared_out(&sizes, ops.replicas());
        let counted = if settings.softmax_over_padding { shard.padded_vocabulary() } else { config.vocabulary };
        let columns =
            Columns { first: shard.ids().start as u32, counted, rows: head_rows(shard.ids().len(), ops.logits_max()) };
        Ok(Self {
            arena: Arena::new(&ops, config, &shard, columns, settings)?,
            rope: config.rotation(),
            limits: Limits { rows_max: settings.rows_max, context: config.context, vocabulary: config.vocabulary },
            columns,
            config: config.clone(),
            ops,
            shard,
            layout,
            params,
            owners,
        })
    }

    /// The model's shape, of which this may be a part.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Its part.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Its learned tensors.
    pub fn layout(&self) -> &Tensors<Fused> {
        &self.layout
    }

    /// This replica of the network, and how many there are.
    pub fn replica(&self) -> (usize, usize) {
        (self.ops.replica(), self.ops.replicas())
    }

    /// What computes.
    pub fn ops(&self) -> &B {
        &self.ops
    }

    /// Sums a number over all replicas.
    ///
    /// # Errors
    /// A device or a peer that failed.
    pub fn sum_over_replicas(&self, value: f64) -> Result<f64, TrainingError> {
        let mut values = [value];
        self.ops.sum_over_replicas(&mut values)?;
        Ok(values[0])
    }

    /// Finds what cannot be computed of a pack.
    ///
    /// # Errors
    /// [`TrainingError::Setting`].
    pub fn check(&self, pack: &Pack) -> Result<(), TrainingError> {
        self.limits.check(pack)
    }

    /// The sum of `weight * nll` of a pack; nothing changes.
    ///
    /// # Errors
    /// A pack that does not fit, a device that failed, or a peer that left.
    pub fn loss(&mut self, pack: &Pack) -> Result<f64, TrainingError> {
        self.check(pack)?;
        if pack.rows.is_empty() {
            return Ok(0.0);
        }
        let Self { ops, params, arena, columns, .. } = self;
        let pass =
            Pass { ops: &*ops, heads: self.shard.heads(), rope: &self.rope, eps: self.config.rms_eps as f32, pack };
        pass.stream(params, columns.first, arena)?;
        pass.loss(params.head.as_ref().unwrap_or(&params.embedding), *columns, &mut arena.work)?;
        Ok(pass.weighted_loss(&mut arena.work)?)
    }

    /// The sum of `weight * nll` of a pack, whose gradient is added to those that are there.
    ///
    /// # Errors
    /// As [`Network::loss`]; the gradients are then of no use.
    pub fn learn(&mut self, pack: &Pack) -> Result<f64, TrainingError> {
        self.check(pack)?;
        if pack.rows.is_empty() {
            return Ok(0.0);
        }
        let Self { ops, params, arena, columns, .. } = self;
        let pass =
            Pass { ops: &*ops, heads: self.shard.heads(), rope: &self.rope, eps: self.config.rms_eps as f32, pack };
        pass.stream(params, columns.first, arena)?;
        let head = params.head.as_mut().unwrap_or(&mut params.embedding);
        pass.loss_backward(head, *columns, &mut arena.work)?;
        pass.back(params, columns.first, arena)?;
        Ok(pass.weighted_loss(&mut arena.work)?)
    }

    /// Shows a part of every tensor on this rank, in the layout's order.
    ///
    /// # Errors
    /// A device that failed, or what `show` returns.
    pub fn read(
        &self,
        part: Part,
        mut show: impl FnMut(&Fused, [usize; 2], &[f32]) -> Result<(), TrainingError>,
    ) -> Result<(), TrainingError> {
        let mut values = Vec::new();
        for (fused, param) in self.layout.each().zip(self.params.each()) {
            self.ops.read_param(param, part, &mut values)?;
            show(fused, self.ops.param_shape(param), &values)?;
        }
        Ok(())
    }

    /// As [`Network::read`], of each tensor from the replica that it belongs to. All replicas call it; the first is shown
    /// everything, also after an error of `show`, which comes back last: others wait for this one meanwhile.
    ///
    /// # Errors
    /// A device or a peer that failed, or the first that `show` returns.
    pub fn gather(
        &mut self,
        part: Part,
        mut show: impl FnMut(&Fused, [usize; 2], &[f32]) -> Result<(), TrainingError>,
    ) -> Result<(), TrainingError> {
        let (mut values, mut shown) = (Vec::new(), Ok(()));
        let is_first = self.ops.replica() == 0;
        for ((fused, param), owner) in self.layout.each().zip(self.params.each_mut()).zip(&self.owners) {
            self.ops.read_owned(param, part, *owner, &mut values)?;
            if is_first && shown.is_ok() {
                shown = show(fused, self.ops.param_shape(param), &values);
            }
        }
        shown
    }

    /// Overwrites a part of every tensor on this rank, in the layout's order; of moments those that belong to this replica.
    ///
    /// # Errors
    /// A device that failed, or what `values` returns.
    pub fn write(
        &mut self,
        part: Part,
        mut values: impl FnMut(&Shard, &Fused) -> Result<Vec<f32>, TrainingError>,
    ) -> Result<(), TrainingError> {
        let replica = self.ops.replica();
        let is_mine = |owner: usize| owner == replica || !matches!(part, Part::FirstMoment | Part::SecondMoment);
        for ((fused, param), owner) in self.layout.each().zip(self.params.each_mut()).zip(&self.owners) {
            if is_mine(*owner) {
                self.ops.write_param(param, part, &values(&self.shard, fused)?)?;
            }
        }
        Ok(())
    }
}

impl<B: Learn> Pass<'_, B> {
    /// The way back through norm, layers and embedding, from the gradient of the normed rows, which is in `branch`.
    fn back(&self, params: &mut Tensors<B::Param>, first: u32, arena: &mut Arena<B>) -> Result<(), OpsError> {
        let Arena { streams, kept, products, work } = arena;
        let (last, inputs) = streams.split_last().expect("an arena has one stream more than layers");
        self.ops.zero(&mut work.d_stream, self.pack.ids.len())?;
        self.ops.norm_backward(last, &mut params.norm, self.eps, &work.branch, &mut work.d_stream)?;
        let (last_kept, last_products, last_layer) =
            (kept.len() - 1, products.len() - 1, inputs.len().saturating_sub(1));
        for (number, (layer, input)) in params.layers.iter_mut().zip(inputs).enumerate().rev() {
            let found = Found { attention: last_kept == last_layer, products: last_products == last_layer };
            let (kept, products) = (&mut kept[number.min(last_kept)], &mut products[number.min(last_products)]);
            self.backward(layer, input, (kept, products, found), work)?;
        }
        self.ops.embed_backward(&mut params.embedding, first, &self.pack.ids, &work.d_stream)
    }

    /// Embedding and all layers; their inputs stay in `streams`, and `normed` becomes the final norm.
    fn stream(&self, params: &Tensors<B::Param>, first: u32, arena: &mut Arena<B>) -> Result<(), OpsError> {
        let Arena { streams, kept, products, work } = arena;
        let embedded = &mut streams[0];
        self.ops.embed_forward(&params.embedding, first, &self.pack.ids, embedded)?;
        self.sum(embedded)?;
        for (i, layer) in params.layers.iter().enumerate() {
            let (before, after) = streams.split_at_mut(i + 1);
            let (last_kept, last_products) = (kept.len() - 1, products.len() - 1);
            let of_layer = (&mut kept[i.min(last_kept)], &mut products[i.min(last_products)]);
            self.forward(layer, &before[i], of_layer, work, &mut after[0])?;
        }
        self.ops.norm_forward(&streams[params.layers.len()], &params.norm, self.eps, &mut work.normed)
    }
}
