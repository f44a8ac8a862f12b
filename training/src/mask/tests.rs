use super::*;
use crate::trajectory::{Metadata, Span, SpanKind, Why};
use legwork_model::{House, SpecialTokens, Tokenizer};
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::OnceLock;

const FREE: RowLimits = RowLimits { length_max: usize::MAX, vocabulary: usize::MAX };

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn tiny() -> Tokenizer {
    static READ: OnceLock<Tokenizer> = OnceLock::new();
    let path = root().join("model/goldens/embedder/tiny-qwen3/tokenizer.json");
    READ.get_or_init(|| Tokenizer::open(&path).unwrap()).clone()
}

/// Qwen3's tokenizer, where it is at hand.
fn qwen3() -> Option<Tokenizer> {
    static READ: OnceLock<Option<Tokenizer>> = OnceLock::new();
    let path = root().join("target/fixtures/qwen3/tokenizer.json");
    let read = || {
        if !path.exists() {
            println!("skipped: {} is not there; .ci/fixtures fetches it", path.display());
            return None;
        }
        Some(Tokenizer::open(&path).unwrap())
    };
    READ.get_or_init(read).clone()
}

fn encoder(tokenizer: Tokenizer, house: House, kind: MaskKind, limits: RowLimits) -> Encoder {
    let prompts = PromptTemplate::new(house.template().unwrap(), tokenizer, &SpecialTokens::default()).unwrap();
    Encoder::new(prompts, kind, limits).unwrap()
}

fn place() -> Place {
    Place { file: "rows.jsonl".to_owned(), line: 4 }
}

fn chat(row: Value) -> AnyRow {
    let row: ChatRow = serde_json::from_value(row).unwrap();
    crate::Row::check(&row).unwrap();
    AnyRow::Chat(Box::new(row))
}

fn bad(outcome: Result<Sample, RowError>) -> (BadKind, String) {
    match outcome {
        Err(RowError::Bad { kind, error }) => (kind, error.to_string()),
        other => panic!("{other:?}"),
    }
}

fn short_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What the golden's lines say of a sample.
fn told(sample: &Sample) -> Value {
    let ids: Vec<u8> = sample.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let masks: Vec<u8> = sample.supervised.iter().map(|supervised| u8::from(*supervised)).collect();
    json!([sample.ids.len(), sample.supervised(), short_digest(&ids), short_digest(&masks)])
}

/// Lengths of stretches out of and in the loss, in turn.
fn runs(sample: &Sample) -> Vec<usize> {
    let (mut runs, mut now) = (Vec::new(), true);
    for supervised in &sample.supervised {
        if *supervised == now || runs.is_empty() {
            if *supervised && runs.is_empty() {
                runs.push(0);
            }
            runs.push(0);
            now = !*supervised;
        }
        *runs.last_mut().unwrap() += 1;
    }
    runs
}

/// Rows of the golden that were made with a tokenizer; how many were compared.
fn golden(name: &str, tokenizer: &Tokenizer) -> usize {
    let text = std::fs::read_to_string(root().join("training/goldens/mask.jsonl")).unwrap();
    let encoders: Vec<(String, Encoder)> = House::ALL
        .into_iter()
        .flat_map(|house| [MaskKind::Qwen3, MaskKind::Qwen].map(|kind| (house, kind)))
        .map(|(house, kind)| {
            (format!("{name}/{}/{}", house.name(), kind.name()), encoder(tokenizer.clone(), house, kind, FREE))
        })
        .collect();
    for (number, line) in text.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let row = chat(line["row"].clone());
        for (key, encoder) in &encoders {
            let sample = encoder.encode(&row, &place()).unwrap();
            if key == "qwen3/qwen3/qwen3" {
                assert_eq!(json!(sample.ids), line["ids"], "line {}", number + 1);
                assert_eq!(json!(runs(&sample)), line["runs"], "line {}", number + 1);
            }
            assert_eq!(told(&sample), line["expected"][key], "line {}, {key}", number + 1);
        }
    }
    text.lines().count()
}

#[test]
fn ids_and_masks_are_those_of_the_rule_with_the_tiny_tokenizer() {
    assert!(golden("tiny", &tiny()) >= 60);
}

#[test]
fn ids_and_masks_are_those_of_the_rule_with_qwen3s_tokenizer() {
    if let Some(tokenizer) = qwen3() {
        golden("qwen3", &tokenizer);
    }
}

fn xml() -> Value {
    json!({"messages": [
        {"role": "system", "content": "You search."},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "<think>\nI search.\n</think>\n\n<function=search>\n<parameter=query>x</parameter>\n</function>"},
        {"role": "user", "content": "[Search Results for \"x\"]"},
        {"role": "assistant", "reasoning_content": "", "content": "Nothing."},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "Cut <think> off", "step_loss_mask": 0},
        {"role": "assistant", "content": "Ada."},
    ]})
}

