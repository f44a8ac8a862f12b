//! The network that learns: its gradients against candle's and finite differences, tensor-parallel ranks and replicas against one, a loss
//! curve against torch's, and runs that are taken up again from disk.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test; clippy knows tests only by their attribute")]

#[path = "network/backward.rs"]
mod backward;
#[cfg(feature = "cuda")]
#[path = "network/card.rs"]
mod card;
#[cfg(feature = "cuda")]
#[path = "network/card_curve.rs"]
mod card_curve;
#[path = "network/curve.rs"]
mod curve;
#[cfg(feature = "cuda")]
#[path = "../../kernels/tests/conformance/emulated.rs"]
mod emulated;
#[path = "network/parallel.rs"]
mod parallel;
#[path = "network/reference.rs"]
mod reference;
#[path = "network/replicas.rs"]
mod replicas;
#[path = "network/resume.rs"]
mod resume;
#[path = "network/tiny.rs"]
mod tiny;
