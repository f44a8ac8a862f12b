//! What the archive promises, checked over every question of it.

use super::*;
use facts::{Condition, Fact, Kind, Relation, Role, Sought, Term};
use std::collections::BTreeSet;
use std::sync::OnceLock;

fn archive() -> &'static Archive {
    static ARCHIVE: OnceLock<Archive> = OnceLock::new();
    ARCHIVE.get_or_init(|| generate(DEFAULT_SEED).unwrap())
}

fn text(docid: &DocId) -> &'static str {
    static TEXTS: OnceLock<BTreeMap<DocId, &'static str>> = OnceLock::new();
    let texts =
        TEXTS.get_or_init(|| archive().world.documents.iter().map(|d| (d.docid.clone(), d.text.as_str())).collect());
    texts[docid]
}

/// A search that knows no index: it tries every entity and every fact. It is the judge of the indexed one.
mod exhaustive {
    use super::*;

    pub(super) fn answers(base: &FactBase, sought: &Sought, earlier: &[Value]) -> BTreeSet<Value> {
        let satisfying = sought.conditions.iter().map(|condition| -> BTreeSet<Value> {
            base.facts().filter_map(|(_, fact)| found(fact, condition, earlier)).collect()
        });
        let in_all = satisfying.reduce(|one, other| one.intersection(&other).cloned().collect()).unwrap();
        let of_kind = |value: &Value| value.entity().map(|id| base.entity(id).kind) == sought.kind;
        in_all.into_iter().filter(of_kind).collect()
    }

    /// What the fact finds if it satisfies the condition.
    fn found(fact: &Fact, condition: &Condition, earlier: &[Value]) -> Option<Value> {
        let (mut sought, mut other) = (Value::Entity(fact.subject), fact.object.clone());
        let led = condition.relation == Relation::TookPartIn && fact.relation == Relation::LedBy;
        // An event is led by a person, but a person takes part in an event.
        if (condition.role == Role::Object) != led {
            std::mem::swap(&mut sought, &mut other);
        }
        let given = match &condition.given {
            Term::Is(given) => other == *given,
            Term::Step(step) => other == earlier[*step],
            Term::Years(first, last) => other.year().is_some_and(|year| year >= *first && year <= *last),
        };
        ((fact.relation == condition.relation || led) && given).then_some(sought)
    }
}

#[test]
fn the_default_archive_has_its_golden_digests() {
    let world = &archive().world;
    assert_eq!((world.documents.len(), world.train.len(), world.test.len()), (2000, 680, 150));
    assert_eq!(world.test_tiers(), BTreeMap::from([("easy", 50), ("hard", 50), ("medium", 50)]));
    let digests = world.digests().unwrap();
    assert_eq!(
        [digests.corpus.as_str(), digests.train.as_str(), digests.test.as_str()],
        [
            "de1994dc42ce96b7a28c1a6b2a87726e693ba87ebae08672235e1a183bf02a9f",
            "64173b37296d7f32ca3f7284dfca4330af04bf6a18ebac73f99993748ad3dae1",
            "c1b2a6cac3cfce43849bce8e66d1af9bf8e5728a48565433de232b3a5d3831b7"
        ],
        "the archive has changed: if that was meant, say so in the changelog and set the new digests here"
    );
}

#[test]
fn the_same_seed_gives_the_same_archive_and_another_seed_another() {
    assert_eq!(generate(DEFAULT_SEED).unwrap().world, archive().world);
    let (other, this) = (generate(7).unwrap().world.digests().unwrap(), archive().world.digests().unwrap());
    assert!(other.corpus != this.corpus && other.train != this.train && other.test != this.test);
}

#[test]
fn every_question_has_exactly_one_answer_in_the_whole_fact_base() {
    let archive = archive();
    for question in archive.world.questions() {
        let (query, path) = archive.proof(&question.id).unwrap();
        assert_eq!(archive.facts().proven(query).as_deref(), Some(path), "{question:?}");
        assert_eq!(query.steps.len(), question.decomposition.len());
    }
}

