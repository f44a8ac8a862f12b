use super::*;
use crate::network::Tensors;
use crate::network::tests::{numbered, shape};
use crate::shard::Shard;
use crate::tensor::NamedTensor;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::fs;

/// The `config.json` of a model with every tensor that a family of Hugging Face has.
fn model() -> Map<String, Value> {
    let Value::Object(model) = json!({
        "model_type": "qwen3", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 16, "intermediate_size": 40, "vocab_size": 300,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "attention_bias": true,
        "mlp_bias": true, "tie_word_embeddings": false
    }) else {
        unreachable!("the literal is an object")
    };
    model
}

fn facts(ranks: usize, mark: &str) -> Facts {
    Facts { samples: 64, ranks, model: model(), run: json!({ "mark": mark }) }
}

/// Saves what ranks of this model would, with numbers that tell tensors and parts apart.
fn save(folder: &Path, ranks: usize) {
    for rank in 0..ranks {
        let shard = Shard::new(&shape(), rank, ranks).unwrap();
        let layout = Tensors::of(&shape(), shard.padded_vocabulary());
        let named = || PARTS.iter().flat_map(|part| layout.each().map(move |fused| (part.0, fused)));
        let names: Vec<_> = named().map(|(part, fused)| (tensor_name(part, fused), shard.shape(fused))).collect();
        let path = folder.join(rank_file(rank, ranks));
        let mut writer = RankWriter::create(&path, names.iter().map(|(name, shape)| (name.as_str(), *shape))).unwrap();
        for (_, fused) in named() {
            let wholes: Vec<NamedTensor> = fused.pieces.iter().map(|piece| numbered(fused, piece)).collect();
            writer.push(&shard.cut(fused, &wholes).unwrap()).unwrap();
        }
        writer.finish().unwrap();
    }
}

fn make(root: &Path, step: u64, ranks: usize, mark: &str) -> PathBuf {
    let partial = begin(root, step).unwrap();
    save(&partial, ranks);
    commit(&partial, facts(ranks, mark)).unwrap()
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn newest(root: &Path) -> (Option<u64>, usize) {
    let latest = latest(root).unwrap();
    (latest.checkpoint.map(|checkpoint| checkpoint.state().step), latest.damaged.len())
}

#[test]
fn a_checkpoint_reads_back_as_it_was_committed() {
    let root = tempfile::tempdir().unwrap();
    let place = make(root.path(), 123, 2, "a");
    assert_eq!(names(root.path()), ["step-00000123"]);
    assert_eq!(names(&place), ["rank-0-of-2.safetensors", "rank-1-of-2.safetensors", "state.json"]);
    let checkpoint = open(&place).unwrap();
    let state = checkpoint.state();
    assert_eq!((state.step, state.samples, state.ranks, state.padded_vocabulary), (123, 64, 2, 512));
    assert_eq!((&state.run, &state.model), (&json!({ "mark": "a" }), &model()));
    assert_eq!(checkpoint.config(), &shape());
}

#[test]
fn tensors_come_back_whole_under_the_names_of_hugging_face_whatever_the_ranks() {
    for ranks in [1, 2, 4] {
        let root = tempfile::tempdir().unwrap();
        let checkpoint = open(&make(root.path(), 1, ranks, "")).unwrap();
        let tensors: Vec<NamedTensor> = checkpoint.tensors().unwrap().map(Result::unwrap).collect();
        let layout = Tensors::of(&shape(), crate::shard::padded_vocabulary(300, ranks));
        let expected: Vec<NamedTensor> =
            layout.each().flat_map(|fused| fused.pieces.iter().map(|piece| numbered(fused, piece))).collect();
        assert_eq!(tensors, expected, "{ranks} ranks");
        assert!(tensors.iter().any(|tensor| tensor.name == "model.layers.1.self_attn.k_proj.bias" && tensor.is_vector));
    }
}

#[test]
fn a_ranks_file_is_one_that_the_crate_safetensors_reads() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 2);
    let bytes = fs::read(folder.path().join("rank-1-of-2.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let qkv = file.tensor("second/model.layers.0.self_attn.qkv_proj.weight").unwrap();
    assert_eq!((qkv.shape(), qkv.dtype()), (&[128, 24][..], safetensors::Dtype::F32));
    let first = f32::from_le_bytes(qkv.data()[..4].try_into().unwrap());
    // The second half of the query rows.
    assert_eq!(first, 1.0 + (64 * 24) as f32);
}

#[test]
fn what_is_not_committed_is_no_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(newest(&root.path().join("none")), (None, 0));
    make(root.path(), 2, 1, "");
    let partial = begin(root.path(), 3).unwrap();
    save(&partial, 1);
    fs::create_dir(root.path().join("step-9")).unwrap();
    fs::write(root.path().join("notes.txt"), "").unwrap();
    assert_eq!(newest(root.path()), (Some(2), 0));
    // A later beginning of the same step finds nothing of the earlier one.
    fs::write(partial.join("left"), "").unwrap();
    assert_eq!(names(&begin(root.path(), 3).unwrap()), [""; 0]);
}