fn whole(encoder: &Encoder, row: &AnyRow, clear_thinking: Option<bool>) -> Vec<u32> {
    let AnyRow::Chat(row) = row else { panic!("a chat row") };
    let messages = row.messages.iter().map(model_message).collect();
    let options = RenderOptions { clear_thinking, ..RenderOptions::default() };
    encoder.prompts().encode(&Conversation::new(messages).unwrap(), &options).unwrap()
}

#[test]
fn what_is_trained_on_is_what_a_server_that_keeps_thinking_renders() {
    let row = chat(xml());
    for tokenizer in [Some(tiny()), qwen3()].into_iter().flatten() {
        for house in House::ALL {
            let encoder = encoder(tokenizer.clone(), house, MaskKind::Qwen3, FREE);
            let sample = encoder.encode(&row, &place()).unwrap();
            let keeps = self::encoder(tokenizer.clone(), House::KeepThink, MaskKind::Qwen3, FREE);
            assert_eq!(sample.ids, whole(&keeps, &row, None), "{house:?}");
            let fixed = self::encoder(tokenizer.clone(), House::Qwen3Fixed, MaskKind::Qwen3, FREE);
            assert_eq!(sample.ids, whole(&fixed, &row, Some(false)), "{house:?}");
            assert_ne!(sample.ids, whole(&fixed, &row, None), "thinking is dropped unless it is said otherwise");
        }
    }
}

#[test]
fn an_answer_is_learned_from_its_thinking_to_its_line_end_and_a_masked_turn_is_not() {
    let encoder = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, FREE);
    let sample = encoder.encode(&chat(xml()), &place()).unwrap();
    let mut learned = vec![Vec::new()];
    for (id, supervised) in sample.ids.iter().zip(&sample.supervised) {
        match (supervised, learned.last_mut().unwrap()) {
            (true, last) => last.push(*id),
            (false, last) if !last.is_empty() => learned.push(Vec::new()),
            _ => {}
        }
    }
    let texts: Vec<String> = learned.iter().map(|ids| tiny().decode(ids, false).unwrap()).collect();
    let expected = [
        "<think>\nI search.\n</think>\n\n<function=search>\n<parameter=query>x</parameter>\n</function><|im_end|>\n",
        "<think>\n\n</think>\n\nNothing.<|im_end|>\n",
        "<think>\n\n</think>\n\nAda.<|im_end|>\n",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn alone_an_answer_loses_its_thinking_under_the_published_template() {
    let row = chat(json!({"messages": [
        {"role": "user", "content": "Who?"}, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nAda."},
    ]}));
    let text = |kind| {
        let sample = encoder(tiny(), House::Qwen3, kind, FREE).encode(&row, &place()).unwrap();
        tiny().decode(&sample.ids, false).unwrap()
    };
    assert!(text(MaskKind::Qwen3).contains("Hm."));
    assert!(text(MaskKind::Qwen).ends_with("<|im_start|>assistant\nAda.<|im_end|>\n"), "{}", text(MaskKind::Qwen));
}

#[test]
fn answers_of_tools_in_a_row_are_turns_of_their_own() {
    let row = chat(json!({"messages": [
        {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
        {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}, {"role": "assistant", "content": "b"},
    ]}));
    let encoder = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, FREE);
    let text = |ids: &[u32]| tiny().decode(ids, false).unwrap();
    let apart = text(&encoder.encode(&row, &place()).unwrap().ids);
    assert!(apart.contains("one\n</tool_response><|im_end|>\n<|im_start|>user\n<tool_response>\ntwo"), "{apart}");
    assert!(text(&whole(&encoder, &row, None)).contains("one\n</tool_response>\n<tool_response>\ntwo"));
}

#[test]
fn a_control_token_that_a_text_spells_out_stays_text() {
    let spelled = "x<|im_end|>\n<|im_start|>assistant\ny<|endoftext|>";
    let row =
        chat(json!({"messages": [{"role": "user", "content": spelled}, {"role": "assistant", "content": spelled}]}));
    for tokenizer in [Some(tiny()), qwen3()].into_iter().flatten() {
        let control = |text: &str| tokenizer.id_of(text).unwrap();
        let sample =
            encoder(tokenizer.clone(), House::KeepThink, MaskKind::Qwen3, FREE).encode(&row, &place()).unwrap();
        let count = |id: u32| sample.ids.iter().filter(|own| **own == id).count();
        assert_eq!((count(control("<|im_start|>")), count(control("<|im_end|>"))), (2, 2));
        assert_eq!(count(control("<|endoftext|>")), 0);
        assert_eq!(tokenizer.decode(&sample.ids, false).unwrap().matches(spelled).count(), 2);
    }
}

fn ids(prompt_ids: Vec<u32>, spans: &[(&[u32], Why)]) -> AnyRow {
    let spans = spans.iter().map(|(ids, why)| Span {
        actor: "worker/0".to_owned(),
        turn: 0,
        kind: if *why == Why::Injected { SpanKind::Injected } else { SpanKind::Sampled },
        ids: ids.to_vec(),
        logprobs: Vec::new(),
        masked: *why != Why::Sampled,
        why: *why,
    });
    let metadata = Metadata { source: Some("core".to_owned()), ..Metadata::default() };
    AnyRow::Ids(Box::new(IdRow { prompt_ids, spans: spans.collect(), metadata }))
}

#[test]
fn a_token_row_is_taken_as_it_is() {
    let encoder = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, RowLimits { length_max: 9, vocabulary: 50 });
    let row = ids(vec![5, 6], &[(&[7, 8], Why::Sampled), (&[9], Why::Injected), (&[1, 49], Why::Sampled)]);
    let sample = encoder.encode(&row, &place()).unwrap();
    assert_eq!(sample.ids, [5, 6, 7, 8, 9, 1, 49]);
    assert_eq!(sample.supervised, [false, false, true, true, false, true, true]);
    assert_eq!((sample.place, sample.source.as_str()), (place(), "core"));
    let (kind, text) = bad(encoder.encode(&ids(vec![5, 50], &[(&[7], Why::Sampled)]), &place()));
    assert_eq!(kind, BadKind::UnknownId);
    assert!(text.starts_with("rows.jsonl:4: token 1 has the id 50, and the model has rows for 50 ids"), "{text}");
    let (kind, text) = bad(encoder.encode(&ids(vec![5; 9], &[(&[7], Why::Sampled)]), &place()));
    assert_eq!(kind, BadKind::TooLong);
    assert!(text.contains("have 10 tokens, more than 9"), "{text}");
    let (kind, _) = bad(encoder.encode(&ids(vec![5], &[(&[7], Why::WrongConclusion)]), &place()));
    assert_eq!(kind, BadKind::NothingSupervised);
}

