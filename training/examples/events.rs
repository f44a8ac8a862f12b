//! Writes an event file into a folder, for a look by TensorBoard's own reader: `goldens/make_tensorboard_goldens.py read`.
//!
//!     cargo run -p legwork-training --example events -- FOLDER

use legwork_training::tensorboard::EventWriter;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("expected a folder")?;
    let mut writer = EventWriter::create(Path::new(&folder), 1_700_000_000.5, "example")?;
    for step in 1..=3 {
        let scalars = [("train/loss", 1.0 / step as f32), ("train/learning_rate", 1e-6 * step as f32)];
        writer.scalars(step, 1_700_000_000.0 + step as f64, &scalars)?;
    }
    Ok(())
}
