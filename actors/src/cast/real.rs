//! The real cast: models behind inference, a library behind the retriever, SQLite behind the ledger.

use super::{Cast, resting_role, role};
use crate::board::Board;
use crate::coordinator::MindCoordinator;
use crate::gate::Gate;
use crate::grader::Grader;
use crate::inference::{Inference, Routes};
use crate::ledger::{Ledger, WriterHandle};
use crate::retriever::{Library, Retriever};
use crate::stage::Stage;
use crate::worker::ModelWorker;
use std::sync::Arc;

/// The real actors over these models, this library and this ledger.
pub fn real_cast(routes: Routes, library: Arc<dyn Library>, ledger: Arc<WriterHandle>) -> Cast {
    Cast {
        coordinator: resting_role("mind", |args| (MindCoordinator, args)),
        worker: role("model", |args| (ModelWorker, args)),
        retriever: role(library.name().to_owned(), move |_stage: Arc<Stage>| (Retriever, Arc::clone(&library))),
        grader: role("grader", |stage: Arc<Stage>| (Grader, stage)),
        gate: role("gate", |stage: Arc<Stage>| (Gate, stage)),
        inference: role("endpoints", move |_stage: Arc<Stage>| (Inference, routes.clone())),
        ledger: role("sqlite", move |_stage: Arc<Stage>| (Ledger, Arc::clone(&ledger))),
        board: role("board", |stage: Arc<Stage>| (Board, stage)),
    }
}
