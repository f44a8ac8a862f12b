//! The observation of one turn, written step by step. Everything that somebody else wrote, the model's own
//! query included, passes through [`Untrusted`]; the fixed sentences are in `notice`.

use super::step::{Ask, Step, steps};
use super::{CallDigest, Environment, Finish, LookupAnswer, Observed, digest, notice, words};
use crate::call::python::trim;
use crate::call::{Call, Reading};
use crate::failure::Failure;
use crate::grading::{exact_match, read_confidence};
use crate::id::DocId;
use crate::profile::{ExactRule, ToolStyle};
use crate::retrieval::{Hit, Page, PageRef, SearchAnswer};
use crate::untrusted::Untrusted;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Characters of a failure's story that a model is shown.
const FAILURE_CHARS_MAX: usize = 300;
/// Characters of a function's name that an error repeats.
const NAME_CHARS_MAX: usize = 100;

static QUESTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"<(q\d+)>").expect("the pattern is a constant, and a test uses it"));

/// Observes a turn.
pub(super) fn observe(environment: &Environment, reading: &Reading, answers: &[LookupAnswer]) -> Observed {
    let mut observed = Observed { malformed: reading.calls.is_empty(), ..Observed::default() };
    if reading.calls.is_empty() {
        observed.text = no_call(environment, reading);
        return observed;
    }
    let steps = steps(&environment.settings, reading);
    let mut turn = Turn { environment, observed, seen: BTreeSet::new(), made: BTreeSet::new() };
    let ended = turn.walk(&steps, answers);
    let mut observed = turn.observed;
    if !ended {
        if let (ToolStyle::Plain, Some(fault)) = (environment.settings.style, &reading.fault) {
            paragraph(&mut observed.text, &format!("[Error] {}.", quoted(environment, &fault.to_string())));
        }
        if environment.settings.repeat_notice && observed.repeated > 0 {
            paragraph(&mut observed.text, notice::REPEATED);
        }
        if environment.settings.reminder {
            observed.text.push_str("\n\n");
            observed.text.push_str(notice::REMINDER);
        }
    }
    observed.text = trim(&observed.text).to_owned();
    observed
}

fn no_call(environment: &Environment, reading: &Reading) -> String {
    match (environment.settings.style, &reading.fault) {
        (ToolStyle::Foldagent, _) | (_, None) => notice::NO_CALL.to_owned(),
        (ToolStyle::Plain, Some(fault)) => {
            format!("[Error] {}. {}", quoted(environment, &fault.to_string()), notice::HOW_TO_CALL)
        }
    }
}

fn paragraph(text: &mut String, sentence: &str) {
    let end = text.trim_end().len();
    text.truncate(end);
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(sentence);
}

fn quoted(environment: &Environment, text: &str) -> String {
    Untrusted::from(text).for_prompt(&environment.control).into_owned()
}

/// One turn being observed.
struct Turn<'a> {
    environment: &'a Environment,
    observed: Observed,
    /// Documents that searches of this turn showed first.
    seen: BTreeSet<DocId>,
    /// Calls of this turn.
    made: BTreeSet<CallDigest>,
}

