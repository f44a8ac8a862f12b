//! The same decoder written with candle's tensors in `f64`, sequence by sequence, from its description alone: its autograd and
//! its values are what gradients are compared with.
//! It refuses to know packs' padding and how this house computes.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use legwork_model::DecoderConfig;
use legwork_training::pack::Pack;
use legwork_training::tensor::NamedTensor;
use std::collections::BTreeMap;

pub(crate) struct Reference {
    config: DecoderConfig,
    pub(crate) vars: BTreeMap<String, Var>,
}

impl Reference {
    pub(crate) fn new(config: &DecoderConfig, tensors: &[NamedTensor]) -> Self {
        let var = |tensor: &NamedTensor| {
            let values: Vec<f64> = tensor.values.iter().map(|value| f64::from(*value)).collect();
            let shape = if tensor.is_vector { vec![tensor.shape[1]] } else { tensor.shape.to_vec() };
            (tensor.name.clone(), Var::from_vec(values, shape, &Device::Cpu).unwrap())
        };
        Self { config: config.clone(), vars: tensors.iter().map(var).collect() }
    }

    /// The sum of `weight * nll` over packs.
    pub(crate) fn loss(&self, packs: &[Pack]) -> Result<Tensor> {
        let mut loss = Tensor::zeros((), DType::F64, &Device::Cpu)?;
        for pack in packs {
            for sequence in pack.starts.windows(2) {
                let rows: Vec<usize> =
                    (0..pack.rows.len()).filter(|at| (sequence[0]..sequence[1]).contains(&pack.rows[*at])).collect();
                if rows.is_empty() {
                    continue;
                }
                let logits = self.logits(&pack.ids[sequence[0] as usize..sequence[1] as usize])?;
                let of = |values: Vec<u32>| Tensor::from_vec(values, rows.len(), &Device::Cpu);
                let logits =
                    logits.index_select(&of(rows.iter().map(|at| pack.rows[*at] - sequence[0]).collect())?, 0)?;
                let targets = of(rows.iter().map(|at| pack.targets[*at]).collect())?.unsqueeze(1)?;
                let weights: Vec<f64> = rows.iter().map(|at| f64::from(pack.weights[*at])).collect();
                let largest = logits.max_keepdim(1)?.detach();
                let sums = logits.broadcast_sub(&largest)?.exp()?.sum_keepdim(1)?.log()?;
                let nll = ((sums + largest)? - logits.gather(&targets, 1)?)?.squeeze(1)?;
                loss = (loss + (nll * Tensor::from_vec(weights, rows.len(), &Device::Cpu)?)?.sum_all()?)?;
            }
        }
        Ok(loss)
    }

    fn logits(&self, ids: &[u32]) -> Result<Tensor> {
        let ids = Tensor::new(ids, &Device::Cpu)?;
        let embedding = self.vars["model.embed_tokens.weight"].as_tensor();
        let mut stream = embedding.index_select(&ids, 0)?;
        for layer in 0..self.config.layers {
            let of = |name: &str| format!("model.layers.{layer}.{name}");
            let normed = self.norm(&stream, &of("input_layernorm.weight"))?;
            let attended = self.attention(&normed, &of("self_attn"))?;
            stream = (stream + attended)?;
            let normed = self.norm(&stream, &of("post_attention_layernorm.weight"))?;
            let gate = self.linear(&normed, &of("mlp.gate_proj"))?;
            let up = self.linear(&normed, &of("mlp.up_proj"))?;
            let activated = ((&gate / (gate.neg()?.exp()? + 1.0)?)? * up)?;
            stream = (stream + self.linear(&activated, &of("mlp.down_proj"))?)?;
        }
        let head = self.vars.get("lm_head.weight").map_or(embedding, |head| head.as_tensor());
        self.norm(&stream, "model.norm.weight")?.matmul(&head.t()?)
    }

    fn attention(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let config = &self.config;
        let rows = x.dim(0)?;
        let heads = |part: &str, count: usize| {
            self.linear(x, &format!("{name}.{part}"))?.reshape((rows, count, config.head_dim))?.transpose(0, 1)
        };
        let (mut q, mut k) = (heads("q_proj", config.heads)?, heads("k_proj", config.kv_heads)?);
        let v = heads("v_proj", config.kv_heads)?;
        if config.qk_norm {
            q = self.norm(&q, &format!("{name}.q_norm.weight"))?;
            k = self.norm(&k, &format!("{name}.k_norm.weight"))?;
        }
        let repeated = |x: Tensor| {
            let group = config.heads / config.kv_heads;
            let kept = (config.kv_heads, group, rows, config.head_dim);
            x.unsqueeze(1)?.broadcast_as(kept)?.reshape((config.heads, rows, config.head_dim))
        };
        let (q, k, v) = (self.rotate(&q)?, repeated(self.rotate(&k)?)?, repeated(v)?);
        let scores = (q.contiguous()?.matmul(&k.transpose(1, 2)?.contiguous()?)? / (config.head_dim as f64).sqrt())?;
        let mask: Vec<f64> =
            (0..rows * rows).map(|at| if at % rows > at / rows { f64::NEG_INFINITY } else { 0.0 }).collect();
        let scores = scores.broadcast_add(&Tensor::from_vec(mask, (rows, rows), &Device::Cpu)?)?;
        let exp = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
        let shares = exp.broadcast_div(&exp.sum_keepdim(D::Minus1)?)?;
        let attended = shares.matmul(&v.contiguous()?)?.transpose(0, 1)?.reshape((rows, config.q_width()))?;
        self.linear(&attended, &format!("{name}.o_proj"))
    }

    /// Turns pairs of `[heads, rows, dim]` by their rows' positions.
    fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        let (heads, rows, dim) = x.dims3()?;
        let rope = self.config.rotation();
        let angle = |at: usize| f64::from((at / (dim / 2)) as f32 * rope.frequencies[at % (dim / 2)]);
        let table = |of: fn(f64) -> f64| {
            let values: Vec<f64> = (0..rows * dim / 2).map(|at| of(angle(at)) * f64::from(rope.scale)).collect();
            Tensor::from_vec(values, (1, rows, dim / 2), &Device::Cpu)
        };
        let (cos, sin) = (table(f64::cos)?, table(f64::sin)?);
        let (first, second) = if rope.interleaved {
            let pairs = x.reshape((heads, rows, dim / 2, 2))?;
            (pairs.narrow(3, 0, 1)?.squeeze(3)?, pairs.narrow(3, 1, 1)?.squeeze(3)?)
        } else {
            (x.narrow(2, 0, dim / 2)?, x.narrow(2, dim / 2, dim / 2)?)
        };
        let turned = (first.broadcast_mul(&cos)? - second.broadcast_mul(&sin)?)?;
        let other = (second.broadcast_mul(&cos)? + first.broadcast_mul(&sin)?)?;
        if rope.interleaved {
            Tensor::stack(&[turned, other], 3)?.reshape((heads, rows, dim))
        } else {
            Tensor::cat(&[turned, other], 2)
        }
    }

    fn norm(&self, x: &Tensor, weight: &str) -> Result<Tensor> {
        let mean = (x.sqr()?.mean_keepdim(D::Minus1)? + self.config.rms_eps)?;
        x.broadcast_div(&mean.sqrt()?)?.broadcast_mul(&self.vars[weight])
    }

    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let product = x.matmul(&self.vars[&format!("{name}.weight")].t()?)?;
        match self.vars.get(&format!("{name}.bias")) {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}
