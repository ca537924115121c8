//! Ceph erasure-code profiles, read as the spec that gives the same bytes.

use crate::CodeError;
use std::collections::BTreeMap;

/// Profile keys that say where chunks go or how large they are, not what their bytes are.
const PLACEMENT_KEYS: [&str; 8] = [
    "crush-root",
    "crush-failure-domain",
    "crush-device-class",
    "crush-num-failure-domains",
    "crush-osds-per-failure-domain",
    "directory",
    "stripe_unit",
    "jerasure-per-chunk-alignment",
];

/// The spec of a Ceph profile such as `plugin=clay k=8 m=4 d=11 scalar_mds=isa`, words separated
/// by spaces or commas; nothing when `text` is no profile (has no `plugin=` word).
///
/// # Errors
/// A plugin, technique or word size whose bytes this library does not make (yet), or numbers
/// missing or malformed.
///
/// ```
/// let spec = kiln_code::ceph::translate("plugin=isa k=8 m=4 technique=cauchy")?;
/// assert_eq!(spec.as_deref(), Some("rs:8+4,matrix=isa-cauchy"));
/// assert_eq!(kiln_code::ceph::translate("rs:8+4")?, None);
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
pub fn translate(text: &str) -> Result<Option<String>, CodeError> {
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
    let spec = match plugin {
        "isa" => profile.isa()?,
        "jerasure" => profile.jerasure()?,
        "clay" => profile.clay()?,
        other => {
            return Err(profile.bad(format!("plugin '{other}'; known: isa, jerasure, clay")));
        }
    };
    match profile.words.keys().next() {
        Some(key) => Err(profile.bad(format!("plugin {plugin} has no parameter '{key}'"))),
        None => Ok(Some(spec)),
    }
}

struct Profile<'a> {
    text: &'a str,
    words: BTreeMap<&'a str, &'a str>,
}

impl<'a> Profile<'a> {
    fn bad(&self, reason: String) -> CodeError {
        CodeError::Syntax { spec: self.text.into(), reason: format!("Ceph profile: {reason}") }
    }

    fn numbers(&mut self) -> Result<(&'a str, &'a str), CodeError> {
        let mut number = |key| {
            let value: Option<&'a str> = self.words.remove(key);
            match value {
                Some(value) if value.parse::<u16>().is_ok() => Ok(value),
                Some(value) => Err(self.bad(format!("{key}={value} is not a number"))),
                None => Err(self.bad(format!("no {key}="))),
            }
        };
        Ok((number("k")?, number("m")?))
    }

    fn isa(&mut self) -> Result<String, CodeError> {
        let (k, m) = self.numbers()?;
        self.words.remove("packetsize");
        let matrix = self.isa_matrix(m)?;
        Ok(format!("rs:{k}+{m},matrix={matrix}"))
    }

    /// One parity is plain XOR in Ceph, whatever the technique says.
    fn isa_matrix(&mut self, m: &str) -> Result<&'static str, CodeError> {
        match self.words.remove("technique").unwrap_or("reed_sol_van") {
            "reed_sol_van" => Ok("isa"),
            "cauchy" if m == "1" => Ok("isa"),
            "cauchy" => Ok("isa-cauchy"),
            other => {
                Err(self.bad(format!("technique '{other}'; plugin isa: reed_sol_van, cauchy")))
            }
        }
    }

    fn jerasure(&mut self) -> Result<String, CodeError> {
        let (k, m) = self.numbers()?;
        let packet = self.words.remove("packetsize").unwrap_or("2048");
        let technique = self.words.get("technique").copied().unwrap_or_default();
        let Some(code) = bit_matrix_code(technique) else {
            let matrix = self.jerasure_matrix()?;
            return Ok(format!("rs:{k}+{m},matrix={matrix}"));
        };
        self.words.remove("technique");
        let w = self.words.remove("w");
        let (family, rest) = match code {
            ("liber8tion", rest) => match w {
                None | Some("8") => ("liber8tion", rest.to_owned()),
                Some(w) => return Err(self.bad(format!("w={w}; liber8tion has w=8"))),
            },
            ("cauchy", rest) => ("cauchy", format!(",w={}{rest}", w.unwrap_or("8"))),
            (family, rest) => (family, format!(",w={}{rest}", w.unwrap_or("7"))),
        };
        Ok(format!("{family}:{k}+{m}{rest},packet={packet}"))
    }

    fn jerasure_matrix(&mut self) -> Result<&'static str, CodeError> {
        let technique = self.words.remove("technique").unwrap_or("reed_sol_van");
        let w = self.words.remove("w").unwrap_or("8");
        match (technique, w) {
            ("reed_sol_van", "8") => Ok("jerasure"),
            ("reed_sol_r6_op", "8") => Ok("jerasure-r6"),
            ("reed_sol_van" | "reed_sol_r6_op", w) => {
                Err(self.bad(format!("w={w} is not supported; only w=8 is (GF(2^8))")))
            }
            (other, _) => Err(self.bad(format!(
                "technique '{other}'; supported here: reed_sol_van, reed_sol_r6_op, and with \
                 plugin jerasure cauchy_orig, cauchy_good, liberation, blaum_roth, liber8tion"
            ))),
        }
    }

    fn clay(&mut self) -> Result<String, CodeError> {
        let (k, m) = self.numbers()?;
        let d = self.words.remove("d");
        let mds = match self.words.remove("scalar_mds").unwrap_or("jerasure") {
            "jerasure" => {
                // Ceph's clay takes w from its own default of 8, whatever the profile says.
                self.words.remove("w");
                self.words.remove("packetsize");
                self.jerasure_matrix()?
            }
            "isa" => {
                self.words.remove("packetsize");
                self.isa_matrix(m)?
            }
            other => {
                return Err(self.bad(format!("scalar_mds '{other}'; supported: jerasure, isa")));
            }
        };
        let d = d.map_or(String::new(), |d| format!(",d={d}"));
        let spec = format!("clay:{k}+{m}{d},mds={mds},coupling=ceph");
        // Ceph ignores keys that it does not know, so a profile always means its own order.
        match self.words.remove("order") {
            None | Some("natural") => Ok(spec),
            Some(order) => Err(self.bad(format!(
                "order={order}; Ceph's plugin clay knows the natural order only. The same code in \
                 that order is {spec},order={order}"
            ))),
        }
    }
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
