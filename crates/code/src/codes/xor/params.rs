//! Parameters that XOR codes have in common: primes, packets, the number of parities.

use crate::spec::{Param, Words};
use crate::{CodeError, CodeSpec, Result};

/// The largest prime: k + m is 256 at most, so no code needs one above 257.
pub(in crate::codes) const PRIME_MAX: usize = 257;

/// The largest packet in bytes.
const PACKET_MAX: usize = 1 << 26;
/// The value of `packet` for chunks that are one block: a packet is a sub-chunk.
const WHOLE: &str = "sub-chunk";

pub(in crate::codes) fn is_prime(p: usize) -> bool {
    p >= 2 && (2..).take_while(|d| d * d <= p).all(|d| !p.is_multiple_of(d))
}

/// Refuses any number of parities but the family's.
pub(in crate::codes) fn only_parities(words: &Words<'_>, m: usize) -> Result<()> {
    match words.m == m {
        true => Ok(()),
        false => {
            let legal =
                format!("{} codes have {m} parity chunks: {0}:{}+{m}", words.family, words.k);
            Err(words.bad("m", &words.m.to_string(), legal))
        }
    }
}

/// Takes a prime of at least `least` out of a spec; the smallest when the spec names none.
pub(in crate::codes) fn take_prime(
    words: &mut Words<'_>,
    key: &'static str,
    least: usize,
) -> Result<Param> {
    let primes = || (least.max(3)..=PRIME_MAX).filter(|&p| is_prime(p));
    let Some(smallest) = primes().next() else {
        let reason = format!("no prime from {least} to {PRIME_MAX}; use fewer data chunks");
        return Err(words.bad("k", &words.k.to_string(), reason));
    };
    let value = words.take_number(key)?.unwrap_or(smallest);
    if !primes().any(|p| p == value) {
        let legal: Vec<String> = primes().take(4).map(|p| p.to_string()).collect();
        let reason = format!(
            "{key} is an odd prime from {least} to {PRIME_MAX} here: {}, ...; {}",
            legal.join(", "),
            nearest(primes(), value)
        );
        return Err(words.bad(key, &value.to_string(), reason));
    }
    Ok(Param::new(key, value.to_string(), &smallest.to_string()))
}

/// Returns which legal values are next to one that is not, for people.
pub(in crate::codes) fn nearest(legal: impl Iterator<Item = usize>, value: usize) -> String {
    let (mut below, mut above) = (None, None);
    for one in legal {
        if one < value {
            below = below.max(Some(one));
        } else {
            above = Some(above.map_or(one, |known: usize| known.min(one)));
        }
    }
    match (below, above) {
        (Some(below), Some(above)) => format!("the nearest are {below} and {above}"),
        (Some(one), None) | (None, Some(one)) => format!("the nearest is {one}"),
        (None, None) => "there is none".into(),
    }
}

/// Takes the packet length out of a spec: bytes, a multiple of 8.
pub(in crate::codes) fn take_packet(words: &mut Words<'_>) -> Result<Param> {
    let value = words.take("packet").unwrap_or(WHOLE);
    let bytes = value.parse::<usize>();
    let legal = |b: &usize| b.is_multiple_of(8) && (8..=PACKET_MAX).contains(b);
    if value != WHOLE && !bytes.as_ref().is_ok_and(legal) {
        let next = bytes.map_or(String::new(), |b| {
            let below = b.min(PACKET_MAX) / 8 * 8;
            format!("; {}", nearest([below, below + 8].into_iter().filter(legal), b))
        });
        let reason = format!("bytes, a multiple of 8 from 8 to {PACKET_MAX}, or {WHOLE}{next}");
        return Err(words.bad("packet", value, reason));
    }
    Ok(Param::new("packet", value.into(), WHOLE))
}

/// The packet length of a resolved spec.
pub(in crate::codes) fn packet(spec: &CodeSpec) -> Option<usize> {
    spec.value("packet").parse().ok()
}

/// A number of a resolved spec.
pub(in crate::codes) fn number(spec: &CodeSpec, key: &str) -> Result<usize> {
    let number = spec.value(key).parse();
    number.map_err(|_| CodeError::Internal(format!("no number {key} in {spec}")))
}
