//! Clay codes (Vajha et al., FAST 2018): MSR codes by coupling layers of a scalar MDS code.
//!
//! The nodes stand on a grid of t sections with q = d-k+1 members each, the chunk of a node is
//! alpha = q^t sub-chunks, one a layer. In a layer the *uncoupled* symbols U are a codeword of the
//! scalar code; what is stored are the *coupled* symbols C. A pair of vertices of one section is
//! coupled by a 2x2 matrix; any two of its four symbols C, C*, U, U* give the others.
//!
//! - encode and decode: paper section 3 ("Decoding"), layers by increasing intersection score;
//! - repair of one chunk: section 3; of several: appendix A and Algorithm 1;
//! - any (k, m, d): section 3 ("Clay codes for any (n, k, d)"), by virtual nodes;
//! - any order of the layers along a chunk: `order.rs`.

mod bits;
mod grid;
mod choose;
mod emit;

use super::scalar::{self, ScalarCode};
use super::{Choice, Code, CodeFamily, liber8tion, xor};
use crate::order::{self, Layers, Order};
use crate::spec::{K_PLUS_M, Param, Words};
use crate::{CodeError, CodeSpec, Dag, Packets, Result, Shape, profile::Profile};
use bits::{BITS, BitMatrix};
use grid::Grid;
use kiln_gf::{Matrix, generator};

/// The largest sub-packetization. DAGs grow with n * alpha; this keeps them within some 100 MiB.
const ALPHA_MAX: usize = crate::order::LAYERS_MAX;

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "clay",
    about: "Clay (MSR): the overhead of rs, but rebuilding a chunk reads a fraction of it; \
            d helpers read 1/(d-k+1) of a chunk each",
    syntax: "clay:k+m[,d=k..k+m-1][,mds=MATRIX][,coupling=kiln|ceph][,order=ORDER][,packet=BYTES]",
    example: "clay:10+4",
    examples: &[
        "clay:2+2",
        "clay:3+3",
        "clay:3+3,d=4",
        "clay:4+2",
        "clay:4+2,mds=isa,coupling=ceph",
        "clay:4+2,order=gray",
        "clay:4+3,d=5,mds=jerasure,coupling=ceph",
        "clay:4+3,d=5,mds=jerasure,coupling=ceph,order=fewest",
        "clay:5+2",
        "clay:5+3,mds=isa-cauchy,coupling=ceph",
        "clay:5+3,order=balanced",
        "clay:2+2,mds=cauchy-good",
        "clay:3+2,mds=liber8tion,packet=2048",
        "clay:3+3,d=4,mds=cauchy-orig,packet=64",
        "clay:3+2",
        "clay:5+3",
        "clay:6+3",
    ],
    numbers: K_PLUS_M,
    profile: Some(profile),
    resolve,
    build: |spec| Ok(Box::new(Clay::new(spec)?)),
};

/// The order by default.
const NATURAL: &str = "natural";

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>> {
    let (k, last) = (words.k, words.k + words.m - 1);
    let d = words.take_number("d")?.unwrap_or(last);
    if !(k..=last).contains(&d) {
        return Err(words.bad("d", &d.to_string(), format!("d is from k = {k} to n-1 = {last}")));
    }
    let bits = words.options.iter().find(|(key, _)| *key == "mds");
    let bits = bits.and_then(|(_, name)| BitMatrix::named(name));
    let mds = match bits {
        Some(bits) => Param::new("mds", words.take("mds").unwrap_or(bits.name).into(), ""),
        None => scalar::take_matrix(words, "mds")?,
    };
    if bits.is_some_and(|bits| bits.name == liber8tion::NAME) {
        liber8tion::check(words)?;
    }
    let one_of = |words: &mut Words<'_>, key: &'static str, known: &[&str]| {
        let value = words.take(key).unwrap_or(known[0]);
        match known.contains(&value) {
            true => Ok(Param::new(key, value.into(), known[0])),
            false => Err(words.bad(key, value, format!("known: {}", known.join(", ")))),
        }
    };
    // Pairs of bit matrices have no other coupling than their own.
    let couplings: &[&str] = if bits.is_some() { &["ceph"] } else { &["kiln", "ceph"] };
    let coupling = one_of(words, "coupling", couplings)?;
    let order = words.take("order").unwrap_or(NATURAL);
    let order = Param::new("order", order::canonical(order)?, NATURAL);
    let mut params = vec![Param::new("d", d.to_string(), &last.to_string()), mds, coupling, order];
    if bits.is_some() {
        params.push(xor::take_packet(words)?);
    }
    Ok(params)
}

