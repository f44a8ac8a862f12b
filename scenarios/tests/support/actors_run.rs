//! A run of the real actors over a ledger in a folder that goes with it: for tests that need a whole run and look at its
//! records only.

use legwork_actors::cast::real_cast;
use legwork_actors::clock::Clock;
use legwork_actors::inference::Routes;
use legwork_actors::ledger::{LedgerReader, Manifest, Store, WriterHandle};
use legwork_actors::retriever::Library;
use legwork_actors::run::{RunEnd, RunPlan, start};
use legwork_actors::stage::{RunLimits, Stage, StageParts};
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::tokens::QuarterBytes;
use legwork_protocol::untrusted::ControlTokens;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Runs these questions once, all of them at once.
pub(crate) async fn run(
    profile: Profile,
    questions: &[Arc<Question>],
    routes: Routes,
    library: Arc<dyn Library>,
) -> (RunEnd, Vec<EpisodeRecord>) {
    let folder = tempfile::tempdir().unwrap();
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
    let path = folder.path().join("run");
    let writer = Arc::new(WriterHandle::start(Store::create(&path, &manifest, &owned).unwrap()).unwrap());
    let stage = Stage::new(StageParts {
        profile: Arc::new(profile),
        limits: RunLimits::default(),
        script: None,
        seed: 1,
        clock: Clock::system(),
        worker_tokens: Arc::new(QuarterBytes),
        coordinator_tokens: Arc::new(QuarterBytes),
        control_tokens: ControlTokens::default(),
        cast: real_cast(routes, library, writer),
    });
    let waiting = questions.iter().map(|question| EpisodeKey { round: 0, question: question.id.clone() }).collect();
    let plan = RunPlan { stage, questions: questions.to_vec(), waiting, begun: HashSet::new(), ended: Vec::new() };
    let end = start(plan).await.unwrap().over.await.unwrap();
    let records = LedgerReader::open(&path).unwrap().records().unwrap();
    (end, records)
}
