//! Documents of buckets that clients set and get back: policy, tags.

use http::Method;

use crate::access::Right;
use crate::calls::{Call, not_allowed, stubs, tags};
use crate::error::{Code, GateError, Result};
use crate::policy;
use crate::reply::Reply;

impl Call<'_> {
    /// Reads, replaces or removes a document of a bucket.
    pub(super) fn setting(&mut self, method: &Method, bucket: &str, name: &str) -> Result<Reply> {
        let right = if *method == Method::GET { Right::Read } else { Right::Owner };
        let at = self.need(bucket, right)?;
        match *method {
            Method::GET => {
                let text = at.settings.get(name).ok_or_else(|| stubs::unset(name))?;
                let media = if name == "policy" { "application/json" } else { "application/xml" };
                let reply = Reply { body: text.clone().into_bytes(), ..Reply::new(200) };
                Ok(reply.with("content-type", media))
            }
            Method::PUT => {
                let bytes = self.small_payload(true)?;
                let wrong = |_| GateError::new(Code::MalformedXML, "document: it is no UTF-8");
                let text = String::from_utf8(bytes).map_err(wrong)?;
                match name {
                    "policy" => policy::check(&text, bucket)?,
                    _ => tags::check_bucket(text.as_bytes())?,
                }
                self.gate.set(bucket, name, Some(&text))?;
                Ok(Reply::new(204))
            }
            Method::DELETE => {
                self.gate.set(bucket, name, None)?;
                Ok(Reply::new(204))
            }
            _ => Err(not_allowed()),
        }
    }
}
