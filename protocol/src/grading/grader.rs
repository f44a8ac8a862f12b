//! The order of grading one answer, as a machine: blank, exact match, judge, judge again while its words
//! cannot be read, and FoldAgent's second try. Words in, the next step out; it asks nobody itself.

use super::{Judgement, exact_match, judge_prompt, read_judgement, relaxed_match};
use crate::failure::Failure;
use crate::outcome::{GradedBy, Verdict};
use crate::profile::{GraderSettings, JudgeKind};
use crate::question::Question;
use std::sync::Arc;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum GradeStep {
    /// Ask a judge and give its words to [`Grader::heard`], or its failure to [`Grader::failed`].
    Ask {
        /// The whole prompt, as one user message.
        prompt: String,
        /// The second try after a `no`, for which FoldAgent takes a stronger judge.
        second_try: bool,
    },
    /// The verdict. Nothing follows.
    Done(Verdict),
}

/// The grading of one answer.
#[derive(Clone, Debug)]
pub struct Grader {
    settings: GraderSettings,
    question: Arc<Question>,
    answer: String,
    prompt: String,
    attempts: u32,
    second_try: bool,
    last: Option<(Judgement, String)>,
}

impl Grader {
    /// Grading of `answer`; `response` is the whole text that a BrowseComp judge is shown, while a FoldAgent
    /// judge sees the answer alone.
    pub fn new(settings: GraderSettings, question: Arc<Question>, answer: &str, response: &str) -> Self {
        let shown = if settings.judge == JudgeKind::Browsecomp { response } else { answer };
        let prompt = judge_prompt(settings.judge, &question.text, &question.answers, shown).unwrap_or_default();
        let answer = answer.to_owned();
        Self { settings, question, answer, prompt, attempts: 0, second_try: false, last: None }
    }

    /// The first step.
    pub fn start(&mut self) -> GradeStep {
        if self.answer.trim().is_empty() {
            return self.done(Some(false), GradedBy::Blank);
        }
        if exact_match(self.settings.exact, &self.answer, &self.question.answers) {
            return self.done(Some(true), GradedBy::ExactMatch);
        }
        if self.settings.judge == JudgeKind::None || self.settings.attempts_max == 0 {
            return self.done(Some(false), GradedBy::ExactMatch);
        }
        self.ask()
    }

    /// Takes a judge's words in.
    pub fn heard(&mut self, text: &str) -> GradeStep {
        let judgement = read_judgement(text, self.settings.published_parser);
        self.next(judgement, text.to_owned())
    }

    /// Takes in that a judge could not be reached, which counts as words that cannot be read.
    pub fn failed(&mut self, failure: &Failure) -> GradeStep {
        self.next(Judgement::default(), failure.to_string())
    }

    fn next(&mut self, judgement: Judgement, text: String) -> GradeStep {
        let correct = judgement.correct;
        // A second try that cannot be read leaves what the first said.
        if !self.second_try || correct.is_some() || self.last.is_none() {
            self.last = Some((judgement, text));
        }
        if !self.second_try {
            if correct.is_none() && self.attempts < self.settings.attempts_max {
                return self.ask();
            }
            let is_open = correct != Some(true) && self.settings.relaxed_second_try;
            if is_open && self.question.answers.iter().any(|gold| relaxed_match(&self.answer, gold)) {
                self.second_try = true;
                return self.ask();
            }
        }
        let correct = self.last.as_ref().and_then(|(judgement, _)| judgement.correct);
        self.done(correct, if correct.is_some() { GradedBy::Judge } else { GradedBy::Nobody })
    }

    fn ask(&mut self) -> GradeStep {
        self.attempts += 1;
        GradeStep::Ask { prompt: self.prompt.clone(), second_try: self.second_try }
    }

