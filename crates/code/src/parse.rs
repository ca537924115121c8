//! Reading a code spec: `family:numbers[,key=value...]`, or a Ceph profile that means the same
//! bytes.

use crate::codes::{CodeFamily, family};
use crate::spec::{Words, joined};
use crate::{CodeError, CodeSpec, Result, ceph};
use std::str::FromStr;

/// The longest spec that is looked at, in bytes.
const SPEC_LEN_MAX: usize = 1024;

/// The most chunks there can be, k + m.
const CHUNKS_MAX: usize = 256;

impl CodeSpec {
    /// The code of a family for k data and m parity chunks, all parameters by default.
    ///
    /// # Errors
    /// The family is unknown, or has no code of these numbers.
    pub fn of_family(family: &str, k: usize, m: usize) -> Result<CodeSpec> {
        let row = crate::codes::family(family)?;
        let numbers = (row.numbers.of)(k, m).map_err(|reason| {
            let spec = format!("{family} with k={k} and m={m}");
            CodeError::Unsupported { spec, reason }
        })?;
        format!("{family}:{}", joined(&numbers)).parse()
    }
}

impl FromStr for CodeSpec {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<CodeSpec> {
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

fn parse(text: &str) -> Result<CodeSpec> {
    let syntax = |reason: &str| CodeError::Syntax { spec: text.into(), reason: reason.into() };
    let (name, rest) = text.split_once(':').ok_or_else(|| match family(text) {
        Ok(_) => syntax("no ':' and chunk numbers after the family"),
        Err(unknown) => unknown,
    })?;
    let family = family(name)?;
    let mut pieces = rest.split(',');
    let numbers = chunk_numbers(family, pieces.next().unwrap_or_default());
    let (numbers, k, m) = numbers.map_err(|reason| syntax(&reason))?;
    let mut options: Vec<(&str, &str)> = Vec::new();
    for piece in pieces {
        let pair = piece.split_once('=').ok_or_else(|| syntax("an option is key=value"))?;
        let pair = (pair.0.trim(), pair.1.trim());
        if options.iter().any(|(key, _)| *key == pair.0) {
            return Err(syntax(&format!("'{}' is given twice", pair.0)));
        }
        options.push(pair);
    }
    let mut words = Words { family: family.name, numbers: &numbers, k, m, options };
    let params = (family.resolve)(&mut words)?;
    if let Some((key, _)) = words.options.first() {
        let known: Vec<&str> = params.iter().map(|p| p.key).collect();
        return Err(CodeError::UnknownKey {
            family: family.name.into(),
            key: (*key).into(),
            known: if known.is_empty() { "none".into() } else { known.join(", ") },
        });
    }
    let spec = CodeSpec { family: family.name, numbers, k, m, params };
    match spec.explicit().len() {
        // Shards carry the explicit form.
        len if len > SPEC_LEN_MAX => Err(syntax(&format!(
            "{len} bytes long with every parameter written out, the limit is {SPEC_LEN_MAX}"
        ))),
        _ => Ok(spec),
    }
}

/// The numbers between the family and its options, and the data and parity chunks they mean.
fn chunk_numbers(family: &CodeFamily, text: &str) -> Result<(Vec<usize>, usize, usize), String> {
    let mut numbers = Vec::new();
    for text in text.split('+') {
        match text.parse::<usize>() {
            Ok(number) if (1..=CHUNKS_MAX).contains(&number) => numbers.push(number),
            _ => {
                return Err(format!(
                    "'{text}' is not a number from 1 to {CHUNKS_MAX}, and k + m is {CHUNKS_MAX} \
                     at most, e.g. {}",
                    family.example
                ));
            }
        }
    }
    let (k, m) = (family.numbers.count)(&numbers)?;
    match k + m {
        ..=CHUNKS_MAX => Ok((numbers, k, m)),
        n => Err(format!(
            "{n} chunks, GF(2^8) allows {CHUNKS_MAX} at most: k is {} at most beside {m} parity \
             chunks",
            CHUNKS_MAX.saturating_sub(m)
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
            ("plugin=isa k=8 m=4 technique=cauchy", "rs:8+4,matrix=isa-cauchy"),
            ("plugin=isa,k=4,m=1,technique=cauchy", "rs:4+1,matrix=isa"),
            ("k=4 m=2 plugin=jerasure technique=reed_sol_r6_op w=8", "rs:4+2,matrix=jerasure-r6"),
            ("plugin=jerasure k=4 m=2 crush-failure-domain=host", "rs:4+2,matrix=jerasure"),
            (
                "plugin=clay k=8 m=4 d=11 scalar_mds=isa technique=reed_sol_van",
                "clay:8+4,mds=isa,coupling=ceph",
            ),
            ("plugin=clay k=4 m=2", "clay:4+2,mds=jerasure,coupling=ceph"),
            (
                "plugin=clay k=4 m=2 technique=cauchy_good packetsize=32",
                "clay:4+2,mds=cauchy-good,packet=2048",
            ),
            (
                "plugin=clay k=8 m=2 d=8 scalar_mds=jerasure technique=liber8tion",
                "clay:8+2,d=8,mds=liber8tion,packet=2048",
            ),
            ("plugin=clay k=12 m=2 scalar_mds=shec", "clay:12+2,mds=jerasure,coupling=ceph"),
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
        assert!(refused("plugin=shec k=4 m=2").contains("known: isa, jerasure, clay, lrc"));
        assert!(refused("plugin=jerasure k=4 m=2 w=16").contains("only w=8"));
        assert!(refused("plugin=jerasure k=4 m=2 technique=magic").contains("blaum_roth"));
        assert!(refused("plugin=clay k=4 m=2 technique=liberation").contains("supported here"));
        assert!(refused("plugin=clay k=4 m=3 technique=liber8tion").contains("2 parity chunks"));
        assert!(refused("plugin=clay k=9 m=2 technique=liber8tion").contains("1 to 8 data chunks"));
        assert!(refused("plugin=clay k=4 m=3 scalar_mds=shec").contains("Ceph itself decodes"));
        assert!(refused("plugin=clay k=13 m=2 scalar_mds=shec").contains("12 data chunks at most"));
        assert!(refused("clay:4+2,mds=cauchy-orig,coupling=kiln").contains("known: ceph"));
        assert!(refused("clay:4+2,packet=2048").contains("it takes: d, mds"));
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
            text in "(rs|clay|rep|rdp|cauchy|lrc|plugin=clay|plugin=lrc)[:, ]?[0-9k=m+,dpwl]{0,30}",
        ) {
            if let Ok(spec) = text.parse::<CodeSpec>() {
                prop_assert_eq!(spec.to_string().parse::<CodeSpec>().unwrap(), spec.clone());
                prop_assert_eq!(spec.explicit().parse::<CodeSpec>().unwrap(), spec);
            }
        }
    }
}