#[test]
fn a_row_that_is_too_long_or_of_another_vocabulary_is_bad_and_never_cut() {
    let row = chat(xml());
    let tokens = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, FREE).encode(&row, &place()).unwrap().ids.len();
    let with = |length_max, vocabulary| {
        let limits = RowLimits { length_max, vocabulary };
        encoder(tiny(), House::KeepThink, MaskKind::Qwen3, limits).encode(&row, &place())
    };
    assert_eq!(with(tokens, usize::MAX).unwrap().ids.len(), tokens);
    let (kind, text) = bad(with(tokens - 1, usize::MAX));
    assert_eq!(kind, BadKind::TooLong);
    assert!(text.contains(&format!("have {tokens} tokens")) && text.contains("never cut"), "{text}");
    assert_eq!(bad(with(usize::MAX, 3)).0, BadKind::UnknownId);
}

fn bound(source: &str) -> PromptTemplate {
    let template = legwork_model::Template::parse("made.jinja", source).unwrap();
    PromptTemplate::new(template, tiny(), &SpecialTokens::default()).unwrap()
}

#[test]
fn a_template_that_refuses_a_conversation_makes_the_row_bad() {
    let source = "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}<|im_start|>\
        {{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let encoder = Encoder::new(bound(source), MaskKind::Qwen3, FREE).unwrap();
    let row = chat(json!({"messages": [{"role": "tool", "content": "x"}, {"role": "assistant", "content": "y"}]}));
    let (kind, text) = bad(encoder.encode(&row, &place()));
    assert_eq!(kind, BadKind::Template);
    assert!(text.starts_with("rows.jsonl:4: messages[0] cannot be rendered") && text.contains("no tools"), "{text}");
}

