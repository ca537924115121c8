//! The words of a Ceph erasure-code profile, and what several plugins read out of them.

use crate::{CodeError, Result};
use std::collections::BTreeMap;

/// Reads a family's own plugin: gives the spec that has the same bytes.
pub(crate) type ReadProfile = fn(&mut Profile<'_>) -> Result<String>;

/// A profile's words that are not read yet.
pub(crate) struct Profile<'a> {
    pub text: &'a str,
    pub words: BTreeMap<&'a str, &'a str>,
}

impl<'a> Profile<'a> {
    pub fn bad(&self, reason: String) -> CodeError {
        CodeError::Syntax { spec: self.text.into(), reason: format!("Ceph profile: {reason}") }
    }

    /// Takes a whole number out; its text is what the spec repeats.
    pub fn number(&mut self, key: &str) -> Result<&'a str> {
        match self.words.remove(key) {
            Some(value) if value.parse::<u16>().is_ok() => Ok(value),
            Some(value) => Err(self.bad(format!("{key}={value} is not a number"))),
            None => Err(self.bad(format!("no {key}="))),
        }
    }

    /// Takes k and m out.
    pub fn numbers(&mut self) -> Result<(&'a str, &'a str), CodeError> {
        Ok((self.number("k")?, self.number("m")?))
    }

    /// One parity is plain XOR in Ceph, whatever the technique says.
    pub fn isa_matrix(&mut self, m: &str) -> Result<&'static str> {
        match self.words.remove("technique").unwrap_or("reed_sol_van") {
            "reed_sol_van" => Ok("isa"),
            "cauchy" if m == "1" => Ok("isa"),
            "cauchy" => Ok("isa-cauchy"),
            other => {
                Err(self.bad(format!("technique '{other}'; plugin isa: reed_sol_van, cauchy")))
            }
        }
    }

    /// The matrix of plugin jerasure's techniques over bytes.
    pub fn jerasure_matrix(&mut self) -> Result<&'static str> {
        let technique = self.words.remove("technique").unwrap_or("reed_sol_van");
        let w = self.words.remove("w").unwrap_or("8");
        match (technique, w) {
            ("reed_sol_van", "8") => Ok("jerasure"),
            ("reed_sol_r6_op", "8") => Ok("jerasure-r6"),
            ("reed_sol_van" | "reed_sol_r6_op", w) => {
                Err(self.bad(format!("w={w} is not supported; only w=8 is (GF(2^8))")))
            }
            (other, _) => Err(self.bad(format!(
                "technique '{other}'; supported here: reed_sol_van, reed_sol_r6_op, cauchy_orig, \
                 cauchy_good, liber8tion, and with plugin jerasure liberation, blaum_roth"
            ))),
        }
    }
}