#[test]
fn an_exhaustive_search_agrees_with_the_indexed_one() {
    let archive = archive();
    for question in archive.world.questions() {
        let (query, path) = archive.proof(&question.id).unwrap();
        for (at, step) in query.steps.iter().enumerate() {
            let only = BTreeSet::from([path[at].clone()]);
            assert_eq!(exhaustive::answers(archive.facts(), step, &path[..at]), only, "{} step {at}", question.id);
        }
    }
}

#[test]
fn a_question_with_two_answers_is_not_proven() {
    let base = archive().facts();
    let person = Sought {
        kind: Some(Kind::Person),
        conditions: vec![Condition { relation: Relation::BornOn, role: Role::Subject, given: Term::Years(1400, 1900) }],
    };
    assert!(base.answers(&person, &[]).len() > 800);
    assert_eq!(base.proven(&Query { steps: vec![person] }), None);
}

#[test]
fn whoever_led_an_event_took_part_in_it() {
    let base = archive().facts();
    let (_, led) = base.facts().find(|(_, fact)| fact.relation == Relation::LedBy).unwrap();
    let condition = |role, given| Condition { relation: Relation::TookPartIn, role, given: Term::Is(given) };
    let who =
        Sought { kind: Some(Kind::Person), conditions: vec![condition(Role::Subject, Value::Entity(led.subject))] };
    assert!(base.answers(&who, &[]).contains(&led.object));
    let what = Sought { kind: Some(Kind::Event), conditions: vec![condition(Role::Object, led.object.clone())] };
    assert!(base.answers(&what, &[]).contains(&Value::Entity(led.subject)));
}

#[test]
fn every_step_is_answered_in_the_text_of_its_gold_document() {
    let world = &archive().world;
    world.check_documents(crate::Missing::Refuse).unwrap();
    for question in world.questions() {
        for step in oracle(question) {
            assert!(text(step.gold.as_ref().unwrap()).contains(&step.answer), "{question:?}");
        }
        let last = question.decomposition.last().unwrap();
        assert!(question.answers.contains(&last.answer), "{question:?}");
        assert!(question.gold.contains(last.gold.as_ref().unwrap()));
        assert!(question.gold.iter().all(|docid| question.evidence.contains(docid)));
        assert!(question.gold.iter().all(|docid| question.answers.iter().any(|a| text(docid).contains(a.as_str()))));
    }
}

#[test]
fn every_fact_is_stated_and_every_statement_stands_in_its_article() {
    let archive = archive();
    for (id, fact) in archive.facts().facts() {
        let statements = archive.statements(id);
        assert!(statements.iter().any(|statement| !statement.by_alias), "{fact:?}");
        for statement in statements {
            let text = text(archive.docid(statement.article).unwrap());
            let at_start = names::capitalised(&statement.surface);
            assert!(text.contains(&statement.surface) || text.contains(&at_start), "{fact:?} {statement:?}");
        }
    }
}

#[test]
fn some_facts_are_told_only_by_the_other_side_and_some_under_an_alias() {
    let archive = archive();
    let joining = || archive.facts().facts().filter(|(_, fact)| fact.relation.joins_entities());
    let elsewhere = joining().filter(|(id, f)| archive.statements(*id).iter().all(|s| s.article != f.subject)).count();
    assert!(elsewhere * 10 > joining().count(), "{elsewhere}");
    let aliased = joining().filter(|(id, _)| archive.statements(*id).iter().any(|s| s.by_alias)).count();
    assert!(aliased > 100, "{aliased}");
}

#[test]
fn articles_have_the_length_of_a_page_and_unique_ids_titles_and_addresses() {
    let documents = &archive().world.documents;
    for document in documents {
        let words = document.text.split_whitespace().count();
        assert!((120..=350).contains(&words), "{} has {words} words", document.title);
        assert!(!document.text.contains(['{', '}']), "{}", document.text);
    }
    let count = |of: fn(&WorldDocument) -> &str| documents.iter().map(of).collect::<BTreeSet<_>>().len();
    assert_eq!(count(|d| d.docid.as_str()), documents.len());
    assert_eq!(count(|d| &d.title), documents.len());
    assert_eq!(count(|d| &d.url), documents.len());
}

