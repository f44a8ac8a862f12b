//! A drawing of a few shapes in a coordinate system 360 units wide, which is about what a phone shows:
//! so its letters are readable there without a second layout.

use super::markup::Html;
use crate::render::visible::columns;

/// The width of every drawing.
pub(super) const WIDTH: f64 = 360.0;
/// The width that one letter may take at the size used here.
const LETTER: f64 = 6.4;

/// Where a text is held.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Shapes on their way to an `<svg>`.
pub(super) struct Drawing {
    shapes: Html,
    height: f64,
}

impl Drawing {
    /// An empty drawing of that height.
    pub(super) fn new(height: f64) -> Self {
        Self { shapes: Html::new(), height }
    }

    /// A rectangle, named for whoever points at it.
    pub(super) fn rect(&mut self, class: &'static str, [x, y, width, height]: [f64; 4], name: &str) {
        self.shapes.tag("<rect class=\"").tag(class).tag("\" x=\"").number(x).tag("\" y=\"").number(y);
        self.shapes.tag("\" width=\"").number(width.max(0.0)).tag("\" height=\"").number(height.max(0.0));
        self.shapes.tag("\"><title>").text(name).tag("</title></rect>\n");
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &'static str, [x1, y1, x2, y2]: [f64; 4]) {
        self.shapes.tag("<line class=\"").tag(class).tag("\" x1=\"").number(x1).tag("\" y1=\"").number(y1);
        self.shapes.tag("\" x2=\"").number(x2).tag("\" y2=\"").number(y2).tag("\"/>\n");
    }

    /// A dot, named for whoever points at it.
    pub(super) fn dot(&mut self, class: &'static str, [x, y, radius]: [f64; 3], name: &str) {
        self.shapes.tag("<circle class=\"").tag(class).tag("\" cx=\"").number(x).tag("\" cy=\"").number(y);
        self.shapes.tag("\" r=\"").number(radius).tag("\"><title>").text(name).tag("</title></circle>\n");
    }

    /// A text on its base line, cut with an ellipsis to the room it has and named in full.
    pub(super) fn text(&mut self, class: &'static str, anchor: Anchor, [x, y, room]: [f64; 3], text: &str) {
        self.shapes.tag("<text class=\"").tag(class).tag(match anchor {
            Anchor::Start => "\" text-anchor=\"start\" x=\"",
            Anchor::Middle => "\" text-anchor=\"middle\" x=\"",
            Anchor::End => "\" text-anchor=\"end\" x=\"",
        });
        self.shapes.number(x).tag("\" y=\"").number(y).tag("\">").text(&cut(text, room));
        self.shapes.tag("<title>").text(text).tag("</title></text>\n");
    }

    /// The finished drawing, described for whoever cannot see it.
    pub(super) fn finish(self, description: &str) -> Html {
        let mut svg = Html::new();
        svg.tag("<svg role=\"img\" viewBox=\"0 0 ").number(WIDTH).tag(" ").number(self.height);
        svg.tag("\" aria-label=\"").text(description).tag("\">\n").put(self.shapes).tag("</svg>\n");
        svg
    }
}

fn cut(text: &str, room: f64) -> String {
    let line = crate::render::visible::one_line(text);
    let letters = (room / LETTER).floor().max(1.0) as usize;
    if columns(&line) <= letters {
        return line;
    }
    let mut kept = String::new();
    for character in line.chars() {
        if columns(&kept) + columns(character.encode_utf8(&mut [0; 4])) + 1 > letters {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_to_its_room() {
        assert_eq!(cut("easy", 64.0), "easy");
        assert_eq!(cut("a very long tier name", 64.0), "a very lo…");
        assert_eq!(cut("日本語の長い名前", 64.0), "日本語の…");
    }
}
