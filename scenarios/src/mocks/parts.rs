//! Mock models for the smaller parts: a coordinator that delegates the question and believes the report, and a judge
//! that compares letters and digits.

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, FinishReason, GenerateRequest, Usage};

/// Delegates the question as one brief, then answers what the report says.
#[derive(Clone, Copy, Debug, Default)]
pub struct MockCoordinatorModel;

/// Says yes if the gold answer's letters and digits stand in the response.
#[derive(Clone, Copy, Debug, Default)]
pub struct MockJudge;

impl Endpoint for MockCoordinatorModel {
    fn name(&self) -> &str {
        "mock: believing coordinator"
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let question =
            request.messages.get(1).map(|message| message.content.trim_start_matches("Question:\n").to_owned());
        let report = request.messages.last().and_then(|message| {
            let line = message.content.lines().find_map(|line| line.strip_prefix("Answer: "))?;
            Some(line.to_owned())
        });
        let turn = request.session.as_ref().map_or(0, |session| session.turn);
        let text = if turn == 0 {
            format!("<function=delegate>\n<parameter=brief>{}</parameter>\n</function>", question.unwrap_or_default())
        } else {
            let answer = report.unwrap_or_default();
            format!("<function=answer>\n<parameter=answer>{answer}</parameter>\n</function>")
        };
        futures::future::ready(Ok(said(text))).boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

impl Endpoint for MockJudge {
    fn name(&self) -> &str {
        "mock: comparing judge"
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let prompt = request.messages.last().map(|message| message.content.clone()).unwrap_or_default();
        let letters = |text: &str| -> String {
            text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
        };
        let after = |head: &str| prompt.rsplit_once(head).map(|(_, rest)| rest).unwrap_or_default();
        let reference = after("Reference answer:\n").lines().next().or(after("Correct answer:\n").lines().next());
        let gold = letters(reference.unwrap_or_default());
        let response = prompt.split_once("<<<\n").map(|(_, rest)| rest).unwrap_or_default();
        let response = response.split("\n>>>").next().unwrap_or_default();
        let said_so = letters(response);
        let verdict = if !gold.is_empty() && said_so.contains(&gold) { "yes" } else { "no" };
        let text = format!("extracted_final_answer: {said_so}\nreasoning: mock\ncorrect: {verdict}\nconfidence: 100");
        futures::future::ready(Ok(said(text))).boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

fn said(text: String) -> Completion {
    let completion_tokens = u32::try_from(text.len() / 4).unwrap_or(u32::MAX);
    Completion {
        text,
        finish: FinishReason::Stop,
        usage: Usage { completion_tokens, ..Usage::default() },
        attempts: 1,
        ..Completion::default()
    }
}
