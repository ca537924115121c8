//! `kiln advise`: which codes suit machines and data.

use crate::rig::Rig;

#[test]
fn a_recommendation_meets_the_wishes_and_names_what_decides() {
    let rig = Rig::new();
    let words = "advise --nodes 14 --data 60TB --lose 3 --nines 9 --overhead 1.5 --json";
    let report = rig.kiln(words).ok().json();
    let best = report["recommended"].as_str().unwrap();
    let rows = report["codes"].as_array().unwrap();
    assert_eq!(rows[0]["code"], best);
    for row in rows {
        assert!(row["nines"].as_f64().unwrap() >= 9.0, "{row}");
        assert!(row["survives"].as_u64().unwrap() >= 3, "{row}");
        assert!(row["stored"].as_f64().unwrap() <= 1.5, "{row}");
        assert!(row["repair_hours"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["nines_if_doubled"].as_f64() < row["nines"].as_f64(), "{row}");
        // Nothing that is shown is beaten by the recommendation.
        assert!(row["stored"].as_f64() >= rows[0]["stored"].as_f64(), "{row}");
    }
    let text = rig.kiln(&words.replace(" --json", "")).ok();
    for part in ["decides: doubled", "assumed: 1.40 % of the nodes fail in a year"] {
        assert!(text.stdout.contains(part), "{}", text.stdout);
    }
}

#[test]
fn wishes_that_no_code_meets_are_answered_with_the_nearest() {
    let rig = Rig::new();
    let outcome = rig.kiln("advise --nodes 6 --data 1TB --lose 2 --overhead 1.2");
    let text = outcome.code(3).stdout;
    assert!(text.starts_with("no code meets the wishes; nearest is"), "{text}");
    assert!(text.contains("for 1.2"), "{text}");
    let full = rig.kiln("advise --nodes 14 --data 100TB --node-size 1TB").code(3).stdout;
    assert!(full.contains("a node for"), "{full}");
    // Twice the failures would be more than repairs keep up with.
    for failures in [20, 40, 400] {
        let words = format!("advise --nodes 14 --data 6000TB --failures {failures} --lose 3");
        let text = rig.kiln(&words).code(3).stdout;
        assert!(text.starts_with("no code meets the wishes") && !text.contains("-0.0"), "{text}");
    }
    let few = rig.kiln("advise --nodes 3 --data 1TB --lose 3").code(3).stdout;
    assert!(few.contains("any 2 may be lost, not 3"), "{few}");
    let wide = rig.kiln("advise --nodes 9 --data 1TB --code rs:100+9").code(3).stdout;
    assert!(wide.contains("needs 109 nodes"), "{wide}");
    rig.kiln("advise --nodes 9 --data 1TB --code nonsense").fails(3, &["nonsense"]);
    rig.kiln("advise --nodes 1 --data 1TB").fails(3, &["--nodes"]);
    rig.kiln("advise --nodes 9 --data 1TB --failures 0").fails(3, &["--failures"]);
}

#[test]
fn codes_that_are_asked_for_are_compared_and_played() {
    let rig = Rig::new();
    let words = "advise --nodes 9 --data 2TB --failures 40 --nines 2 --code rs:4+2 --code clay:4+2";
    let report = rig.kiln(&format!("{words} --simulate --json")).ok().json();
    assert_eq!(report["codes"].as_array().unwrap().len(), 2);
    let (played, solved) = (&report["simulated"]["nines"], &report["codes"][0]["nines"]);
    let apart = played.as_f64().unwrap() - solved.as_f64().unwrap();
    assert!(apart.abs() < 0.5, "{played} played, {solved} solved");
}
