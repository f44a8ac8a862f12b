//! JSON: the report's own struct in an envelope that says what it is and whether a mock worked. Every
//! number is finite by type; what is not defined is null.

use super::Reportable;
use crate::error::ReportError;
use crate::provenance::{MOCK_NOTICE, Provenance};
use serde::{Deserialize, Serialize};

/// The shape's name and version.
pub const SCHEMA: &str = "legwork-report/1";

/// What a JSON report is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope<R> {
    /// [`SCHEMA`].
    pub schema: String,
    /// `summary`, `comparison` or `agreement`.
    pub kind: String,
    /// Whether any run's worker was a mock.
    pub mock: bool,
    /// What that means, for whoever reads only this; absent without a mock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// The runs.
    pub provenance: Vec<Provenance>,
    /// The report.
    pub report: R,
}

pub(super) fn render<R: Reportable>(report: &R, provenance: &[Provenance]) -> Result<String, ReportError> {
    let mock = provenance.iter().any(|run| run.mock);
    let envelope = Envelope {
        schema: SCHEMA.to_owned(),
        kind: R::KIND.to_owned(),
        mock,
        notice: mock.then(|| MOCK_NOTICE.to_owned()),
        provenance: provenance.to_vec(),
        report,
    };
    let mut text = serde_json::to_string_pretty(&envelope).map_err(|error| ReportError::Json(error.to_string()))?;
    text.push('\n');
    Ok(text)
}
