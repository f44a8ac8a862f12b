//! Vectors of an index's documents, by an embedder: a piece of the documents at a time, from where an earlier call left off.
//! It refuses to know which index and which embedder.

use super::AssembleError;
use legwork_endpoints::Embedder;
use legwork_retrieval::Index;

/// Documents embedded as one piece.
const PIECE: usize = 256;
/// Characters of a document that are embedded: an embedder cuts what is over its own length, and more would only
/// travel.
const DOCUMENT_CHARS_MAX: usize = 32_768;

/// What vectors of an embedder are called in an index's manifest.
pub(crate) fn vectors_source(source: &str, prefix: &str) -> String {
    format!("{source} prefix {prefix:?}")
}

/// Gives an index vectors; `done` is told how many documents have theirs.
///
/// # Errors
/// An embedder that fails or gives nothing, or an index that cannot be written.
pub(crate) async fn embed(
    index: &mut Index,
    embedder: &dyn Embedder,
    source: &str,
    prefix: &str,
    done: &mut dyn FnMut(u64),
) -> Result<(), AssembleError> {
    let probe = embedder.embed(vec!["a probe of the dimension".to_owned()]).await?;
    let dim = probe.first().map(Vec::len);
    let dim = dim.ok_or_else(|| AssembleError::Setting("the embedder gave no vector; use another one".to_owned()))?;
    let mut writer = index.vector_writer(&vectors_source(source, prefix), dim)?;
    while let Some(next) = writer.next_number() {
        done(u64::from(next));
        let end = (next as usize + PIECE).min(index.len());
        let mut texts = Vec::with_capacity(PIECE);
        for number in next..u32::try_from(end).unwrap_or(u32::MAX) {
            let document = index.document(number)?;
            let title = document.title.map(|title| format!("{title}\n")).unwrap_or_default();
            let text: String = document.text.chars().take(DOCUMENT_CHARS_MAX).collect();
            texts.push(format!("{prefix}{title}{text}"));
        }
        let vectors = embedder.embed(texts).await?;
        writer.push(&vectors.concat())?;
    }
    index.set_vectors(writer)?;
    Ok(())
}
