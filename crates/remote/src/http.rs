//! The client of HTTP, and bodies whose length is known before they are read.

use std::io::{self, Read};
use std::time::Duration;
use ureq::{Agent, Body, http::Response};

/// A client of one server that may be silent for so long. Answers are given as they are, whatever
/// their status; a server of this machine is asked without a proxy.
pub fn agent(host: &str, patience: Duration) -> Agent {
    let near = host == "localhost" || host.starts_with("127.") || host == "[::1]";
    let patience = Some(patience);
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(patience)
        .timeout_per_read(patience)
        .timeout_per_write(patience)
        .timeout_recv_response(patience)
        .max_idle_connections_per_host(16)
        .max_idle_connections(64)
        .user_agent(concat!("kiln/", env!("CARGO_PKG_VERSION")));
    if near {
        config = config.proxy(None);
    }
    config.build().new_agent()
}

/// Returns the length of a body by its header.
pub fn length(response: &Response<Body>) -> Option<u64> {
    let length = response.headers().get("content-length")?;
    length.to_str().ok()?.trim().parse().ok()
}

/// Reads a body of just the length of the buffer.
/// Errors: it has another length, or ends early. Of one that says another length nothing is read:
/// it could be all of a long file.
pub fn fill(response: &mut Response<Body>, buf: &mut [u8]) -> io::Result<()> {
    let has = length(response);
    if has != Some(buf.len() as u64) {
        let why = format!("asked for {} bytes, got {has:?}", buf.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    response.body_mut().with_config().limit(buf.len() as u64 + 1).reader().read_exact(buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(length: &str, body: &str) -> Response<Body> {
        let body = Body::builder().data(body);
        Response::builder().header("content-length", length).body(body).unwrap()
    }

    #[test]
    fn a_body_of_another_length_is_an_error() {
        let mut buf = [0; 4];
        fill(&mut response("4", "abcd"), &mut buf).unwrap();
        assert_eq!(&buf, b"abcd");
        for (length, body) in [("3", "abc"), ("5", "abcde"), ("4", "ab"), ("x", "abcd")] {
            assert!(fill(&mut response(length, body), &mut buf).is_err(), "{length} {body}");
        }
    }
}
