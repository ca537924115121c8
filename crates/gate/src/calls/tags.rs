//! Tags of objects and buckets.

use std::collections::BTreeMap;

use http::Method;

use crate::calls::{Call, not_allowed, with_version};
use crate::error::{Code, Result};
use crate::request::{Request, pairs};
use crate::xml::{self, Writer};
use crate::{access::Right, reply::Reply};

/// Most tags of an object.
const MAX_OBJECT: usize = 10;
/// Most tags of a bucket.
const MAX_BUCKET: usize = 50;

type Tags = BTreeMap<String, String>;

/// Collects tags, and refuses those that S3 refuses.
fn checked(all: impl IntoIterator<Item = (String, String)>, most: usize) -> Result<Tags> {
    let wrong = |why: &str| Code::InvalidTag.err(why);
    let plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || " +-=._:/@".contains(c));
    let mut tags = Tags::new();
    for (key, value) in all {
        if !(1..=128).contains(&key.chars().count()) || !plain(&key) {
            return wrong("The TagKey you have provided is invalid");
        }
        if value.chars().count() > 256 || !plain(&value) {
            return wrong("The TagValue you have provided is invalid");
        }
        if tags.insert(key, value).is_some() {
            return wrong("Cannot provide multiple Tags with the same key");
        }
    }
    match tags.len() > most {
        true if most == MAX_BUCKET => {
            Code::BadRequest.err(format!("Bucket tag count cannot be greater than {most}"))
        }
        true => Code::BadRequest.err(format!("Object tags cannot be greater than {most}")),
        false => Ok(tags),
    }
}

/// Reads the tags that the head of a request gives to an object.
pub(super) fn of_header(req: &Request) -> Result<Tags> {
    let wrong = || {
        let why = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query \
                   parameters without tag name duplicates.";
        Code::InvalidArgument.error(why)
    };
    let all = pairs(req.header("x-amz-tagging").unwrap_or(""));
    let all = all.filter(|all| all.iter().all(|(key, _)| !key.is_empty())).ok_or_else(wrong)?;
    checked(all, MAX_OBJECT).map_err(|error| match error.code {
        Code::InvalidTag if error.message.starts_with("The Tag") => error,
        Code::InvalidTag => wrong(),
        _ => Code::InvalidArgument.error(error.message),
    })
}

fn of_document(bytes: &[u8], most: usize) -> Result<Tags> {
    let document = xml::parse(bytes, "Tagging")?;
    let set = document.all("TagSet").next();
    let set = set.ok_or_else(|| Code::MalformedXML.error("tags: there is no TagSet"))?;
    let text = |tag: &xml::Element, name| tag.child(name).unwrap_or_default().to_owned();
    checked(set.all("Tag").map(|tag| (text(tag, "Key"), text(tag, "Value"))), most)
}

/// Refuses a document that a bucket's tags cannot be.
pub(super) fn check_bucket(bytes: &[u8]) -> Result<()> {
    of_document(bytes, MAX_BUCKET).map(drop)
}

impl Call<'_> {
    /// Reads, replaces or removes the tags of an object.
    pub(super) fn object_tags(&mut self, method: &Method) -> Result<Reply> {
        let (bucket, key) = self.req.place();
        let right = if *method == Method::GET { Right::Read } else { Right::Write };
        let at = self.need(bucket, right)?;
        let id = self.version_id()?.map(str::to_owned);
        let tags = match *method {
            Method::GET => {
                let mut document = Writer::new("Tagging");
                let record = self.gate.there((&at, key), id.as_deref())?.record;
                document.within("TagSet", |set| {
                    for (key, value) in &record.tags {
                        set.row("Tag", [("Key", key), ("Value", value)]);
                    }
                });
                return Ok(with_version(Reply::xml(document), &at, &record));
            }
            Method::PUT => of_document(&self.small_payload(true)?, MAX_OBJECT)?,
            Method::DELETE => Tags::new(),
            _ => return Err(not_allowed()),
        };
        let record = self.gate.amend((&at, key), id.as_deref(), |record| {
            record.tags.clone_from(&tags);
            Ok(())
        })?;
        let reply = Reply::new(if *method == Method::PUT { 200 } else { 204 });
        Ok(with_version(reply, &at, &record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_bad_ones_refused() {
        let of = |tags: &str| {
            let tags = tags.replace('[', "<Tag><Key>").replace('=', "</Key><Value>");
            let tags = tags.replace(']', "</Value></Tag>");
            let text = format!("<Tagging><TagSet>{tags}</TagSet></Tagging>");
            of_document(text.as_bytes(), 2).map_err(|error| error.code)
        };
        let two = [("a b", "c/d"), ("x", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(of("[a b=c/d][x=]"), Ok(Tags::from(two)));
        for bad in ["[a=b][a=c]", "[=b]", "[a=b?]", &format!("[{}=b]", "a".repeat(129))] {
            assert_eq!(of(bad), Err(Code::InvalidTag), "{bad}");
        }
        assert_eq!(of("[a=1][b=2][c=3]"), Err(Code::BadRequest));
    }
}