#[test]
fn a_part_that_is_missing_leaves_the_older_checkpoint_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), 2, 2, "old");
    let partial = begin(root.path(), 2).unwrap();
    save(&partial, 2);
    fs::remove_file(partial.join(rank_file(1, 2))).unwrap();
    let refused = commit(&partial, facts(2, "new")).unwrap_err().to_string();
    assert!(refused.contains("rank-1-of-2.safetensors") && refused.contains("all ranks"), "{refused}");
    assert_eq!(latest(root.path()).unwrap().checkpoint.unwrap().state().run["mark"], "old");
}

#[test]
fn a_step_that_is_made_again_replaces_what_was_there_and_never_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let place = make(root.path(), 5, 1, "first");
    make(root.path(), 5, 1, "second");
    assert_eq!(names(root.path()), ["step-00000005"]);
    assert_eq!(open(&place).unwrap().state().run["mark"], "second");
    // A process that ended between the two moves.
    fs::rename(&place, root.path().join("step-00000005.replaced")).unwrap();
    assert_eq!(newest(root.path()), (Some(5), 0));
    make(root.path(), 5, 1, "third");
    assert_eq!(names(root.path()), ["step-00000005"]);
}

#[test]
fn a_torn_or_changed_file_is_named_and_the_older_checkpoint_is_used() {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), 1, 2, "");
    type Spoil = fn(&Path);
    let cases: &[(&str, Spoil)] = &[
        ("bytes", |place| {
            let path = place.join(rank_file(1, 2));
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("BLAKE3", |place| {
            let path = place.join(rank_file(0, 2));
            let mut bytes = fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(&path, bytes).unwrap();
        }),
        ("rank-0-of-2", |place| fs::remove_file(place.join(rank_file(0, 2))).unwrap()),
        ("state of a checkpoint", |place| fs::write(place.join("state.json"), "{\"format\":1").unwrap()),
        ("format 1", |place| {
            let path = place.join("state.json");
            fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"format\": 1", "\"format\": 2")).unwrap();
        }),
        ("state.json", |place| fs::remove_file(place.join("state.json")).unwrap()),
    ];
    for (expected, spoil) in cases {
        let place = make(root.path(), 2, 2, "");
        spoil(&place);
        let found = latest(root.path()).unwrap();
        assert_eq!(found.checkpoint.unwrap().state().step, 1, "{expected}");
        let (path, why) = &found.damaged[0];
        assert_eq!(path, &place);
        assert!(why.to_string().contains(expected), "{why} instead of {expected}");
    }
}

#[test]
fn the_newest_whole_checkpoints_stay_and_older_ones_go() {
    let root = tempfile::tempdir().unwrap();
    (1..=4).for_each(|step| _ = make(root.path(), step, 1, ""));
    fs::remove_file(make(root.path(), 5, 1, "").join(rank_file(0, 1))).unwrap();
    begin(root.path(), 2).unwrap();
    begin(root.path(), 6).unwrap();
    keep_last(root.path(), 2).unwrap();
    // The damaged one does not count, and what has just begun is left alone.
    assert_eq!(names(root.path()), ["step-00000003", "step-00000004", "step-00000005", "step-00000006.partial"]);
    keep_last(root.path(), 0).unwrap();
    assert_eq!(newest(root.path()), (Some(4), 1));
}

