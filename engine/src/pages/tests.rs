use super::*;
use crate::chain::ROOT;

fn name(key: Key, parent: Key, tokens: &[u32]) -> Name {
    Name { key, parent, tokens: tokens.into() }
}

#[test]
fn a_page_goes_from_free_to_held_to_cached_and_back() {
    let mut pages = Pages::new(2);
    let page = pages.take().unwrap();
    assert_eq!(pages.give_name(page, name(7, ROOT, &[1])), Named::Now);
    pages.audit(&[&[page]], &[]).unwrap();
    pages.let_go(page);
    assert_eq!((pages.free(), pages.cached(), pages.held()), (1, 1, 0));
    assert_eq!(pages.find(7, ROOT, &[1]), Some(page));
    pages.hold(page);
    pages.pin(page);
    pages.let_go(page);
    assert_eq!((pages.cached(), pages.pinned()), (0, 1));
    pages.audit(&[], &[&[page]]).unwrap();
    let other = pages.take().unwrap();
    assert_eq!(pages.take(), None, "a page that is kept is not taken");
    pages.unpin(page);
    assert_eq!(pages.take(), Some(page));
    assert_eq!((pages.evictions(), pages.find(7, ROOT, &[1])), (1, None));
    pages.audit(&[&[page, other]], &[]).unwrap();
}

#[test]
fn the_longest_idle_goes_first_and_the_end_of_a_sequence_before_its_beginning() {
    let mut pages = Pages::new(3);
    let held: Vec<u32> = (0..3).map(|_| pages.take().unwrap()).collect();
    for (index, page) in held.iter().enumerate() {
        pages.give_name(*page, name(index as Key + 1, index as Key, &[index as u32]));
    }
    held.iter().rev().for_each(|page| pages.let_go(*page));
    assert_eq!([pages.take(), pages.take(), pages.take()], [Some(held[2]), Some(held[1]), Some(held[0])]);
}

#[test]
fn equal_names_of_other_tokens_or_another_parent_are_never_a_hit() {
    let mut pages = Pages::new(3);
    let first = pages.take().unwrap();
    let second = pages.take().unwrap();
    assert_eq!(pages.give_name(first, name(9, ROOT, &[1, 2])), Named::Now);
    assert_eq!(pages.find(9, ROOT, &[1, 3]), None);
    assert_eq!(pages.find(9, 5, &[1, 2]), None);
    assert_eq!(pages.give_name(second, name(9, ROOT, &[1, 3])), Named::Taken);
    assert_eq!(pages.give_name(second, name(9, ROOT, &[1, 2])), Named::Same(first));
    pages.let_go(second);
    assert_eq!(pages.free(), 2, "a page without a name is free again at once");
    pages.audit(&[&[first]], &[]).unwrap();
}

#[test]
fn a_forgotten_page_stays_with_its_holders_and_is_free_after_them() {
    let mut pages = Pages::new(1);
    let page = pages.take().unwrap();
    pages.give_name(page, name(1, ROOT, &[1]));
    pages.forget(page);
    assert_eq!((pages.find(1, ROOT, &[1]), pages.free()), (None, 0));
    pages.let_go(page);
    assert_eq!((pages.free(), pages.cached()), (1, 0));
}

#[test]
fn the_audit_tells_leaks_and_two_writers() {
    let mut pages = Pages::new(2);
    let page = pages.take().unwrap();
    assert!(pages.audit(&[], &[]).unwrap_err().contains("is held 0"));
    pages.hold(page);
    assert!(pages.audit(&[&[page], &[page]], &[]).unwrap_err().contains("written by two"));
}
