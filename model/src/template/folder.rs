//! The templates that a model brings: `chat_template.jinja`, `additional_chat_templates/`, `chat_template` in
//! `tokenizer_config.json` (one, or a list with names), or a GGUF's `tokenizer.chat_template`. It refuses to render.

use super::Template;
use crate::error::ModelError;
use crate::special::{mapping, read_file};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Templates of one model at most.
const TEMPLATES_MAX: usize = 64;
/// The one that is used unless another is asked for.
const DEFAULT: &str = "default";
/// The one that is used when there are tools.
const WITH_TOOLS: &str = "tool_use";

/// The templates of a model, by name.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    named: BTreeMap<String, Template>,
}

impl Templates {
    /// Reads a model's folder. A file `chat_template.jinja` wins over what the configuration holds. A folder without any
    /// gives none.
    ///
    /// # Errors
    /// A file that cannot be read or is too large, a configuration that is no mapping, a template that does not parse.
    pub fn of_folder(folder: &Path) -> Result<Self, ModelError> {
        let mut found = Self::default();
        let config = folder.join("tokenizer_config.json");
        if let Some(text) = read_file(&config)? {
            found = Self::of_config(&config.display().to_string(), &text)?;
        }
        let alone = folder.join("chat_template.jinja");
        if let Some(source) = read_file(&alone)? {
            found.named.clear();
            found.add(DEFAULT, &alone.display().to_string(), &source)?;
        }
        let more = folder.join("additional_chat_templates");
        for entry in std::fs::read_dir(&more).into_iter().flatten() {
            let wrong = |error: std::io::Error| ModelError::Facts {
                name: more.display().to_string(),
                detail: error.to_string(),
            };
            let path = entry.map_err(wrong)?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
            if let (Some(name), Some("jinja")) = (name, path.extension().and_then(|ending| ending.to_str())) {
                let source = read_file(&path)?.unwrap_or_default();
                found.add(&name, &path.display().to_string(), &source)?;
            }
        }
        Ok(found)
    }

    /// What a `tokenizer_config.json` holds, by its text.
    ///
    /// # Errors
    /// As [`Templates::of_folder`].
    pub fn of_config(name: &str, text: &str) -> Result<Self, ModelError> {
        let wrong = |detail: &str| ModelError::Facts { name: name.to_owned(), detail: detail.to_owned() };
        let mut found = Self::default();
        match mapping(name, text)?.get("chat_template") {
            None | Some(Value::Null) => {}
            Some(Value::String(source)) => found.add(DEFAULT, name, source)?,
            Some(Value::Array(listed)) => {
                for one in listed {
                    let field = |field: &str| one.get(field).and_then(Value::as_str);
                    let (Some(called), Some(source)) = (field("name"), field("template")) else {
                        return Err(wrong("`chat_template`: expected each entry to have a `name` and a `template`"));
                    };
                    found.add(called, &format!("{name} ({called})"), source)?;
                }
            }
            Some(_) => return Err(wrong("`chat_template`: expected a text or a list of named texts")),
        }
        Ok(found)
    }

    /// One template, as a GGUF file carries it.
    ///
    /// # Errors
    /// A template that does not parse.
    pub fn of_source(name: &str, source: &str) -> Result<Self, ModelError> {
        let mut found = Self::default();
        found.add(DEFAULT, name, source)?;
        Ok(found)
    }

    /// The one to use: the one for tools if there are tools and such a one, else the default; as transformers chooses.
    pub fn choose(&self, with_tools: bool) -> Option<&Template> {
        let for_tools = self.named.get(WITH_TOOLS).filter(|_| with_tools);
        for_tools.or_else(|| self.named.get(DEFAULT))
    }

    /// The one of a name.
    pub fn named(&self, name: &str) -> Option<&Template> {
        self.named.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    fn add(&mut self, name: &str, origin: &str, source: &str) -> Result<(), ModelError> {
        if self.named.len() >= TEMPLATES_MAX && !self.named.contains_key(name) {
            let detail = format!("expected at most {TEMPLATES_MAX} templates");
            return Err(ModelError::Facts { name: origin.to_owned(), detail });
        }
        self.named.insert(name.to_owned(), Template::parse(origin, source)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_none_or_one_or_named_templates() {
        let names =
            |text: &str| Templates::of_config("c.json", text).map(|found| found.names().collect::<Vec<_>>().join(" "));
        assert_eq!(names("{}").unwrap(), "");
        assert_eq!(names(r#"{"chat_template": "x"}"#).unwrap(), "default");
        let both =
            r#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}"#;
        let both = Templates::of_config("c.json", both).unwrap();
        assert_eq!(both.choose(false).unwrap().source(), "a");
        assert_eq!(both.choose(true).unwrap().source(), "b");
        for (text, words) in [
            (r#"{"chat_template": 7}"#, "a text or a list"),
            (r#"{"chat_template": [{"name": "x"}]}"#, "a `name` and a `template`"),
            (r#"{"chat_template": "\n{% if %}"}"#, "c.json, line 2"),
            ("[]", "expected a mapping"),
        ] {
            let error = names(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_file_beside_the_configuration_wins() {
        let folder = std::env::temp_dir().join(format!("legwork-templates-{}", std::process::id()));
        let more = folder.join("additional_chat_templates");
        std::fs::create_dir_all(&more).unwrap();
        assert!(Templates::of_folder(&folder).unwrap().choose(true).is_none());
        std::fs::write(folder.join("tokenizer_config.json"), r#"{"chat_template": "config"}"#).unwrap();
        assert_eq!(Templates::of_folder(&folder).unwrap().choose(true).unwrap().source(), "config");
        std::fs::write(folder.join("chat_template.jinja"), "file").unwrap();
        std::fs::write(more.join("tool_use.jinja"), "tools").unwrap();
        let found = Templates::of_folder(&folder).unwrap();
        assert_eq!(found.choose(false).unwrap().source(), "file");
        assert_eq!(found.choose(true).unwrap().source(), "tools");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
