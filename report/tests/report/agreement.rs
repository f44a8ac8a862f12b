//! Two gradings in every format.

use crate::support::key;
use legwork_report::agreement::NoiseSamples;
use legwork_report::{Charset, Format, Grading, agreement, render};

#[test]
fn an_undefined_kappa_says_why_in_every_format() {
    let grading = |grader: &str| Grading {
        grader: grader.to_owned(),
        verdicts: (0..4).map(|at| (key(&at.to_string(), 0), Some(true))).collect(),
    };
    let agreement = agreement(&grading("first"), &grading("second"), &NoiseSamples::default()).unwrap();
    for format in [Format::Text(Charset::Unicode), Format::Markdown, Format::Html] {
        let text = render(&agreement, &[], format).unwrap();
        assert!(text.contains("undefined") && text.contains("both put everything into one category"), "{text}");
    }
    let json = render(&agreement, &[], Format::Json).unwrap();
    assert!(json.contains("\"reason\": \"one_category\""), "{json}");
}
