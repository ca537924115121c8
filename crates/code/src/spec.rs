//! The code spec: `family:k+m[,key=value...]`, or a Ceph profile that means the same bytes.

use crate::codes::{CODES, CodeFamily};
use crate::{CodeError, ceph};
use std::fmt;
use std::str::FromStr;

/// The longest spec that is looked at, in bytes.
const SPEC_LEN_MAX: usize = 1024;

/// One parameter of a code with the value in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Param {
    pub key: &'static str,
    pub value: String,
    /// Whether the value is what one gets without naming the parameter.
    pub default: bool,
}

impl Param {
    pub(crate) fn new(key: &'static str, value: String, default: &str) -> Param {
        let default = value == default;
        Param { key, value, default }
    }
}

/// A code with all its parameters: parsed, complete and canonical.
///
/// ```
/// use kiln_code::CodeSpec;
/// let spec: CodeSpec = "clay:10+4,d=13".parse()?;
/// assert_eq!(spec.to_string(), "clay:10+4"); // d = 13 is the default
/// let profile: CodeSpec = "plugin=clay k=8 m=4 d=10 scalar_mds=isa".parse()?;
/// assert_eq!(profile.to_string(), "clay:8+4,d=10,mds=isa,coupling=ceph");
/// assert_eq!(profile.explicit(), "clay:8+4,d=10,mds=isa,coupling=ceph,order=natural");
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CodeSpec {
    family: &'static str,
    k: usize,
    m: usize,
    params: Vec<Param>,
}

impl CodeSpec {
    /// The code of a family for k data and m parity chunks, all parameters by default.
    ///
    /// # Errors
    /// The family is unknown, or has no code of these numbers.
    ///
    /// ```
    /// use kiln_code::CodeSpec;
    /// assert_eq!(CodeSpec::of_family("rdp", 4, 2)?.to_string(), "rdp:4+2");
    /// assert_eq!(CodeSpec::of_family("rep", 1, 2)?.to_string(), "rep:3");
    /// assert!(CodeSpec::of_family("rdp", 4, 3).is_err());
    /// # Ok::<(), kiln_code::CodeError>(())
    /// ```
    pub fn of_family(family: &str, k: usize, m: usize) -> Result<CodeSpec, CodeError> {
        match family {
            "rep" if k == 1 => format!("rep:{}", m.saturating_add(1)).parse(),
            "rep" => {
                let (spec, reason) = (format!("rep with k={k}"), "copies have k = 1".into());
                Err(CodeError::Unsupported { spec, reason })
            }
            family => format!("{family}:{k}+{m}").parse(),
        }
    }

    /// The code family, e.g. `clay`.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// Data chunks.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Parity chunks.
    pub fn m(&self) -> usize {
        self.m
    }

    /// The spec with every parameter written out, so that it means the same even if a default
    /// changes one day. Shards carry this form.
    pub fn explicit(&self) -> String {
        self.write_out(|_| true)
    }

    /// The value of a parameter of this family.
    pub(crate) fn value(&self, key: &str) -> &str {
        self.params.iter().find(|p| p.key == key).map_or("", |p| &p.value)
    }

    fn write_out(&self, wanted: impl Fn(&Param) -> bool) -> String {
        let mut text = match self.family {
            "rep" => format!("rep:{}", self.k + self.m),
            family => format!("{family}:{}+{}", self.k, self.m),
        };
        for param in self.params.iter().filter(|p| wanted(p)) {
            text.push_str(&format!(",{}={}", param.key, param.value));
        }
        text
    }
}

impl fmt::Display for CodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write_out(|p| !p.default))
    }
}

impl FromStr for CodeSpec {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<CodeSpec, CodeError> {
        let text = text.trim();
        if text.len() > SPEC_LEN_MAX {
            let reason = format!("{} bytes long, the limit is {SPEC_LEN_MAX}", text.len());
            let start: String = text.chars().take(40).collect();
            return Err(CodeError::Syntax { spec: format!("{start}..."), reason });
        }
        match ceph::translate(text)? {
            Some(translated) => parse(&translated),
            None => parse(text),
        }
    }
}

