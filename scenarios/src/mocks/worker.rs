//! A worker that reports at once, from an answer key: for tests of coordinators, where no worker should matter.

use legwork_actors::episode::EpisodeMsg;
use legwork_actors::worker::{WorkerArgs, WorkerMsg};
use legwork_protocol::budget::Amount;
use legwork_protocol::gate::GateNotes;
use legwork_protocol::worker::{ReportStatus, WorkerReport};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

/// The answer to a brief, if the key has it.
type AnswerKey = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Looks a brief up in its key and reports what stands there, or nothing.
pub struct OracleWorker {
    key: Arc<AnswerKey>,
}

impl OracleWorker {
    /// A worker that answers a brief by `key`.
    pub fn new(key: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { key: Arc::new(key) }
    }
}

impl Clone for OracleWorker {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key) }
    }
}

impl Actor for OracleWorker {
    type Msg = WorkerMsg;
    type State = ();
    type Arguments = WorkerArgs;

    async fn pre_start(&self, _myself: ActorRef<WorkerMsg>, args: WorkerArgs) -> Result<(), ActorProcessingErr> {
        let report = WorkerReport {
            status: ReportStatus::Finished,
            answer: (self.key)(&args.brief.text),
            explanation: Some("from the answer key of a mock".to_owned()),
            confidence: Some(100.0),
            spent: Amount::default(),
            searches: 0,
            opens: 0,
            malformed_turns: 0,
            repeated_calls: 0,
            degraded_searches: 0,
            retrieved: Vec::new(),
            opened: Vec::new(),
            gate: GateNotes::default(),
            turn_served_ms: Vec::new(),
        };
        args.report_to.cast(EpisodeMsg::WorkerReported { worker: args.worker, report: Box::new(report) })?;
        Ok(())
    }
}
