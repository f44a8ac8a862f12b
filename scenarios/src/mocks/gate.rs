//! A gate's model that always says CONTINUE.

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};

/// Says CONTINUE.
#[derive(Clone, Copy, Debug, Default)]
pub struct MockGate;

impl Endpoint for MockGate {
    fn name(&self) -> &str {
        "mock: patient gate"
    }

    fn generate(&self, _request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let text = "<function=gate>\n<parameter=decision>CONTINUE</parameter>\n</function>".to_owned();
        let usage = Usage { completion_tokens: 12, ..Usage::default() };
        futures::future::ready(Ok(Completion {
            text,
            finish: FinishReason::Stop,
            usage,
            attempts: 1,
            ..Completion::default()
        }))
        .boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}