impl Turn<'_> {
    /// Takes the steps in order; true if the observation is complete as it stands.
    fn walk(&mut self, steps: &[Step<'_>], answers: &[LookupAnswer]) -> bool {
        let mut answers = answers.iter();
        let mut searches = self.environment.search_calls;
        let mut last_call: Option<&Call> = None;
        for step in steps {
            searches = searches.saturating_add(u32::from(step.is_search()));
            if step.ask != Ask::Finish && !last_call.is_some_and(|last| std::ptr::eq(last, step.call)) {
                self.notice_repetition(step.call);
            }
            last_call = Some(step.call);
            let failure = match &step.ask {
                Ask::Search { query, topk } => self.search(query, *topk, answers.next()),
                Ask::Open(page) => self.open(page, step.call, answers.next()),
                Ask::SearchNothing => self.error(notice::NO_QUERY),
                Ask::OpenNothing => self.error(notice::NO_PAGE),
                Ask::TooMuch => self.error(&notice::too_many(super::LOOKUPS_MAX)),
                Ask::Unsupported => self.unsupported(&step.call.name),
                Ask::Finish => {
                    self.finish(step.call, searches);
                    return true;
                }
            };
            if let Some(failure) = failure {
                // FoldAgent's action as a whole fails with the first lookup that does.
                self.observed.text = self.failure(&failure);
                return true;
            }
        }
        false
    }

    fn is_plain(&self) -> bool {
        self.environment.settings.style == ToolStyle::Plain
    }

    fn quoted(&self, text: &str) -> String {
        quoted(self.environment, text)
    }

    /// A field of one line: the plain style keeps other people's line ends out of it.
    fn line(&self, text: &str) -> String {
        if self.is_plain() {
            return self.quoted(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        self.quoted(text)
    }

    fn notice_repetition(&mut self, call: &Call) {
        let digest = digest(call);
        let is_repeated = self.environment.made.contains(&digest) || !self.made.insert(digest);
        self.observed.repeated += u32::from(is_repeated);
    }

    fn error(&mut self, sentence: &str) -> Option<Failure> {
        self.observed.text.push_str(sentence);
        if self.is_plain() {
            self.observed.text.push('\n');
        }
        None
    }

    /// FoldAgent forgets what the turn had shown before; we do not.
    fn unsupported(&mut self, name: &str) -> Option<Failure> {
        let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
        let sentence = notice::unsupported(&self.line(&shown));
        if !self.is_plain() {
            self.observed.text.clear();
        }
        self.error(&sentence)
    }

    fn failure(&self, failure: &Failure) -> String {
        let story: String = failure.to_string().chars().take(FAILURE_CHARS_MAX).collect();
        format!("Error: {}", self.quoted(&story))
    }

    /// A lookup without its answer: FoldAgent's style gives the failure back, the plain style says so and goes
    /// on. The story of a failure is for the record, not for a model.
    fn not_answered(&mut self, what: &str, answer: Option<&LookupAnswer>) -> Option<Failure> {
        match answer {
            Some(LookupAnswer::Failed(failure)) if !self.is_plain() => return Some(failure.clone()),
            Some(LookupAnswer::Failed(failure)) => {
                let sentence =
                    format!("[Error] {what} could not be carried out ({}). You may try again.", failure.kind.name());
                self.error(&sentence);
            }
            _ => {
                self.error(&format!("[Error] {what} was not carried out."));
            }
        }
        None
    }

    fn search(&mut self, query: &str, topk: u32, answer: Option<&LookupAnswer>) -> Option<Failure> {
        let Some(LookupAnswer::Found(found)) = answer else { return self.not_answered("The search", answer) };
        self.observed.searches += 1;
        self.observed.degraded += u32::from(found.degraded);
        let header = format!("[Search Results for \"{}\"]\n", self.line(query));
        self.observed.text.push_str(&header);
        if found.hits.is_empty() && self.is_plain() {
            self.observed.text.push_str(notice::NOTHING_FOUND);
            self.observed.text.push('\n');
        }
        self.entries(found, topk);
        self.observed.text.push('\n');
        None
    }

    fn entries(&mut self, found: &SearchAnswer, topk: u32) {
        let settings = &self.environment.settings;
        let entries_max = settings.entries_max.map_or(usize::MAX, |most| most as usize);
        let mut cost = 0.0;
        for (index, hit) in found.hits.iter().take(entries_max).enumerate() {
            let is_seen = self.environment.seen.contains(&hit.docid) || self.seen.contains(&hit.docid);
            cost += if is_seen { settings.seen_cost } else { 1.0 };
            let entry = self.entry(index + 1, hit, is_seen);
            self.observed.text.push_str(&entry);
            self.observed.listed.push(hit.docid.clone());
            if !is_seen {
                self.seen.insert(hit.docid.clone());
                self.observed.shown.push(hit.docid.clone());
            }
            if cost >= f64::from(topk) {
                break;
            }
        }
    }

    fn entry(&self, number: usize, hit: &Hit, is_seen: bool) -> String {
        let settings = &self.environment.settings;
        let words = if is_seen { settings.snippet_words_seen } else { settings.snippet_words_new };
        let snippet = self.quoted(&words::snippet(&hit.text, words, settings.style));
        let notice = if is_seen { format!("{} ", notice::SEEN) } else { String::new() };
        let docid = self.line(hit.docid.as_str());
        let head = self.head(&docid, hit.title.as_deref(), hit.url.as_deref());
        format!("\n--- #{number}: {docid}---\n{head}content: {notice}{snippet}\n")
    }

    /// The lines before the content. FoldAgent's corpus always has an address and never a title.
    fn head(&self, docid: &str, title: Option<&str>, url: Option<&str>) -> String {
        let mut head = format!("docid: {docid}\n");
        if self.is_plain() {
            let lines = [("title", title), ("url", url)];
            for (name, text) in lines.into_iter().filter_map(|(name, text)| Some((name, text?))) {
                head.push_str(&format!("{name}: {}\n", self.line(text)));
            }
        } else {
            head.push_str(&format!("url: {}\n", self.line(url.unwrap_or_default())));
        }
        head
    }

    fn open(&mut self, asked: &PageRef, call: &Call, answer: Option<&LookupAnswer>) -> Option<Failure> {
        match answer {
            Some(LookupAnswer::Page(Some(page))) => self.opened(page),
            Some(LookupAnswer::Page(None)) => self.not_found(asked, call),
            _ => return self.not_answered("Opening the page", answer),
        }
        None
    }

    fn opened(&mut self, page: &Page) {
        let settings = &self.environment.settings;
        let head = self.head(&self.line(page.docid.as_str()), page.title.as_deref(), page.url.as_deref());
        let content = self.quoted(&words::page(&page.text, settings.page_words, settings.style));
        self.observed.text.push_str(&format!("[Opened Page Content]\n{head}content: {content}\n\n"));
        self.observed.opens += 1;
        self.observed.opened.push(page.docid.clone());
    }

    /// FoldAgent's server answers with a row like any other, in which nothing stands for what was not given.
    fn not_found(&mut self, asked: &PageRef, call: &Call) {
        if self.is_plain() {
            let asked = match asked {
                PageRef::DocId(docid) => format!("docid {}", self.line(docid.as_str())),
                PageRef::Url(url) => format!("url {}", self.line(url)),
            };
            self.error(&format!("[Error] There is no document with the {asked}. Use a docid from the search results."));
            return;
        }
        let given = |name| call.argument(name).filter(|text| !text.is_empty()).unwrap_or("None");
        let (docid, url) = (self.line(given("docid")), self.line(given("url")));
        let content = notice::NO_SUCH_PAGE;
        self.observed
            .text
            .push_str(&format!("[Opened Page Content]\ndocid: {docid}\nurl: {url}\ncontent: {content}\n\n"));
    }

    /// Ends the turn: with a finish, or with a refusal that replaces what the turn had shown.
    fn finish(&mut self, call: &Call, searches: u32) {
        let settings = &self.environment.settings;
        let argument = |name: &str| call.argument(name).map(|text| if self.is_plain() { text.trim() } else { text });
        let mut answer = argument("answer").unwrap_or_default();
        if trim(answer).is_empty() {
            return self.refuse(notice::BLANK_ANSWER);
        }
        if searches == 0 {
            if settings.must_search && !self.environment.finish_refused && self.must_search_for(answer) {
                self.observed.finish_refused = true;
                return self.refuse(notice::SEARCH_FIRST);
            }
            if settings.blank_without_search {
                answer = "";
            }
        }
        let missing = self.questions_missing(answer);
        if !missing.is_empty() {
            return self.refuse(&notice::questions_missing(&missing));
        }
        self.observed.finish = Some(Finish {
            answer: answer.to_owned(),
            explanation: argument("explanation").filter(|text| !text.is_empty()).map(str::to_owned),
            confidence: argument("confidence").and_then(read_confidence),
        });
        self.observed.text.clear();
    }

    fn refuse(&mut self, sentence: &str) {
        self.observed.text.clear();
        self.observed.text.push_str(sentence);
    }

    /// FoldAgent insists on a search only for an answer that is right already.
    fn must_search_for(&self, answer: &str) -> bool {
        match (&self.environment.label, self.environment.settings.style) {
            (Some(label), ToolStyle::Foldagent) => {
                exact_match(ExactRule::Foldagent, answer, std::slice::from_ref(label))
            }
            _ => true,
        }
    }

    fn questions_missing(&self, answer: &str) -> Vec<String> {
        let Some(label) = &self.environment.label else { return Vec::new() };
        let asked = questions(label);
        let answered = questions(answer);
        asked.into_iter().filter(|question| !answered.contains(question)).collect()
    }
}

/// The names of all closed `<qN>` elements, in order.
fn questions(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(found) = QUESTION.captures_at(text, at) {
        let whole = found.get_match();
        let close = format!("</{}>", &found[1]);
        match text[whole.end()..].find(&close) {
            Some(offset) => {
                names.push(found[1].to_owned());
                at = whole.end() + offset + close.len();
            }
            None => at = whole.end(),
        }
    }
    names
}
