//! Resources that the server has in one state only: a client that asks learns that state, one that
//! wants to change it learns that this cannot be done.

use http::Method;

use crate::access::Right;
use crate::calls::{Call, not_allowed};
use crate::error::{Code, GateError, Result};
use crate::reply::Reply;
use crate::request::Request;
use crate::xml::Writer;

/// Words of a query that make it a request for something else than the object or bucket itself.
const SUBRESOURCES: [&str; 32] = [
    "uploadId",
    "uploads",
    "delete",
    "attributes",
    "versions",
    "location",
    "versioning",
    "acl",
    "policy",
    "policyStatus",
    "lifecycle",
    "cors",
    "object-lock",
    "tagging",
    "encryption",
    "website",
    "logging",
    "notification",
    "replication",
    "requestPayment",
    "accelerate",
    "analytics",
    "inventory",
    "metrics",
    "intelligent-tiering",
    "ownershipControls",
    "publicAccessBlock",
    "retention",
    "legal-hold",
    "torrent",
    "restore",
    "select",
];

/// Returns the resource that a request is about, where it is not the object or bucket itself.
pub(super) fn subresource(req: &Request) -> Option<&'static str> {
    SUBRESOURCES.into_iter().find(|name| req.word(name).is_some())
}

fn not_implemented(what: &str) -> GateError {
    GateError::new(Code::NotImplemented, format!("{what}: the server does not have it"))
}

/// An answer that a thing was never set.
fn unset(stub: &str) -> GateError {
    let code = match stub {
        "policy" | "policyStatus" => Code::NoSuchBucketPolicy,
        "lifecycle" => Code::NoSuchLifecycleConfiguration,
        "cors" => Code::NoSuchCORSConfiguration,
        "object-lock" | "retention" | "legal-hold" => Code::ObjectLockConfigurationNotFoundError,
        "encryption" => Code::ServerSideEncryptionConfigurationNotFoundError,
        "tagging" => Code::NoSuchTagSet,
        _ => return not_implemented(stub),
    };
    GateError::new(code, format!("{stub}: it was never set"))
}

impl Call<'_> {
    pub(super) fn bucket_stub(
        &mut self,
        method: &Method,
        bucket: &str,
        stub: &str,
    ) -> Result<Reply> {
        let reading = *method == Method::GET || *method == Method::HEAD;
        self.need(bucket, if reading { Right::Read } else { Right::Owner })?;
        self.gate.bucket(bucket)?;
        match (method, stub) {
            (&Method::GET, "location") => Ok(Reply::xml(Writer::new("LocationConstraint"))),
            (&Method::GET, "versioning") => Ok(Reply::xml(Writer::new("VersioningConfiguration"))),
            (&Method::GET, "acl") => Ok(self.acl()),
            (&Method::GET, "logging") => Ok(Reply::xml(Writer::new("BucketLoggingStatus"))),
            (&Method::GET, "notification") => {
                Ok(Reply::xml(Writer::new("NotificationConfiguration")))
            }
            (&Method::GET, stub) => Err(unset(stub)),
            (&Method::PUT, "acl") => self.set_acl(),
            (&Method::PUT, "versioning") => {
                let document = self.document("VersioningConfiguration")?;
                match document.child("Status") {
                    Some("Enabled") => Err(not_implemented("versioning")),
                    _ => Ok(Reply::new(200)),
                }
            }
            (&Method::DELETE, "policy" | "lifecycle" | "cors" | "tagging" | "encryption") => {
                Ok(Reply::new(204))
            }
            _ => Err(not_implemented(stub)),
        }
    }

    pub(super) fn object_stub(&mut self, method: &Method, stub: &str) -> Result<Reply> {
        let (bucket, key) = self.req.place();
        let reading = *method == Method::GET || *method == Method::HEAD;
        self.need(bucket, if reading { Right::Read } else { Right::Write })?;
        self.gate.object(&self.gate.bucket(bucket)?, key)?;
        match (method, stub) {
            (&Method::GET, "acl") => Ok(self.acl()),
            (&Method::GET, "tagging") => {
                let mut document = Writer::new("Tagging");
                document.within("TagSet", |_| {});
                Ok(Reply::xml(document))
            }
            (&Method::GET, "retention" | "legal-hold") => Err(unset(stub)),
            (&Method::PUT, "acl") => self.set_acl(),
            (&Method::DELETE, "tagging") => Ok(Reply::new(204)),
            (&Method::GET | &Method::PUT | &Method::POST, _) => Err(not_implemented(stub)),
            _ => Err(not_allowed()),
        }
    }

    /// Everything is private: the holder of the key may do what the key may.
    fn acl(&self) -> Reply {
        let mut document = Writer::new("AccessControlPolicy");
        let id = &self.key.id;
        document.within("Owner", |owner| {
            owner.text("ID", id).text("DisplayName", id);
        });
        document.within("AccessControlList", |list| {
            list.within("Grant", |grant| {
                grant.within("Grantee", |grantee| {
                    grantee.text("ID", id).text("DisplayName", id);
                });
                grant.text("Permission", "FULL_CONTROL");
            });
        });
        let mut reply = Reply::xml(document);
        let typed = r#"<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" "#.to_owned()
            + r#"xsi:type="CanonicalUser">"#;
        let text = String::from_utf8_lossy(&reply.body).replace("<Grantee>", &typed);
        reply.body = text.into_bytes();
        reply
    }

    fn set_acl(&mut self) -> Result<Reply> {
        match self.req.header("x-amz-acl") {
            Some(_) => refuse_acl(self.req).map(|()| Reply::new(200)),
            None => Err(not_implemented("access control lists other than private")),
        }
    }
}

/// Refuses a request that wants others to have access.
pub(super) fn refuse_acl(req: &Request) -> Result<()> {
    let private = ["private", "bucket-owner-full-control", "bucket-owner-read"];
    let grants = req.headers.keys().any(|name| name.as_str().starts_with("x-amz-grant-"));
    match req.header("x-amz-acl") {
        Some(acl) if !private.contains(&acl) => Err(not_implemented("x-amz-acl")),
        _ if grants => Err(not_implemented("x-amz-grant")),
        _ => Ok(()),
    }
}

/// Refuses headers that promise what the server does not do.
pub(super) fn refuse_unkept(req: &Request) -> Result<()> {
    refuse_acl(req)?;
    let unkept = [
        "x-amz-server-side-encryption",
        "x-amz-object-lock-",
        "x-amz-tagging",
        "x-amz-website-redirect-location",
        "x-amz-write-offset-bytes",
    ];
    let found = req.headers.keys().find(|name| {
        unkept.iter().any(|begin| name.as_str().starts_with(begin))
            && !req.headers[*name].is_empty()
    });
    match found {
        Some(name) => Err(not_implemented(name.as_str())),
        None => Ok(()),
    }
}
