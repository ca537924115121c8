//! Resources that the server has in one state only: a client that asks learns that state, one that
//! wants to change it learns that this cannot be done.

use http::Method;

use crate::calls::{Call, REGION, not_allowed};
use crate::error::{Code, GateError, Result};
use crate::{access::Right, reply::Reply, request::Request, xml::Writer};

/// Words of a query that make it a request for something else than the object or bucket itself.
const SUBRESOURCES: &str = "uploadId uploads delete attributes versions location versioning \
    acl policy policyStatus \
    lifecycle cors object-lock tagging encryption website logging notification replication \
    requestPayment accelerate analytics inventory metrics intelligent-tiering \
    ownershipControls publicAccessBlock retention legal-hold torrent restore select";

/// Returns the resource that a request is about, where it is not the object or bucket itself.
pub(super) fn subresource(req: &Request) -> Option<&'static str> {
    SUBRESOURCES.split(' ').find(|name| req.word(name).is_some())
}

fn not_implemented(what: &str) -> GateError {
    Code::NotImplemented.error(format!("{what}: the server does not have it"))
}

/// An answer that a thing was never set.
pub(super) fn unset(stub: &str) -> GateError {
    let code = match stub {
        "policy" | "policyStatus" => Code::NoSuchBucketPolicy,
        "lifecycle" => Code::NoSuchLifecycleConfiguration,
        "cors" => Code::NoSuchCORSConfiguration,
        "object-lock" => Code::ObjectLockConfigurationNotFoundError,
        "encryption" => Code::ServerSideEncryptionConfigurationNotFoundError,
        "tagging" => Code::NoSuchTagSet,
        "website" => Code::NoSuchWebsiteConfiguration,
        "replication" => Code::ReplicationConfigurationNotFoundError,
        "publicAccessBlock" => Code::NoSuchPublicAccessBlockConfiguration,
        _ => return not_implemented(stub),
    };
    GateError::new(code, format!("{stub}: it was never set"))
}

/// The one state of a bucket's resource, where S3 has a document for it.
pub(super) fn state(stub: &str) -> Option<Writer> {
    Some(match stub {
        "location" => Writer::new("LocationConstraint"),
        "versioning" => Writer::new("VersioningConfiguration"),
        "logging" => Writer::new("BucketLoggingStatus"),
        "notification" => Writer::new("NotificationConfiguration"),
        "accelerate" => Writer::new("AccelerateConfiguration"),
        "requestPayment" => {
            let mut document = Writer::new("RequestPaymentConfiguration");
            document.text("Payer", "BucketOwner");
            document
        }
        "ownershipControls" => {
            let mut document = Writer::new("OwnershipControls");
            document.row("Rule", [("ObjectOwnership", "BucketOwnerEnforced")]);
            document
        }
        _ => return None,
    })
}

