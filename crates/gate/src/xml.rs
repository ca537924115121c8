//! XML, as much of it as S3 needs: answers are written, small documents of clients read.

use std::{borrow::Cow, fmt::Write as _};

use crate::error::{Code, GateError, Result};
use crate::record::Checksum;

/// Most elements of a client's document.
const MAX_ELEMENTS: usize = 60_000;
/// Most levels of it.
const MAX_DEPTH: usize = 8;
/// Namespace of S3's documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A document in the making.
#[derive(Debug)]
pub(crate) struct Writer {
    text: String,
    open: Vec<&'static str>,
}

impl Writer {
    /// Begins a document.
    pub(crate) fn new(root: &'static str) -> Writer {
        let text =
            format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"{NAMESPACE}\">");
        Writer { text, open: vec![root] }
    }

    /// Begins a document without a namespace, as errors have it.
    pub(crate) fn plain(root: &'static str) -> Writer {
        let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root}>");
        Writer { text, open: vec![root] }
    }

    /// Adds an element with a text.
    pub(crate) fn text(&mut self, name: &str, text: impl AsRef<str>) -> &mut Writer {
        let _ = write!(self.text, "<{name}>{}</{name}>", escaped(text.as_ref()));
        self
    }

    /// Adds a text to the element that is open.
    pub(crate) fn inside(&mut self, text: &str) {
        self.text += &escaped(text);
    }

    /// Adds an element with a number or the like.
    pub(crate) fn show(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Writer {
        self.text(name, value.to_string())
    }

    /// Adds a checksum, and returns it.
    pub(crate) fn checksum<'c>(&mut self, checksum: Option<&'c Checksum>) -> Option<&'c Checksum> {
        let Checksum { kind, value } = checksum?;
        self.text(&format!("Checksum{kind}"), value);
        checksum
    }

    /// Adds an element with a text where there is one.
    pub(crate) fn maybe(&mut self, name: &str, text: Option<impl AsRef<str>>) -> &mut Writer {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    /// Adds an element of elements with texts.
    pub(crate) fn row<const N: usize>(
        &mut self,
        name: &'static str,
        texts: [(&str, &str); N],
    ) -> &mut Writer {
        self.within(name, |one| {
            texts.iter().for_each(|(name, text)| _ = one.text(name, text));
        })
    }

    /// Adds an access key as the owner of a thing, or as one who may use it.
    pub(crate) fn owner(&mut self, name: &'static str, id: &str) -> &mut Writer {
        self.row(name, [("ID", id), ("DisplayName", id)])
    }

    /// Adds an element with others in it.
    pub(crate) fn within(
        &mut self,
        name: &'static str,
        fill: impl FnOnce(&mut Writer),
    ) -> &mut Writer {
        let _ = write!(self.text, "<{name}>");
        fill(self);
        let _ = write!(self.text, "</{name}>");
        self
    }

    /// Returns the document.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for name in self.open.iter().rev() {
            let _ = write!(self.text, "</{name}>");
        }
        self.text.into_bytes()
    }
}

/// A text as it stands in a document. What no document can have is replaced: clients that want
/// such keys ask for them encoded.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter: char| matches!(letter, '&' | '<' | '>' | '"') || letter < ' ') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
            control if control < ' ' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// An element of a client's document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Element {
    /// Name without a prefix of a namespace.
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// Returns the text of a child.
    pub(crate) fn child(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name == name).map(|child| child.text.trim())
    }

    /// Returns the element as text.
    pub(crate) fn to_text(&self) -> String {
        let inner = match self.children.is_empty() {
            true => escaped(self.text.trim()).into_owned(),
            false => self.children.iter().map(Element::to_text).collect(),
        };
        format!("<{0}>{inner}</{0}>", self.name)
    }

    /// Returns the children of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

fn malformed(why: &str) -> GateError {
    Code::MalformedXML.error(format!("document: {why}"))
}

