//! Ceph erasure-code profiles, read as the spec that gives the same bytes.

use crate::{Result, codes::CODES, profile::Profile};
use std::collections::BTreeMap;

/// Profile keys that say where chunks go or how large they are, not what their bytes are.
const PLACEMENT_KEYS: [&str; 8] = [
    "crush-root", "crush-failure-domain", "crush-device-class", "crush-num-failure-domains",
    "crush-osds-per-failure-domain", "directory", "stripe_unit", "jerasure-per-chunk-alignment",
];

/// The spec of a Ceph profile such as `plugin=clay k=8 m=4 d=11 scalar_mds=isa`, words separated
/// by spaces or commas; nothing when `text` is no profile (has no `plugin=` word).
///
/// # Errors
/// A plugin, technique or word size whose bytes this library does not make (yet), or numbers
/// missing or malformed.
pub fn translate(text: &str) -> Result<Option<String>> {
    let words: Vec<&str> =
        text.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()).collect();
    if !words.iter().any(|word| word.starts_with("plugin=")) {
        return Ok(None);
    }
    let mut profile = Profile { text, words: BTreeMap::new() };
    for word in words {
        let (key, value) =
            word.split_once('=').ok_or_else(|| profile.bad(format!("'{word}' is no key=value")))?;
        if profile.words.insert(key, value).is_some() {
            return Err(profile.bad(format!("'{key}' is given twice")));
        }
    }
    for key in PLACEMENT_KEYS {
        profile.words.remove(key);
    }
    let plugin = profile.words.remove("plugin").unwrap_or_default();
    // Two plugins stand for several families, the others are named as theirs.
    let own = CODES.iter().find(|family| family.name == plugin).and_then(|row| row.profile);
    let spec = match (plugin, own) {
        ("isa", _) => isa(&mut profile)?,
        ("jerasure", _) => jerasure(&mut profile)?,
        (_, Some(read)) => read(&mut profile)?,
        (other, None) => {
            let own = CODES.iter().filter(|family| family.profile.is_some());
            let known: Vec<&str> = own.map(|family| family.name).collect();
            let known = known.join(", ");
            return Err(profile.bad(format!("plugin '{other}'; known: isa, jerasure, {known}")));
        }
    };
    match profile.words.keys().next() {
        Some(key) => Err(profile.bad(format!("plugin {plugin} has no parameter '{key}'"))),
        None => Ok(Some(spec)),
    }
}

fn isa(profile: &mut Profile<'_>) -> Result<String> {
    let (k, m) = profile.numbers()?;
    profile.words.remove("packetsize");
    let matrix = profile.isa_matrix(m)?;
    Ok(format!("rs:{k}+{m},matrix={matrix}"))
}

fn jerasure(profile: &mut Profile<'_>) -> Result<String> {
    let (k, m) = profile.numbers()?;
    let packet = profile.words.remove("packetsize").unwrap_or("2048");
    let technique = profile.words.get("technique").copied().unwrap_or_default();
    let Some(code) = bit_matrix_code(technique) else {
        let matrix = profile.jerasure_matrix()?;
        return Ok(format!("rs:{k}+{m},matrix={matrix}"));
    };
    profile.words.remove("technique");
    let w = profile.words.remove("w");
    let (family, rest) = match code {
        ("liber8tion", rest) => match w {
            None | Some("8") => ("liber8tion", rest.to_owned()),
            Some(w) => return Err(profile.bad(format!("w={w}; liber8tion has w=8"))),
        },
        ("cauchy", rest) => ("cauchy", format!(",w={}{rest}", w.unwrap_or("8"))),
        (family, rest) => (family, format!(",w={}{rest}", w.unwrap_or("7"))),
    };
    Ok(format!("{family}:{k}+{m}{rest},packet={packet}"))
}

/// The family and fixed options of a technique that codes in packets.
fn bit_matrix_code(technique: &str) -> Option<(&'static str, &'static str)> {
    match technique {
        "cauchy_orig" => Some(("cauchy", ",matrix=orig")),
        "cauchy_good" => Some(("cauchy", ",matrix=good")),
        "liberation" => Some(("liberation", "")),
        "blaum_roth" => Some(("blaum-roth", "")),
        "liber8tion" => Some(("liber8tion", "")),
        _ => None,
    }
}
