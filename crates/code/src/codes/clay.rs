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

mod grid;
mod choose;
mod emit;

use super::scalar::{self, ScalarCode};
use super::{Choice, Code, CodeFamily};
use crate::order::{self, Layers, Order};
use crate::profile::Profile;
use crate::spec::{K_PLUS_M, Param, Words};
use crate::{CodeError, CodeSpec, Dag, Shape};
use grid::Grid;
use kiln_gf::{Matrix, generator};

/// The largest sub-packetization. DAGs grow with n * alpha; this keeps them within some 100 MiB.
pub(super) const ALPHA_MAX: usize = crate::order::LAYERS_MAX;

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "clay",
    about: "Clay (MSR): the overhead of rs, but rebuilding a chunk reads a fraction of it; \
            d helpers read 1/(d-k+1) of a chunk each",
    syntax: "clay:k+m[,d=k..k+m-1][,mds=MATRIX][,coupling=kiln|ceph][,order=ORDER]",
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

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>, CodeError> {
    let (k, last) = (words.k, words.k + words.m - 1);
    let d = words.take_number("d")?.unwrap_or(last);
    if !(k..=last).contains(&d) {
        return Err(words.bad("d", &d.to_string(), format!("d is from k = {k} to n-1 = {last}")));
    }
    let mds = scalar::take_matrix(words, "mds")?;
    let one_of = |words: &mut Words<'_>, key: &'static str, known: &[&str]| {
        let value = words.take(key).unwrap_or(known[0]);
        match known.contains(&value) {
            true => Ok(Param::new(key, value.into(), known[0])),
            false => Err(words.bad(key, value, format!("known: {}", known.join(", ")))),
        }
    };
    let coupling = one_of(words, "coupling", &["kiln", "ceph"])?;
    let order = words.take("order").unwrap_or(NATURAL);
    let order = Param::new("order", order::canonical(order)?, NATURAL);
    Ok(vec![Param::new("d", d.to_string(), &last.to_string()), mds, coupling, order])
}

/// Ceph's plugin `clay`, whose scalar code is another plugin's.
fn profile(profile: &mut Profile<'_>) -> Result<String, CodeError> {
    let (k, m) = profile.numbers()?;
    let d = profile.words.remove("d");
    let mds = match profile.words.remove("scalar_mds").unwrap_or("jerasure") {
        "jerasure" => {
            // Ceph's clay takes w from its own default of 8, whatever the profile says.
            profile.words.remove("w");
            profile.words.remove("packetsize");
            profile.jerasure_matrix()?
        }
        "isa" => {
            profile.words.remove("packetsize");
            profile.isa_matrix(m)?
        }
        other => {
            return Err(profile.bad(format!("scalar_mds '{other}'; supported: jerasure, isa")));
        }
    };
    let d = d.map_or(String::new(), |d| format!(",d={d}"));
    let spec = format!("clay:{k}+{m}{d},mds={mds},coupling=ceph");
    // Ceph ignores keys that it does not know, so a profile always means its own order.
    match profile.words.remove("order") {
        None | Some("natural") => Ok(spec),
        Some(order) => Err(profile.bad(format!(
            "order={order}; Ceph's plugin clay knows the natural order only. The same code in \
             that order is {spec},order={order}"
        ))),
    }
}

/// A Clay code with everything its DAGs need.
pub(super) struct Clay {
    grid: Grid,
    scalar: ScalarCode,
    /// Rows: C0, C1, U0, U1 of a pair in terms of C0, C1. Member 0 is the one with the larger x.
    pair: Matrix,
    layers: Layers,
    /// Order of layers: the layer at each position of a chunk.
    order: Order,
}

impl Clay {
    fn new(spec: &CodeSpec) -> Result<Clay, CodeError> {
        let d = spec.value("d").parse::<usize>();
        let d = d.map_err(|_| CodeError::Internal(format!("d of {spec}")))?;
        let grid = Grid::new(spec, d)?;
        let mds = spec.value("mds");
        let scalar = ScalarCode::mds(spec, mds, grid.k + grid.virtuals, grid.m)?;
        let coupling = match spec.value("coupling") {
            // One multiplication a pair: [U0; U1] = [1 1; 1 g] [C0; C1].
            "kiln" => Matrix::new(2, 2, vec![1, 1, 1, 2])?,
            // Ceph couples with the parities of the 2+2 code of the same scalar MDS.
            _ => generator(mds)?.parity(2, 2)?,
        };
        coupling.check_mds()?;
        let layers = Layers::new(grid.k, grid.m, grid.q)?;
        let order = Order::new(&layers, spec.value("order"))?;
        Ok(Clay { grid, scalar, pair: Matrix::identity(2).stack(&coupling)?, layers, order })
    }
}

impl Code for Clay {
    fn shape(&self) -> Shape {
        Shape { k: self.grid.k, m: self.grid.m, alpha: self.grid.alpha }
    }

    fn order(&self) -> &str {
        self.order.name()
    }

    fn layers(&self) -> Option<&Layers> {
        Some(&self.layers)
    }

    fn choose(&self, lost: &[usize], available: &[usize]) -> Result<Choice, CodeError> {
        Ok(choose::choose(&self.grid, self.decode(lost, available)?, available))
    }

    fn emit(&self, choice: &Choice) -> Result<Dag, CodeError> {
        emit::emit(self, choice)
    }
}

#[cfg(test)]
mod tests;
