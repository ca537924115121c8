//! The operations of S3: from a verified request to an answer.

mod stubs;
mod buckets;
mod lists;
mod heads;
mod reads;
mod writes;
mod uploads;

use std::io::{BufRead, Read};

use http::Method;

use crate::access::{ANY_BUCKET, AccessKey, Right};
use crate::error::{Code, GateError, Result};
use crate::gate::Gate;
use crate::payload::{Announced, Payload};
use crate::reply::{Answer, Client};
use crate::request::Request;
use crate::signature::{Claim, Signer};
use crate::xml::{self, Element};

/// Most bytes of a document that a client sends.
const MAX_DOCUMENT: u64 = 2 << 20;

/// A request whose signature was verified.
pub(crate) struct Call<'a> {
    pub gate: &'a Gate,
    pub req: &'a Request,
    pub key: AccessKey,
    signer: Signer,
    claim: String,
    raw: &'a mut (dyn BufRead + Send),
}

/// Checks who asks.
///
/// # Errors
/// [`Code::AccessDenied`] without a signature; as [`Claim::verify`].
pub(crate) fn authenticated<'a>(
    gate: &'a Gate,
    req: &'a Request,
    find: impl FnOnce(&str) -> Result<Option<AccessKey>>,
    now_ms: u64,
    raw: &'a mut (dyn BufRead + Send),
) -> Result<Call<'a>> {
    let claim = Claim::of(req)?;
    let claim = claim
        .ok_or_else(|| GateError::new(Code::AccessDenied, "the request carries no signature"))?;
    let unknown = || GateError::new(Code::InvalidAccessKeyId, "access key: it is not known");
    let key = find(&claim.key_id)?.ok_or_else(unknown)?;
    let signer = claim.verify(req, key.secret.reveal(), now_ms / 1000)?;
    Ok(Call { gate, req, key, signer, claim: claim.payload, raw })
}

impl Call<'_> {
    /// Refuses what the key has no right to.
    fn need(&self, bucket: &str, right: Right) -> Result<()> {
        match self.key.may(bucket, right) {
            true => Ok(()),
            false => {
                let place = if bucket == ANY_BUCKET { "all buckets" } else { bucket };
                let why = format!("the access key has no right to do this with {place}");
                Err(GateError::new(Code::AccessDenied, why))
            }
        }
    }

    /// The payload, as it will be read.
    fn payload(&mut self) -> Result<Payload<&mut (dyn BufRead + Send)>> {
        let announced = Announced::of(self.req, &self.claim)?;
        Ok(Payload::new(&mut *self.raw, announced, Some(self.signer.clone())))
    }

    /// A document of the client's.
    fn document(&mut self, root: &str) -> Result<Element> {
        xml::parse(&self.small_payload()?, root)
    }

    /// A payload that is held in memory.
    fn small_payload(&mut self) -> Result<Vec<u8>> {
        let mut payload = self.payload()?;
        let mut bytes = Vec::new();
        if crate::object::Incoming::length(&payload) > MAX_DOCUMENT {
            return Err(GateError::new(Code::MalformedXML, "document: it has more than 2 MiB"));
        }
        if let Err(error) = payload.read_to_end(&mut bytes) {
            let failed = crate::object::Incoming::failure(&mut payload);
            let other = || GateError::new(Code::IncompleteBody, error.to_string());
            return Err(failed.unwrap_or_else(other));
        }
        Ok(bytes)
    }

    /// Does what the request asks for.
    ///
    /// # Errors
    /// S3's own.
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

    fn run_bucket(
        &mut self,
        method: &Method,
        bucket: &str,
        stub: Option<&str>,
    ) -> Result<crate::reply::Reply> {
        match (method, stub) {
            (&Method::GET, Some("uploads")) => self.list_uploads(bucket),
            (&Method::GET, Some("versions")) => self.list_versions(bucket),
            (&Method::POST, Some("delete")) => self.delete_many(bucket),
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
            (&Method::DELETE, Some("uploadId")) => self.abort_upload(),
            (&Method::POST, Some("uploads")) => self.begin_upload(),
            (&Method::POST, Some("uploadId")) => self.complete_upload(),
            (method, Some(stub)) => self.object_stub(method, stub),
            _ => Err(not_allowed()),
        };
        reply.map(Answer::from)
    }
}

fn not_allowed() -> GateError {
    GateError::new(Code::MethodNotAllowed, "the method is not one of this resource")
}
