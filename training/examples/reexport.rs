//! Exports a model's folder again, as if its tensors came from a checkpoint with padded rows; for a look at what is written by
//! other programs, such as `goldens/make_export_goldens.py check`.
//!
//!     cargo run -p legwork-training --example reexport -- MODEL OUT float32 128

use legwork_model::{ModelFiles, Weights};
use legwork_training::TrainingError;
use legwork_training::export::{Export, NumberKind, SHARD_BYTES_MAX, Source, Wanted, wanted};
use legwork_training::tensor::NamedTensor;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, out, kind, padding] = arguments.as_slice() else {
        return Err("expected a model's folder, a folder to make, a kind of number and rows of padding".into());
    };
    let (model, padding) = (Path::new(model), padding.parse::<usize>()?);
    let config = ModelFiles::open(model)?.decoder()?.clone();
    let mut weights = Weights::open_safetensors(model)?;
    let tensors = wanted(&config).into_iter().map(|wanted: Wanted| -> Result<NamedTensor, TrainingError> {
        let mut values = weights.take(&wanted.name, wanted.shape)?.to_f32();
        let rows = wanted.shape[0] + if wanted.of_vocabulary { padding } else { 0 };
        values.resize(rows * wanted.shape[1], 0.5);
        Ok(NamedTensor { name: wanted.name, shape: [rows, wanted.shape[1]], is_vector: wanted.is_vector, values })
    });
    let export = Export {
        original: model,
        out: Path::new(out),
        kind: NumberKind::named(kind),
        shard_bytes_max: SHARD_BYTES_MAX,
        source: Source { checkpoint: model.display().to_string(), ..Source::default() },
        run: serde_json::Value::Null,
    };
    export.write(tensors)?;
    Ok(())
}
