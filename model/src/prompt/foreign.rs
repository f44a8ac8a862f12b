//! What stands in a conversation that others wrote: every string of its messages, tools and further options. It refuses
//! to know what a template does with them.

use super::aliases::place;
use crate::conversation::Conversation;
use crate::error::ModelError;
use crate::template::RenderOptions;
use serde_json::Value;
use std::collections::BTreeSet;

/// Characters of private use in any string.
pub(super) fn private_characters(conversation: &Conversation, options: &RenderOptions) -> BTreeSet<char> {
    let mut used = BTreeSet::new();
    each_string(conversation, options, &mut |_, text| used.extend(private_in(text)));
    used
}

/// Characters of private use in a text.
pub(super) fn private_in(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|one| place(*one).is_some())
}

/// Refuses a conversation of which a string holds a control token, or begins or ends with so much of one that strings
/// side by side could make one.
pub(super) fn refuse_spelled<'a>(
    conversation: &Conversation,
    options: &RenderOptions,
    tokens: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), ModelError> {
    let mut spelled = None;
    each_string(conversation, options, &mut |role, text| {
        if spelled.is_none() {
            let token = tokens.clone().find(|token| spells(text, token));
            spelled = token.map(|token| ModelError::ControlToken { role: role.to_owned(), token: token.to_owned() });
        }
    });
    spelled.map_or(Ok(()), Err)
}

/// Whether a text holds a token, or two bytes and more of its end or of its beginning at the fitting end of the text, or is
/// all of the token but for a byte on either side.
fn spells(text: &str, token: &str) -> bool {
    let cuts = || (2..token.len()).filter(|cut| token.is_char_boundary(*cut));
    let behind = || (1..token.len().saturating_sub(1)).filter(|cut| token.is_char_boundary(*cut));
    let inside = text.len() + 2 >= token.len() && text.len() > 1 && token.contains(text);
    text.contains(token)
        || inside
        || cuts().any(|cut| text.ends_with(&token[..cut]))
        || behind().any(|cut| text.starts_with(&token[cut..]))
}

/// Calls `with` the role (or what else it belongs to) and the text of every string, but for the roles themselves, which are
/// names.
fn each_string(conversation: &Conversation, options: &RenderOptions, with: &mut impl FnMut(&str, &str)) {
    for message in conversation.messages() {
        for (field, value) in message.fields().iter().filter(|(field, _)| *field != "role") {
            with(message.role(), field);
            strings(value, message.role(), with);
        }
    }
    options.tools.iter().for_each(|tools| strings(tools, "tool", with));
    options.extra.iter().for_each(|(name, value)| {
        with("option", name);
        strings(value, "option", with);
    });
}

fn strings(value: &Value, role: &str, with: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => with(role, text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, role, with)),
        Value::Object(fields) => fields.iter().for_each(|(key, item)| {
            with(role, key);
            strings(item, role, with);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_its_pieces_at_the_ends_are_spelled_out() {
        let token = "<|user|>";
        for text in ["<|user|>", "a<|user|>b", "a<|", "a<|use", "|>a", "ser|>", "|user|", "|user|>", "<|user|"] {
            assert!(spells(text, token), "{text}");
        }
        for text in ["", "<", ">", "> quoted", "a < b", "user", "the user said", "a <| b |> c", "|"] {
            assert!(!spells(text, token), "{text}");
        }
    }
}
