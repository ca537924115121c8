//! Lists of objects and of uploads.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::error::{Code, Result};
use crate::listing::{Entry, ListRequest};
use crate::request::{Request, encoded};
use crate::{
    access::Right, calls::Call, calls::uploads::describe_upload, record::ObjectRecord,
    reply::Reply, times, xml::Writer,
};

/// Most entries of a page.
const MAX_PAGE: u32 = 1000;

/// The way in which texts of keys are written.
#[derive(Copy, Clone)]
struct Texts {
    url: bool,
}

impl Texts {
    fn of(req: &Request) -> Result<Texts> {
        match req.word("encoding-type") {
            None | Some("") => Ok(Texts { url: false }),
            Some("url") => Ok(Texts { url: true }),
            Some(_) => Code::InvalidArgument.err("encoding-type: it is url"),
        }
    }

    fn show(self, text: &str) -> String {
        if self.url { encoded(text, true) } else { text.to_owned() }
    }

    fn note(self, document: &mut Writer, delimiter: &str) {
        document.maybe("EncodingType", self.url.then_some("url"));
        document.maybe("Delimiter", Some(self.show(delimiter)).filter(|text| !text.is_empty()));
    }
}

fn after_token(token: &str) -> Result<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|after| !after.is_empty())
        .ok_or_else(|| Code::InvalidArgument.error("continuation-token: it is not of this server"))
}