/// The words of a spec before the family has looked at them.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    pub family: &'static str,
    pub k: usize,
    pub m: usize,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    /// Takes an option out, or gives nothing when the spec does not name it.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.options.iter().position(|(k, _)| *k == key)?;
        Some(self.options.remove(at).1)
    }

    /// Takes a whole number out.
    pub(crate) fn take_number(&mut self, key: &'static str) -> Result<Option<usize>, CodeError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let bad = |_| self.bad(key, value, "not a whole number".into());
        value.parse().map(Some).map_err(bad)
    }

    pub(crate) fn bad(&self, key: &str, value: &str, reason: String) -> CodeError {
        let family = format!("{}:{}+{}", self.family, self.k, self.m);
        CodeError::BadValue { family, key: key.into(), value: value.into(), reason }
    }
}

fn parse(text: &str) -> Result<CodeSpec, CodeError> {
    let syntax = |reason: &str| CodeError::Syntax { spec: text.into(), reason: reason.into() };
    let (name, rest) = text.split_once(':').ok_or_else(|| match family(text) {
        Ok(_) => syntax("no ':' and chunk numbers after the family"),
        Err(unknown) => unknown,
    })?;
    let family = family(name)?;
    let mut pieces = rest.split(',');
    let numbers = pieces.next().unwrap_or_default();
    let (k, m) = chunk_numbers(family, numbers).map_err(|reason| syntax(&reason))?;
    let mut options: Vec<(&str, &str)> = Vec::new();
    for piece in pieces {
        let pair = piece.split_once('=').ok_or_else(|| syntax("an option is key=value"))?;
        let pair = (pair.0.trim(), pair.1.trim());
        if options.iter().any(|(key, _)| *key == pair.0) {
            return Err(syntax(&format!("'{}' is given twice", pair.0)));
        }
        options.push(pair);
    }
    let mut words = Words { family: family.name, k, m, options };
    let params = (family.resolve)(&mut words)?;
    if let Some((key, _)) = words.options.first() {
        let known: Vec<&str> = params.iter().map(|p| p.key).collect();
        return Err(CodeError::UnknownKey {
            family: family.name.into(),
            key: (*key).into(),
            known: if known.is_empty() { "none".into() } else { known.join(", ") },
        });
    }
    let spec = CodeSpec { family: family.name, k, m, params };
    match spec.explicit().len() {
        // Shards carry the explicit form.
        len if len > SPEC_LEN_MAX => Err(syntax(&format!(
            "{len} bytes long with every parameter written out, the limit is {SPEC_LEN_MAX}"
        ))),
        _ => Ok(spec),
    }
}

fn family(name: &str) -> Result<&'static CodeFamily, CodeError> {
    let known = || CODES.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
    CODES
        .iter()
        .find(|c| c.name == name)
        .ok_or_else(|| CodeError::UnknownFamily { name: name.into(), known: known() })
}

