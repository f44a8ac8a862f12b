//! Markdown in GitHub's dialect: headings, lists and tables. Every string is escaped on its way, so
//! that a page's or model's text shows as text.

use super::visible::one_line;
use crate::document::{Block, Document, Section, Table};
use crate::provenance::MOCK_NOTICE;

pub(super) fn render(document: &Document) -> String {
    let mut page = String::new();
    if document.mock() {
        page.push_str(&format!("> **{MOCK_NOTICE}**\n\n"));
    }
    page.push_str(&format!("# {}\n\n{}\n\n", escaped(&document.title), escaped(&document.subtitle)));
    for run in &document.provenance {
        page.push_str(&format!("- run {}, profile {}\n", escaped(&run.run_id), escaped(&run.profile)));
    }
    for fact in &document.facts {
        let (label, value, detail) = (escaped(&fact.label), escaped(&fact.value), escaped(&fact.detail));
        page.push_str(&format!("- {label}: **{value}** ({detail})\n"));
    }
    for section in &document.sections {
        page.push_str(&self::section(section));
    }
    page
}

fn section(section: &Section) -> String {
    let mut text = if section.folded {
        // Inside an HTML block nothing of Markdown is read, so its own escapes would show.
        format!("\n<details><summary>{}</summary>\n", super::html::escape(&section.heading))
    } else {
        format!("\n## {}\n", escaped(&section.heading))
    };
    for block in &section.blocks {
        match block {
            Block::Table(table) => text.push_str(&self::table(table)),
            Block::Note(note) => text.push_str(&format!("\n{}\n", escaped(note))),
        }
    }
    if section.folded {
        text.push_str("\n</details>\n");
    }
    text
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = String::from("\n");
    text.push_str(&row(table.columns.iter().map(|column| escaped(&column.heading)).collect()));
    let rules = table.columns.iter().map(|column| if column.numeric { "---:" } else { "---" }.to_owned());
    text.push_str(&row(rules.collect()));
    for line in &table.rows {
        let cells = line.cells.iter().map(|cell| match (line.total, cell.is_empty()) {
            (true, false) => format!("**{}**", escaped(cell)),
            (false, _) | (true, true) => escaped(cell),
        });
        text.push_str(&row(cells.collect()));
    }
    text
}

/// One line in which nothing is markup. HTML's own characters become entities, Markdown's are
/// escaped by a backslash; `@` cannot call anybody.
fn escaped(text: &str) -> String {
    let line = one_line(text);
    let mut safe = String::with_capacity(line.len());
    for character in line.trim().chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => {
                safe.push('\\');
                safe.push(character);
            }
            plain => safe.push(plain),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_leave_its_cell() {
        assert_eq!(escaped("a|b\n`c` <script>"), "a\\|b \\`c\\` &lt;script&gt;");
        assert_eq!(escaped("![x](http://y) @z"), "\\!\\[x\\](http://y) &#64;z");
    }
}
