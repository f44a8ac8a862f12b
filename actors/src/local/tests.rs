//! Models in this process, by tiny random ones of the goldens: what an asker hears, that nothing is left behind by whoever
//! goes away, and that an episode's later turns find what its earlier ones computed. They refuse to know whether an answer
//! makes sense.

use super::thread::Heard;
use super::*;
use legwork_endpoints::{Embedder, Endpoint};
use legwork_engine::Reason;
use legwork_kernels::PAGE_TOKENS;
use legwork_model::{EmbedKind, EmbedSettings};
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::{Completion, GenerateRequest, Route, Sampling as Asked, Session};
use legwork_protocol::id::{EpisodeKey, QuestionId, Scope};
use std::path::PathBuf;
use std::time::Duration;

/// A test that waits so long hangs.
const HANG: Duration = Duration::from_secs(60);
/// Between two looks at something that comes about on another thread.
const LOOK_EVERY: Duration = Duration::from_millis(1);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder").join(name)
}

/// A decoder of 320 tokens and a context of 300, whose text is noise.
fn speaker(settings: LocalSettings) -> Arc<LocalModel> {
    let settings = LocalSettings { template: TemplateChoice::Qwen3, cache_mib: Some(8), ..settings };
    LocalModel::open(&golden("tiny-qwen3"), settings, Clock::system()).unwrap()
}

/// What never ends before it has `max_new` tokens.
fn long(max_new: usize, seed: u64) -> Sampling {
    Sampling { max_new, temperature: 1.0, seed, ..Sampling::default() }
}

/// Waits until `holds`, which must come about by itself.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(HANG, async {
        while !holds() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    assert!(waited.await.is_ok(), "{what} never came about");
}

/// All that is heard of an answer.
async fn heard(mut answering: Answering) -> Vec<Heard> {
    let mut all = Vec::new();
    while let Some(heard) = tokio::time::timeout(HANG, answering.next()).await.unwrap() {
        all.push(heard);
    }
    all
}

fn ids(heard: &[Heard]) -> Vec<u32> {
    let of = |heard: &Heard| match heard {
        Heard::Tokens { tokens, .. } => tokens.iter().map(|drawn| drawn.id).collect(),
        _ => Vec::new(),
    };
    heard.iter().flat_map(of).collect()
}

fn said(role: Role, text: &str) -> Arc<Said> {
    Arc::new(Said::new(role, text))
}

fn request(question: &str, turn: u32, messages: Vec<Arc<Said>>) -> GenerateRequest {
    GenerateRequest {
        route: Route::Worker,
        session: Some(Session {
            episode: EpisodeKey { round: 0, question: QuestionId::from(question) },
            scope: Scope::Worker(0),
            turn,
        }),
        messages,
        tools: None,
        sampling: Asked { max_tokens: 24, temperature: 1.0, top_p: 1.0, top_k: None, seed: Some(7), stop: Vec::new() },
        timeout_ms: 60_000,
    }
}

/// Two turns of a conversation.
async fn two_turns(model: &LocalModel, question: &str) -> [Completion; 2] {
    let opening = format!("{question}: who founded the observatory on the hill, and when did it open its doors?");
    let mut messages = vec![said(Role::User, &opening)];
    let first = model.generate(request(question, 0, messages.clone())).await.unwrap();
    messages.extend([said(Role::Assistant, &first.text), said(Role::User, "Go on.")]);
    let second = model.generate(request(question, 1, messages)).await.unwrap();
    [first, second]
}

#[tokio::test]
async fn an_answer_is_its_tokens_and_then_its_end() {
    let model = speaker(LocalSettings::default());
    let all = heard(model.begin(vec![5, 6, 7], long(20, 1), None, None).unwrap()).await;
    let [pieces @ .., Heard::Done { reason: Reason::Length, usage }] = &all[..] else { panic!("{all:?}") };
    assert!(pieces.iter().all(|heard| matches!(heard, Heard::Tokens { .. })), "{all:?}");
    assert_eq!((ids(&all).len(), usage.prompt, usage.completion), (20, 3, 20));
    let again = heard(model.begin(vec![5, 6, 7], long(20, 1), None, None).unwrap()).await;
    let other = heard(model.begin(vec![5, 6, 7], long(20, 2), None, None).unwrap()).await;
    assert_eq!(ids(&all), ids(&again), "a seed draws the same");
    assert_ne!(ids(&all), ids(&other), "another seed draws something else");
    assert_eq!(model.gauges().generated_tokens, 60, "what was heard is counted already");
}

