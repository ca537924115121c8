//! Policies of buckets: reads that need no access key.

use serde_json::{Value, json};

use crate::error::{Code, Result};

/// Begins the name of a bucket or of its objects in a policy.
const ARN: &str = "arn:aws:s3:::";
/// Actions that a policy can permit to everybody.
const ACTIONS: [&str; 3] = ["s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"];

const EFFECTS: [&str; 2] = ["Allow", "Deny"];

/// Returns the texts of a field that is one text or a list of them.
fn texts<'a>(statement: &'a Value, field: &str) -> Vec<&'a str> {
    match &statement[field] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn statements(policy: &Value) -> &[Value] {
    let field = &policy["Statement"];
    field.as_array().map_or(std::slice::from_ref(field), Vec::as_slice)
}

/// Refuses policies that grant anything but reads by everybody.
/// Errors: [`Code::MalformedPolicy`]; [`Code::NotImplemented`]: it is a policy of another kind.
pub(crate) fn check(policy: &str, bucket: &str) -> Result<()> {
    let malformed = |why: &str| Code::MalformedPolicy.error(why);
    if !policy.trim_start().starts_with('{') {
        return Err(malformed("Policies must be valid JSON and the first byte must be '{'"));
    }
    let policy: Value =
        serde_json::from_str(policy).map_err(|_| malformed("This policy contains invalid Json"))?;
    if policy.get("Statement").is_none() {
        return Err(malformed("Missing required field Statement"));
    }
    let all = statements(&policy);
    let fields = ["Sid", "Effect", "Principal", "Action", "Resource"];
    let is_plain = |statement: &Value| {
        let everybody = ["*".into(), json!({ "AWS": "*" }), json!({ "AWS": ["*"] })];
        statement["Effect"] == "Allow"
            && everybody.contains(&statement["Principal"])
            && texts(statement, "Action").iter().all(|action| ACTIONS.contains(action))
            && statement
                .as_object()
                .is_some_and(|all| all.keys().all(|field| fields.contains(&field.as_str())))
    };
    if !all.iter().all(|statement| statement.is_object()) || all.is_empty() {
        return Err(malformed("Could not parse the policy: Statement is empty!"));
    }
    for statement in all {
        let resources = texts(statement, "Resource");
        let of_bucket = |resource: &&str| {
            let rest = resource.strip_prefix(ARN).and_then(|place| place.strip_prefix(bucket));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let who = [&statement["Principal"]["AWS"], &statement["Principal"]];
        let nobody = |who: &&Value| matches!(who.as_str(), Some("")) || who == &&json!([]);
        if who.iter().any(nobody) {
            return Err(malformed("Invalid principal in policy"));
        }
        if let Some(effect) = statement["Effect"].as_str().filter(|it| !EFFECTS.contains(it)) {
            return Err(malformed(&format!("Invalid effect: {effect}")));
        }
        if resources.is_empty() || !resources.iter().all(of_bucket) {
            return Err(malformed("Policy has invalid resource"));
        }
        let inner = |resource: &&str| resource.trim_end_matches('*').contains(['*', '?']);
        if !is_plain(statement) || resources.iter().any(inner) {
            return Code::NotImplemented.err(
                "policy: only Allow of s3:GetObject, s3:ListBucket and \
                       s3:GetBucketLocation to Principal * is supported",
            );
        }
    }
    Ok(())
}

/// Returns whether a policy lets everybody get an object, or list the bucket for `None`.
pub(crate) fn permits(policy: &str, bucket: &str, key: Option<&str>) -> bool {
    let (action, place) = match key {
        Some(key) => (ACTIONS[0], format!("{ARN}{bucket}/{key}")),
        None => (ACTIONS[1], format!("{ARN}{bucket}")),
    };
    let covers = |resource: &&str| match resource.strip_suffix('*') {
        Some(begin) => place.starts_with(begin),
        None => **resource == place,
    };
    let policy: Value = serde_json::from_str(policy).unwrap_or_default();
    statements(&policy).iter().any(|statement| {
        texts(statement, "Action").contains(&action)
            && texts(statement, "Resource").iter().any(covers)
    })
}

/// Makes the policy that lets everybody get all objects, and list them if `list`.
pub(crate) fn public(bucket: &str, list: bool) -> String {
    let statement = |action: &str, resource: String| {
        let all = "*";
        json!({ "Effect": "Allow", "Principal": all, "Action": action, "Resource": resource })
    };
    let mut all = vec![statement(ACTIONS[0], format!("{ARN}{bucket}/*"))];
    all.extend(list.then(|| statement(ACTIONS[1], format!("{ARN}{bucket}"))));
    json!({ "Version": "2012-10-17", "Statement": all }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_clients_permit_what_they_say() {
        let download = r#"{"Statement": {"Sid": "x", "Effect": "Allow", "Principal": "*",
            "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::b/pub/*"}}"#;
        for (policy, get, get_pub, list) in [
            (download.to_owned(), false, true, false),
            (public("b", false), true, true, false),
            (public("b", true), true, true, true),
        ] {
            check(&policy, "b").unwrap();
            assert_eq!(permits(&policy, "b", Some("x")), get);
            assert_eq!(permits(&policy, "b", Some("pub/x")), get_pub);
            assert_eq!(permits(&policy, "b", None), list);
            assert!(!permits(&policy, "bb", Some("pub/x")));
            assert_eq!(check(&policy, "c").unwrap_err().code, Code::MalformedPolicy);
        }
        for (from, to, code) in [
            ("\"Allow\"", "\"Deny\"", Code::NotImplemented),
            ("s3:GetObject", "s3:PutObject", Code::NotImplemented),
            ("\"Principal\": \"*\"", "\"Principal\": {\"AWS\": \"x\"}", Code::NotImplemented),
            ("pub/*", "*/pub", Code::NotImplemented),
            ("\"Sid\"", "\"Condition\"", Code::NotImplemented),
            ("}}", "", Code::MalformedPolicy),
            ("{\"Sid\"", "[[]], \"x\": {\"Sid\"", Code::MalformedPolicy),
        ] {
            let policy = download.replacen(from, to, 1);
            assert_eq!(check(&policy, "b").unwrap_err().code, code, "{policy}");
        }
    }
}
