//! Mocks, one file a role. Each is a pure rule with a seed or a script; none of them looks at a clock.

mod board;
mod coordinator;
mod gate;
mod grader;
mod inference;
mod instant;
mod keyed;
mod ledger;
mod library;
mod oracle;
mod parts;
mod retriever;
mod teacher;
mod trail;
mod worker;

pub use board::RecordingBoard;
pub use coordinator::{Line, Lines, MockCoordinator, Move};
pub use gate::{ConstantGate, GATE_TOKENS, MockGate, MockGateModel};
pub use grader::ConstantGrader;
pub use inference::MockInference;
pub use instant::InstantModel;
pub use ledger::MemoryLedger;
pub use library::{FixedLibrary, GoldLibrary};
pub use oracle::{OracleModel, Skill};
pub use parts::{MockCoordinatorModel, MockJudge};
pub use retriever::MockRetriever;
pub use teacher::TeacherModel;
pub use trail::TrailModel;
pub use worker::OracleWorker;
