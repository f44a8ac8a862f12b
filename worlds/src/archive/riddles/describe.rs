//! Describes an entity without naming it: the smallest drawn set of constraints that the whole base satisfies
//! exactly once. It looks only at what the entity's own article says.

use super::Seeker;
use crate::archive::facts::{Condition, EntityId, Relation, Role, Sought, Term, Value};

/// How hard a description is to resolve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Constraints {
    /// Two or three constraints, none of which is enough by itself.
    Few,
    /// At least three constraints, no two of which are enough.
    ThreeNeeded,
}

/// A description has at most so many constraints, the sort included.
const CONSTRAINTS_MAX: usize = 4;

impl Seeker<'_> {
    /// A description of `entity` that fits nothing else.
    pub(super) fn described(&mut self, entity: EntityId, constraints: Constraints, veiled: bool) -> Option<Sought> {
        let kind = Some(self.base.entity(entity).kind);
        let mut sort = None;
        let mut others = Vec::new();
        for id in self.base.about(entity) {
            let fact = self.base.fact(*id);
            let condition = |given| Condition { relation: fact.relation, role: Role::Subject, given };
            match (fact.relation, &fact.object) {
                (Relation::KindOf, word) => sort = Some(condition(Term::Is(word.clone()))),
                (Relation::Trait | Relation::Death | Relation::Craft | Relation::Material, word) => {
                    others.push(condition(Term::Is(word.clone())));
                }
                (Relation::BornOn | Relation::DiedInYear | Relation::Year, value) => {
                    let year = value.year()?;
                    let span = if veiled {
                        (year - year.rem_euclid(10), year - year.rem_euclid(10) + 9)
                    } else {
                        (year, year)
                    };
                    others.push(condition(Term::Years(span.0, span.1)));
                }
                _ => {}
            }
        }
        self.draw.shuffle(&mut others);
        let sort = sort?;
        let least = if constraints == Constraints::ThreeNeeded { 2 } else { 1 };
        for size in least..CONSTRAINTS_MAX.min(others.len() + 1) {
            for chosen in subsets(others.len(), size) {
                let mut conditions = vec![sort.clone()];
                conditions.extend(chosen.iter().map(|at| others[*at].clone()));
                if self.is_tight(kind, &conditions, constraints, entity) {
                    return Some(Sought { kind, conditions });
                }
            }
        }
        None
    }

    fn is_tight(
        &self,
        kind: Option<crate::archive::facts::Kind>,
        conditions: &[Condition],
        constraints: Constraints,
        entity: EntityId,
    ) -> bool {
        let fitting = |chosen: &[Condition]| self.base.answers(&Sought { kind, conditions: chosen.to_vec() }, &[]);
        let all = fitting(conditions);
        if all.len() != 1 || !all.contains(&Value::Entity(entity)) {
            return false;
        }
        let enough = match constraints {
            Constraints::Few => conditions.iter().any(|one| fitting(std::slice::from_ref(one)).len() == 1),
            Constraints::ThreeNeeded => subsets(conditions.len(), 2)
                .into_iter()
                .any(|pair| fitting(&pair.iter().map(|at| conditions[*at].clone()).collect::<Vec<_>>()).len() == 1),
        };
        !enough
    }
}

/// Every choice of `size` out of `count`, each in ascending order.
fn subsets(count: usize, size: usize) -> Vec<Vec<usize>> {
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        chosen = chosen
            .into_iter()
            .flat_map(|before| {
                let next = before.last().map_or(0, |last| last + 1);
                (next..count).map(move |at| [before.clone(), vec![at]].concat())
            })
            .collect();
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_all_choices_once() {
        assert_eq!(subsets(4, 2), [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!(subsets(2, 3), Vec::<Vec<usize>>::new());
        assert_eq!(subsets(3, 0), [[0usize; 0]]);
    }
}
