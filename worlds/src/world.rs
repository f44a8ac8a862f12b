//! A world: documents, the questions over them, and the digests by which a run names both. It refuses to know
//! where a world comes from and how it is searched.

use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::Question;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::error::WorldError;
use crate::plain;
use crate::telling::Telling;

/// The tier of questions whose set knows none.
pub const UNTIERED: &str = "all";

/// A document of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldDocument {
    /// Opaque and unique in its corpus.
    pub docid: DocId,
    /// Its title; empty where the corpus has none.
    #[serde(default)]
    pub title: String,
    /// Its address; empty where the corpus has none.
    #[serde(default)]
    pub url: String,
    /// Its whole text. Untrusted.
    pub text: String,
}

/// A mark that must never be found in training data, and the key of the obfuscated form. It prints as `[canary]`, so
/// that no log carries it by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Canary(String);

impl Canary {
    /// Takes the text as it is.
    pub fn new(text: impl Into<String>) -> Self {
        Canary(text.into())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[canary]")
    }
}

/// Documents with their questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// The name in tables.
    pub name: String,
    /// Every document, unique by id.
    pub documents: Vec<WorldDocument>,
    /// Questions to train on. May be empty.
    pub train: Vec<Question>,
    /// Questions to evaluate on.
    pub test: Vec<Question>,
    /// The mark that exports of the questions carry, if the world has one.
    pub canary: Option<Canary>,
    /// What documents tell, where the world knows it.
    pub told: BTreeMap<DocId, Telling>,
}

/// Digests of what a run depends on, in hexadecimal. Each is BLAKE3 over the file that the writers of [`crate::plain`]
/// would write, so that `b3sum` of such a file gives the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldDigests {
    /// Of the corpus in its order.
    pub corpus: String,
    /// Of the training questions in their order.
    pub train: String,
    /// Of the test questions in their order.
    pub test: String,
}

/// What to do about needed documents that the corpus lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuse the world.
    Refuse,
    /// Accept it and list them.
    List,
}

/// A document that a question needs and the corpus lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingDocument {
    /// Who needs it.
    pub question: QuestionId,
    /// What is missing.
    pub docid: DocId,
}

impl World {
    /// The digests of corpus and questions.
    pub fn digests(&self) -> Result<WorldDigests, WorldError> {
        Ok(WorldDigests {
            corpus: digest(|sink| plain::write_corpus(&self.documents, sink))?,
            train: digest(|sink| plain::write_questions(&self.train, sink))?,
            test: digest(|sink| plain::write_questions(&self.test, sink))?,
        })
    }

    /// The questions of both splits, the test questions last.
    pub fn questions(&self) -> impl Iterator<Item = &Question> {
        self.train.iter().chain(&self.test)
    }

    /// How many test questions each tier has.
    pub fn test_tiers(&self) -> BTreeMap<&str, usize> {
        let mut tiers = BTreeMap::new();
        self.test.iter().for_each(|question| *tiers.entry(question.tier.as_str()).or_default() += 1);
        tiers
    }

    /// Checks that the corpus holds every document that a question needs: gold, evidence and those of its steps.
    /// Returns the missing ones where they are allowed.
    pub fn check_documents(&self, missing: Missing) -> Result<Vec<MissingDocument>, WorldError> {
        let known: BTreeSet<&DocId> = self.documents.iter().map(|document| &document.docid).collect();
        let mut lacking = Vec::new();
        for question in self.questions() {
            let of_steps = question.decomposition.iter().filter_map(|step| step.gold.as_ref());
            let needed: BTreeSet<&DocId> = question.gold.iter().chain(&question.evidence).chain(of_steps).collect();
            let absent = needed.into_iter().filter(|docid| !known.contains(docid));
            lacking.extend(absent.map(|docid| MissingDocument { question: question.id.clone(), docid: docid.clone() }));
        }
        match (lacking.first(), missing) {
            (Some(first), Missing::Refuse) => Err(WorldError::MissingDocuments {
                count: lacking.len(),
                question: first.question.to_string(),
                docid: first.docid.to_string(),
            }),
            _ => Ok(lacking),
        }
    }
}

fn digest(write: impl FnOnce(&mut blake3::Hasher) -> Result<(), WorldError>) -> Result<String, WorldError> {
    let mut hasher = blake3::Hasher::new();
    write(&mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}
