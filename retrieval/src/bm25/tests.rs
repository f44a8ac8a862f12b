use super::*;
use proptest::prelude::*;

/// An index of `texts` in a number of parts, opened with `params`.
fn index(texts: &[String], parts: usize, params: Bm25Params) -> (tempfile::TempDir, Bm25) {
    let folder = tempfile::tempdir().unwrap();
    let size = texts.len().div_ceil(parts).max(1);
    let mut folders = Vec::new();
    for (i, texts) in texts.chunks(size).enumerate() {
        folders.push(folder.path().join(format!("part{i}")));
        write_part(&folders[i], texts).unwrap();
    }
    merge_parts(&folders, folder.path(), Bm25Params::LUCENE).unwrap();
    let bm25 = Bm25::open(folder.path(), Bm25Params::LUCENE, params).unwrap();
    (folder, bm25)
}

fn identity(n: usize) -> Vec<u32> {
    (0..n as u32).collect()
}

/// The formula itself, over all documents.
fn truth(texts: &[String], query: &str, Bm25Params { k1, b }: Bm25Params) -> Vec<f64> {
    let mut analyzer = Analyzer::default();
    let documents: Vec<_> = texts.iter().map(|t| analyzer.counts(t)).collect();
    let lengths: Vec<f64> = documents.iter().map(|d| d.values().map(|&n| f64::from(n)).sum()).collect();
    let average = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let query = analyzer.counts(query);
    let score = |document: &BTreeMap<String, u32>, length: f64| {
        let mut sum = 0.0;
        for (term, &qtf) in &query {
            let n = documents.iter().filter(|d| d.contains_key(term)).count() as f64;
            let tf = f64::from(document.get(term).copied().unwrap_or(0));
            let idf = (1.0 + (texts.len() as f64 - n + 0.5) / (n + 0.5)).ln();
            if tf > 0.0 {
                sum += f64::from(qtf) * idf * tf / (tf + k1 * (1.0 - b + b * length / average));
            }
        }
        sum
    };
    documents.iter().zip(lengths).map(|(d, length)| score(d, length)).collect()
}

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![Just("cat"), Just("dog"), Just("bird"), Just("fish"), Just("whale"), Just("the")];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn scores_are_those_of_the_formula(
        texts in proptest::collection::vec(words(), 1..40), query in words(), parts in 1_usize..4, k1 in 0.0..3.0, b in 0.0..=1.0
    ) {
        let params = Bm25Params { k1, b };
        let (_folder, bm25) = index(&texts, parts, params);
        let truth = truth(&texts, &query, params);
        let got = bm25.search(0, &query, texts.len(), &identity(texts.len())).unwrap();
        prop_assert_eq!(got.len(), truth.iter().filter(|&&s| s > 0.0).count());
        for Ranked { rank, score } in &got {
            prop_assert!((score - truth[*rank as usize]).abs() < 1e-5, "row {rank}: {score}, formula {}", truth[*rank as usize]);
        }
        prop_assert!(got.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.rank < b.rank)));
    }
}

/// A corpus of several windows whose terms are common, rare and clustered, from a fixed recurrence. Every text
/// comes many times, so that scores tie wherever a search may skip.
fn large_corpus() -> Vec<String> {
    let mut state = 1_u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut text = |rare: bool| {
        let mut words: Vec<String> = (0..6 + next(10)).map(|_| format!("w{}", next(8) * next(8))).collect();
        words.extend(rare.then(|| "rare".to_owned()));
        words.join(" ")
    };
    let texts: Vec<String> = (0..60).map(|i| text(i % 20 == 0)).collect();
    (0..11_000)
        .map(|row| {
            let text = &texts[next(texts.len() as u64) as usize];
            if row / 500 == 9 { format!("{text} cluster{}", " cluster".repeat(row % 4)) } else { text.clone() }
        })
        .collect()
}

#[test]
fn skipping_changes_neither_order_nor_scores() {
    let texts = large_corpus();
    let (_folder, bm25) = index(&texts, 3, Bm25Params::LUCENE);
    // Ids in another order than rows, so that ties are not broken by accident.
    let ranks: Vec<u32> = (0..texts.len() as u32).map(|row| (row * 7_919) % texts.len() as u32).collect();
    for query in ["rare w0", "cluster w0 w6 w12", "w1 w0 w0 w2", "rare", "w49 cluster rare w4 w6 w8 w10", "unknown"] {
        let all = bm25.search(0, query, texts.len(), &ranks).unwrap();
        for k in [1, 2, 10, 100, 1_000] {
            let some = bm25.search(0, query, k, &ranks).unwrap();
            assert_eq!(some, all[..k.min(all.len())], "{query:?} at {k}");
        }
    }
}

#[test]
fn a_query_is_text_and_repetition_counts() {
    let texts: Vec<String> = ["cat dog", "dog", "bird"].map(Into::into).into();
    let (_folder, bm25) = index(&texts, 1, Bm25Params::ANSERINI);
    let search = |query: &str| bm25.search(0, query, 10, &identity(3)).unwrap();
    assert_eq!(search("title:\"cat\" AND (dog"), search("cat dog"));
    assert!((search("bird bird")[0].score - 2.0 * search("bird")[0].score).abs() < 1e-6);
    assert!(search("").is_empty() && search("the \"of\" ::").is_empty());
    assert!(bm25.search(0, "cat", 0, &identity(3)).unwrap().is_empty());
}

#[test]
fn a_monstrous_query_is_refused() {
    let texts = vec!["cat".to_owned()];
    let (_folder, bm25) = index(&texts, 1, Bm25Params::LUCENE);
    let many: Vec<String> = (0..=MAX_QUERY_TERMS).map(|i| format!("x{i}")).collect();
    for query in [many.join(" "), "x".repeat(MAX_QUERY_BYTES + 1)] {
        assert!(bm25.search(3, &query, 1, &[0]).unwrap_err().to_string().starts_with("query 3: expected at most"));
    }
}

#[test]
fn weights_of_terms_are_their_idf() {
    let texts: Vec<String> = ["cat dog", "dog"].map(Into::into).into();
    let (_folder, bm25) = index(&texts, 1, Bm25Params::LUCENE);
    let weights = bm25.term_weights("Dogs and cats or birds").unwrap();
    assert_eq!(weights.keys().collect::<Vec<_>>(), ["cat", "dog"]);
    assert!((weights["cat"] - 2.0_f64.ln()).abs() < 1e-12);
}

#[test]
fn constants_outside_their_range_are_refused() {
    for params in [Bm25Params { k1: -0.1, b: 0.5 }, Bm25Params { k1: 1.0, b: 1.5 }, Bm25Params { k1: f64::NAN, b: 0.0 }]
    {
        assert!(params.checked().is_err());
    }
}
