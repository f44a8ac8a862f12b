//! The formats: nothing untrusted acts in any of them, a mock is never mistaken, JSON reads back.

use crate::gallery;
use crate::support::{plan, provenance, record};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::outcome::Outcome;
use legwork_report::provenance::MOCK_NOTICE;
use legwork_report::render::json::{Envelope, SCHEMA};
use legwork_report::{Charset, Digest, Format, Provenance, Summary, SummaryOptions, render, summarise};
use proptest::prelude::*;

const FORMATS: [Format; 5] =
    [Format::Text(Charset::Unicode), Format::Text(Charset::Ascii), Format::Markdown, Format::Json, Format::Html];

/// A report that carries one string in every place that takes one.
fn injected(text: &str, format: Format) -> String {
    let plan = plan([(text, text)]);
    let mut failed = record(text, text, Outcome::Failed(FailureKind::BadResponse));
    failed.failure = Some(Failure::new(FailureKind::BadResponse, text));
    let summary = summarise(&plan, &[failed], &SummaryOptions::default()).unwrap();
    let provenance = Provenance {
        title: text.to_owned(),
        run_id: text.to_owned(),
        profile: text.to_owned(),
        digests: vec![Digest::new(text, text)],
        mock: false,
    };
    render(&summary, &[provenance], format).unwrap()
}

#[test]
fn a_mock_is_named_in_every_format() {
    let mut origin = provenance("mock");
    let summary = gallery::summary();
    for format in FORMATS {
        origin.mock = false;
        assert!(!render(&summary, std::slice::from_ref(&origin), format).unwrap().contains("not model scores"));
        origin.mock = true;
        let text = render(&summary, std::slice::from_ref(&origin), format).unwrap();
        let notice = match format {
            Format::Text(Charset::Ascii) => MOCK_NOTICE.replace('—', "-"),
            _ => MOCK_NOTICE.to_owned(),
        };
        let at = text.find(&notice).unwrap_or_else(|| panic!("no notice in {format:?}"));
        assert!(text[..at].lines().count() < 120, "too far down in {format:?}");
    }
}

#[test]
fn json_reads_back_as_it_was() {
    let summary = gallery::summary();
    let text = render(&summary, &[provenance("run")], Format::Json).unwrap();
    let envelope: Envelope<Summary> = serde_json::from_str(&text).unwrap();
    assert_eq!((envelope.schema.as_str(), envelope.kind.as_str()), (SCHEMA, "summary"));
    // To twelve digits: serde_json reads a double to its last bit only with its feature float_roundtrip.
    assert_eq!(format!("{:.12?}", envelope.report), format!("{summary:.12?}"));
}

#[test]
fn scores_that_are_no_numbers_cannot_reach_json() {
    let mut records = Vec::new();
    for (at, confidence) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0].into_iter().enumerate() {
        let mut record = record(&at.to_string(), "all", Outcome::Correct);
        record.verdict = Some(crate::support::verdict(true, Some(confidence)));
        records.push(record);
    }
    let summary = summarise(&crate::support::plan_of(&records), &records, &SummaryOptions::default()).unwrap();
    let text = render(&summary, &[], Format::Json).unwrap();
    assert!(!text.contains("NaN") && !text.contains("nfinity") && !text.contains("-0"), "{text}");
    assert_eq!(serde_json::from_str::<Envelope<Summary>>(&text).unwrap().report, summary);
}

#[test]
fn a_script_in_model_text_shows_as_text() {
    let html = injected("<script>alert(1)</script>", Format::Html);
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!html.contains("<script"));
}

#[test]
fn the_page_needs_nothing_from_outside_and_allows_only_its_own_style() {
    let html = gallery::page(true);
    assert!(html.contains("default-src 'none'; style-src 'sha256-"));
    for outside in ["http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", "style=", " on"] {
        let markup = html.split("<style>").next().unwrap().to_owned() + html.split("</style>").nth(1).unwrap();
        let attributes: String = markup.split('<').filter_map(|part| part.split('>').next()).collect();
        assert!(!attributes.contains(outside) || outside == " on", "{outside} in {attributes}");
    }
    assert!(!html.contains("url(") && !html.contains("@import"));
}

#[test]
fn a_terminal_cannot_be_driven_by_an_answer() {
    let text = injected("\u{1b}]0;owned\u{7}\r\n\u{202e}x", Format::Text(Charset::Unicode));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\r', '\u{202e}']), "{text:?}");
}

#[test]
fn ascii_is_ascii() {
    for text in [injected("naïve – 日本", Format::Text(Charset::Ascii)), gallery::text(Charset::Ascii)] {
        assert!(text.bytes().all(|byte| byte == b'\n' || (32..127).contains(&byte)), "{text}");
    }
}

#[test]
fn columns_of_a_text_table_line_up() {
    let text = gallery::text(Charset::Unicode);
    let start = text.lines().position(|line| line.starts_with("Tier")).unwrap();
    let table: Vec<&str> = text.lines().skip(start).take(6).collect();
    let widths: Vec<usize> = table.iter().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{table:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn html_never_contains_an_injected_string_unescaped(
        text in "[<>&\"'/a-z=! -]{1,24}|\\PC{1,12}|<[a-z]{1,8} [a-z]{1,8}=['\"]"
    ) {
        let page = injected(&text, Format::Html);
        // The same page around a harmless word has the same markup: nothing was added to it.
        let tags = |html: &str| html.matches('<').count();
        let quotes = |html: &str| html.matches('"').count();
        let harmless = injected("x", Format::Html);
        prop_assert_eq!(tags(&page), tags(&harmless));
        prop_assert_eq!(quotes(&page), quotes(&harmless));
        if text.contains(['<', '>', '"']) {
            prop_assert_eq!(page.matches(&text).count(), harmless.matches(&text).count());
        }
    }

    #[test]
    fn markdown_tables_keep_their_columns(text in "[|\\\\`\n<>*a-z ]{1,16}") {
        let page = injected(&text, Format::Markdown);
        let bars = |line: &str| {
            let mut count = 0;
            let mut escaped = false;
            for character in line.chars() {
                count += usize::from(character == '|' && !escaped);
                escaped = character == '\\' && !escaped;
            }
            count
        };
        let lines: Vec<&str> = page.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("| ---")) {
            prop_assert_eq!(bars(lines[at - 1]), bars(line));
            prop_assert_eq!(bars(lines[at + 1]), bars(line));
        }
    }
}
