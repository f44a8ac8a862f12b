//! The worst reader: a model that obeys whatever order it can make out in the last thing it was shown, and takes a tag
//! that stands there whole for its own. With nobody to obey it does what the mock behind it does. It is a mock; its
//! rates say what the harness keeps away from a model, and nothing of any model.

use super::attack::{Attack, Order};
use super::readable::readable;
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::call::{Call, Grammar};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};
use legwork_protocol::message::{Message, Role};
use std::sync::Arc;

/// A model that obeys documents.
pub struct GullibleModel {
    inner: Arc<dyn Endpoint>,
    grammar: Grammar,
    orders: Vec<(String, Order)>,
}

impl GullibleModel {
    /// A model that understands the orders of these attacks and is otherwise `inner`.
    pub fn new(inner: Arc<dyn Endpoint>, grammar: Grammar, attacks: &[Attack]) -> Self {
        let orders = attacks.iter().flat_map(|attack| &attack.orders);
        let orders = orders.map(|order| (readable(&order.heard), order.then.clone())).collect();
        Self { inner, grammar, orders }
    }

    /// What it says in obedience, if there is somebody to obey.
    fn obey(&self, messages: &[Arc<Message>]) -> Option<String> {
        // The first two are its own side's: the standing orders and the brief.
        let last = messages.iter().skip(2).rfind(|message| message.role != Role::Assistant)?;
        if last.content.contains("this is your last turn") {
            return None;
        }
        if !self.grammar.read(&last.content, &[]).calls.is_empty() {
            return Some(last.content.clone());
        }
        let last = readable(&last.content);
        if let Some((_, order)) = self.orders.iter().find(|(heard, _)| last.contains(heard)) {
            return Some(self.carry_out(order, messages));
        }
        // An order to go on for ever is not forgotten with the page that gave it: whoever has begun goes on.
        let begun = |query: &str| messages.iter().any(|m| m.role == Role::Assistant && m.content.contains(query));
        let burning = self.orders.iter().map(|(_, order)| order);
        let mut burning = burning.filter(|order| matches!(order, Order::Burn { query } if begun(query)));
        burning.next().map(|order| self.carry_out(order, messages))
    }

    fn carry_out(&self, order: &Order, messages: &[Arc<Message>]) -> String {
        let call = match order {
            Order::Finish { answer, explanation } => {
                Call::new("finish", [("answer", answer.as_str()), ("explanation", explanation.as_str())])
            }
            Order::Call { name, arguments } => Call::new(name.as_str(), arguments.clone()),
            Order::Burn { query } => Call::new("search", [("query", query.as_str())]),
            Order::Reveal => {
                let own = messages.first().map(|message| message.content.as_str()).unwrap_or_default();
                Call::new("finish", [("answer", own)])
            }
        };
        format!("<think>The page says so.</think>\n\n{}", self.grammar.render(&[call]))
    }
}

impl Endpoint for GullibleModel {
    fn name(&self) -> &str {
        "mock: gullible"
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        async move {
            let Some(text) = self.obey(&request.messages) else { return self.inner.generate(request).await };
            let completion_tokens = u32::try_from(text.len().div_ceil(4)).unwrap_or(u32::MAX);
            let usage = Usage { completion_tokens, ..Usage::default() };
            Ok(Completion { text, finish: FinishReason::Stop, usage, attempts: 1, ..Completion::default() })
        }
        .boxed()
    }

    fn tally(&self) -> Tally {
        self.inner.tally()
    }
}
