//! A grader that always says the same.

use legwork_actors::grader::GraderMsg;
use legwork_protocol::outcome::{GradedBy, Verdict};
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// Says `correct` of every answer; none is no verdict.
pub struct ConstantGrader(pub Option<bool>);

impl Actor for ConstantGrader {
    type Msg = GraderMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<GraderMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<GraderMsg>,
        message: GraderMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let GraderMsg::Grade(grading, reply) = message;
        reply.send(Verdict {
            correct: self.0,
            extracted: Some(grading.answer),
            confidence: grading.confidence,
            how: if self.0.is_some() { GradedBy::Judge } else { GradedBy::Nobody },
            judge_text: Some("mock".to_owned()),
            attempts: 1,
        });
        Ok(())
    }
}