    fn done(&mut self, correct: Option<bool>, how: GradedBy) -> GradeStep {
        let (judgement, judge_text) =
            self.last.take().map_or((None, None), |(judgement, text)| (Some(judgement), Some(text)));
        let (extracted, confidence) =
            judgement.map_or((None, None), |judgement| (judgement.extracted, judgement.confidence));
        GradeStep::Done(Verdict { correct, extracted, confidence, how, judge_text, attempts: self.attempts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use crate::profile::ExactRule;

    fn settings() -> GraderSettings {
        GraderSettings {
            exact: ExactRule::Strict,
            relaxed_second_try: false,
            judge: JudgeKind::Browsecomp,
            published_parser: false,
            attempts_max: 3,
            tokens_max: 100,
            temperature: 0.0,
            timeout_ms: 1,
        }
    }

    /// Grades `answer` to a question whose answer is Paris, with a judge that says `words` in turn; returns
    /// the verdict and how often the second try was asked for.
    fn grade(settings: GraderSettings, answer: &str, words: &[&str]) -> (Verdict, u32) {
        let question = Question {
            id: "1".into(),
            text: "Which city?".into(),
            answers: vec!["Paris".into()],
            tier: "easy".into(),
            gold: vec![],
            evidence: vec![],
            decomposition: vec![],
        };
        let mut grader = Grader::new(settings, Arc::new(question), answer, answer);
        let mut step = grader.start();
        let mut second_tries = 0;
        for words in words {
            match step {
                GradeStep::Ask { second_try, .. } => second_tries += u32::from(second_try),
                GradeStep::Done(_) => panic!("nobody waits for {words}"),
            }
            step = match words.strip_prefix("failed") {
                Some(_) => grader.failed(&Failure::new(FailureKind::TimedOut, "judge")),
                None => grader.heard(words),
            };
        }
        match step {
            GradeStep::Done(verdict) => (verdict, second_tries),
            GradeStep::Ask { .. } => panic!("the grader still asks"),
        }
    }

    #[test]
    fn what_needs_no_judge_asks_none() {
        let (blank, _) = grade(settings(), " \n", &[]);
        assert_eq!((blank.correct, blank.how), (Some(false), GradedBy::Blank));
        let (same, _) = grade(settings(), "PARIS", &[]);
        assert_eq!((same.correct, same.how, same.attempts), (Some(true), GradedBy::ExactMatch, 0));
        let (other, _) = grade(GraderSettings { judge: JudgeKind::None, ..settings() }, "Rome", &[]);
        assert_eq!((other.correct, other.how), (Some(false), GradedBy::ExactMatch));
    }

    #[test]
    fn a_judge_is_asked_again_while_its_words_cannot_be_read() {
        let (verdict, _) =
            grade(settings(), "Rome", &["hm", "failed", "extracted_final_answer: Rome\ncorrect: no\nconfidence: 40"]);
        assert_eq!((verdict.correct, verdict.how, verdict.attempts), (Some(false), GradedBy::Judge, 3));
        assert_eq!((verdict.extracted.as_deref(), verdict.confidence), (Some("Rome"), Some(40.0)));
        let (verdict, _) = grade(settings(), "Rome", &["hm", "hm", "failed"]);
        assert_eq!((verdict.correct, verdict.how, verdict.attempts), (None, GradedBy::Nobody, 3));
        assert_eq!(verdict.judge_text.as_deref(), Some("timed out: judge"));
    }

    #[test]
    fn the_second_try_follows_a_no_where_the_loose_rule_holds() {
        let settings = GraderSettings { relaxed_second_try: true, ..settings() };
        let (verdict, tries) = grade(settings.clone(), "It is Paris", &["correct: no", "correct: yes"]);
        assert_eq!((verdict.correct, verdict.attempts, tries), (Some(true), 2, 1));
        let (verdict, tries) = grade(settings.clone(), "It is Paris", &["correct: no", "hm"]);
        assert_eq!((verdict.correct, verdict.judge_text.as_deref(), tries), (Some(false), Some("correct: no"), 1));
        let (verdict, tries) = grade(settings.clone(), "Rome", &["correct: no"]);
        assert_eq!((verdict.correct, tries), (Some(false), 0));
        let (verdict, tries) = grade(settings, "It is Paris", &["correct: yes"]);
        assert_eq!((verdict.correct, tries), (Some(true), 0));
    }
}
