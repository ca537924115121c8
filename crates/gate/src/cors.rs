//! Rules of buckets for pages of other origins.

use crate::error::{Code, Result};
use crate::{gate::Gate, request::Request, xml};

/// Most rules of a bucket.
const MAX_RULES: usize = 100;
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "HEAD"];

struct Rule {
    origins: Vec<String>,
    methods: Vec<String>,
    headers: Vec<String>,
    exposed: Vec<String>,
    max_age: Option<i64>,
}

/// Reads a client's document.
/// Errors: [`Code::MalformedXML`], [`Code::InvalidRequest`].
fn parse(text: &str) -> Result<Vec<Rule>> {
    let malformed = |why: &str| Code::MalformedXML.error(format!("cors: {why}"));
    let refused = |why: String| Code::InvalidRequest.error(why);
    let document = xml::parse(text.as_bytes(), "CORSConfiguration")?;
    let mut rules = Vec::new();
    for rule in document.all("CORSRule") {
        let texts = |name| rule.all(name).map(|one| one.text.trim().to_owned()).collect::<Vec<_>>();
        let max_age = rule.child("MaxAgeSeconds").map(str::parse).transpose();
        let rule = Rule {
            origins: texts("AllowedOrigin"),
            methods: texts("AllowedMethod"),
            headers: texts("AllowedHeader"),
            exposed: texts("ExposeHeader"),
            max_age: max_age.map_err(|_| malformed("MaxAgeSeconds is no number"))?,
        };
        if rule.origins.is_empty() || rule.methods.is_empty() {
            return Err(malformed("a rule has no AllowedOrigin, or no AllowedMethod"));
        }
        if let Some(method) = rule.methods.iter().find(|method| !METHODS.contains(&&method[..])) {
            let why = "Found unsupported HTTP method in CORS config. Unsupported method is";
            return Err(refused(format!("{why} {method}")));
        }
        let twice = |text: &&String| text.matches('*').count() > 1;
        if let Some(text) = rule.origins.iter().chain(&rule.headers).find(twice) {
            return Err(refused(format!("{text:?} can not have more than one wildcard.")));
        }
        rules.push(rule);
    }
    match rules.len() {
        1..=MAX_RULES => Ok(rules),
        _ => Err(malformed("there are no or too many rules")),
    }
}

/// Refuses a document that cannot be a bucket's.
pub(crate) fn check(text: &str) -> Result<()> {
    parse(text).map(drop)
}

/// Returns whether a pattern with at most one `*` is of a text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((begin, end)) => {
            text.len() >= begin.len() + end.len() && text.starts_with(begin) && text.ends_with(end)
        }
    }
}

type Headers = Vec<(&'static str, String)>;

/// Returns the headers by which a page may use an answer; `asked`: headers that it wants to send.
fn headers_of(text: &str, origin: &str, method: &str, asked: Option<&str>) -> Option<Headers> {
    let asked = asked.unwrap_or_default().to_ascii_lowercase();
    let asked: Vec<&str> =
        asked.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let permits = |rule: &Rule, name: &str| {
        rule.headers.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), name))
    };
    let rules = parse(text).ok()?;
    let rule = rules.iter().find(|rule| {
        rule.origins.iter().any(|pattern| fits(pattern, origin))
            && rule.methods.iter().any(|one| one == method)
            && asked.iter().all(|name| permits(rule, name))
    })?;
    let any = rule.origins.iter().any(|pattern| pattern == "*");
    let mut headers = vec![
        ("access-control-allow-origin", if any { "*" } else { origin }.to_owned()),
        ("access-control-allow-methods", rule.methods.join(", ")),
        ("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method".into()),
    ];
    if !any {
        headers.push(("access-control-allow-credentials", "true".into()));
    }
    if !asked.is_empty() {
        headers.push(("access-control-allow-headers", asked.join(", ")));
    }
    if !rule.exposed.is_empty() {
        headers.push(("access-control-expose-headers", rule.exposed.join(", ")));
    }
    headers.extend(rule.max_age.map(|age| ("access-control-max-age", age.to_string())));
    Some(headers)
}

impl Gate {
    /// Returns the headers that an answer gets for a page of another origin.
    pub(crate) fn cors(&self, req: &Request) -> Headers {
        let Some(origin) = req.header("origin") else { return Vec::new() };
        let at = self.bucket(req.place().0).ok();
        let text = at.as_ref().and_then(|at| at.settings.get("cors"));
        text.and_then(|text| headers_of(text, origin, req.method.as_str(), None))
            .unwrap_or_default()
    }

    /// Answers a page that asks whether it may send a request.
    /// Errors: [`Code::AccessForbidden`]; as [`Gate::bucket`].
    pub(crate) fn preflight(&self, req: &Request) -> Result<Headers> {
        let bad = |why: &str| Code::BadRequest.error(why);
        let origin = req.header("origin");
        let origin =
            origin.ok_or_else(|| bad("Insufficient information. Origin request header needed."))?;
        let method = req.header("access-control-request-method");
        let method = method.ok_or_else(|| bad("Invalid Access-Control-Request-Method: null"))?;
        if !METHODS.contains(&method) {
            return Err(bad(&format!("Invalid Access-Control-Request-Method: {method}")));
        }
        let forbidden = |why: &str| Code::AccessForbidden.error(why);
        let at = self.bucket(req.place().0)?;
        let text = at.settings.get("cors");
        let text =
            text.ok_or_else(|| forbidden("CORSResponse: CORS is not enabled for this bucket."))?;
        let asked = req.header("access-control-request-headers");
        headers_of(text, origin, method, asked).ok_or_else(|| {
            forbidden(
                "CORSResponse: This CORS request is not allowed. This is usually because the \
                 evalution of Origin, request method / Access-Control-Request-Method or \
                 Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
            )
        })
    }
}
