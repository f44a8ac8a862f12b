use super::*;
use crate::export::NumberKind;
use crate::network::tests::shape;
use crate::tensor::NamedTensor;
use legwork_kernels::{Cpu, Part};
use proptest::prelude::*;

fn pair(docid: usize, collection: usize) -> Pair {
    Pair { query: vec![1, 2], document: vec![3; 4], docid: docid.to_string(), collection }
}

/// A tiny embedder of drawn weights.
fn embedder() -> LearningEmbedder<Cpu> {
    let config = DecoderConfig { tied: true, ..shape() };
    let mut state = 7_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.3
    };
    let tensors: Vec<NamedTensor> = crate::export::wanted(&config)
        .into_iter()
        .map(|wanted| NamedTensor {
            values: (0..wanted.shape[0] * wanted.shape[1])
                .map(|_| draw() + f32::from(u8::from(wanted.is_vector)))
                .collect(),
            name: wanted.name,
            shape: wanted.shape,
            is_vector: wanted.is_vector,
        })
        .collect();
    let settings =
        NetworkSettings { rows_max: 256, keep_attention: false, keep_products: false, softmax_over_padding: false };
    let rank = DecoderRank::of_tensors(Cpu::new(), &config, tensors, settings).unwrap();
    LearningEmbedder { rank, temperature: 0.2 }
}

fn pairs() -> Vec<Pair> {
    let text = |first: u32, count: u32| (0..count).map(|at| (first + at * 7) % 300).collect::<Vec<u32>>();
    (0..5)
        .map(|at| Pair {
            query: text(at * 31, 3 + at),
            document: text(at * 31 + 2, 9 + 2 * at),
            docid: at.to_string(),
            collection: 0,
        })
        .collect()
}

fn update(step: u64, rate: f64) -> Update {
    Update { step, rate, clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0 }
}

#[test]
fn the_gradient_of_every_tensor_is_how_the_loss_changes_along_it() {
    let (mut embedder, pairs) = (embedder(), pairs());
    let batch: Vec<&Pair> = pairs.iter().collect();
    let pack = packed(&batch);
    let judge = |means: &[Vec<f32>]| {
        let (queries, documents) = means.split_at(5);
        let made = info_nce(queries, documents, 0.2);
        (made.loss, [made.d_queries, made.d_documents].concat())
    };
    let loss = embedder.rank.network_mut().learn_means(&pack, judge).unwrap();
    assert!((loss - embedder.look(&batch).unwrap().loss).abs() < 1e-9);
    let read = |embedder: &LearningEmbedder<Cpu>, part| {
        let mut tensors: Vec<Vec<f32>> = Vec::new();
        let add = |_: &crate::shard::Fused, _: [usize; 2], values: &[f32]| {
            tensors.push(values.to_vec());
            Ok(())
        };
        embedder.rank.network().read(part, add).unwrap();
        tensors
    };
    let (values, gradients) = (read(&embedder, Part::Value), read(&embedder, Part::Gradient));
    for (at, gradient) in gradients.iter().enumerate() {
        let squares: f64 = gradient.iter().map(|value| f64::from(*value).powi(2)).sum();
        let reach = 3e-3 / squares.sqrt();
        let mut moved = |by: f64| {
            let mut place = 0;
            let write = |_: &crate::shard::Shard, _: &crate::shard::Fused| {
                let mut tensor = values[place].clone();
                if place == at {
                    let each = tensor.iter_mut().zip(gradient);
                    each.for_each(|(value, slope)| *value += (by * reach * f64::from(*slope)) as f32);
                }
                place += 1;
                Ok(tensor)
            };
            embedder.rank.network_mut().write(Part::Value, write).unwrap();
            embedder.look(&batch).unwrap().loss
        };
        let slope = (moved(1.0) - moved(-1.0)) / (2.0 * reach);
        assert!((slope - squares).abs() < 0.02 * squares, "tensor {at}: {slope}, expected {squares}");
    }
}

#[test]
fn a_few_steps_bring_every_query_to_its_document() {
    let (mut embedder, pairs) = (embedder(), pairs());
    let batch: Vec<&Pair> = pairs.iter().collect();
    let before = embedder.look(&batch).unwrap();
    for step in 1..=40 {
        embedder.step(&batch, &update(step, 1e-2)).unwrap();
    }
    let after = embedder.look(&batch).unwrap();
    assert!(after.first == 1.0 && after.loss < before.loss / 4.0, "{before:?}, {after:?}");
}

#[test]
fn a_written_embedder_gives_the_vectors_that_it_was_trained_to_give() {
    let folder = tempfile::tempdir().unwrap();
    let (original, out) = (folder.path().join("original"), folder.path().join("out"));
    let texts =
        ["who built the mill by the river", "the mill was built by a weaver", "a river rose", "who drowned there"]
            .map(str::to_owned);
    let tokenizer = legwork_model::train_tokenizer(texts.iter().cloned().map(Ok::<_, TrainingError>), 270, 64).unwrap();
    let initial = crate::init::Initial { context: 64, ..crate::init::Initial::tiny() };
    initial.write(&tokenizer, &original).unwrap();
    let mut files = legwork_model::ModelFiles::open(&original).unwrap();
    let config = files.decoder().unwrap().clone();
    let mut learning = LearningEmbedder::open(Cpu::new(), &config, &mut files.weights, 200, 0.1).unwrap();
    let ids = |text: &str| tokenizer.tokenizer.encode(text).unwrap();
    let pairs = [(0, 1), (3, 2)].map(|(query, document)| Pair {
        query: ids(&texts[query]),
        document: ids(&texts[document]),
        docid: document.to_string(),
        collection: 0,
    });
    let batch: Vec<&Pair> = pairs.iter().collect();
    for step in 1..=3 {
        learning.step(&batch, &update(step, 1e-3)).unwrap();
    }
    let means = learning.rank.network_mut().means(&packed(&batch)).unwrap();
    learning.write(&original, &out, NumberKind::F32, 48).unwrap();
    let mut written = legwork_model::SentenceEmbedder::open(&out, legwork_model::EmbedSettings::default()).unwrap();
    assert_eq!(written.tokens_max(), 48);
    let vectors =
        written.embed(&[&texts[0], &texts[3], &texts[1], &texts[2]], legwork_model::EmbedKind::Plain).unwrap();
    for (mean, vector) in means.iter().zip(&vectors) {
        let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
        let cosine: f32 = mean.iter().zip(vector).map(|(one, other)| one * other / length).sum();
        assert!(cosine > 0.999_99, "{cosine}");
    }
}

proptest! {
    #[test]
    fn batches_are_whole_of_one_collection_and_of_different_documents(
        made in proptest::collection::vec((0_usize..9, 0_usize..3), 0..80), batch in 1_usize..6, seed in any::<u64>(),
    ) {
        let pairs: Vec<Pair> = made.iter().map(|(docid, collection)| pair(*docid, *collection)).collect();
        let batches = batches(&pairs, batch, seed);
        let mut used = BTreeSet::new();
        for one in &batches {
            prop_assert_eq!(one.len(), batch);
            prop_assert!(one.iter().all(|at| pairs[*at].collection == pairs[one[0]].collection && used.insert(*at)));
            let documents: BTreeSet<&str> = one.iter().map(|at| pairs[*at].docid.as_str()).collect();
            prop_assert_eq!(documents.len(), batch);
        }
    }
}