impl Call<'_> {
    pub(super) fn bucket_stub(
        &mut self,
        method: &Method,
        bucket: &str,
        stub: &str,
    ) -> Result<Reply> {
        let reading = *method == Method::GET || *method == Method::HEAD;
        let at = self.need(bucket, if reading { Right::Read } else { Right::Owner })?;
        match (method, stub) {
            (&Method::GET, "acl") => Ok(self.acl()),
            (&Method::GET, "policyStatus") if at.settings.contains_key("policy") => {
                let mut document = Writer::new("PolicyStatus");
                document.text("IsPublic", "true");
                Ok(Reply::xml(document))
            }
            (&Method::GET, "location") if self.region != REGION => {
                let mut document = Writer::new("LocationConstraint");
                document.inside(self.region);
                Ok(Reply::xml(document))
            }
            (&Method::GET, stub) => state(stub).map(Reply::xml).ok_or_else(|| unset(stub)),
            (&Method::PUT, "acl") => self.set_acl(),
            (&Method::PUT, "ownershipControls") => {
                let document = self.document("OwnershipControls", true)?;
                let rule = document.all("Rule").next();
                check_ownership(rule.and_then(|rule| rule.child("ObjectOwnership")))?;
                Ok(Reply::new(200))
            }
            (
                &Method::DELETE,
                "encryption" | "ownershipControls" | "publicAccessBlock" | "website"
                | "replication",
            ) => Ok(Reply::new(204)),
            _ => Err(not_implemented(stub)),
        }
    }

    pub(super) fn object_stub(&mut self, method: &Method, stub: &str) -> Result<Reply> {
        let (bucket, key) = self.req.place();
        let reading = *method == Method::GET || *method == Method::HEAD;
        let at = self.need(bucket, if reading { Right::Read } else { Right::Write })?;
        self.gate.version((&at, key), self.version_id()?)?;
        match (method, stub) {
            (&Method::GET, "acl") => Ok(self.acl()),
            (&Method::PUT, "acl") => self.set_acl(),
            (&Method::GET | &Method::PUT | &Method::POST, _) => Err(not_implemented(stub)),
            _ => Err(not_allowed()),
        }
    }

    /// Everything is private: the holder of the key may do what the key may.
    fn acl(&self) -> Reply {
        let mut document = Writer::new("AccessControlPolicy");
        let id = &self.key.id;
        document.owner("Owner", id).within("AccessControlList", |list| {
            list.within("Grant", |grant| {
                grant.owner("Grantee", id).text("Permission", "FULL_CONTROL");
            });
        });
        let mut reply = Reply::xml(document);
        let typed = r#"<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" "#.to_owned()
            + r#"xsi:type="CanonicalUser">"#;
        let text = String::from_utf8_lossy(&reply.body).replace("<Grantee>", &typed);
        reply.body = text.into_bytes();
        reply
    }

    /// Lists of access are off, as S3's default has it: only what changes nothing is accepted.
    fn set_acl(&mut self) -> Result<Reply> {
        refuse_acl(self.req)?;
        if self.req.header("x-amz-acl").is_none() {
            return Code::AccessControlListNotSupported.err("acl: a document");
        }
        Ok(Reply::new(200))
    }
}

/// Refuses a request that wants others to have access.
pub(super) fn refuse_acl(req: &Request) -> Result<()> {
    let private = ["private", "bucket-owner-full-control", "bucket-owner-read"];
    let others =
        ["public-read", "public-read-write", "authenticated-read", "aws-exec-read", "log-delivery"];
    let grants = req.headers.keys().any(|name| name.as_str().starts_with("x-amz-grant-"));
    let refused = |what| Code::AccessControlListNotSupported.err(what);
    match req.header("x-amz-acl") {
        Some(acl) if others.iter().any(|other| acl.starts_with(other)) => refused("x-amz-acl"),
        Some(acl) if !private.contains(&acl) => {
            Code::InvalidArgument.err("x-amz-acl: it is unknown")
        }
        _ if grants => refused("x-amz-grant"),
        _ => Ok(()),
    }
}

/// Refuses an ownership of objects with which lists of access would count.
fn check_ownership(ownership: Option<&str>) -> Result<()> {
    match ownership {
        None | Some("BucketOwnerEnforced") => Ok(()),
        Some("BucketOwnerPreferred" | "ObjectWriter") => {
            Code::AccessControlListNotSupported.err("x-amz-object-ownership")
        }
        Some(other) => {
            Code::InvalidArgument.err(format!("Invalid x-amz-object-ownership header: {other}"))
        }
    }
}

/// Refuses headers that promise what the server does not do.
pub(super) fn refuse_unkept(req: &Request) -> Result<()> {
    refuse_acl(req)?;
    check_ownership(req.header("x-amz-object-ownership"))?;
    let unkept = ["x-amz-server-side-encryption", "x-amz-write-offset-bytes"];
    let found = req.headers.keys().find(|name| {
        unkept.iter().any(|begin| name.as_str().starts_with(begin))
            && !req.headers[*name].is_empty()
    });
    match found {
        Some(name) => Err(not_implemented(name.as_str())),
        None => Ok(()),
    }
}
