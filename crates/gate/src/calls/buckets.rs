//! Buckets as a whole.

use std::collections::BTreeMap;

use crate::calls::{Call, checked_id, stubs};
use crate::error::{Code, Result};
use crate::{
    access::Right, lock, names, object::Conditions, record::VERSIONED, reply::Reply, times,
    xml::Writer,
};

/// Most objects that are removed by one request.
const MAX_DELETED: usize = 1000;
/// Most buckets of a page.
const MAX_BUCKETS: u32 = 10_000;

impl Call<'_> {
    pub(super) fn list_buckets(&mut self) -> Result<Reply> {
        let most = self.req.number("max-buckets")?.unwrap_or(MAX_BUCKETS);
        if !(1..=MAX_BUCKETS).contains(&most) {
            return Code::InvalidArgument.err("max-buckets: it is 1 to 10000");
        }
        let word = |name: &str| self.req.word(name).unwrap_or("");
        let (prefix, token) = (word("prefix"), word("continuation-token"));
        let mut buckets = self.gate.buckets()?;
        buckets.retain(|bucket| {
            let owned = !bucket.owner.is_empty() && bucket.owner == self.key.id;
            let mine = owned || self.key.may(&bucket.name, Right::Read);
            mine && bucket.name.starts_with(prefix) && bucket.name.as_str() > token
        });
        let next = (buckets.len() > most as usize).then(|| buckets[most as usize - 1].name.clone());
        buckets.truncate(most as usize);
        let mut document = Writer::new("ListAllMyBucketsResult");
        document.owner("Owner", &self.key.id);
        document.within("Buckets", |list| {
            for bucket in &buckets {
                let made = ("CreationDate", &times::iso(bucket.created_ms)[..]);
                list.row("Bucket", [("Name", &bucket.name), made, ("BucketRegion", self.region)]);
            }
        });
        document.maybe("Prefix", Some(prefix).filter(|prefix| !prefix.is_empty()));
        document.maybe("ContinuationToken", next);
        Ok(Reply::xml(document))
    }

    pub(super) fn head_bucket(&mut self, bucket: &str) -> Result<Reply> {
        self.need_read(bucket, None)?;
        Ok(Reply::new(200).with("x-amz-bucket-region", self.region))
    }

    pub(super) fn create_bucket(&mut self, bucket: &str) -> Result<Reply> {
        names::check_bucket(bucket)?;
        if !self.key.create && !self.key.may(bucket, Right::Owner) {
            return Err(self.denied(bucket));
        }
        stubs::refuse_unkept(self.req)?;
        let mut settings = BTreeMap::new();
        let lock = self.req.header("x-amz-bucket-object-lock-enabled");
        if lock.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            settings.insert("object-lock".to_owned(), lock::ENABLED.to_owned());
            settings.insert("versioning".to_owned(), VERSIONED.to_owned());
        }
        if self.req.header("content-length").is_some_and(|length| length != "0") {
            // Any place is as good as another.
            self.document("CreateBucketConfiguration", true)?;
        }
        self.gate.create_bucket(bucket, &self.key, settings)?;
        Ok(Reply::new(200).with("location", format!("/{bucket}")))
    }

    pub(super) fn delete_bucket(&mut self, bucket: &str) -> Result<Reply> {
        self.need(bucket, Right::Owner)?;
        self.gate.delete_bucket(bucket)?;
        Ok(Reply::new(204))
    }

    pub(super) fn delete_many(&mut self, bucket: &str) -> Result<Reply> {
        let at = self.need(bucket, Right::Write)?;
        let request = self.document("Delete", true)?;
        let (quiet, bypass) = (request.child("Quiet") == Some("true"), self.bypasses(bucket)?);
        let objects: Vec<_> = request.all("Object").collect();
        if objects.len() > MAX_DELETED {
            return Code::MalformedXML.err("document: it names more than 1000 objects");
        }
        let mut document = Writer::new("DeleteResult");
        for object in objects {
            // Keys keep their blanks.
            let key = object.all("Key").next().map_or("", |key| key.text.as_str());
            let etag = object.child("ETag").map(|etag| etag.trim_matches('"').to_owned());
            let conditions = Conditions { if_match: etag, if_none: false };
            let id = object.child("VersionId").filter(|id| !id.is_empty());
            let checked = match object.child("Size").or(object.child("LastModifiedTime")) {
                Some(_) => Code::NotImplemented.err("Size, LastModifiedTime: no conditions here"),
                None => id.map(checked_id).transpose(),
            };
            let place = (bucket, &at, key);
            let delete = |id| self.gate.delete_object(place, id, &conditions, bypass);
            match checked.and_then(delete) {
                Ok(_) if quiet => {}
                Ok(end) => {
                    document.within("Deleted", |one| {
                        one.text("Key", key).maybe("VersionId", id);
                        if let (true, Some(id)) = (end.marker, &end.version) {
                            one.text("DeleteMarker", "true").text("DeleteMarkerVersionId", id);
                        }
                    });
                }
                Err(error) => {
                    document.within("Error", |one| {
                        one.text("Key", key).text("VersionId", id.unwrap_or_default());
                        one.show("Code", error.code);
                        one.text("Message", &error.message);
                    });
                }
            }
        }
        Ok(Reply::xml(document))
    }
}
