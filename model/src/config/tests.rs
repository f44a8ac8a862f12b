use super::*;
use crate::gguf::tests::Writer;
use serde_json::{Map, Value, json};

/// Qwen3-4B's description, of transformers 4.
fn qwen3() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "bos_token_id": 151643, "eos_token_id": 151645,
        "head_dim": 128, "hidden_act": "silu", "hidden_size": 2560, "intermediate_size": 9728,
        "max_position_embeddings": 40960, "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "rope_scaling": null,
        "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "use_sliding_window": false, "vocab_size": 151936
    })
}

fn with(base: Value, changes: Value) -> Map<String, Value> {
    let Value::Object(mut map) = base else { unreachable!() };
    let Value::Object(changes) = changes else { unreachable!() };
    map.extend(changes);
    map
}

fn read(changes: Value) -> Result<DecoderConfig, ModelError> {
    DecoderConfig::from_json(Path::new("config.json"), &with(qwen3(), changes))
}

#[track_caller]
fn refused(changes: Value, words: &[&str]) {
    let error = read(changes.clone()).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "{changes}: expected {word:?} in {error:?}");
    }
}

#[test]
fn qwen3_is_read_whole() {
    let config = read(json!({})).unwrap();
    let expected = DecoderConfig {
        family: Family::Qwen3,
        hidden: 2560,
        layers: 36,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        ffn: 9728,
        vocabulary: 151_936,
        context: 40_960,
        rms_eps: 1e-6,
        rope: Rope { theta: 1e6, scaling: RopeScaling::None, interleaved: false },
        tied: true,
        qkv_bias: false,
        output_bias: false,
        mlp_bias: false,
        qk_norm: true,
        dtype: Some(Dtype::Bf16),
    };
    assert_eq!(config, expected);
    assert_eq!((config.q_width(), config.kv_width()), (4096, 1024));
}

#[test]
fn what_transformers_5_writes_is_the_same_model() {
    let Value::Object(mut newer) = qwen3() else { unreachable!() };
    for field in ["rope_theta", "rope_scaling", "torch_dtype"] {
        newer.remove(field);
    }
    newer.insert("dtype".to_owned(), json!("bfloat16"));
    newer.insert("rope_parameters".to_owned(), json!({"rope_type": "default", "rope_theta": 1e6}));
    newer.insert("layer_types".to_owned(), json!(vec!["full_attention"; 36]));
    let newer = DecoderConfig::from_json(Path::new("config.json"), &newer).unwrap();
    assert_eq!(newer, read(json!({})).unwrap());
}

#[test]
fn families_differ_in_their_biases_and_norms() {
    let of = |family: &str, class: &str, more: Value| {
        let changes = with(json!({"model_type": family, "architectures": [class]}), more);
        let config = read(Value::Object(changes)).unwrap();
        (config.qkv_bias, config.output_bias, config.mlp_bias, config.qk_norm)
    };
    assert_eq!(of("qwen2", "Qwen2ForCausalLM", json!({})), (true, false, false, false));
    assert_eq!(of("llama", "LlamaForCausalLM", json!({})), (false, false, false, false));
    assert_eq!(of("llama", "LlamaModel", json!({"attention_bias": true, "mlp_bias": true})), (true, true, true, false));
    assert_eq!(of("qwen3", "Qwen3ForCausalLM", json!({"attention_bias": true})), (true, true, false, true));
    assert_eq!(of("mistral", "MistralForCausalLM", json!({})), (false, false, false, false));
}

#[test]
fn a_head_dimension_is_its_own_number_or_that_of_the_family() {
    let of = |changes: Value| read(changes).map(|config| config.head_dim);
    assert_eq!(of(json!({"head_dim": 64})).unwrap(), 64);
    assert_eq!(of(json!({"head_dim": null})).unwrap(), 128, "of Qwen3");
    let llama = json!({"head_dim": null, "model_type": "llama", "architectures": null});
    assert_eq!(of(llama).unwrap(), 80, "2560 over 32 heads");
    refused(
        json!({"head_dim": null, "model_type": "llama", "architectures": null, "num_attention_heads": 24}),
        &["`head_dim`", "2560 is no multiple of 24 heads", "got nothing"],
    );
}

