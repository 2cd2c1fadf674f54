//! Page around figures: one HTML file that needs no network and no script.

use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Returns a whole page. `body` is HTML; its figures are numbered.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    let body = numbered(body);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// Returns a figure with its caption, in plain text, which also tells what the picture shows to
/// those who cannot see it.
pub fn figure(caption: &str, svg: &str) -> String {
    let caption = escape(caption);
    let svg = svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{caption}\" "), 1);
    format!(
        "<figure>\n<div class=\"wide\">{svg}</div>\n{CAPTION}{caption}</figcaption>\n</figure>\n"
    )
}

const CAPTION: &str = "<figcaption>";

/// Numbers the captions of all figures, in their order.
fn numbered(body: &str) -> String {
    let mut parts = body.split(CAPTION);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        let _ = write!(out, "{CAPTION}<b>Figure {number}.</b> {part}");
    }
    out
}

/// Returns a heading with an anchor, and its line in the table of contents.
pub fn chapter(anchor: &str, title: &str) -> (String, String) {
    let title = escape(title);
    (
        format!("<h2 id=\"{anchor}\">{title}</h2>\n"),
        format!("<li><a href=\"#{anchor}\">{title}</a></li>\n"),
    )
}

/// Returns a table of contents from the lines of [`chapter`].
pub fn contents(lines: &str) -> String {
    format!("<nav>\n<b>Contents</b>\n<ol>\n{lines}</ol>\n</nav>\n")
}

/// Folds HTML away under a summary in plain text; open on paper.
pub fn folded(summary: &str, html: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{html}</details>\n", escape(summary))
}

/// Returns a list of failures, one item per line; empty without any.
/// Plain text.
pub fn bad(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|l| format!("<li>{}</li>\n", escape(l))).collect();
    format!("<div class=\"bad\"><b>{}</b>\n<ul>\n{items}</ul></div>\n", escape(title))
}

/// Returns a line of plain text that reports success.
pub fn good(words: &str) -> String {
    format!("<p class=\"good\">{}</p>\n", escape(words))
}

/// Explains a figure or a table above it. Plain text.
pub fn note(words: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(words))
}

/// Returns a table from rows of HTML.
pub fn table(heads: &[&str], rows: &str) -> String {
    let mut out = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for head in heads {
        let _ = write!(out, "<th>{}</th>", escape(head));
    }
    out + "</tr></thead>\n<tbody>\n" + rows + "</tbody></table></div>\n"
}

/// Makes plain text fit for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_escaped_everywhere() {
        let body = [bad("<a>", &["<b>".into()]), good("<c>"), note("<d>"), table(&["<e>"], "")];
        let page = page("<f>", &body.concat());
        for letter in 'a'..='f' {
            assert!(page.contains(&format!("&lt;{letter}&gt;")), "{letter}");
        }
        assert!(!page.contains("<f>") && !page.contains("<d>") && !page.contains("<e>"));
    }

    #[test]
    fn figures_are_numbered_and_say_what_they_show() {
        let body = [figure("a \"b\"", "<svg width=\"1\">"), figure("c", "<svg >")].concat();
        let page = page("t", &body);
        assert!(
            page.contains("<svg role=\"img\" aria-label=\"a &quot;b&quot;\" width=\"1\">"),
            "{page}"
        );
        for caption in ["<b>Figure 1.</b> a &quot;b&quot;<", "<b>Figure 2.</b> c<"] {
            assert!(page.contains(caption), "{page}");
        }
    }

    #[test]
    fn contents_lead_to_the_chapters() {
        let (heading, line) = chapter("one", "<One>");
        assert_eq!(heading, "<h2 id=\"one\">&lt;One&gt;</h2>\n");
        assert!(contents(&line).contains("<a href=\"#one\">&lt;One&gt;</a>"));
    }

    #[test]
    fn empty_list_of_failures_is_no_box() {
        assert_eq!(bad("Checks failed", &[]), "");
    }

    #[test]
    fn page_fetches_nothing() {
        let page = page("t", "");
        for word in ["src=", "href=", "@import", "url(", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
