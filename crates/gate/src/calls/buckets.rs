//! Buckets as a whole.

use crate::access::Right;
use crate::calls::{Call, stubs};
use crate::error::{Code, GateError, Result};
use crate::names;
use crate::object::Conditions;
use crate::reply::Reply;
use crate::times;
use crate::xml::Writer;

/// Most objects that are removed by one request.
const MAX_DELETED: usize = 1000;

impl Call<'_> {
    pub(super) fn list_buckets(&mut self) -> Result<Reply> {
        let buckets = self.gate.buckets()?;
        let mine = buckets.iter().filter(|bucket| self.key.may(&bucket.name, Right::Read));
        let mut document = Writer::new("ListAllMyBucketsResult");
        let id = &self.key.id;
        document.within("Owner", |owner| {
            owner.text("ID", id).text("DisplayName", id);
        });
        document.within("Buckets", |list| {
            for bucket in mine {
                list.within("Bucket", |one| {
                    one.text("Name", &bucket.name);
                    one.text("CreationDate", times::iso(bucket.created_ms));
                });
            }
        });
        Ok(Reply::xml(document))
    }

    pub(super) fn head_bucket(&mut self, bucket: &str) -> Result<Reply> {
        self.need(bucket, Right::Read)?;
        self.gate.bucket(bucket)?;
        Ok(Reply::new(200).with("x-amz-bucket-region", "us-east-1"))
    }

    pub(super) fn create_bucket(&mut self, bucket: &str) -> Result<Reply> {
        names::check_bucket(bucket)?;
        self.need(bucket, Right::Owner)?;
        stubs::refuse_unkept(self.req)?;
        if self.req.header("x-amz-bucket-object-lock-enabled") == Some("true") {
            let why = "object lock: the server does not have it";
            return Err(GateError::new(Code::NotImplemented, why));
        }
        if self.req.header("content-length").is_some_and(|length| length != "0") {
            // Any place is as good as another.
            self.document("CreateBucketConfiguration")?;
        }
        self.gate.create_bucket(bucket)?;
        Ok(Reply::new(200).with("location", format!("/{bucket}")))
    }

    pub(super) fn delete_bucket(&mut self, bucket: &str) -> Result<Reply> {
        self.need(bucket, Right::Owner)?;
        self.gate.delete_bucket(bucket)?;
        Ok(Reply::new(204))
    }

    pub(super) fn delete_many(&mut self, bucket: &str) -> Result<Reply> {
        self.need(bucket, Right::Write)?;
        let request = self.document("Delete")?;
        let quiet = request.child("Quiet") == Some("true");
        let objects: Vec<_> = request.all("Object").collect();
        if objects.is_empty() || objects.len() > MAX_DELETED {
            let why = "document: it names no object, or more than 1000";
            return Err(GateError::new(Code::MalformedXML, why));
        }
        let at = self.gate.bucket(bucket)?;
        let mut document = Writer::new("DeleteResult");
        for object in objects {
            // Keys keep their blanks.
            let key = object.all("Key").next().map_or("", |key| key.text.as_str());
            let etag = object.child("ETag").map(|etag| etag.trim_matches('"').to_owned());
            let conditions = Conditions { if_match: etag, if_none: false };
            let end = match object.child("VersionId") {
                Some(version) if version != "null" => {
                    Err(GateError::new(Code::InvalidArgument, "VersionId: there are no versions"))
                }
                _ => self.gate.delete_object(&at, key, &conditions),
            };
            match end {
                Ok(()) if quiet => {}
                Ok(()) => {
                    document.within("Deleted", |one| {
                        one.text("Key", key);
                    });
                }
                Err(error) => {
                    document.within("Error", |one| {
                        one.text("Key", key).show("Code", error.code);
                        one.text("Message", &error.message);
                    });
                }
            }
        }
        Ok(Reply::xml(document))
    }
}
