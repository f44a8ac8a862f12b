//! What a chat template expects of Python and of transformers: methods of strings and mappings, `raise_exception`,
//! `strftime_now`, `tojson` as `json.dumps` writes it, and values printed as Python prints them.
//! It refuses HTML: nothing is escaped.

use super::{python_text, time};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind, from_args};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};

/// The name under which a rendering finds its moment; no template can spell it.
pub(super) const NOW: &str = "now unix s";

/// An environment as transformers makes it.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.set_formatter(|out, _, value| match value.kind() {
        ValueKind::Undefined => Ok(()),
        _ => out.write_str(&python_text::str_of(value)?).map_err(Error::from),
    });
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("it refuses the conversation: {message}")))
    });
    environment.add_function("strftime_now", strftime_now);
    // Python iterates over texts and mappings, never over None, which minijinja takes for an empty list.
    let holds = |value: &Value| !matches!(value.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number);
    environment.add_test("iterable", move |value: &Value| holds(value));
    environment.add_test("sequence", move |value: &Value| holds(value) && value.kind() != ValueKind::Iterable);
    environment.add_filter("tojson", tojson);
    environment.add_filter("trim", |text: String, chars: Option<String>| match chars {
        Some(chars) => text.trim_matches(|one| chars.contains(one)).to_owned(),
        None => text.trim_matches(is_blank).to_owned(),
    });
    environment.add_filter("string", |value: Value| match value.kind() {
        ValueKind::Undefined => Ok(Value::from("")),
        _ => python_text::str_of(&value).map(Value::from),
    });
    environment
}

fn strftime_now(state: &State<'_, '_>, format: String) -> Result<String, Error> {
    let refused = |detail: String| Error::new(ErrorKind::InvalidOperation, detail);
    let now = state.lookup(NOW).and_then(|now| now.as_i64());
    let now = now.ok_or_else(|| refused("the template asks for the time; give the rendering one".to_owned()))?;
    time::formatted(now, &format).map_err(refused)
}

/// `json.dumps` with `ensure_ascii=False`; takes `indent`, `separators`, `sort_keys` and `ensure_ascii` as it does.
fn tojson(value: Value, kwargs: Kwargs) -> Result<String, Error> {
    let style = python_text::Json {
        indent: kwargs.get::<Option<usize>>("indent")?,
        separators: kwargs.get::<Option<Vec<String>>>("separators")?.map(pair).transpose()?,
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    python_text::json_of(&value, &style)
}

fn pair(texts: Vec<String>) -> Result<(String, String), Error> {
    let two: Result<[String; 2], _> = texts.try_into();
    two.map(Into::into).map_err(|_| Error::new(ErrorKind::InvalidOperation, "`separators` takes two texts"))
}

/// A method that minijinja's values lack. Those that strip or split at blanks go by Python's blanks.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), "strip" | "lstrip" | "rstrip") = (value.as_str(), name) {
        let (chars,): (Option<String>,) = from_args(args)?;
        let cut = |one: char| chars.as_ref().map_or_else(|| is_blank(one), |chars| chars.contains(one));
        return Ok(Value::from(match name {
            "strip" => text.trim_matches(cut),
            "lstrip" => text.trim_start_matches(cut),
            _ => text.trim_end_matches(cut),
        }));
    }
    if let (Some(text), "split", []) = (value.as_str(), name, args) {
        return Ok(text.split(is_blank).filter(|word| !word.is_empty()).map(Value::from).collect());
    }
    if value.as_str().is_some() && name == "split" && args.first().and_then(Value::as_str) == Some("") {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

/// What Python's `str.isspace` calls a blank: Unicode's white space and four separators of ASCII.
fn is_blank(one: char) -> bool {
    one.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&one)
}
