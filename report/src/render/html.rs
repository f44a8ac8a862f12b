//! One self-contained HTML file: no script, no external resource, a policy that allows its own style
//! sheet and nothing else. Untrusted text passes through [`markup::Html::text`], the only way in.

mod markup;
mod plots;
mod svg;

use crate::document::{Block, Document, Fact, Figure, Section, Table};
use crate::provenance::MOCK_NOTICE;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use markup::Html;
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("html/style.css");

pub(super) fn render(document: &Document) -> String {
    let mut page = Html::new();
    page.tag("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.tag("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-");
    page.text(&STANDARD.encode(Sha256::digest(STYLE.as_bytes())));
    page.tag("'; base-uri 'none'; form-action 'none'\">\n");
    page.tag("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.tag("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
    page.text(if document.mock() { "MOCK · " } else { "" }).text(&document.title).tag("</title>\n<style>");
    page.tag(STYLE).tag("</style>\n</head>\n<body>\n");
    if document.mock() {
        page.tag("<p class=\"mock\" role=\"note\">").text(MOCK_NOTICE).tag("</p>\n");
    }
    page.tag("<main>\n").put(masthead(document));
    page.tag("<dl class=\"facts\">\n");
    for fact in &document.facts {
        page.put(self::fact(fact));
    }
    page.tag("</dl>\n");
    for section in &document.sections {
        page.put(self::section(section));
    }
    page.tag("</main>\n</body>\n</html>\n");
    page.into_string()
}

/// Text for HTML that another format embeds.
pub(super) fn escape(text: &str) -> String {
    let mut html = Html::new();
    html.text(text);
    html.into_string()
}

fn masthead(document: &Document) -> Html {
    let mut html = Html::new();
    html.tag("<header>\n<p class=\"eyebrow\">legwork report</p>\n<h1>").text(&document.title).tag("</h1>\n");
    html.tag("<p class=\"subtitle\">").text(&document.subtitle).tag("</p>\n<ul class=\"runs\">\n");
    for run in &document.provenance {
        html.tag("<li><span>run</span> <code>").text(&run.run_id).tag("</code> <span>profile</span> <code>");
        html.text(&run.profile).tag("</code>");
        html.tag(if run.mock { " <b>mock worker</b></li>\n" } else { "</li>\n" });
    }
    html.tag("</ul>\n</header>\n");
    html
}

fn fact(fact: &Fact) -> Html {
    let mut html = Html::new();
    html.tag("<div><dt>").text(&fact.label).tag("</dt><dd class=\"value\">").text(&fact.value);
    html.tag("</dd><dd class=\"detail\">").text(&fact.detail).tag("</dd></div>\n");
    html
}

fn section(section: &Section) -> Html {
    let mut html = Html::new();
    if section.folded {
        html.tag("<details><summary>").text(&section.heading).tag("</summary>\n<div class=\"blocks\">\n");
    } else {
        let class = if section.figures.is_empty() { "<section>\n<h2>" } else { "<section class=\"drawn\">\n<h2>" };
        html.tag(class).text(&section.heading).tag("</h2>\n");
        if !section.figures.is_empty() {
            html.tag("<div class=\"figures\">\n");
            for figure in &section.figures {
                html.put(self::figure(figure));
            }
            html.tag("</div>\n");
        }
        html.tag("<div class=\"blocks\">\n");
    }
    for block in &section.blocks {
        match block {
            Block::Table(table) => html.put(self::table(table, &section.heading)),
            Block::Note(note) => html.tag("<p>").text(note).tag("</p>\n"),
        };
    }
    html.tag(if section.folded { "</div>\n</details>\n" } else { "</div>\n</section>\n" });
    html
}

fn figure(figure: &Figure) -> Html {
    let mut html = Html::new();
    html.tag("<figure>\n").put(plots::plot(&figure.plot, &figure.caption));
    html.tag("<figcaption>").text(&figure.caption).tag("</figcaption>\n</figure>\n");
    html
}

/// A table that scrolls by itself where the screen is too narrow; focusable, so that it scrolls from the
/// keyboard as well.
fn table(table: &Table, name: &str) -> Html {
    let mut html = Html::new();
    html.tag("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"")
        .text(name)
        .tag("\"><table>\n<thead><tr>");
    for column in &table.columns {
        html.tag(if column.numeric { "<th scope=\"col\" class=\"n\">" } else { "<th scope=\"col\">" });
        html.text(&column.heading).tag("</th>");
    }
    html.tag("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.tag(if row.total { "<tr class=\"total\">" } else { "<tr>" });
        for (cell, column) in row.cells.iter().zip(&table.columns) {
            html.tag(if column.numeric { "<td class=\"n\">" } else { "<td>" }).text(cell).tag("</td>");
        }
        html.tag("</tr>\n");
    }
    html.tag("</tbody></table></div>\n");
    html
}