impl Call<'_> {
    /// The question for the page that a query asks for.
    fn list_of(&self, after: String) -> Result<ListRequest> {
        let req = self.req;
        let word = |name: &str| req.word(name).unwrap_or("").to_owned();
        let most = req.number("max-keys")?.unwrap_or(MAX_PAGE).min(MAX_PAGE) as usize;
        let (prefix, delimiter) = (word("prefix"), word("delimiter"));
        Ok(ListRequest { prefix, delimiter, after, most })
    }

    pub(super) fn list_objects(&mut self, bucket: &str) -> Result<Reply> {
        let at = self.need_read(bucket, None)?;
        let texts = Texts::of(self.req)?;
        let second = self.req.word("list-type") == Some("2");
        let word = |name: &str| self.req.word(name).unwrap_or("");
        let token = self.req.word("continuation-token");
        let after = match (second, token) {
            (true, Some(token)) if !token.is_empty() => after_token(token)?,
            (true, _) => word("start-after").to_owned(),
            _ => word("marker").to_owned(),
        };
        let list = self.list_of(after)?;
        if word("allow-unordered") == "true" && !list.delimiter.is_empty() {
            return Code::InvalidArgument.err("allow-unordered: it goes with no delimiter");
        }
        let page = self.gate.list(&at, &list)?;
        let mut document = Writer::new("ListBucketResult");
        // Clients decode it in the second version only.
        let prefix = if second { texts.show(&list.prefix) } else { list.prefix.clone() };
        document.text("Name", bucket).text("Prefix", prefix);
        document.show("MaxKeys", list.most).show("IsTruncated", page.next.is_some());
        texts.note(&mut document, &list.delimiter);
        if second {
            document.show("KeyCount", page.entries.len()).maybe("ContinuationToken", token);
            document.maybe("StartAfter", self.req.word("start-after").map(|key| texts.show(key)));
            let next = page.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next));
            document.maybe("NextContinuationToken", next);
        } else {
            document.text("Marker", texts.show(&list.after));
            document.maybe("NextMarker", page.next.as_ref().map(|next| texts.show(next)));
        }
        let owner = !second || word("fetch-owner") == "true";
        for entry in &page.entries {
            self.entry(&mut document, entry, texts, None, owner);
        }
        Ok(Reply::xml(document))
    }

    pub(super) fn list_versions(&mut self, bucket: &str) -> Result<Reply> {
        let at = self.need(bucket, Right::Read)?;
        let texts = Texts::of(self.req)?;
        let word = |name: &str| self.req.word(name).unwrap_or("");
        let (after, after_id) = (word("key-marker"), word("version-id-marker"));
        if after.is_empty() && !after_id.is_empty() {
            return Code::InvalidArgument.err("version-id-marker: it needs a key-marker");
        }
        let list = self.list_of(after.to_owned())?;
        let (entries, next) = self.gate.list_versions(&at, &list, after_id)?;
        let mut document = Writer::new("ListVersionsResult");
        document.text("Name", bucket).text("Prefix", texts.show(&list.prefix));
        document.text("KeyMarker", texts.show(&list.after)).text("VersionIdMarker", after_id);
        document.show("MaxKeys", list.most).show("IsTruncated", next.is_some());
        texts.note(&mut document, &list.delimiter);
        if let Some((key, id)) = &next {
            document.text("NextKeyMarker", texts.show(key));
            document.maybe("NextVersionIdMarker", Some(id).filter(|id| !id.is_empty()));
        }
        for (entry, latest) in &entries {
            self.entry(&mut document, entry, texts, Some(*latest), true);
        }
        Ok(Reply::xml(document))
    }

    /// Adds an entry; `latest`: it is a version, and whether it is the one in force.
    fn entry(
        &self,
        document: &mut Writer,
        entry: &Entry,
        texts: Texts,
        latest: Option<bool>,
        owner: bool,
    ) {
        let (key, record) = match entry {
            Entry::Object(key, record) => (key, record),
            Entry::Prefix(prefix) => {
                document.row("CommonPrefixes", [("Prefix", &texts.show(prefix))]);
                return;
            }
        };
        let name = match latest {
            None => "Contents",
            Some(_) if record.marker => "DeleteMarker",
            Some(_) => "Version",
        };
        document.within(name, |one| {
            one.text("Key", texts.show(key));
            if let Some(latest) = latest {
                one.text("VersionId", record.id()).show("IsLatest", latest);
            }
            self.describe(one, record, owner);
        });
    }

    fn describe(&self, one: &mut Writer, record: &ObjectRecord, owner: bool) {
        one.text("LastModified", times::iso(record.modified_ms));
        if !record.marker {
            one.text("ETag", format!("\"{}\"", record.etag)).show("Size", record.size);
            one.text("StorageClass", "STANDARD");
        }
        if let Some(checksum) = &record.checksum {
            one.text("ChecksumAlgorithm", &checksum.kind).text("ChecksumType", checksum.of_type());
        }
        if owner {
            one.owner("Owner", &self.key.id);
        }
    }

    pub(super) fn list_uploads(&mut self, bucket: &str) -> Result<Reply> {
        let at = self.need(bucket, Right::Read)?;
        let texts = Texts::of(self.req)?;
        let word = |name: &str| self.req.word(name).unwrap_or("");
        let most = self.req.number("max-uploads")?.unwrap_or(MAX_PAGE).min(MAX_PAGE) as usize;
        let (prefix, delimiter) = (word("prefix"), word("delimiter"));
        let (after, after_id) = (word("key-marker"), word("upload-id-marker"));
        let mut document = Writer::new("ListMultipartUploadsResult");
        document.text("Bucket", bucket).text("KeyMarker", texts.show(after));
        document.text("UploadIdMarker", after_id).text("Prefix", texts.show(prefix));
        document.show("MaxUploads", most);
        texts.note(&mut document, delimiter);
        let (mut group, mut last, mut count) = (None, (String::new(), String::new()), 0);
        let mut more = false;
        for (key, id, record) in self.gate.uploads(&at, prefix)? {
            let at = key[prefix.len()..].find(delimiter).filter(|_| !delimiter.is_empty());
            let shown = at.map(|at| key[..prefix.len() + at + delimiter.len()].to_owned());
            let behind = match (after_id, &shown) {
                (_, Some(shown)) => shown.as_str() > after,
                ("", None) => key.as_str() > after || after.is_empty(),
                (_, None) => (key.as_str(), id.as_str()) > (after, after_id),
            };
            if !behind {
                continue;
            }
            if shown.is_some() && shown == group {
                last.1 = id;
                continue;
            }
            more = count == most;
            if more {
                break;
            }
            count += 1;
            match &shown {
                Some(shown) => {
                    document.row("CommonPrefixes", [("Prefix", &texts.show(shown))]);
                    last = (shown.clone(), id);
                }
                None => {
                    document.within("Upload", |one| {
                        one.text("Key", texts.show(&key)).text("UploadId", &id);
                        one.text("StorageClass", "STANDARD");
                        one.text("Initiated", times::iso(record.begun_ms));
                        describe_upload(one, &record);
                    });
                    last = (key, id);
                }
            }
            group = shown;
        }
        document.show("IsTruncated", more);
        if more && most > 0 {
            document.text("NextKeyMarker", texts.show(&last.0));
            document.text("NextUploadIdMarker", last.1);
        }
        Ok(Reply::xml(document))
    }
}
