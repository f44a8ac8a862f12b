//! What a turn's calls ask for, in order and up to the first finish: the same walk for planning and for
//! observing, so that answers always meet their calls. It reads arguments and looks nothing up.

use super::Lookup;
use crate::call::{Call, Reading};
use crate::id::DocId;
use crate::profile::{ToolSettings, ToolStyle};
use crate::retrieval::PageRef;

/// Lookups of one turn at most.
pub const LOOKUPS_MAX: usize = 256;

/// One thing that a turn asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step<'a> {
    /// The call it comes from.
    pub(super) call: &'a Call,
    /// What it asks.
    pub(super) ask: Ask<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask<'a> {
    Search {
        query: &'a str,
        topk: u32,
    },
    SearchNothing,
    Open(PageRef),
    OpenNothing,
    Finish,
    Unsupported,
    /// The limit of lookups is reached; nothing follows.
    TooMuch,
}

impl Step<'_> {
    pub(super) fn lookup(&self, server_k: u32) -> Option<Lookup> {
        match &self.ask {
            Ask::Search { query, .. } => Some(Lookup::Search { query: (*query).to_owned(), k: server_k }),
            Ask::Open(page) => Some(Lookup::Open(page.clone())),
            _ => None,
        }
    }

    pub(super) fn is_search(&self) -> bool {
        matches!(self.ask, Ask::Search { .. } | Ask::SearchNothing)
    }
}

/// All steps, ending with the first finish.
pub(super) fn steps<'a>(settings: &ToolSettings, reading: &'a Reading) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    for call in &reading.calls {
        let asks = match call.name.as_str() {
            "search" => searches(settings, call),
            "open_page" => vec![open(settings.style, call)],
            "finish" => vec![Ask::Finish],
            _ => vec![Ask::Unsupported],
        };
        for ask in asks {
            let is_last = ask == Ask::Finish;
            if steps.len() == LOOKUPS_MAX && !is_last {
                steps.push(Step { call, ask: Ask::TooMuch });
                return steps;
            }
            steps.push(Step { call, ask });
            if is_last {
                return steps;
            }
        }
    }
    steps
}

/// FoldAgent searches once for the last query; the plain style once for each of a list.
fn searches<'a>(settings: &ToolSettings, call: &'a Call) -> Vec<Ask<'a>> {
    let topk = entries(settings, call.argument("topk"));
    let queries: Vec<&str> = match settings.style {
        ToolStyle::Foldagent => call.argument("query").into_iter().filter(|query| !query.is_empty()).collect(),
        ToolStyle::Plain => call.values("query").map(str::trim).filter(|query| !query.is_empty()).collect(),
    };
    if queries.is_empty() {
        return vec![Ask::SearchNothing];
    }
    queries.into_iter().map(|query| Ask::Search { query, topk }).collect()
}

/// Entries asked for: digits only, or else the default. FoldAgent takes any number; the plain style stays
/// between one and the most allowed.
fn entries(settings: &ToolSettings, topk: Option<&str>) -> u32 {
    let digits = match settings.style {
        ToolStyle::Foldagent => topk,
        ToolStyle::Plain => topk.map(str::trim),
    };
    let wanted = digits
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(settings.entries_default, |text| text.parse().unwrap_or(u32::MAX));
    match settings.style {
        ToolStyle::Foldagent => wanted,
        ToolStyle::Plain => wanted.clamp(1, settings.entries_max.unwrap_or(u32::MAX).max(1)),
    }
}

fn open<'a>(style: ToolStyle, call: &Call) -> Ask<'a> {
    let argument = |name| {
        let text = call.argument(name)?;
        let text = if style == ToolStyle::Plain { text.trim() } else { text };
        (!text.is_empty()).then_some(text)
    };
    match (argument("docid"), argument("url")) {
        (Some(docid), _) => Ask::Open(PageRef::DocId(DocId::new(docid))),
        (None, Some(url)) => Ask::Open(PageRef::Url(url.to_owned())),
        (None, None) => Ask::OpenNothing,
    }
}
