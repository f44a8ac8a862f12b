//! A small run in process: the archive's questions, an oracle for a model, whoever else the test casts.

use legwork_actors::cast::{Cast, real_cast};
use legwork_actors::clock::Clock;
use legwork_actors::ledger::{LedgerReader, Manifest, Store, WriterHandle};
use legwork_actors::run::{RunEnd, RunPlan, start};
use legwork_actors::stage::{RunLimits, Stage, StageParts};
use legwork_endpoints::Endpoint;
use legwork_protocol::call::Grammar;
use legwork_protocol::generation::Route;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::retrieval::Page;
use legwork_protocol::tokens::QuarterBytes;
use legwork_protocol::untrusted::ControlTokens;
use legwork_scenarios::mocks::{GoldLibrary, OracleModel, Skill};
use legwork_worlds::archive;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

static ARCHIVE: LazyLock<archive::Archive> = LazyLock::new(|| archive::generate(archive::DEFAULT_SEED).unwrap());

/// The first `count` test questions of the archive.
pub(crate) fn questions(count: usize) -> Vec<Arc<Question>> {
    ARCHIVE.world.test.iter().take(count).cloned().map(Arc::new).collect()
}

/// A model that never slips.
pub(crate) fn oracle(questions: &[Arc<Question>]) -> Arc<dyn Endpoint> {
    Arc::new(OracleModel::new("oracle", Grammar::Strict, Skill::PERFECT, std::time::Duration::ZERO, questions))
}

/// Runs `questions` in `folder`, all of them at once, with the real cast changed by `recast`.
pub(crate) async fn run(
    folder: &Path,
    questions: &[Arc<Question>],
    model: Arc<dyn Endpoint>,
    recast: impl FnOnce(&mut Cast),
) -> (RunEnd, Vec<EpisodeRecord>) {
    let profile: Profile = toml::from_str(include_str!("../src/profiles/archive-mock.toml")).unwrap();
    let owned: Vec<Question> = questions.iter().map(|question| (**question).clone()).collect();
    let manifest = Manifest {
        run: "test".into(),
        began_epoch_ms: 0,
        legwork: "test".into(),
        world: "archive".into(),
        profile: profile.clone(),
        seed: 1,
        rounds: 1,
        questions: u32::try_from(owned.len()).unwrap(),
        mock: true,
        inputs: BTreeMap::new(),
        script: None,
        forked_from: None,
    };
    let store = Store::create(folder, &manifest, &owned).unwrap();
    let writer = Arc::new(WriterHandle::start(store).unwrap());
    let pages = ARCHIVE.world.documents.iter().map(|document| Page {
        docid: document.docid.clone(),
        url: None,
        title: Some(document.title.clone()),
        text: Arc::from(document.text.as_str()),
    });
    let library = Arc::new(GoldLibrary::new(pages, owned));
    let mut cast = real_cast(BTreeMap::from([(Route::Worker, model)]), library, writer);
    recast(&mut cast);
    let stage = Stage::new(StageParts {
        profile: Arc::new(profile),
        limits: RunLimits::default(),
        script: None,
        seed: 1,
        clock: Clock::system(),
        worker_tokens: Arc::new(QuarterBytes),
        coordinator_tokens: Arc::new(QuarterBytes),
        control_tokens: ControlTokens::default(),
        cast,
    });
    let waiting = questions.iter().map(|question| EpisodeKey { round: 0, question: question.id.clone() }).collect();
    let plan = RunPlan { stage, questions: questions.to_vec(), waiting, begun: HashSet::new(), ended: Vec::new() };
    let end = start(plan).await.unwrap().over.await.unwrap();
    (end, LedgerReader::open(folder).unwrap().records().unwrap())
}
