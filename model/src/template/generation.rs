//! `{% generation %}`, with which transformers marks what an assistant wrote. Nothing is marked here: the tags become a
//! scope of their own, as they are there, and the text between them is rendered. It refuses to know why one would mark it.

/// The source with the tags as a scope. Comments, literals and `raw` blocks are left as they are.
pub(super) fn without_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let (mut rest, mut raw) = (source, false);
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let close = match rest.as_bytes().get(1) {
            Some(b'#') if !raw => rest.find("#}").map(|end| end + 2),
            Some(b'{') if !raw => end_of_code(rest, "}}"),
            Some(b'%') => end_of_code(rest, "%}"),
            _ => Some(1),
        };
        let (tag, behind) = rest.split_at(close.unwrap_or(rest.len()));
        match word(tag) {
            Some("raw") => raw = true,
            Some("endraw") => raw = false,
            _ => {}
        }
        match word(tag).filter(|_| !raw) {
            Some("generation") => out.push_str(&tag.replacen("generation", "with", 1)),
            Some("endgeneration") => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            _ => out.push_str(tag),
        }
        rest = behind;
    }
    out + rest
}

/// The only word of a `{% … %}`.
fn word(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    Some(inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim())
}

/// Where code ends, literals passed over.
fn end_of_code(text: &str, close: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut quote) = (2, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(close.as_bytes()) => return Some(at + close.len()),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_a_scope_and_what_only_looks_like_one_stays() {
        let tagged = "a{%- generation -%}b{{ '{% generation %}' }}{# {% generation %} #}{% endgeneration %}c{";
        let expected = "a{%- with -%}b{{ '{% generation %}' }}{# {% generation %} #}{% endwith %}c{";
        assert_eq!(without_tags(tagged), expected);
        let raw = "{% raw %}{% generation %}{{ '{% endraw %}{% set generation = 1 %}";
        assert_eq!(without_tags(raw), raw);
        for cut in ["{%", "{{ 'x", "{#", "{% 'x\\", "{", "é{% generation"] {
            assert_eq!(without_tags(cut), cut);
        }
    }
}
