//! The operations of S3: from a verified request to an answer.

mod stubs;
mod tags;
mod buckets;
mod locks;
mod heads;
mod reads;
mod writes;
mod uploads;
mod lists;
mod settings;

use std::io::{BufRead, Read};

use http::Method;

use crate::access::{ANY_BUCKET, AccessKey, Right};
use crate::error::{Code, GateError, Result};
use crate::payload::{Announced, Payload, other_sha256};
use crate::record::{BucketRecord, NULL, ObjectRecord, Versioning};
use crate::reply::{Answer, Client, Reply};
use crate::signature::{Claim, EMPTY, Signer};
use crate::xml::{self, Element};
use crate::{digest::Kind, gate::Gate, lifecycle, policy, request::Request};

/// The region of servers that were given none: it means nothing.
const REGION: &str = "us-east-1";
/// Most bytes of a document that a client sends.
const MAX_DOCUMENT: u64 = 2 << 20;

/// A request whose sender is known.
pub(crate) struct Call<'a> {
    pub gate: &'a Gate,
    /// The region that clients are told.
    pub region: &'a str,
    pub req: &'a Request,
    /// Its access key; without a signature one that has no rights.
    pub key: AccessKey,
    signer: Option<Signer>,
    claim: String,
    raw: &'a mut (dyn BufRead + Send),
}

/// Checks who asks; signatures are for `only` this region, and may be of version 2.
pub(crate) fn authenticated<'a>(
    (gate, only, version2): (&'a Gate, Option<&'a str>, bool),
    req: &'a Request,
    find: impl FnOnce(&str) -> Result<Option<AccessKey>>,
    now_ms: u64,
    raw: &'a mut (dyn BufRead + Send),
) -> Result<Call<'a>> {
    let region = only.unwrap_or(REGION);
    let Some(claim) = Claim::of(req, version2, only)? else {
        let claim = req.header("x-amz-content-sha256").unwrap_or("UNSIGNED-PAYLOAD").to_owned();
        let key = AccessKey::anonymous();
        return Ok(Call { gate, region, req, key, signer: None, claim, raw });
    };
    let token = "x-amz-security-token";
    if req.header(token).or(req.word("X-Amz-Security-Token")).is_some() {
        return Code::InvalidToken.err("access key: it has no session");
    }
    let unknown = || {
        let error = Code::InvalidAccessKeyId.error("access key: it is not known");
        error.with("AWSAccessKeyId", &claim.key_id)
    };
    let key = find(&claim.key_id)?.ok_or_else(unknown)?;
    let signer = Some(claim.verify(req, key.secret.reveal(), now_ms / 1000)?);
    let hashed = claim.payload.len() == 64 && claim.payload != EMPTY;
    let has_none = match req.header("content-length") {
        Some(length) => length == "0",
        None => req.method == Method::GET,
    };
    if hashed && has_none {
        return Err(other_sha256(&claim.payload, EMPTY));
    }
    Ok(Call { gate, region, req, key, signer, claim: claim.payload, raw })
}

