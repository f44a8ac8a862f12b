//! The learned tensors of a decoder, generic over what stands for one: its description, a backend's parameter. Tensors with the
//! same inputs are one: queries, keys and values, and gate and up.
//! It refuses to know ranks and numbers.

use crate::shard::{Cut, Fused, Piece};
use legwork_model::{DecoderConfig, tensor_names};

/// Those of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensors<T> {
    /// The embedding, and the head where the model ties them.
    pub embedding: T,
    /// Layer by layer.
    pub layers: Vec<LayerTensors<T>>,
    /// The final norm.
    pub norm: T,
    /// A head of its own.
    pub head: Option<T>,
}

/// Those of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTensors<T> {
    /// The norm before attention.
    pub attention_norm: T,
    /// Queries, keys and values.
    pub qkv: T,
    /// Their biases.
    pub qkv_bias: Option<T>,
    /// The norms of query heads and key heads.
    pub head_norms: Option<HeadNorms<T>>,
    /// Attention's way out.
    pub output: T,
    /// Its bias.
    pub output_bias: Option<T>,
    /// The norm before the feed-forward part.
    pub mlp_norm: T,
    /// Gate and up.
    pub gate_up: T,
    /// Their biases.
    pub gate_up_bias: Option<T>,
    /// The feed-forward part's way out.
    pub down: T,
    /// Its bias.
    pub down_bias: Option<T>,
}

/// The norms of heads.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadNorms<T> {
    /// Of query heads.
    pub query: T,
    /// Of key heads.
    pub key: T,
}

impl Tensors<Fused> {
    /// Those of a model, with so many rows of embedding and head.
    pub fn of(config: &DecoderConfig, padded_vocabulary: usize) -> Self {
        let vocabulary = |name: &str| Fused {
            is_vocabulary: true,
            ..matrix(name, Cut::Outputs, config.hidden, &[(name, padded_vocabulary)])
        };
        Self {
            embedding: vocabulary(tensor_names::EMBEDDING),
            layers: (0..config.layers).map(|layer| LayerTensors::of(config, layer)).collect(),
            norm: vector(tensor_names::NORM, Cut::Copied, &[(tensor_names::NORM, config.hidden)]),
            head: (!config.tied).then(|| vocabulary(tensor_names::HEAD)),
        }
    }
}

