//! `kiln://host:port/place`: where an agent is.

use crate::NetError;
use std::{fmt, str::FromStr};

/// The port of an agent when the address names none.
pub const DEFAULT_PORT: u16 = 7440;

/// The address of an agent, and the place that is expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name or number of the machine; an IPv6 number without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Name of the place that must be there; empty: any.
    pub place: String,
    /// Without TLS: allowed on the loopback interface only.
    pub plain: bool,
}

impl Address {
    /// Returns whether a text is meant as such an address, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("kiln://") || text.starts_with("kiln+plain://")
    }

    /// Host and port, as sockets take them.
    pub fn socket(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.plain { "kiln+plain" } else { "kiln" };
        write!(f, "{scheme}://{}", self.socket())?;
        if self.place.is_empty() { Ok(()) } else { write!(f, "/{}", self.place) }
    }
}

impl FromStr for Address {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Address, NetError> {
        let refused = |why: &str| NetError::Setup { what: text.to_owned(), why: why.to_owned() };
        let (plain, rest) = match (text.strip_prefix("kiln://"), text.strip_prefix("kiln+plain://"))
        {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(refused("an address is kiln://HOST:PORT or kiln://HOST:PORT/PLACE")),
        };
        let (socket, place) = rest.split_once('/').unwrap_or((rest, ""));
        if place.contains('/') || place.len() > 255 {
            return Err(refused("the place is one plain name"));
        }
        let (host, port) = match socket.strip_prefix('[') {
            Some(inner) => {
                let (host, port) =
                    inner.split_once(']').ok_or_else(|| refused("a ] is missing"))?;
                (host, port.strip_prefix(':'))
            }
            None => match socket.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (socket, None),
            },
        };
        if host.is_empty() || host.contains(['@', '?', '#']) {
            return Err(refused("the host is missing, or is none"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port.parse().map_err(|_| refused("the port is 1 to 65535"))?,
        };
        Ok(Address { host: host.to_owned(), port, place: place.to_owned(), plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["kiln://a:1/p", "kiln+plain://127.0.0.1:7440", "kiln://[::1]:2", "kiln://a:1"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("kiln://a".parse::<Address>().unwrap().port, DEFAULT_PORT);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "http://a", "kiln://", "kiln://:5", "kiln://a:b", "kiln://a:99999", "kiln://a/b/c",
            "kiln://[::1", "kiln://u@a:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