/// `k+m`, or the number of copies for replication.
fn chunk_numbers(family: &CodeFamily, text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| match text.parse::<usize>() {
        Ok(number) if (1..=256).contains(&number) && !text.starts_with('+') => Ok(number),
        _ => Err(format!("'{text}' is not a number from 1 to 256")),
    };
    if family.name == "rep" {
        let copies = number(text)?;
        return match copies {
            2.. => Ok((1, copies - 1)),
            _ => Err("one copy is no replication; e.g. rep:3".into()),
        };
    }
    let (k, m) = text.split_once('+').ok_or("the chunk numbers are k+m, e.g. 10+4")?;
    let together = |reason| format!("{reason}, and k + m is 256 at most, e.g. {}", family.example);
    let (k, m) = (number(k).map_err(together)?, number(m).map_err(together)?);
    match k + m {
        ..=256 => Ok((k, m)),
        n => Err(format!(
            "{n} chunks, GF(2^8) allows 256 at most: k is {} at most beside {m} parity chunks",
            256_usize.saturating_sub(m)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        text.parse::<CodeSpec>().unwrap().to_string()
    }

    fn refused(text: &str) -> String {
        let error = text.parse::<CodeSpec>().unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn specs_print_back_canonically() {
        assert_eq!(canonical("rs:10+4"), "rs:10+4");
        assert_eq!(canonical("rs:10+4,matrix=cauchy"), "rs:10+4");
        assert_eq!(canonical(" rs:6+3,matrix=isa "), "rs:6+3,matrix=isa");
        assert_eq!(canonical("rep:3"), "rep:3");
        assert_eq!(canonical("clay:10+4,order=natural,d=11"), "clay:10+4,d=11");
        assert_eq!(canonical("clay:4+2,order=gray"), "clay:4+2,order=gray");
        assert_eq!(
            canonical("plugin=clay k=4 m=2 order=natural"),
            "clay:4+2,mds=jerasure,coupling=ceph"
        );
        let spec: CodeSpec = "clay:4+2".parse().unwrap();
        assert_eq!(spec.explicit(), "clay:4+2,d=5,mds=cauchy,coupling=kiln,order=natural");
        assert_eq!(canonical(&spec.explicit()), "clay:4+2");
    }

    #[test]
    fn ceph_profiles_are_read() {
        let cases = [
            ("plugin=isa k=4 m=2", "rs:4+2,matrix=isa"),
            ("plugin=isa,k=4,m=1,technique=cauchy", "rs:4+1,matrix=isa"),
            ("k=4 m=2 plugin=jerasure technique=reed_sol_r6_op w=8", "rs:4+2,matrix=jerasure-r6"),
            ("plugin=jerasure k=4 m=2 crush-failure-domain=host", "rs:4+2,matrix=jerasure"),
            (
                "plugin=clay k=8 m=4 d=11 scalar_mds=isa technique=reed_sol_van",
                "clay:8+4,mds=isa,coupling=ceph",
            ),
            ("plugin=clay k=4 m=2", "clay:4+2,mds=jerasure,coupling=ceph"),
            (
                "plugin=jerasure k=4 m=2 technique=cauchy_good w=4 packetsize=32",
                "cauchy:4+2,w=4,packet=32",
            ),
            (
                "plugin=jerasure k=6 m=3 technique=cauchy_orig",
                "cauchy:6+3,w=8,matrix=orig,packet=2048",
            ),
            ("plugin=jerasure k=7 m=2 technique=liberation", "liberation:7+2,packet=2048"),
            ("plugin=jerasure k=4 m=2 technique=blaum_roth w=6", "blaum-roth:4+2,w=6,packet=2048"),
            ("plugin=jerasure k=8 m=2 technique=liber8tion", "liber8tion:8+2,packet=2048"),
        ];
        for (profile, spec) in cases {
            assert_eq!(canonical(profile), spec);
        }
    }

    #[test]
    fn bad_specs_say_what_is_wrong_and_what_is_known() {
        assert!(refused("turbo:4+2").contains("known codes: rs, clay, rep, cauchy"));
        assert!(refused("rs").contains("no ':'"));
        assert!(refused("rs:4").contains("k+m"));
        assert!(refused("rs:0+2").contains("1 to 256"));
        assert!(refused("rs:200+57").contains("256 at most"));
        assert!(refused("rs:4+2,colour=red").contains("it takes: matrix"));
        assert!(refused("rs:4+2,matrix=magic").contains("known matrices: cauchy"));
        assert!(refused("rs:4+2,matrix=isa,matrix=isa").contains("given twice"));
        assert!(refused("clay:4+2,d=6").contains("d is from k = 4 to n-1 = 5"));
        assert!(refused("clay:4+2,d=five").contains("not a whole number"));
        assert!(refused("clay:4+2,order=spiral").contains("known: natural, gray"));
        assert!(refused("clay:4+2,order=gray:x").contains("not a number"));
        assert!(refused(&format!("clay:4+2,order=list:{}", "x".repeat(995))).contains("1024"));
        assert!(refused("rep:1").contains("one copy"));
        assert!(refused("rep:3,x=1").contains("it takes: none"));
        assert!(refused(&"x".repeat(5000)).contains("limit is 1024"));
        assert!(refused("plugin=lrc k=4 m=2").contains("known: isa, jerasure, clay"));
        assert!(refused("plugin=jerasure k=4 m=2 w=16").contains("only w=8"));
        assert!(refused("plugin=jerasure k=4 m=2 technique=magic").contains("blaum_roth"));
        assert!(refused("plugin=clay k=4 m=2 technique=liberation").contains("supported here"));
        let ordered = refused("plugin=clay k=4 m=2 order=gray");
        assert!(ordered.contains("clay:4+2,mds=jerasure,coupling=ceph,order=gray"), "{ordered}");
        assert!(refused("plugin=isa m=2").contains("no k="));
        assert!(refused("plugin=isa k=4 m=2 d=5").contains("no parameter 'd'"));
    }

    #[test]
    fn parameters_of_xor_codes_say_what_would_be_legal() {
        for (spec, legal) in [
            ("liberation:300+2", "'300' is not a number from 1 to 256, and k + m is 256 at most"),
            ("liberation:255+2", "k is 254 at most beside 2 parity chunks"),
            ("liberation:4+3", "2 parity chunks: liberation:4+2"),
            ("liberation:11+2,w=9", "from 11 to 257 here: 11, 13, 17, 19, ...; the nearest is 11"),
            (
                "liberation:5+2,w=9",
                "from 5 to 257 here: 5, 7, 11, 13, ...; the nearest are 7 and 11",
            ),
            ("liberation:4+2,w=2", "from 4 to 257 here: 5, 7"),
            ("liberation:4+2,w=1000", "the nearest is 257"),
            ("liberation:4+2,packet=12", "a multiple of 8 from 8 to 67108864, or sub-chunk"),
            ("liberation:4+2,packet=12", "the nearest are 8 and 16"),
            ("liberation:4+2,packet=4", "the nearest is 8"),
            ("liberation:4+2,packet=99999999999", "the nearest is 67108864"),
            ("liberation:4+2,packet=4KiB", "a multiple of 8 from 8 to 67108864, or sub-chunk"),
            ("blaum-roth:10+2,w=11", "10, 12, 16, 18, ...; the nearest are 10 and 12"),
            ("liber8tion:9+2", "1 to 8 data chunks; for more take liberation:9+2"),
            ("cauchy:10+4,w=3", "w from 4 to 13, 16 or 32; the nearest is 4"),
            ("cauchy:10+4,w=14", "w from 4 to 13, 16 or 32; the nearest are 13 and 16"),
            ("cauchy:10+4,matrix=best", "known: good, orig"),
            ("rdp:10+2,p=10", "11, 13, 17, 19, ...; the nearest is 11"),
            ("rdp:10+4", "rdp:10+2"),
            ("evenodd:11+2,p=9", "11, 13, 17, 19"),
            ("star:11+2", "star:11+3"),
            ("star:12+3,p=12", "13, 17, 19, 23"),
            ("xcode:10+2,p=11", "13, 17, 19, 23"),
        ] {
            assert!(refused(spec).contains(legal), "{}", refused(spec));
        }
        assert_eq!(canonical("evenodd:11+2,p=11"), "evenodd:11+2");
        assert_eq!(canonical("rdp:9+2,p=13"), "rdp:9+2,p=13");
        let spec: CodeSpec = "cauchy:10+4".parse().unwrap();
        assert_eq!(spec.explicit(), "cauchy:10+4,w=4,matrix=good,packet=sub-chunk");
    }

    #[test]
    fn parameters_that_are_not_mds_are_refused_with_the_reason() {
        for text in ["rs:22+4,matrix=isa", "rs:6+5,matrix=isa", "rs:5+6,matrix=isa"] {
            let spec: CodeSpec = text.parse().unwrap();
            let error = crate::Codec::new(&spec).unwrap_err().to_string();
            assert!(error.contains("not possible") && !error.contains('\n'), "{error}");
        }
        let spec: CodeSpec = "clay:60+4".parse().unwrap();
        let error = crate::Codec::new(&spec).unwrap_err().to_string();
        assert!(error.contains("sub-chunks a chunk") && error.contains("limit"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
            let _ = text.parse::<CodeSpec>();
        }

        #[test]
        fn nearly_right_text_neither(
            text in "(rs|clay|rep|rdp|cauchy|plugin=clay)[:, ]?[0-9k=m+,dpw]{0,30}",
        ) {
            if let Ok(spec) = text.parse::<CodeSpec>() {
                prop_assert_eq!(spec.to_string().parse::<CodeSpec>().unwrap(), spec.clone());
                prop_assert_eq!(spec.explicit().parse::<CodeSpec>().unwrap(), spec);
            }
        }
    }
}