#[test]
fn scalings_of_positions_are_read_as_transformers_reads_them() {
    let of =
        |scaling: Value| read(json!({"rope_scaling": scaling})).map(|config| (config.rope.scaling, config.context));
    assert_eq!(of(json!({"type": "linear", "factor": 2.0})).unwrap(), (RopeScaling::Linear { factor: 2.0 }, 40_960));
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192});
    let expected =
        RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192 };
    assert_eq!(of(llama3).unwrap().0, expected);
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768});
    let (RopeScaling::Yarn { attention_factor, beta_fast, beta_slow, truncate, .. }, context) = of(yarn).unwrap()
    else {
        panic!("expected YaRN")
    };
    assert!((attention_factor - 1.138_629_436_111_989).abs() < 1e-12, "0.1 ln 4 + 1, got {attention_factor}");
    assert_eq!((beta_fast, beta_slow, truncate, context), (32.0, 1.0, true, 131_072));
    let both = json!({"type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.5});
    let Ok((RopeScaling::Yarn { attention_factor, original_context, .. }, _)) = of(both) else {
        panic!("expected YaRN")
    };
    let expected = (0.1 * 40_f64.ln() + 1.0) / (0.05 * 40_f64.ln() + 1.0);
    assert!((attention_factor - expected).abs() < 1e-12);
    assert_eq!(original_context, 40_960, "where it is not given, the context");

    let wrong = |scaling: Value, words: &[&str]| refused(json!({"rope_scaling": scaling}), words);
    wrong(json!({"type": "dynamic", "factor": 2.0}), &["`rope_scaling.rope_type`", "got \"dynamic\""]);
    wrong(json!({"type": "longrope"}), &["\"longrope\""]);
    wrong(json!({"type": "linear"}), &["`rope_scaling.factor`", "got nothing"]);
    wrong(json!({"type": "linear", "factor": 0.5}), &["`rope factor`", "got 0.5"]);
    wrong(json!({"type": "yarn", "factor": 1e6}), &["a context of at most"]);
    wrong(json!({"type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2}), &["more than beta_slow 2"]);
    wrong(
        json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}),
        &["more than the low"],
    );
    wrong(json!({"full_attention": {"rope_type": "yarn"}}), &["`rope_scaling.full_attention`"]);
    wrong(json!("yarn"), &["an object for `rope_scaling`"]);
    refused(json!({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}), &["partial_rotary_factor"]);
}

#[test]
fn a_sliding_window_counts_where_it_would_be_active() {
    assert!(read(json!({"sliding_window": 4096})).is_ok(), "Qwen switches it on by another field");
    assert!(read(json!({"sliding_window": 40960, "use_sliding_window": true})).is_ok(), "as long as the context");
    let on = json!({"sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 36});
    assert!(read(on).is_ok(), "it would begin behind the last layer");
    refused(
        json!({"sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 28}),
        &["`sliding_window`", "no window below the context of 40960 tokens", "got 4096"],
    );
    refused(
        json!({"sliding_window": 4096, "layer_types": ["full_attention", "sliding_attention"]}),
        &["`sliding_window`"],
    );
    let mistral = json!({"model_type": "mistral", "architectures": null, "sliding_window": 4096});
    refused(mistral, &["`sliding_window`"]);
    let Value::Object(mut unsaid) = qwen3() else { unreachable!() };
    unsaid.remove("sliding_window");
    unsaid.extend(with(json!({}), json!({"model_type": "mistral", "architectures": null})));
    assert!(DecoderConfig::from_json(Path::new("config.json"), &unsaid).is_err(), "transformers takes 4096 then");
}

#[test]
fn what_is_not_computed_here_is_refused_by_name() {
    refused(
        json!({"model_type": "qwen3_moe"}),
        &["config.json", "`model_type`", "got \"qwen3_moe\"", "use a dense model"],
    );
    refused(json!({"model_type": null}), &["`model_type`", "got nothing"]);
    refused(json!({"num_experts": 128}), &["`num_experts`", "a mixture of experts, 128"]);
    refused(json!({"architectures": ["Qwen3ForSequenceClassification"]}), &["got \"Qwen3ForSequenceClassification\""]);
    refused(
        json!({"quantization_config": {"quant_method": "awq"}}),
        &["weights that are not packed", "got awq", "GGUF"],
    );
    refused(json!({"hidden_act": "gelu"}), &["`hidden_act`", "got \"gelu\""]);
    refused(json!({"partial_rotary_factor": 0.5}), &["`partial_rotary_factor`"]);
}

#[test]
fn numbers_stay_within_their_bounds() {
    for (field, value, word) in [
        ("hidden_size", json!(0), "a number from 1 to 65536"),
        ("hidden_size", json!(-1), "got -1"),
        ("hidden_size", json!(2560.5), "got 2560.5"),
        ("hidden_size", json!("2560"), "got \"2560\""),
        ("hidden_size", json!(null), "got nothing"),
        ("num_hidden_layers", json!(1_u64 << 60), "a number from 1 to 1024"),
        ("num_key_value_heads", json!(5), "a divisor of the 32 heads"),
        ("num_key_value_heads", json!(64), "a divisor of the 32 heads"),
        ("head_dim", json!(127), "an even number"),
        ("vocab_size", json!(1_u64 << 40), "a number from 1 to 4194304"),
        ("intermediate_size", json!([1]), "got [1]"),
        ("rms_norm_eps", json!(0), "above 0"),
        ("rms_norm_eps", json!(1), "up to 0.1"),
        ("rope_theta", json!(0.0), "a number from 1"),
        ("tie_word_embeddings", json!("yes"), "true or false"),
    ] {
        refused(json!({field: value}), &[word]);
    }
    refused(json!({"num_attention_heads": 1024, "head_dim": 1024}), &["`heads times head dimension`", "got 1048576"]);
}

fn gguf() -> Writer {
    let mut writer = Writer::default()
        .text("general.architecture", "qwen3")
        .f32("qwen3.rope.freq_base", 1e6)
        .f32("qwen3.attention.layer_norm_rms_epsilon", 1e-6)
        .floats("token_embd.weight", &[5, 8], &[0.0; 40])
        .floats("blk.0.attn_q_norm.weight", &[6], &[0.0; 6]);
    for (key, value) in [
        ("embedding_length", 8),
        ("block_count", 1),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 6),
        ("feed_forward_length", 16),
        ("context_length", 128),
    ] {
        writer = writer.u32(&format!("qwen3.{key}"), value);
    }
    writer
}

#[test]
fn gguf_says_by_its_tensors_what_it_does_not_say_in_words() {
    let config = DecoderConfig::from_gguf(&gguf().gguf().unwrap()).unwrap();
    assert_eq!((config.hidden, config.heads, config.kv_heads, config.head_dim, config.vocabulary), (8, 4, 2, 6, 5));
    assert!(config.tied && config.qk_norm && !config.qkv_bias && !config.rope.interleaved);
    let more = gguf()
        .floats("output.weight", &[5, 8], &[0.0; 40])
        .floats("blk.0.attn_q.bias", &[24], &[0.0; 24])
        .floats("rope_freqs.weight", &[3], &[1.0, 2.0, 8.0]);
    let config = DecoderConfig::from_gguf(&more.gguf().unwrap()).unwrap();
    assert!(!config.tied && config.qkv_bias);
    assert_eq!(config.rope.scaling, RopeScaling::Divisors(vec![1.0, 2.0, 8.0]));
}

#[test]
fn gguf_that_is_not_computed_here_is_refused_by_name() {
    let told = |writer: Writer, word: &str| {
        let error = DecoderConfig::from_gguf(&writer.gguf().unwrap()).unwrap_err().to_string();
        assert!(error.contains(word), "expected {word:?} in {error:?}");
    };
    told(Writer::default().text("general.architecture", "gemma3"), "got \"gemma3\"");
    told(Writer::default().text("general.architecture", "qwen3"), "`qwen3.embedding_length`, got nothing");
    told(gguf().u32("qwen3.expert_count", 8), "a mixture of 8 experts");
    told(
        gguf().u32("qwen3.attention.value_length", 8),
        "the head dimension 6 for `qwen3.attention.value_length`, got 8",
    );
    told(gguf().u32("qwen3.attention.sliding_window", 64), "no window below the context of 128");
    told(gguf().text("qwen3.rope.scaling.type", "longrope"), "`qwen3.rope.scaling.type`, got \"longrope\"");
    told(
        gguf().floats("rope_freqs.weight", &[2], &[1.0, 2.0]),
        "3 numbers above 0 for `rope_freqs.weight`, got 2 numbers",
    );
    told(gguf().floats("rope_freqs.weight", &[3], &[1.0, 0.0, 2.0]), "got 0");
    told(
        gguf().tensor("rope_freqs.weight", &[3], 1, &[0; 6]),
        "expected f32 for the tensor `rope_freqs.weight`, got f16",
    );
}

#[test]
fn layers_that_are_alike_may_be_listed_one_by_one() {
    let listed = |values: [u32; 2]| {
        let items: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let writer = Writer::default()
            .text("general.architecture", "llama")
            .list("llama.attention.head_count_kv", 4, 2, &items)
            .u32("llama.embedding_length", 8)
            .u32("llama.block_count", 2)
            .u32("llama.attention.head_count", 4)
            .u32("llama.feed_forward_length", 16)
            .u32("llama.context_length", 128)
            .u32("llama.vocab_size", 9)
            .f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        DecoderConfig::from_gguf(&writer.gguf().unwrap())
    };
    let config = listed([2, 2]).unwrap();
    assert_eq!((config.kv_heads, config.head_dim), (2, 2));
    assert!(config.rope.interleaved, "rows of queries and keys are permuted in this architecture");
    let error = listed([2, 4]).unwrap_err().to_string();
    assert!(error.contains("the same in every layer") && error.contains("a list of 2 values"), "{error}");
}

/// all-MiniLM-L6-v2's description.
fn mini_lm() -> Value {
    json!({
        "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": 384, "intermediate_size": 1536,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
        "num_hidden_layers": 6, "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2,
        "vocab_size": 30522
    })
}

fn encoder(changes: Value) -> Result<EncoderConfig, ModelError> {
    EncoderConfig::from_json(Path::new("config.json"), &with(mini_lm(), changes))
}

#[test]
fn a_sentence_encoder_is_read_whole() {
    let config = encoder(json!({})).unwrap();
    let expected = EncoderConfig {
        hidden: 384,
        layers: 6,
        heads: 12,
        ffn: 1536,
        vocabulary: 30_522,
        positions: 512,
        token_types: 2,
        layer_norm_eps: 1e-12,
        gelu: Gelu::Exact,
    };
    assert_eq!(config, expected);
    assert_eq!(config.head_dim(), 32);
    assert_eq!(encoder(json!({"hidden_act": "gelu_new"})).unwrap().gelu, Gelu::Tanh);
    for (changes, word) in [
        (json!({"model_type": "mpnet"}), "got \"mpnet\""),
        (json!({"position_embedding_type": "relative_key"}), "got \"relative_key\""),
        (json!({"hidden_act": "relu"}), "got \"relu\""),
        (json!({"num_attention_heads": 7}), "a divisor of `hidden_size` 384"),
        (json!({"layer_norm_eps": 0}), "above 0"),
        (json!({"is_decoder": true}), "`is_decoder`"),
    ] {
        let error = encoder(changes).unwrap_err().to_string();
        assert!(error.contains(word), "expected {word:?} in {error:?}");
    }
}

fn sentence_folder(files: &[(&str, Value)]) -> Result<Option<SentenceConfig>, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value.to_string()).unwrap();
    }
    SentenceConfig::open(folder.path())
}

fn modules(pooling: &str, third: &str) -> Value {
    json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": pooling, "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_x", "type": format!("sentence_transformers.models.{third}")},
    ])
}