impl LayerTensors<Fused> {
    fn of(config: &DecoderConfig, layer: usize) -> Self {
        let (hidden, ffn, dim) = (config.hidden, config.ffn, config.head_dim);
        let of_layer = |name: &str| format!("model.layers.{layer}.{name}");
        let norm = |name: &str, cut, size| {
            let name = of_layer(name);
            vector(&name, cut, &[(&name, size)])
        };
        let project = |name: &str, cut, inputs, parts: &[(&str, usize)]| {
            let parts: Vec<(String, usize)> =
                parts.iter().map(|(part, size)| (of_layer(&format!("{part}.weight")), *size)).collect();
            matrix(&of_layer(&format!("{name}.weight")), cut, inputs, &parts)
        };
        let bias = |there: bool, name: &str, cut, parts: &[(&str, usize)]| {
            let parts: Vec<(String, usize)> =
                parts.iter().map(|(part, size)| (of_layer(&format!("{part}.bias")), *size)).collect();
            there.then(|| vector(&of_layer(&format!("{name}.bias")), cut, &parts))
        };
        let (q, kv) = (config.q_width(), config.kv_width());
        let qkv = [("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)];
        let gate_up = [("mlp.gate_proj", ffn), ("mlp.up_proj", ffn)];
        let (output, down) = ([("self_attn.o_proj", hidden)], [("mlp.down_proj", hidden)]);
        Self {
            attention_norm: norm("input_layernorm.weight", Cut::Copied, hidden),
            qkv: project("self_attn.qkv_proj", Cut::Outputs, hidden, &qkv),
            qkv_bias: bias(config.qkv_bias, "self_attn.qkv_proj", Cut::Outputs, &qkv),
            head_norms: config.qk_norm.then(|| HeadNorms {
                query: norm("self_attn.q_norm.weight", Cut::Summed, dim),
                key: norm("self_attn.k_norm.weight", Cut::Summed, dim),
            }),
            output: project("self_attn.o_proj", Cut::Inputs, q, &output),
            output_bias: bias(config.output_bias, "self_attn.o_proj", Cut::Copied, &output),
            mlp_norm: norm("post_attention_layernorm.weight", Cut::Copied, hidden),
            gate_up: project("mlp.gate_up_proj", Cut::Outputs, hidden, &gate_up),
            gate_up_bias: bias(config.mlp_bias, "mlp.gate_up_proj", Cut::Outputs, &gate_up),
            down: project("mlp.down_proj", Cut::Inputs, ffn, &down),
            down_bias: bias(config.mlp_bias, "mlp.down_proj", Cut::Copied, &down),
        }
    }
}

fn matrix(name: &str, cut: Cut, inputs: usize, parts: &[(impl AsRef<str>, usize)]) -> Fused {
    let piece =
        |(name, outputs): &(_, usize)| Piece { name: AsRef::<str>::as_ref(name).to_owned(), shape: [*outputs, inputs] };
    let pieces = parts.iter().map(piece).collect();
    Fused { name: name.to_owned(), pieces, cut, is_vector: false, is_vocabulary: false }
}

fn vector(name: &str, cut: Cut, parts: &[(impl AsRef<str>, usize)]) -> Fused {
    let piece = |(name, size): &(_, usize)| Piece { name: AsRef::<str>::as_ref(name).to_owned(), shape: [1, *size] };
    let pieces = parts.iter().map(piece).collect();
    Fused { name: name.to_owned(), pieces, cut, is_vector: true, is_vocabulary: false }
}

impl<T> Tensors<T> {
    /// All of them, in the order in which everything goes through them.
    pub fn each(&self) -> impl Iterator<Item = &T> {
        let layers = self.layers.iter().flat_map(LayerTensors::each);
        [&self.embedding].into_iter().chain(layers).chain([&self.norm]).chain(self.head.as_ref())
    }

    /// As [`Tensors::each`].
    pub fn each_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let layers = self.layers.iter_mut().flat_map(LayerTensors::each_mut);
        [&mut self.embedding].into_iter().chain(layers).chain([&mut self.norm]).chain(self.head.as_mut())
    }

    /// Makes something of each, in their order.
    ///
    /// # Errors
    /// The first that fails.
    pub fn map<U, E>(&self, mut make: impl FnMut(&T) -> Result<U, E>) -> Result<Tensors<U>, E> {
        Ok(Tensors {
            embedding: make(&self.embedding)?,
            layers: self.layers.iter().map(|layer| layer.map(&mut make)).collect::<Result<_, E>>()?,
            norm: make(&self.norm)?,
            head: self.head.as_ref().map(&mut make).transpose()?,
        })
    }
}

impl<T> LayerTensors<T> {
    fn each(&self) -> impl Iterator<Item = &T> {
        let norms = self.head_norms.as_ref();
        [
            Some(&self.attention_norm),
            Some(&self.qkv),
            self.qkv_bias.as_ref(),
            norms.map(|norms| &norms.query),
            norms.map(|norms| &norms.key),
            Some(&self.output),
            self.output_bias.as_ref(),
            Some(&self.mlp_norm),
            Some(&self.gate_up),
            self.gate_up_bias.as_ref(),
            Some(&self.down),
            self.down_bias.as_ref(),
        ]
        .into_iter()
        .flatten()
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let (query, key) = match &mut self.head_norms {
            Some(norms) => (Some(&mut norms.query), Some(&mut norms.key)),
            None => (None, None),
        };
        [
            Some(&mut self.attention_norm),
            Some(&mut self.qkv),
            self.qkv_bias.as_mut(),
            query,
            key,
            Some(&mut self.output),
            self.output_bias.as_mut(),
            Some(&mut self.mlp_norm),
            Some(&mut self.gate_up),
            self.gate_up_bias.as_mut(),
            Some(&mut self.down),
            self.down_bias.as_mut(),
        ]
        .into_iter()
        .flatten()
    }

    fn map<U, E>(&self, make: &mut impl FnMut(&T) -> Result<U, E>) -> Result<LayerTensors<U>, E> {
        Ok(LayerTensors {
            attention_norm: make(&self.attention_norm)?,
            qkv: make(&self.qkv)?,
            qkv_bias: self.qkv_bias.as_ref().map(&mut *make).transpose()?,
            head_norms: match &self.head_norms {
                Some(norms) => Some(HeadNorms { query: make(&norms.query)?, key: make(&norms.key)? }),
                None => None,
            },
            output: make(&self.output)?,
            output_bias: self.output_bias.as_ref().map(&mut *make).transpose()?,
            mlp_norm: make(&self.mlp_norm)?,
            gate_up: make(&self.gate_up)?,
            gate_up_bias: self.gate_up_bias.as_ref().map(&mut *make).transpose()?,
            down: make(&self.down)?,
            down_bias: self.down_bias.as_ref().map(&mut *make).transpose()?,
        })
    }
}
