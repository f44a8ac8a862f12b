//! Every fixed sentence of an observation, in one place and in our own words. Tags and headers are those
//! that FoldAgent's models were trained on.

/// FoldAgent: the turn held no call.
pub(super) const NO_CALL: &str = "Your reply contained no function call that could be detected.";

/// Plain: how a call is written, after what was wrong with this one.
pub(super) const HOW_TO_CALL: &str = "Write calls like this, after your thinking and outside code fences:\n\
    <function=search>\n<parameter=query>WORDS</parameter>\n</function>";

/// A search without a query.
pub(super) const NO_QUERY: &str = "[Error] \"search\" needs a \"query\".";

/// An open_page with nothing to open.
pub(super) const NO_PAGE: &str = "[Error] \"open_page\" needs a \"docid\" or a \"url\".";

/// A finish with a blank answer, with an example.
pub(super) const BLANK_ANSWER: &str = "The answer could not be read. Send it again in this form:\n\
    <function=finish>\n<parameter=answer>YOUR ANSWER</parameter>\n\
    <parameter=explanation>YOUR EXPLANATION</parameter>\n\
    <parameter=confidence>YOUR CONFIDENCE</parameter>\n</function>";

/// A finish before any search.
pub(super) const SEARCH_FIRST: &str = "The answer was not accepted. Use search first to check the answer and \
    its evidence, and name the documents that support it in your explanation.";

/// After each observation, if the settings ask for it.
pub(super) const REMINDER: &str = "* Think about what has been found so far. If it does not yet settle the \
    question, keep searching, and give no answer while the evidence is insufficient.";

/// Before the snippet of a page that an earlier search showed.
pub(super) const SEEN: &str = "(An earlier search already showed this page, so the snippet is shorter. Use \
    open_page for the full content if it looks relevant.)";

/// A search that found nothing.
pub(super) const NOTHING_FOUND: &str = "No document was found. Try other words.";

/// A call made before, word for word.
pub(super) const REPEATED: &str = "(Note: you made this very call before. Repeating it brings nothing new; change \
    the words or open one of the pages.)";

/// Where a page was cut.
pub(super) const TRUNCATED: &str = "[Document is truncated.]";

/// FoldAgent: the page asked for does not exist.
pub(super) const NO_SUCH_PAGE: &str = "There is no document with this docid or url.";

/// More lookups than one turn may ask for.
pub(super) fn too_many(limit: usize) -> String {
    format!("[Error] A turn may look up at most {limit} things; the rest was not carried out.")
}

/// A function that does not exist here.
pub(super) fn unsupported(name: &str) -> String {
    format!("[Error] The function \"{name}\" is not available.")
}

/// Questions of a multi-part label that the answer leaves out.
pub(super) fn questions_missing(missing: &[String]) -> String {
    format!(
        "The answer was not accepted: it lacks {}. Give the answers to all questions in one finish call.",
        missing.join(", ")
    )
}