#[test]
fn what_sentence_transformers_writes_says_how_rows_become_one_vector() {
    assert_eq!(sentence_folder(&[]).unwrap(), None);
    let config = sentence_folder(&[
        ("modules.json", modules("1_Pooling", "Normalize")),
        (
            "1_Pooling/config.json",
            json!({"word_embedding_dimension": 384, "pooling_mode_cls_token": false,
            "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false}),
        ),
        ("sentence_bert_config.json", json!({"max_seq_length": 256, "do_lower_case": false})),
    ]);
    let config = config.unwrap().unwrap();
    assert_eq!((config.pooling, config.normalise, config.include_prompt), (Pooling::Mean, true, true));
    assert_eq!(config.tokens_max, Some(256));
    let config = sentence_folder(&[
        ("modules.json", modules("1_Pooling", "Normalize")),
        ("1_Pooling/config.json", json!({"pooling_mode": "lasttoken", "include_prompt": false})),
        (
            "config_sentence_transformers.json",
            json!({"prompts": {"query": "Instruct: find\nQuery:", "document": ""},
            "default_prompt_name": null, "similarity_fn_name": "cosine"}),
        ),
    ]);
    let config = config.unwrap().unwrap();
    assert_eq!((config.pooling, config.include_prompt), (Pooling::LastToken, false));
    assert_eq!(config.prompts["query"], "Instruct: find\nQuery:");
    assert_eq!(config.default_prompt, None);
}

#[test]
fn a_chain_that_is_not_computed_here_is_refused_by_name() {
    let mean = ("1_Pooling/config.json", json!({"pooling_mode_mean_tokens": true}));
    let told = |files: &[(&str, Value)], word: &str| {
        let error = sentence_folder(files).unwrap_err().to_string();
        assert!(error.contains(word), "expected {word:?} in {error:?}");
    };
    told(&[("modules.json", modules("1_Pooling", "Dense")), mean.clone()], "models.Dense");
    told(&[("modules.json", modules("../secrets", "Normalize")), mean.clone()], "the name of a folder for `path`");
    told(&[("modules.json", json!([]))], "a Transformer");
    told(&[("modules.json", json!({}))], "a list of modules");
    let two = json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true});
    told(
        &[("modules.json", modules("1_Pooling", "Normalize")), ("1_Pooling/config.json", two)],
        "mean_tokens, cls_token",
    );
    let max = json!({"pooling_mode_max_tokens": true});
    told(&[("modules.json", modules("1_Pooling", "Normalize")), ("1_Pooling/config.json", max)], "[\"max_tokens\"]");
    told(
        &[
            ("modules.json", modules("1_Pooling", "Normalize")),
            mean,
            ("config_sentence_transformers.json", json!({"prompts": {}, "default_prompt_name": "query"})),
        ],
        "one of the prompts",
    );
}
