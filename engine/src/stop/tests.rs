use super::*;
use proptest::prelude::*;

fn stops(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// All that is given out, and the stop string, for pieces one behind the other.
fn hear(stops: &[String], pieces: &[&str]) -> (Vec<String>, Option<String>) {
    let mut text = StopText::new(stops);
    let mut given = Vec::new();
    for piece in pieces {
        match text.push(piece) {
            Heard::More(more) => given.push(more),
            Heard::End { text, stop } => {
                given.push(text);
                return (given, Some(stop));
            }
        }
    }
    given.push(text.finish());
    (given, None)
}

/// The same said plainly: the shortest beginning of the text that ends with a stop string, without the longest such.
fn plainly(stops: &[String], whole: &str) -> (String, Option<String>) {
    for (end, _) in whole.char_indices().skip(1).chain([(whole.len(), ' ')]) {
        let ended = stops.iter().filter(|stop| whole[..end].ends_with(stop.as_str())).max_by_key(|stop| stop.len());
        if let Some(stop) = ended {
            return (whole[..end - stop.len()].to_owned(), Some(stop.clone()));
        }
    }
    (whole.to_owned(), None)
}

#[test]
fn a_stop_string_across_pieces_is_held_back_and_never_seen() {
    let (given, stop) = hear(&stops(&["</stop>"]), &["a <", "/st", "op", "> b"]);
    assert_eq!((given.join("|").as_str(), stop.as_deref()), ("a |||", Some("</stop>")));
    let (given, stop) = hear(&stops(&["</stop>"]), &["a <", "/st", "ay> b"]);
    assert_eq!((given.join("|").as_str(), stop), ("a ||</stay> b|", None));
}

#[test]
fn the_first_to_be_complete_wins_and_of_two_at_once_the_longer() {
    assert_eq!(hear(&stops(&["bcd", "c"]), &["abcd"]), (vec!["ab".into()], Some("c".into())));
    assert_eq!(hear(&stops(&["c", "abc"]), &["xab", "cd"]), (vec!["x".into(), String::new()], Some("abc".into())));
}

#[test]
fn a_stop_string_of_characters_of_several_bytes_is_found_and_near_misses_are_given_out() {
    assert_eq!(hear(&stops(&["é€"]), &["aé", "€b"]).1.as_deref(), Some("é€"));
    assert_eq!(hear(&stops(&["é€"]), &["aéé", "è"]).0, ["aé", "éè", ""]);
}

#[test]
fn without_stop_strings_nothing_is_held_back() {
    assert_eq!(hear(&[], &["a", "b"]).0, ["a", "b", ""]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_cut_into_pieces_gives_the_plain_answer_and_holds_back_no_more_than_needed(
        stops in prop::collection::vec("[abé€]{1,4}", 1..4),
        pieces in prop::collection::vec("[abcé€]{0,5}", 0..12),
    ) {
        let whole = pieces.concat();
        let (text, stop) = plainly(&stops, &whole);
        let mut watched = StopText::new(&stops);
        let (mut heard, mut given) = (String::new(), String::new());
        let mut found = None;
        for piece in &pieces {
            heard.push_str(piece);
            match watched.push(piece) {
                Heard::More(more) => given.push_str(&more),
                Heard::End { text, stop } => {
                    given.push_str(&text);
                    found = Some(stop);
                    break;
                }
            }
            prop_assert!(text.starts_with(&given), "given {given:?} of {text:?}");
            let open = &heard[given.len()..];
            // What is held back is exactly the longest end of the text that a stop string begins with.
            let longest = heard.char_indices().map(|(at, _)| &heard[at..]).find(|end| {
                stops.iter().any(|stop| stop.starts_with(end))
            });
            prop_assert_eq!(open, longest.unwrap_or(""));
        }
        if found.is_none() {
            given.push_str(&watched.finish());
        }
        prop_assert_eq!((given, found), (text, stop));
    }
}