#[test]
fn a_template_whose_messages_cannot_be_told_apart_is_refused() {
    for (source, said) in [
        ("{{ messages | length }}{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}", "by those around it"),
        ("{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}", "nothing that opens an answer"),
        ("{% if messages | length > 1 %}{{ raise_exception('one only') }}{% endif %}x", "one only"),
    ] {
        let refused = Encoder::new(bound(source), MaskKind::Qwen3, FREE).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn an_encoder_is_opened_from_a_folder_with_its_digests() {
    let folder = tempfile::tempdir().unwrap();
    let settings = EncoderSettings { template: TemplateChoice::House(House::KeepThink), ..EncoderSettings::default() };
    assert!(Encoder::open(folder.path(), settings).is_err());
    let bytes = std::fs::read(root().join("model/goldens/embedder/tiny-qwen3/tokenizer.json")).unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), &bytes).unwrap();
    let (encoder, digests) = Encoder::open(folder.path(), settings).unwrap();
    assert_eq!(digests.tokenizer_sha256, model::sha256(&bytes));
    assert_eq!(encoder.limits().vocabulary, tiny().vocabulary());
    let own = Encoder::open(folder.path(), EncoderSettings::default()).unwrap_err().to_string();
    assert!(own.contains("expected a model with a chat template, or one of keep_think"), "{own}");
    std::fs::write(folder.path().join("chat_template.jinja"), House::Qwen3.source()).unwrap();
    std::fs::write(folder.path().join("config.json"), r#"{"vocab_size": 400}"#).unwrap();
    let (encoder, _) = Encoder::open(folder.path(), EncoderSettings::default()).unwrap();
    assert_eq!(encoder.limits(), RowLimits { length_max: usize::MAX, vocabulary: 400 });
    std::fs::write(folder.path().join("config.json"), r#"{"vocab_size": -1}"#).unwrap();
    assert!(Encoder::open(folder.path(), EncoderSettings::default()).is_err());
}

fn any_row() -> impl Strategy<Value = ChatRow> {
    let text = "(<think>|</think>|<\\|im_end\\|>|<tool_response>|[a-z\\n é😀\u{e000}]){0,12}";
    let message = (0..4_usize, text, any::<Option<bool>>()).prop_map(|(role, content, mask)| {
        let role = [Role::Assistant, Role::User, Role::Tool, Role::System][role];
        let mut message = ChatMessage::new(role, content);
        message.step_loss_mask = mask.filter(|_| role == Role::Assistant).map(u8::from);
        message
    });
    proptest::collection::vec(message, 0..6).prop_map(|mut messages| {
        messages.push(ChatMessage::new(Role::Assistant, "end"));
        ChatRow { messages, ..ChatRow::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_row_becomes_as_many_masks_as_ids_and_only_answers_are_learned(row in any_row()) {
        let encoder = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, FREE);
        let sample = encoder.encode_chat(&row, &place()).unwrap();
        prop_assert_eq!(sample.ids.len(), sample.supervised.len());
        prop_assert!(!sample.supervised[0]);
        let turns = sample.ids.iter().filter(|id| Some(**id) == tiny().id_of("<|im_start|>")).count();
        prop_assert_eq!(turns, row.messages.len());
        let ends = |at: usize| Some(sample.ids[at]) == tiny().id_of("<|im_end|>");
        let learned_ends = (0..sample.ids.len()).filter(|at| sample.supervised[*at] && ends(*at)).count();
        prop_assert_eq!(learned_ends, row.supervised());
    }
}

#[test]
fn shown_tokens_are_the_text_and_say_which_are_learned() {
    let encoder = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, FREE);
    let row = chat(json!({"messages": [{"role": "user", "content": "é😀"}, {"role": "assistant", "content": "😀"}]}));
    let sample = encoder.encode(&row, &place()).unwrap();
    let shown = encoder.shown(&sample).unwrap();
    assert_eq!(shown.len(), sample.ids.len());
    let text: String = shown.iter().map(|token| token.text.for_terminal().into_owned()).collect();
    assert_eq!(text, tiny().decode(&sample.ids, false).unwrap());
    let learned: String =
        shown.iter().filter(|token| token.supervised).map(|token| token.text.for_terminal().into_owned()).collect();
    assert_eq!(learned, "<think>\n\n</think>\n\n😀<|im_end|>\n");
}

#[test]
fn of_a_text_everything_but_its_first_token_is_learned_up_to_the_token_that_ends_it() {
    let encoder = encoder(tiny(), House::KeepThink, MaskKind::Qwen3, RowLimits { length_max: 40, vocabulary: 50_000 });
    let row = |text: &str| {
        AnyRow::Text(Box::new(TextRow { title: Some("T".to_owned()), text: text.to_owned(), ..TextRow::default() }))
    };
    let sample = encoder.encode(&row("a b"), &place()).unwrap();
    let tokenizer = encoder.prompts().tokenizer();
    assert_eq!(sample.ids[..sample.ids.len() - 1], tokenizer.encode("T\na b").unwrap());
    assert_eq!(sample.ids.last().copied(), tokenizer.id_of("<|endoftext|>"));
    assert_eq!(sample.supervised(), sample.ids.len() - 1);
    let error = encoder.encode(&row(&"word ".repeat(60)), &place()).unwrap_err();
    assert!(matches!(error, RowError::Bad { kind: BadKind::TooLong, .. }), "{error:?}");
}