#[test]
fn namesakes_exist_and_no_step_leads_to_one() {
    let archive = archive();
    let namesakes: BTreeSet<EntityId> =
        archive.facts().entities().filter(|(_, e)| e.namesake).map(|(id, _)| id).collect();
    assert!(namesakes.len() >= 20, "{}", namesakes.len());
    for question in archive.world.questions() {
        let (_, path) = archive.proof(&question.id).unwrap();
        assert!(path.iter().filter_map(Value::entity).all(|id| !namesakes.contains(&id)));
    }
}

#[test]
fn the_tiers_differ_as_they_should() {
    let archive = archive();
    let aliases =
        archive.facts().facts().filter_map(|(_, f)| if let Value::Name(n) = &f.object { Some(&**n) } else { None });
    let names = archive.facts().entities().map(|(_, entity)| entity.name.as_str());
    let names: BTreeSet<&str> = names.chain(aliases).collect();
    for question in archive.world.questions() {
        let (query, _) = archive.proof(&question.id).unwrap();
        let named = names.iter().any(|name| question.text.contains(name));
        let most = query.steps.iter().map(|step| step.conditions.len()).max().unwrap();
        let (steps, documents) = (query.steps.len(), question.evidence.len());
        match question.tier.as_str() {
            "easy" => assert!(named && steps == 2 && documents >= 2, "{question:?}"),
            "medium" => assert!(!named && steps == 3 && documents >= 3, "{question:?}"),
            _ => assert!(!named && documents >= 3 && (steps == 4 || (steps == 3 && most >= 3)), "{question:?}"),
        }
    }
}

#[test]
fn train_and_test_share_no_question_answer_path_or_fact() {
    let archive = archive();
    let world = &archive.world;
    assert_eq!(crate::contamination::overlaps(&world.train, &world.test).len(), 0);
    let proof = |question: &Question| archive.proof(&question.id).unwrap();
    let facts_of = |question: &Question| -> Vec<FactId> {
        let (query, path) = proof(question);
        let steps = query.steps.iter().enumerate();
        let witness = |(at, step): (usize, &Sought)| -> Vec<FactId> {
            step.conditions.iter().map(|c| archive.facts().witness(c, &path[at], &path[..at]).unwrap()).collect()
        };
        steps.flat_map(witness).collect()
    };
    let test_facts: BTreeSet<FactId> = world.test.iter().flat_map(facts_of).collect();
    let test_answers: BTreeSet<&String> = world.test.iter().flat_map(|question| &question.answers).collect();
    let test_paths: BTreeSet<&[Value]> = world.test.iter().map(|question| proof(question).1).collect();
    assert_eq!(test_paths.len(), world.test.len());
    for question in &world.train {
        assert!(facts_of(question).iter().all(|fact| !test_facts.contains(fact)), "{question:?}");
        assert!(question.answers.iter().all(|answer| !test_answers.contains(answer)), "{question:?}");
        assert!(!test_paths.contains(proof(question).1));
    }
    let texts: BTreeSet<String> = world.questions().map(|q| crate::contamination::question_hash(&q.text)).collect();
    assert_eq!(texts.len(), 830);
}

#[test]
fn step_queries_stand_alone_once_their_numbers_are_filled_in() {
    for question in archive().world.questions() {
        for at in 0..oracle(question).len() {
            let query = question.step_alone(at).unwrap();
            assert!(!query.contains('#') && query.ends_with('?'), "{query}");
        }
        assert_eq!(question.step_alone(oracle(question).len()), None);
    }
}

#[test]
fn the_canary_is_of_the_seed_and_does_not_print() {
    let canary = archive().world.canary.clone().unwrap();
    assert_eq!(format!("{canary:?}"), "[canary]");
    assert!(canary.reveal().starts_with("legwork:archive:"));
    assert!(archive().world.documents.iter().all(|document| !document.text.contains(canary.reveal())));
}
