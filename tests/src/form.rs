//! The forms of a page, as far as these pages go: elements and attributes in lower case, values in double quotes.

/// A form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {
    /// Where it is sent; empty means the page itself.
    pub action: String,
    /// Its fields and their values.
    pub fields: Vec<(String, String)>,
}

impl Form {
    /// The first form of a page.
    #[must_use]
    pub fn of(page: &str) -> Option<Self> {
        let (_, rest) = page.split_once("<form")?;
        let (form, _) = rest.split_once("</form>")?;
        let (tag, body) = form.split_once('>')?;
        let fields = body.split("<input").skip(1).filter_map(|field| {
            let (tag, _) = field.split_once('>')?;
            Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()))
        });
        Some(Self { action: attribute(tag, "action").unwrap_or_default(), fields: fields.collect() })
    }

    /// The value of a field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Fills in a field; adds it where there is none.
    pub fn fill(&mut self, name: &str, value: &str) {
        match self.fields.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.fields.push((name.to_owned(), value.to_owned())),
        }
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(unescaped(value))
}

/// The addresses of a page's links.
#[must_use]
pub fn links(page: &str) -> Vec<String> {
    page.split("<a ").skip(1).filter_map(|link| attribute(&format!(" {}", link.split_once('>')?.0), "href")).collect()
}

fn unescaped(text: &str) -> String {
    let named =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    named.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)).replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read() {
        let page = r#"<p><form method="post" action="/login/x?a=1&amp;b=2"><input type="hidden" name="csrf" value="q&#34;"><input name="username" autofocus></form>"#;
        let form = Form::of(page).unwrap();
        assert_eq!(form.action, "/login/x?a=1&b=2");
        assert_eq!(form.value("csrf"), Some("q\""));
        assert_eq!(form.value("username"), Some(""));
    }

    #[test]
    fn links_are_read() {
        assert_eq!(links(r#"<a class="way" href="/login/x?a=1&#38;b=2">X</a><a href="/y">Y</a>"#), ["/login/x?a=1&b=2", "/y"]);
    }
}
