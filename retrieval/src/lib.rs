//! Corpus, BM25, dense search, fusion and metrics.
