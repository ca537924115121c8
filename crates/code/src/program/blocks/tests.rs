use super::*;
use crate::Codec;
use kiln_gf::{Call, KernelProgram, Side, available};

/// A kernel that makes code of blocks, where this machine has one.
fn kernel() -> Option<&'static dyn Kernel> {
    let kernel = available().into_iter().find(|kernel| kernel.compiles_blocks());
    if kernel.is_none() {
        eprintln!("SKIPPED: no kernel here compiles blocks");
    }
    kernel
}

/// Returns whether a program computes what the DAG does.
fn is_right(source: ProgramSource, buffers: Buffers, dag: &Dag) -> bool {
    let inputs: Vec<u8> = (0..dag.inputs().len()).map(|i| (i * 37 + i / 251 + 5) as u8).collect();
    let made = KernelProgram::new(source, buffers).unwrap().eval(&inputs).unwrap();
    made == dag.eval(&inputs).unwrap()
}

#[test]
fn whole_accs_of_a_code_share_two_pieces_of_code() {
    let Some(kernel) = kernel() else { return };
    let codec = Codec::new(&"clay:10+4".parse().unwrap()).unwrap();
    let plan = codec.encode_plan().unwrap();
    let dag = plan.dag();
    let (source, buffers) = compile(dag, kernel, Dataflow::OutputStationary).unwrap().unwrap();
    // Companions of the section with two virtual nodes are there, or are not.
    assert_eq!(source.routines.len(), 2);
    assert!(source.calls.iter().all(|call| matches!(call, Call::Each { .. })));
    assert_eq!(source.calls.len(), 2);
    // Four layers of one chunk lie behind each other: a list names one of them.
    let most = source.routines.iter().map(|routine| routine.block().named().count()).max();
    assert!(most.unwrap() <= 12 + 10 + 4 + 1, "{most:?}");
    // Nothing lies in scratch.
    assert_eq!(buffers.scratch, 0);
    assert!(is_right(source, buffers, dag));
}

#[test]
fn parts_of_accs_load_every_input_once() {
    let Some(kernel) = kernel() else { return };
    let codec = Codec::new(&"clay:8+4".parse().unwrap()).unwrap();
    let plan = codec.encode_plan().unwrap();
    let (source, _) = compile(plan.dag(), kernel, Dataflow::InputStationary).unwrap().unwrap();
    // Two sections of data, and the parities: each with all its repetitions.
    assert_eq!(source.calls.len(), 3);
    let mut loads = vec![0; plan.dag().inputs().len()];
    let alpha = codec.shape().alpha;
    for call in &source.calls {
        let Call::Block { operands, shifts, .. } = call else { panic!("{call:?}") };
        for shift in &source.shifts[shifts.start as usize..shifts.end as usize] {
            for unit in &source.operands[operands.start as usize..operands.end as usize] {
                if unit.region < 8 {
                    loads[unit.region as usize * alpha + (unit.unit + shift.inputs) as usize] += 1;
                }
            }
        }
    }
    assert!(loads.iter().all(|&loads| loads == 1));
}

#[test]
fn streamed_parities_are_made_beside_products() {
    let Some(kernel) = kernel() else { return };
    for spec in ["clay:8+4", "clay:10+4", "clay:6+3,d=7"] {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let plan = codec.encode_plan().unwrap();
        let dag = plan.dag();
        let parities = |dataflow| {
            let (source, buffers) = compile(dag, kernel, dataflow).unwrap().unwrap();
            let mut by = [0, 0];
            for call in &source.calls {
                let Call::Block { routine, shifts, .. } = call else { panic!("{call:?}") };
                let sides = source.routines[*routine as usize].block().sides();
                let count = |wanted| sides.iter().filter(|&&side| side == wanted).count();
                by[usize::from(count(Side::Input) > 0)] += shifts.len() * count(Side::Output);
            }
            assert!(is_right(source, buffers, dag), "{spec}");
            by
        };
        let [alone, beside] = parities(Dataflow::InputStationary);
        let [left, more] = parities(Dataflow::Streamed);
        assert_eq!(alone + beside, left + more);
        assert!(alone > 0 && left * 4 <= alone, "{spec}: {left} of {alone} are left");
    }
}