#[tokio::test]
async fn whoever_drops_an_answer_cancels_it_and_its_pages_return() {
    const ASKED: u64 = 24;
    let model = speaker(LocalSettings { running_max: 4, prefix_cache: false, ..LocalSettings::default() });
    let mut all: Vec<_> =
        (0..ASKED).map(|seed| model.begin(vec![9; 40], long(250, seed), None, None).unwrap()).collect();
    // One is in the middle of its answer, most still wait, one is not dropped.
    let kept = all.pop().unwrap();
    assert!(matches!(all[0].next().await, Some(Heard::Tokens { .. })));
    drop(all);
    assert_eq!(ids(&heard(kept).await).len(), 250, "whoever stays is served to the end");
    until("the end of all", || model.gauges().running + model.gauges().waiting == 0).await;
    let gauges = model.gauges();
    assert_eq!((gauges.accepted, gauges.cancelled + gauges.finished), (ASKED, ASKED), "{gauges:?}");
    assert!(gauges.cancelled >= ASKED / 2, "{gauges:?}");
    assert!(gauges.generated_tokens < ASKED * 250 / 2, "nothing is made for nobody: {gauges:?}");
    assert_eq!((gauges.pages_held, gauges.pages_free), (0, gauges.pages), "{gauges:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_no_longer_under_way() {
    let model = speaker(LocalSettings::default());
    let mut asked = request("dropped", 0, vec![said(Role::User, "Hi.")]);
    asked.sampling.max_tokens = 200;
    let mut call = model.generate(asked);
    assert!(futures::poll!(&mut call).is_pending());
    assert_eq!(Endpoint::tally(&*model).in_flight, 1);
    drop(call);
    let tally = Endpoint::tally(&*model);
    assert_eq!((tally.in_flight, tally.requests, tally.answered), (0, 1, 0));
    until("the end of it", || model.gauges().accepted == 1 && model.gauges().running == 0).await;
}

#[tokio::test]
async fn two_conversations_at_once_are_each_as_if_alone() {
    let model = speaker(LocalSettings::default());
    let (left, right) = tokio::join!(two_turns(&model, "left"), two_turns(&model, "right"));
    assert_eq!(Endpoint::tally(&*model).in_flight_most, 2);
    for (name, together) in [("left", left), ("right", right)] {
        let alone = two_turns(&speaker(LocalSettings::default()), name).await;
        for turn in 0..2 {
            let (together, alone) = (&together[turn], &alone[turn]);
            assert_eq!(together.text, alone.text, "{name}, turn {turn}");
            let (together, alone) = (together.ids.as_ref().unwrap(), alone.ids.as_ref().unwrap());
            assert_eq!(
                (&together.prompt, &together.completion),
                (&alone.prompt, &alone.completion),
                "{name}, turn {turn}"
            );
            // Two prompts read in one step are summed in another order than one.
            let near = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-4;
            assert!(together.logprobs.iter().zip(&alone.logprobs).all(near), "{name}, turn {turn}");
        }
        let [first, second] = together;
        let (first, second_ids) = (first.ids.unwrap(), second.ids.unwrap());
        let so_far = [first.prompt, first.completion].concat();
        assert!(second_ids.prompt.starts_with(&so_far), "{name}: a later turn sends the very ids of the earlier ones");
        assert_eq!(second_ids.logprobs.len(), second_ids.completion.len());
        assert!(second_ids.logprobs.iter().all(|logprob| *logprob <= 0.0));
        // The last token that was drawn has not been computed, and only whole pages are kept.
        let kept = (so_far.len() - 1) / PAGE_TOKENS * PAGE_TOKENS;
        assert!(kept > 0 && second.usage.cached_tokens as usize >= kept, "{name}: {:?}", second.usage);
    }
    assert_eq!(Endpoint::tally(&*model).reencoded, 0);
}

#[tokio::test]
async fn what_cannot_be_served_is_heard_as_a_refusal_and_the_engine_lives() {
    let model = speaker(LocalSettings::default());
    let context = model.limits().context;
    for (prompt, sampling) in [
        (vec![1; context + 1], long(1, 0)),
        (vec![1; 10], long(context, 0)),
        (Vec::new(), long(1, 0)),
        (vec![100_000], long(1, 0)),
        (vec![1], Sampling { temperature: -1.0, ..long(1, 0) }),
    ] {
        let all = heard(model.begin(prompt, sampling, None, None).unwrap()).await;
        assert!(matches!(all[..], [Heard::Refused(_)]), "{all:?}");
    }
    let mut asked = request("long", 0, vec![said(Role::User, &"word ".repeat(400))]);
    let failure = model.generate(asked.clone()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
    assert!(failure.detail.contains(&context.to_string()), "the limit is named: {failure:?}");
    asked.tools = Some(Arc::new(json!([])));
    assert_eq!(model.generate(asked).await.unwrap_err().kind, FailureKind::Misconfigured);
    assert_eq!(model.health(), Ok(()));
    assert_eq!(heard(model.begin(vec![1], long(3, 0), None, None).unwrap()).await.len(), 4);
}

#[tokio::test]
async fn a_full_queue_is_a_rate_limit() {
    let model = speaker(LocalSettings { running_max: 1, waiting_max: 1, ..LocalSettings::default() });
    // The engine works while this test asks, so on a machine that stalls the queue may have room again: it is filled anew then.
    for filling in 0..200 {
        let all: Vec<_> = (0..40).map(|seed| model.begin(vec![3; 4], long(290, seed), None, None).unwrap()).collect();
        let late = model.generate(request(&format!("late-{filling}"), 0, vec![said(Role::User, "Hi.")])).await;
        drop(all);
        if let Err(failure) = late {
            assert_eq!(failure.kind, FailureKind::RateLimited, "{failure:?}");
            return;
        }
    }
    panic!("two hundred full queues refused nobody");
}

#[tokio::test]
async fn what_is_not_complete_in_time_has_timed_out() {
    let model = speaker(LocalSettings::default());
    for timeout_ms in [0, 1] {
        let mut asked = request("slow", 0, vec![said(Role::User, "Hi.")]);
        (asked.timeout_ms, asked.sampling.max_tokens) = (timeout_ms, 250);
        let failure = model.generate(asked).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure:?}");
    }
    until("the end of it", || model.gauges().running == 0).await;
    assert_eq!(model.gauges().pages_held, 0);
}

#[tokio::test]
async fn a_model_that_is_dropped_ends_its_answers() {
    let model = speaker(LocalSettings::default());
    let answering = model.begin(vec![3; 4], long(290, 0), None, None).unwrap();
    drop(model);
    let all = heard(answering).await;
    assert!(matches!(all.last(), Some(Heard::Done { .. })), "who was taken in is served: {all:?}");
}

#[test]
fn a_cache_without_a_page_and_an_encoder_that_should_speak_are_refused() {
    let open = |name, settings| LocalModel::open(&golden(name), settings, Clock::system()).map(|_| ()).unwrap_err();
    let error = open("tiny-qwen3", LocalSettings { cache_mib: Some(0), ..LocalSettings::default() });
    assert!(matches!(error, LocalError::Cache { .. }), "{error}");
    let error = open("tiny-bert", LocalSettings::default()).to_string();
    assert!(error.contains("decoder") && error.contains("sentence encoder"), "{error}");
}

#[tokio::test]
async fn texts_become_the_vectors_of_sentence_transformers() {
    let embedder = LocalEmbedder::open(&golden("tiny-bert"), EmbedSettings::default()).unwrap();
    let texts: Vec<String> = serde_json::from_slice(&std::fs::read(golden("texts.json")).unwrap()).unwrap();
    let bytes = std::fs::read(golden("tiny-bert/plain.f32")).unwrap();
    let expected: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    // Several callers at once, and one who leaves.
    drop(embedder.embed(texts.clone()));
    let (all, few) = tokio::join!(embedder.embed(texts.clone()), embedder.embed(texts[..2].to_vec()));
    let all = all.unwrap();
    assert_eq!(all.len() * embedder.dimension(), expected.len());
    let near = |got: &[f32], expected: &[f32]| got.iter().zip(expected).all(|(got, told)| (got - told).abs() < 1e-5);
    assert!(near(&all.concat(), &expected));
    assert!(near(&few.unwrap().concat(), &expected), "the same beside others or not");
    let counted = embedder.embed_counted(texts, EmbedKind::Query).await.unwrap();
    assert!(counted.tokens.iter().all(|tokens| (1..=embedder.tokens_max()).contains(tokens)), "{:?}", counted.tokens);
    assert!(embedder.embed(Vec::new()).await.unwrap().is_empty());
}