/// Reads a document. Entities are the five of XML and numbers; there are no declarations.
/// Errors: [`Code::MalformedXML`].
pub(crate) fn parse(bytes: &[u8], root: &str) -> Result<Element> {
    let mut rest = std::str::from_utf8(bytes).map_err(|_| malformed("it is no UTF-8"))?;
    let mut open: Vec<Element> = Vec::new();
    let mut count = 0;
    loop {
        let at = rest.find('<').ok_or_else(|| malformed("it ends before its root does"))?;
        if let Some(element) = open.last_mut() {
            element.text += &unescaped(&rest[..at])?;
        } else if !rest[..at].trim_start_matches('\u{FEFF}').trim().is_empty() {
            return Err(malformed("text stands before its root"));
        }
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = after(comment, "-->")?.1;
            continue;
        }
        if rest.starts_with('!') {
            return Err(malformed("declarations are not permitted"));
        }
        if let Some(instruction) = rest.strip_prefix('?') {
            rest = after(instruction, "?>")?.1;
            continue;
        }
        let (tag, behind) = after(rest, ">")?;
        rest = behind;
        let done = if let Some(name) = tag.strip_prefix('/') {
            let element = open.pop().ok_or_else(|| malformed("an end without a beginning"))?;
            if element.name != local(name) {
                return Err(malformed("elements overlap"));
            }
            element
        } else {
            count += 1;
            if count > MAX_ELEMENTS || open.len() >= MAX_DEPTH {
                return Err(malformed("it has too many elements or levels"));
            }
            let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let element = Element { name: local(tag).to_owned(), ..Element::default() };
            if !empty {
                open.push(element);
                continue;
            }
            element
        };
        match open.last_mut() {
            Some(parent) => parent.children.push(done),
            None if done.name == root && rest.trim().is_empty() => return Ok(done),
            None => return Err(malformed(&format!("its root is not one {root}"))),
        }
    }
}

/// Returns the texts before and after another one.
fn after<'a>(rest: &'a str, end: &str) -> Result<(&'a str, &'a str)> {
    rest.split_once(end).ok_or_else(|| malformed("a tag is cut off"))
}

/// The name of a tag without prefix and attributes.
fn local(tag: &str) -> &str {
    let name = tag.split_whitespace().next().unwrap_or("");
    name.rsplit(':').next().unwrap_or(name)
}

fn unescaped(text: &str) -> Result<Cow<'_, str>> {
    if !text.contains('&') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        out.push_str(before);
        let (name, behind) = after(entity, ";")?;
        let number =
            |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let letter = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => match name.strip_prefix("#x") {
                Some(digits) => number(digits, 16),
                None => name.strip_prefix('#').and_then(|digits| number(digits, 10)),
            },
        };
        out.push(letter.ok_or_else(|| malformed("an entity is unknown"))?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_written_and_read() {
        let mut writer = Writer::new("Delete");
        writer.within("Object", |object| {
            object.text("Key", "a<b>&\"'\n\u{1}ü");
        });
        let read = parse(&writer.finish(), "Delete").unwrap();
        let keys: Vec<_> =
            read.all("Object").map(|object| object.children[0].text.as_str()).collect();
        assert_eq!(keys, ["a<b>&\"'\n\u{FFFD}ü"]);
        let text = "<?xml version='1.0'?><!-- x --><s:R xmlns:s='y'><A/><B c='d'> 1 </B></s:R>\n";
        let read = parse(text.as_bytes(), "R").unwrap();
        assert_eq!(
            (read.child("A"), read.child("B"), read.child("C")),
            (Some(""), Some("1"), None)
        );
    }

    #[test]
    fn hostile_documents_are_errors() {
        let deep = "<R>".repeat(100);
        let many = format!("<R>{}</R>", "<A/>".repeat(MAX_ELEMENTS + 1));
        let texts = ",x,<R>,</R>,<R></Q>,<Q></Q>,<R/><R/>,<R>&bomb;</R>,<R>&#xD800;</R>,\
            <R>&amp</R>,<!DOCTYPE R [<!ENTITY a 'b'>]><R>&a;</R>,\
            <R><![CDATA[x]]></R>,<R,<R><!-- </R>";
        for text in texts.split(',').chain([deep.as_str(), many.as_str()]) {
            let code = parse(text.as_bytes(), "R").unwrap_err().code;
            assert_eq!(code, Code::MalformedXML, "{}", &text[..text.len().min(40)]);
        }
        assert!(parse(b"<R>\xff</R>", "R").is_err());
    }
}