#[test]
fn what_begin_did_not_give_is_not_committed() {
    let root = tempfile::tempdir().unwrap();
    for name in ["step-00000001", "step-1.partial", "other.partial"] {
        let folder = root.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        save(&folder, 1);
        assert!(commit(&folder, facts(1, "")).unwrap_err().to_string().contains("commit what `begin` gave"), "{name}");
    }
}

/// A file of one tensor, with a header of these bytes and length.
fn crafted(length: u64, header: &[u8], data: usize) -> Result<RankFile, TrainingError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crafted");
    fs::write(&path, [&length.to_le_bytes()[..], header, &vec![0; data]].concat()).unwrap();
    RankFile::open(&path)
}

#[test]
fn a_header_that_claims_what_the_file_has_not_is_refused_before_room_is_made() {
    let refused = |header: &str, data| match crafted(header.len() as u64, header.as_bytes(), data) {
        Ok(_) => panic!("{header} was taken"),
        Err(error) => error.to_string(),
    };
    let entry =
        |shape: &str, offsets: &str| format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
    assert!(crafted(u64::MAX, b"{}", 0).is_err_and(|error| error.to_string().contains("at most 2 bytes")));
    assert!(refused(&entry("[4294967296,4294967296]", "[0,8]"), 8).contains("within the file"));
    assert!(refused(&entry("[1,2]", "[0,8]"), 4).contains("within the file"));
    assert!(refused(&entry("[1,2]", "[8,0]"), 8).contains("within the file"));
    assert!(refused(&entry("[1,2]", "[4,12]"), 12).contains("gaps"));
    assert!(refused(&entry("[1,2]", "[0,8]"), 12).contains("gaps"));
    assert!(refused(r#"{"a":1}"#, 0).contains("`a`"));
    let fine = entry("[1,2]", "[0,8]");
    let mut file = crafted(fine.len() as u64, fine.as_bytes(), 8).unwrap();
    assert_eq!(file.tensor("a", [1, 2]).unwrap(), [0.0, 0.0]);
    assert!(file.tensor("a", [2, 1]).unwrap_err().to_string().contains("[1, 2]"));
    assert!(file.tensor("b", [1, 2]).unwrap_err().to_string().contains("none of that name"));
}

/// What can happen to a folder of checkpoints.
#[derive(Clone, Debug)]
enum Event {
    /// One is made whole.
    Made(u64),
    /// The process ends while one is being made.
    Begun(u64),
    /// A file of one is cut.
    Torn(u64),
    /// Only so many are kept.
    Kept(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1_u64..6).prop_map(Event::Made),
        1 => (1_u64..6).prop_map(Event::Begun),
        1 => (1_u64..6).prop_map(Event::Torn),
        1 => (0_usize..4).prop_map(Event::Kept),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_happened_the_newest_whole_checkpoint_is_found(events in proptest::collection::vec(event(), 0..9)) {
        let root = tempfile::tempdir().unwrap();
        let mut whole = std::collections::BTreeSet::new();
        for event in events {
            match event {
                Event::Made(step) => {
                    make(root.path(), step, 1, "");
                    whole.insert(step);
                }
                Event::Begun(step) => save(&begin(root.path(), step).unwrap(), 1),
                Event::Torn(step) => {
                    let path = root.path().join(format!("step-{step:08}")).join(rank_file(0, 1));
                    if path.exists() {
                        fs::write(path, "torn").unwrap();
                        whole.remove(&step);
                    }
                }
                Event::Kept(count) => {
                    keep_last(root.path(), count).unwrap();
                    whole = whole.into_iter().rev().take(count.max(1)).collect();
                }
            }
            prop_assert_eq!(newest(root.path()).0, whole.last().copied());
        }
    }
}

proptest! {
    #[test]
    fn bytes_of_any_kind_are_a_file_or_an_error(length in 0_u64..64, header in "[ -~]{0,48}", data in 0_usize..16) {
        let _either = crafted(length, header.as_bytes(), data);
    }

    #[test]
    fn a_state_of_any_kind_is_a_state_or_an_error(text in "\\PC{0,64}") {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state.json"), text).unwrap();
        prop_assert!(open(folder.path()).is_err());
    }
}