impl Call<'_> {
    /// Refuses what the key has no right to; returns the bucket.
    fn need(&self, bucket: &str, right: Right) -> Result<BucketRecord> {
        let at = self.gate.bucket(bucket)?;
        match self.key.may(bucket, right) || self.is_owner(&at) {
            true => self.expected(at, "x-amz-expected-bucket-owner"),
            false => Err(self.denied(bucket)),
        }
    }

    /// As [`Call::need`], for a read that the bucket may permit to everybody: of an object, or of
    /// the list of them.
    fn need_read(&self, bucket: &str, key: Option<&str>) -> Result<BucketRecord> {
        let at = self.gate.bucket(bucket)?;
        let public = || at.settings.get("policy").is_some_and(|p| policy::permits(p, bucket, key));
        match self.key.may(bucket, Right::Read) || self.is_owner(&at) || public() {
            true => self.expected(at, "x-amz-expected-bucket-owner"),
            false => Err(self.denied(bucket)),
        }
    }

    fn is_owner(&self, at: &BucketRecord) -> bool {
        !at.owner.is_empty() && at.owner == self.key.id
    }

    /// Refuses a bucket that is not the one that the client means.
    fn expected(&self, at: BucketRecord, header: &str) -> Result<BucketRecord> {
        match self.req.header(header) {
            Some(owner) if !at.owner.is_empty() && owner != at.owner => {
                Code::AccessDenied.err(format!("{header}: it is another"))
            }
            _ => Ok(at),
        }
    }

    fn denied(&self, bucket: &str) -> GateError {
        let place = if bucket == ANY_BUCKET { "all buckets" } else { bucket };
        let why = match self.key.id.as_str() {
            "" => "the request carries no signature".to_owned(),
            _ => format!("the access key has no right to do this with {place}"),
        };
        Code::AccessDenied.error(why)
    }

    /// The payload of an object or part; `kind` is the checksum that is made where none is named.
    fn payload(&mut self, kind: Kind) -> Result<Payload<'_>> {
        let announced = Announced::of(self.req, &self.claim)?.with_checksum(self.req)?;
        Ok(Payload::new(&mut *self.raw, announced, self.signer.clone(), Some(kind)))
    }

    /// A document of the client's; `summed`: a checksum among the headers is the document's.
    fn document(&mut self, root: &str, summed: bool) -> Result<Element> {
        xml::parse(&self.small_payload(summed)?, root)
    }

    /// A payload that is held in memory.
    fn small_payload(&mut self, summed: bool) -> Result<Vec<u8>> {
        if self.claim.starts_with("STREAMING-UNSIGNED") {
            let why = "The value of x-amz-content-sha256 header is invalid.";
            return Code::InvalidRequest.err(why);
        }
        let mut announced = Announced::of(self.req, &self.claim)?;
        if summed {
            announced = announced.with_checksum(self.req)?;
        }
        let mut payload = Payload::new(&mut *self.raw, announced, self.signer.clone(), None);
        let mut bytes = Vec::new();
        if payload.length() > MAX_DOCUMENT {
            return Code::MalformedXML.err("document: it has more than 2 MiB");
        }
        if let Err(error) = payload.read_to_end(&mut bytes) {
            let other = || Code::IncompleteBody.error(error.to_string());
            return Err(payload.failure().unwrap_or_else(other));
        }
        Ok(bytes)
    }

    /// The version that the request is about.
    fn version_id(&self) -> Result<Option<&str>> {
        self.req.word("versionId").filter(|id| !id.is_empty()).map(checked_id).transpose()
    }

    /// Does what the request asks for.
    pub(crate) fn run(&mut self, client: &mut dyn Client) -> Result<Answer> {
        let req = self.req;
        let (bucket, key) = req.place();
        let stub = stubs::subresource(req);
        match (&req.method, bucket, key) {
            (&Method::GET, "", _) => self.list_buckets().map(Answer::from),
            (_, "", _) => Err(not_allowed()),
            (method, bucket, "") => {
                let (method, bucket) = (method.clone(), bucket.to_owned());
                self.run_bucket(&method, &bucket, stub).map(Answer::from)
            }
            (method, ..) => {
                let method = method.clone();
                self.run_object(&method, stub, client)
            }
        }
    }

    fn run_bucket(&mut self, method: &Method, bucket: &str, stub: Option<&str>) -> Result<Reply> {
        match (method, stub) {
            (&Method::GET, Some("uploads")) => self.list_uploads(bucket),
            (&Method::GET, Some("versions")) => self.list_versions(bucket),
            (&Method::POST, Some("delete")) => self.delete_many(bucket),
            (method, Some(name)) if settings::NAMES.contains(&name) => {
                self.setting(method, bucket, name)
            }
            (method, Some(stub)) => self.bucket_stub(method, bucket, stub),
            (&Method::GET, None) => self.list_objects(bucket),
            (&Method::HEAD, None) => self.head_bucket(bucket),
            (&Method::PUT, None) => self.create_bucket(bucket),
            (&Method::DELETE, None) => self.delete_bucket(bucket),
            _ => Err(not_allowed()),
        }
    }

    fn run_object(
        &mut self,
        method: &Method,
        stub: Option<&str>,
        client: &mut dyn Client,
    ) -> Result<Answer> {
        let copied = self.req.headers.contains_key("x-amz-copy-source");
        let reply = match (method, stub) {
            (&Method::GET, None) => return self.read_object(client),
            (&Method::HEAD, None) => self.head_object(),
            (&Method::GET, Some("attributes")) => self.object_attributes(),
            (&Method::GET, Some("uploadId")) => self.list_parts(),
            (&Method::PUT, Some("uploadId")) if copied => self.copy_part(),
            (&Method::PUT, Some("uploadId")) => self.put_part(),
            (&Method::PUT, None) if copied => self.copy_object(),
            (&Method::PUT, None) => self.put_object(),
            (&Method::DELETE, None) => self.delete_object(),
            (method, Some("tagging")) => self.object_tags(method),
            (method, Some(name @ ("retention" | "legal-hold"))) => {
                self.object_lock(method, name == "legal-hold")
            }
            (&Method::DELETE, Some("uploadId")) => self.abort_upload(),
            (&Method::POST, Some("uploads")) => self.begin_upload(),
            (&Method::POST, Some("uploadId")) => self.complete_upload(),
            (method, Some(stub)) => self.object_stub(method, stub),
            _ => Err(not_allowed()),
        };
        reply.map(Answer::from)
    }
}

/// Reads the headers of a request as all calls do.
#[cfg(feature = "hostile")]
pub(crate) fn read_head(req: &Request) {
    let _ = (heads::kept(req), heads::conditions(req), tags::of_header(req));
    let _ = (heads::range_of(req.header("range"), 9), heads::part_number(req));
}

/// Refuses what can be no id of a version.
fn checked_id(id: &str) -> Result<&str> {
    // Others have ids of other lengths: those are of no version here.
    match id == NULL || id.len() >= 20 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(id),
        false => Code::InvalidArgument.err("Invalid version id specified"),
    }
}

/// Adds when an object expires, where a rule of its bucket says so.
fn with_expiry(reply: Reply, at: &BucketRecord, key: &str, record: &ObjectRecord) -> Reply {
    match lifecycle::expiry(at, key, record) {
        Some(expiry) => reply.with("x-amz-expiration", expiry),
        None => reply,
    }
}

/// Adds the id of a version, where a bucket has versions.
fn with_version(reply: Reply, at: &BucketRecord, record: &ObjectRecord) -> Reply {
    match at.versioning() == Versioning::Never && record.version.is_none() {
        true => reply,
        false => reply.with("x-amz-version-id", record.id()),
    }
}

fn not_allowed() -> GateError {
    Code::MethodNotAllowed.error("the method is not one of this resource")
}
