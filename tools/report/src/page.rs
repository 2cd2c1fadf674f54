//! Page around figures: one HTML file that needs no network and no script.

use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Returns a whole page. `body` is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
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
