//! A coordinator that is an actor of its own: it takes the real coordinator's messages and moves as it is told, by a
//! closure or by lines of TOML. It writes nothing to the ledger, so a resumed run lets it begin anew.

use legwork_actors::cast::{Role, role};
use legwork_actors::coordinator::{CoordinatorArgs, CoordinatorMsg, Decision};
use legwork_actors::episode::EpisodeMsg;
use legwork_protocol::budget::Amount;
use legwork_protocol::coordinator::{AnswerEnd, FinalAnswer};
use legwork_protocol::question::Question;
use legwork_protocol::worker::{Brief, Worker, WorkerReport};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a mock coordinator does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Gives these briefs, each with a whole worker's lease.
    Delegate(Vec<String>),
    /// Answers.
    Answer(String),
    /// Ends without an answer.
    GiveUp,
    /// Panics.
    Die,
    /// Thinks for so long, then makes the move.
    Think(Duration, Box<Move>),
}

impl Move {
    /// One brief.
    pub fn brief(text: impl Into<String>) -> Self {
        Self::Delegate(vec![text.into()])
    }

    /// The answer of the last report that has one; gives up without.
    pub fn answer_of(reports: &[WorkerReport]) -> Self {
        let last = reports.iter().rev().find_map(|report| report.answer.clone());
        last.map_or(Self::GiveUp, Self::Answer)
    }
}

/// Which move follows: the question, how many delegations there were, and the reports of the last one.
type Mind = dyn Fn(&Question, u32, &[WorkerReport]) -> Move + Send + Sync;

/// A coordinator without a model.
#[derive(Clone)]
pub struct MockCoordinator {
    mind: Arc<Mind>,
}

impl MockCoordinator {
    /// A coordinator that moves as `mind` says.
    pub fn new(mind: impl Fn(&Question, u32, &[WorkerReport]) -> Move + Send + Sync + 'static) -> Self {
        Self { mind: Arc::new(mind) }
    }

    /// A coordinator that follows lines.
    pub fn following(lines: Lines) -> Self {
        let deaths: Mutex<BTreeMap<String, u32>> = Mutex::default();
        Self::new(move |question, delegations, reports| {
            let line = lines.line_for(question);
            if let Some(times) = line.dies.filter(|_| line.dies_before == delegations) {
                let mut deaths = deaths.lock().unwrap_or_else(PoisonError::into_inner);
                let died = deaths.entry(question.id.to_string()).or_default();
                if *died < times {
                    *died += 1;
                    return Move::Die;
                }
            }
            let next = match (line.briefs.get(delegations as usize), &line.answer) {
                (Some(briefs), _) => {
                    let fill = |brief: &String| brief.replace("{question}", &question.text);
                    Move::Delegate(briefs.iter().map(fill).collect())
                }
                (None, Some(answer)) => Move::Answer(answer.clone()),
                (None, None) => Move::answer_of(reports),
            };
            match line.think_ms {
                0 => next,
                ms => Move::Think(Duration::from_millis(ms), Box::new(next)),
            }
        })
    }

    /// The role that it plays: `cast.coordinator = mock.role()`.
    pub fn role(&self) -> Arc<dyn Role<CoordinatorArgs, CoordinatorMsg>> {
        let mock = self.clone();
        role("mock: moves", move |args| (mock.clone(), args))
    }
}

/// What a mock coordinator says to which question, as TOML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// In order of preference: the first that fits is followed.
    #[serde(default, rename = "line")]
    pub lines: Vec<Line>,
}

/// What to say to the questions that it fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Only this question; any if absent.
    #[serde(default)]
    pub question: Option<String>,
    /// Rounds of briefs; `{question}` stands for the question's text.
    #[serde(default = "question_itself")]
    pub briefs: Vec<Vec<String>>,
    /// The answer; that of the last report if absent.
    #[serde(default)]
    pub answer: Option<String>,
    /// What each move takes, in milliseconds of the run's clock.
    #[serde(default)]
    pub think_ms: u64,
    /// Dies so often before it moves on.
    #[serde(default)]
    pub dies: Option<u32>,
    /// Dies after so many delegations.
    #[serde(default)]
    pub dies_before: u32,
}

fn question_itself() -> Vec<Vec<String>> {
    vec![vec!["{question}".to_owned()]]
}

impl Lines {
    /// Reads lines.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    fn line_for(&self, question: &Question) -> Line {
        let fits = |line: &&Line| line.question.as_deref().is_none_or(|id| id == question.id.as_str());
        self.lines.iter().find(fits).cloned().unwrap_or_else(|| Line {
            question: None,
            briefs: question_itself(),
            answer: None,
            think_ms: 0,
            dies: None,
            dies_before: 0,
        })
    }
}

/// Where a mock coordinator stands.
pub struct Standing {
    args: CoordinatorArgs,
    delegations: u32,
    reports: Vec<WorkerReport>,
    thought: bool,
    said: Option<Decision>,
}

impl Actor for MockCoordinator {
    type Msg = CoordinatorMsg;
    type State = Standing;
    type Arguments = CoordinatorArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<CoordinatorMsg>,
        args: CoordinatorArgs,
    ) -> Result<Standing, ActorProcessingErr> {
        myself.cast(CoordinatorMsg::Begin)?;
        Ok(Standing { args, delegations: 0, reports: Vec::new(), thought: false, said: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<CoordinatorMsg>,
        message: CoordinatorMsg,
        standing: &mut Standing,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CoordinatorMsg::Begin => {}
            // One that was restarted has forgotten how far it was; whoever tells it of reports knows.
            CoordinatorMsg::Reports(delegation, reports)
                if delegation + 1 > standing.delegations || standing.waits() =>
            {
                standing.delegations = delegation + 1;
                standing.reports = reports;
                standing.said = None;
            }
            CoordinatorMsg::Remind => {
                if let Some(decision) = &standing.said {
                    standing.args.decide_to.cast(EpisodeMsg::Decided(decision.clone()))?;
                }
                return Ok(());
            }
            _ => return Ok(()),
        }
        let mut next = (self.mind)(&standing.args.question, standing.delegations, &standing.reports);
        while let Move::Think(takes, then) = next {
            if !standing.thought {
                standing.thought = true;
                myself.send_after(takes, || CoordinatorMsg::Begin);
                return Ok(());
            }
            next = *then;
        }
        standing.thought = false;
        let decision = standing.decision(next);
        standing.said = Some(decision.clone());
        standing.args.decide_to.cast(EpisodeMsg::Decided(decision))?;
        Ok(())
    }
}

impl Standing {
    fn waits(&self) -> bool {
        matches!(self.said, Some(Decision::Delegate(..)))
    }

    fn decision(&self, next: Move) -> Decision {
        let end = |end: AnswerEnd, answer: Option<String>| {
            let text = answer.clone().unwrap_or_default();
            Decision::Answer(Box::new(FinalAnswer {
                answer,
                text,
                ..FinalAnswer::without_answer(end, Amount::default())
            }))
        };
        match next {
            Move::Delegate(texts) => {
                let lease = Worker::full_lease(&self.args.stage.profile);
                let briefs = texts.into_iter().map(|text| Brief { text, lease }).collect();
                Decision::Delegate(self.delegations, briefs)
            }
            Move::Answer(answer) => end(AnswerEnd::Answered, Some(answer)),
            Move::GiveUp | Move::Think(..) => end(AnswerEnd::NoAnswer, None),
            Move::Die => panic!("a planned panic"),
        }
    }
}
