//! Mocks, one file a role. Each is a pure rule with a seed or a script; none of them looks at a clock.

mod coordinator;
mod gate;
mod grader;
mod instant;
mod library;
mod oracle;
mod parts;
mod worker;

pub use coordinator::{Line, Lines, MockCoordinator, Move};
pub use gate::MockGate;
pub use grader::ConstantGrader;
pub use instant::InstantModel;
pub use library::{FixedLibrary, GoldLibrary};
pub use oracle::{OracleModel, Skill};
pub use parts::{MockCoordinatorModel, MockJudge};
pub use worker::OracleWorker;