/// Ceph's plugin `clay`, whose scalar code is another plugin's.
fn profile(profile: &mut Profile<'_>) -> Result<String> {
    let (k, m) = profile.numbers()?;
    let d = profile.words.remove("d");
    // Ceph's clay gives its scalar code neither: w is 8, packets have 2048 bytes.
    profile.words.remove("packetsize");
    profile.words.remove("w");
    let technique = profile.words.get("technique").map_or(String::new(), |t| t.replace('_', "-"));
    let mds = match profile.words.remove("scalar_mds").unwrap_or("jerasure") {
        "jerasure" if BitMatrix::named(&technique).is_some() => {
            profile.words.remove("technique");
            technique + ",packet=2048"
        }
        "jerasure" => format!("{},coupling=ceph", profile.jerasure_matrix()?),
        "isa" => format!("{},coupling=ceph", profile.isa_matrix(m)?),
        "shec" => format!("{},coupling=ceph", shec_matrix(profile, k, m)?),
        other => {
            return Err(profile.bad(format!("scalar_mds '{other}'; known: jerasure, isa, shec")));
        }
    };
    let d = d.map_or(String::new(), |d| format!(",d={d}"));
    let spec = format!("clay:{k}+{m}{d},mds={mds}");
    // Ceph ignores keys that it does not know, so a profile always means its own order.
    match profile.words.remove("order") {
        None | Some("natural") => Ok(spec),
        Some(order) => Err(profile.bad(format!(
            "order={order}; Ceph's plugin clay knows the natural order only. The same code in \
             that order is {spec},order={order}"
        ))),
    }
}

/// The matrix of Ceph's clay over shec, which has c = 2: Jerasure's for two parities. With more it
/// is not MDS, and Ceph gives back wrong bytes for lost chunks; with one Ceph refuses it.
fn shec_matrix(profile: &mut Profile<'_>, k: &str, m: &str) -> Result<&'static str> {
    let technique = profile.words.remove("technique").unwrap_or("single");
    let reason = match (technique, k.parse(), m) {
        ("single" | "multiple", Ok(..=12_usize), "2") => return Ok("jerasure"),
        ("single" | "multiple", _, "2") => format!("k={k}; shec has 12 data chunks at most"),
        ("single" | "multiple", ..) => format!(
            "m={m}; scalar_mds=shec needs m=2: with m=1 Ceph refuses it, with more Ceph itself \
             decodes lost chunks wrongly"
        ),
        (other, ..) => format!("technique '{other}'; of shec: single, multiple"),
    };
    Err(profile.bad(reason))
}

/// A Clay code with everything its DAGs need.
pub(super) struct Clay {
    grid: Grid,
    /// Symbols of a node in a layer: 1, or the bits of a bit matrix. Each has so many rows below.
    width: usize,
    packet: Option<usize>,
    scalar: ScalarCode,
    /// Rows: C0, C1, U0, U1 of a pair in terms of C0, C1. Member 0 is the one with the larger x.
    pair: Matrix,
    layers: Layers,
    /// Order of layers: the layer at each position of a chunk.
    order: Order,
}

impl Clay {
    fn new(spec: &CodeSpec) -> Result<Clay> {
        let d = spec.value("d").parse::<usize>();
        let d = d.map_err(|_| CodeError::Internal(format!("d of {spec}")))?;
        let mds = spec.value("mds");
        let bits = BitMatrix::named(mds);
        let width = bits.map_or(1, |_| BITS);
        let grid = Grid::new(spec, d, ALPHA_MAX / width)?;
        let data = grid.k + grid.virtuals;
        let scalar = match bits {
            Some(bits) => ScalarCode::of_parity(&bits.parity(data, grid.m)?)?,
            None => ScalarCode::mds(spec, mds, data, grid.m)?,
        };
        let coupling = match (spec.value("coupling"), bits) {
            // One multiplication a pair: [U0; U1] = [1 1; 1 g] [C0; C1].
            ("kiln", _) => Matrix::new(2, 2, vec![1, 1, 1, 2])?,
            // Ceph couples with the parities of the 2+2 code of the same scalar MDS.
            (_, Some(bits)) => bits.parity(2, 2)?,
            (_, None) => generator(mds)?.parity(2, 2)?,
        };
        if bits.is_none() {
            coupling.check_mds()?;
        }
        let layers = Layers::new(grid.k, grid.m, grid.q)?;
        let order = Order::new(&layers, spec.value("order"))?;
        let pair = Matrix::identity(2 * width).stack(&coupling)?;
        Ok(Clay { grid, width, packet: xor::packet(spec), scalar, pair, layers, order })
    }

    /// The rows of a matrix that belong to these nodes, or members of a pair.
    fn rows(&self, members: &[usize]) -> Vec<usize> {
        members.iter().flat_map(|&i| i * self.width..(i + 1) * self.width).collect()
    }
}

impl Code for Clay {
    fn shape(&self) -> Shape {
        Shape { k: self.grid.k, m: self.grid.m, alpha: self.grid.alpha * self.width }
    }

    fn packets(&self) -> Option<Packets> {
        self.packet.map(|bytes| Packets { count: self.width, bytes })
    }

    fn order(&self) -> &str {
        self.order.name()
    }

    fn layers(&self) -> Option<&Layers> {
        (self.width == 1).then_some(&self.layers)
    }

    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice> {
        Ok(choose::choose(&self.grid, self.decode(lost, available)?, available))
    }

    fn emit(&self, choice: &Choice) -> Result<Dag> {
        emit::emit(self, choice)
    }
}

#[cfg(test)]
mod tests;
