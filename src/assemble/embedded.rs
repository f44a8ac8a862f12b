//! Models that are part of the program, under names such as `embedded:worker`: their files are written to a folder by their digest
//! where they are opened as any other model is. How they were made stands in `assets/README.md`.
//! It refuses to know what they answer.

use super::AssembleError;
use std::path::{Path, PathBuf};

/// What a path begins with that names one of them.
const PREFIX: &str = "embedded:";

/// The name and bytes of each file.
type Files = &'static [(&'static str, &'static [u8])];

macro_rules! files {
    ($folder:literal: $($file:literal),*) => {
        &[$(($file, include_bytes!(concat!("../../assets/", $folder, "/", $file)))),*]
    };
}

/// Every model.
const MODELS: [(&str, Files); 3] = [
    (
        "worker",
        files!("worker": "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    ),
    (
        "worker-base",
        files!("worker-base": "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    ),
    (
        "embedder",
        files!("embedder": "1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json"),
    ),
];

/// Where a model is: the path itself, or for an embedded one its folder under `cache`, where it is written if it is not there.
///
/// # Errors
/// A name that no embedded model has, or a disk that does not take it.
pub fn placed(path: &Path, cache: &Path) -> Result<PathBuf, AssembleError> {
    let Some(name) = path.to_str().and_then(|path| path.strip_prefix(PREFIX)) else { return Ok(path.to_path_buf()) };
    let Some((name, files)) = MODELS.iter().find(|(known, _)| *known == name) else {
        let known = MODELS.map(|(known, _)| format!("{PREFIX}{known}")).join(", ");
        return Err(AssembleError::Setting(format!(
            "no model of this program is called `{PREFIX}{name}`; there are {known}"
        )));
    };
    let folder = cache.join(format!("{name}-{}", &digest(files)[..12]));
    if is_whole(&folder, files) {
        return Ok(folder);
    }
    write(&folder, files)?;
    Ok(folder)
}

fn digest(files: Files) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in files {
        for part in [name.as_bytes(), bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// Whether the folder holds the very bytes: whoever changed a file there would otherwise run another model under this name.
fn is_whole(folder: &Path, files: Files) -> bool {
    files.iter().all(|(name, bytes)| std::fs::read(folder.join(name)).is_ok_and(|found| found == *bytes))
}

/// Writes the folder beside its place and renames it, so that two programs at once both find it whole.
fn write(folder: &Path, files: Files) -> Result<(), AssembleError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| AssembleError::Io { path, source }
    };
    let making = folder.with_extension(format!("making-{}", std::process::id()));
    for (name, bytes) in files {
        let path = making.join(name);
        let parent = path.parent().unwrap_or(&making);
        std::fs::create_dir_all(parent).map_err(io(parent))?;
        std::fs::write(&path, bytes).map_err(io(&path))?;
    }
    if folder.exists() && !is_whole(folder, files) {
        std::fs::remove_dir_all(folder).map_err(io(folder))?;
    }
    let placed = std::fs::rename(&making, folder);
    if placed.is_err() && is_whole(folder, files) {
        // Another program was faster.
        return std::fs::remove_dir_all(&making).map_err(io(&making));
    }
    placed.map_err(io(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_model_is_written_once_mended_and_opened_like_any_other() {
        let cache = tempfile::tempdir().unwrap();
        let folder = placed(Path::new("embedded:embedder"), cache.path()).unwrap();
        let settings = legwork_model::EmbedSettings::default();
        let mut embedder = legwork_model::SentenceEmbedder::open(&folder, settings).unwrap();
        assert_eq!(embedder.embed(&["Who was the teacher?"], legwork_model::EmbedKind::Query).unwrap().len(), 1);
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        assert_eq!(placed(Path::new("embedded:embedder"), cache.path()).unwrap(), folder);
        assert!(is_whole(&folder, MODELS[2].1));
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_workers_open_and_have_a_tokenizer_and_a_template() {
        let cache = tempfile::tempdir().unwrap();
        for name in ["embedded:worker", "embedded:worker-base"] {
            let files = legwork_model::ModelFiles::open(&placed(Path::new(name), cache.path()).unwrap()).unwrap();
            assert!(files.chat_template.is_some() && files.decoder().unwrap().context >= 4096, "{name}");
        }
    }

    #[test]
    fn other_paths_stay_and_unknown_names_are_told() {
        let nowhere = Path::new("nowhere");
        assert_eq!(placed(Path::new("models/x"), nowhere).unwrap(), PathBuf::from("models/x"));
        let error = placed(Path::new("embedded:judge"), nowhere).unwrap_err().to_string();
        assert!(error.contains("embedded:worker-base"), "{error}");
    }
}
