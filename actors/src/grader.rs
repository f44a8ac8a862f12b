//! The grader: exact match first, then a judge model while its verdict cannot be read. It never guesses: what no
//! judge could say is `ungraded`.

use crate::address::Reply;
use crate::stage::Stage;
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest, Route, Sampling};
use legwork_protocol::grading::{self, GradeStep};
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::message::{Message, Role};
use legwork_protocol::outcome::Verdict;
use legwork_protocol::profile::GraderSettings;
use legwork_protocol::question::Question;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::future::Future;
use std::sync::Arc;

/// What is to be graded.
#[derive(Clone, Debug)]
pub struct Grading {
    /// Whose answer it is.
    pub episode: EpisodeKey,
    /// The question with its gold answers.
    pub question: Arc<Question>,
    /// The answer in short.
    pub answer: String,
    /// The answer as a judge is shown it.
    pub text: String,
    /// 0 to 100, as the answer said.
    pub confidence: Option<f64>,
}

/// What a grader is asked.
#[derive(Debug)]
pub enum GraderMsg {
    /// Is it right? Owes: the verdict.
    Grade(Box<Grading>, Reply<Verdict>),
}

/// The grader by exact match and judge.
pub struct Grader;

impl Actor for Grader {
    type Msg = GraderMsg;
    type State = Arc<Stage>;
    type Arguments = Arc<Stage>;

    async fn pre_start(
        &self,
        _myself: ActorRef<GraderMsg>,
        stage: Arc<Stage>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(stage)
    }

    async fn handle(
        &self,
        _myself: ActorRef<GraderMsg>,
        message: GraderMsg,
        stage: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let GraderMsg::Grade(grading, mut reply) = message;
        let stage = Arc::clone(stage);
        tokio::spawn(async move {
            let settings = stage.profile.grader.clone();
            tokio::select! {
                biased;
                () = reply.abandoned() => {}
                verdict = grade(&settings, &grading, |request| stage.generate(request)) => reply.send(verdict),
            }
        });
        Ok(())
    }
}

/// Grades an answer by these settings, asking the judge through `ask`.
pub async fn grade<F>(settings: &GraderSettings, grading: &Grading, ask: impl Fn(GenerateRequest) -> F) -> Verdict
where
    F: Future<Output = Result<Completion, Failure>>,
{
    let mut grader =
        grading::Grader::new(settings.clone(), Arc::clone(&grading.question), &grading.answer, &grading.text);
    let mut step = grader.start();
    loop {
        match step {
            GradeStep::Done(mut verdict) => {
                verdict.confidence = verdict.confidence.or(grading.confidence);
                return verdict;
            }
            GradeStep::Ask { prompt, .. } => {
                step = match ask(request(settings, prompt)).await {
                    Ok(completion) => grader.heard(&completion.text),
                    Err(failure) => grader.failed(&failure),
                };
            }
        }
    }
}

fn request(settings: &GraderSettings, prompt: String) -> GenerateRequest {
    GenerateRequest {
        route: Route::Judge,
        session: None,
        messages: vec![Arc::new(Message::new(Role::User, prompt))],
        tools: None,
        sampling: Sampling {
            max_tokens: settings.tokens_max,
            temperature: settings.temperature,
            top_p: 1.0,
            top_k: None,
            seed: None,
            stop: Vec::new(),
        },
        timeout_ms: settings.timeout_ms,
    }
}
