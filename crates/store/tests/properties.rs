//! Properties: geometry against a naive walk, round trips, and parsers that never panic.

mod common;

use common::*;
use kiln_store::{
    Layout, MemoryBackend, ShardInfo, ShardReader, ShardWriter, SumKind, digest_of, valid_segments,
};
use proptest::prelude::*;

/// Small geometries, with sizes of up to 40 stripes.
fn infos() -> impl Strategy<Value = (ShardInfo, u64)> {
    (1u16..5, 0u16..4, 1u32..9, 1u32..70, 1u32..6, 0u64..40, any::<u64>(), any::<bool>()).prop_map(
        |(k, m, alpha, sub_chunk, segment_stripes, stripes, rest, streamed)| {
            let stripe = u64::from(k) * u64::from(alpha) * u64::from(sub_chunk);
            let size = stripes * stripe + rest % stripe;
            let (n, index) = (k + m, (rest % u64::from(k + m)) as u16);
            let size_told = (!streamed).then_some(size);
            let base = small(size_told);
            (ShardInfo { k, n, index, alpha, sub_chunk, segment_stripes, ..base }, size)
        },
    )
}

/// Reads all that opens, without looking at the result: only a panic can fail it.
fn exercise(bytes: Vec<u8>) {
    let disk = disk_with(bytes);
    let _ = valid_segments(&disk, NAME, &small(None));
    let Ok(mut reader) = ShardReader::open(&disk, NAME) else { return };
    if reader.size().is_none() {
        let _ = reader.with_size(10_000);
    }
    let layout = reader.layout().clone();
    // A header can promise 2^60 bytes; the file has a few thousand, and so has the memory.
    let _ = layout.segments() > 1000 || digest_of(&reader).is_ok();
    let _ = (layout.data_bytes(), layout.trailer_offset());
    for stripe in (0..layout.stripes()).take(8).chain(layout.stripes().checked_sub(1)) {
        let _ = reader.sums(stripe);
        if layout.chunk_len(stripe) <= 1 << 20 {
            let _ = read_chunk(&reader, stripe);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layout_is_what_a_walk_finds((info, size) in infos()) {
        let layout = ShardInfo { size: Some(size), ..info.clone() }.layout().unwrap();
        let (k, alpha) = (u64::from(info.k), u64::from(info.alpha));
        let stripe_bytes = k * alpha * u64::from(info.sub_chunk);
        let (mut at, mut left, mut stripe, mut segment) = (4096, size, 0u64, 0);
        let mut entries = 0;
        // Where segments end, and the stripes before: all that a file cut there still has.
        let (mut ends, mut tables) = (vec![(4096, 0)], 0);
        while left > 0 {
            let covered = left.min(stripe_bytes);
            prop_assert_eq!(layout.stripe_bytes(stripe), covered);
            prop_assert_eq!(layout.stripe_start(stripe), size - left);
            prop_assert_eq!(layout.segment_of(stripe), segment);
            let sub_len = layout.sub_len(stripe) as u64;
            if covered == stripe_bytes {
                prop_assert_eq!(sub_len, u64::from(info.sub_chunk));
            } else {
                let padded = covered.div_ceil(k * alpha).next_multiple_of(16);
                prop_assert_eq!(sub_len, padded.min(u64::from(info.sub_chunk)));
            }
            prop_assert!(sub_len * alpha * k >= covered);
            for sub in 0..info.alpha {
                prop_assert_eq!(layout.offset(stripe, sub), at);
                at += sub_len;
            }
            left -= covered;
            entries += alpha;
            stripe += 1;
            if left == 0 || stripe.is_multiple_of(u64::from(info.segment_stripes)) {
                prop_assert_eq!(layout.table(segment), (at, 4 * entries + 4));
                at += 4 * entries + 4;
                tables += 4 * entries + 4;
                ends.push((at, stripe));
                let padding = if left == 0 { 0 } else { at.next_multiple_of(4096) - at };
                prop_assert_eq!(layout.padding(segment), padding);
                at += padding;
                (entries, segment) = (0, segment + 1);
            }
        }
        prop_assert_eq!((layout.stripes(), layout.segments()), (stripe, segment));
        prop_assert_eq!(layout.trailer_offset(), at);
        prop_assert_eq!(layout.tables_bytes(), tables);
        for (end, _) in &ends {
            for cut in [end - 1, *end, end + 1, end + 4095] {
                let there = ends.iter().rev().find(|(end, _)| *end <= cut);
                let stripes = there.map_or(0, |(_, stripes)| *stripes);
                prop_assert_eq!(layout.stripes_within(cut), stripes);
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back((info, size) in infos()) {
        let disk = MemoryBackend::new();
        write(&disk, &info, size).unwrap();
        prop_assert_eq!(verify(&disk, NAME), Ok(()));
        let streamed = image(&ShardInfo { size: None, ..info.clone() }, size);
        let known = image(&ShardInfo { size: Some(size), ..info.clone() }, size);
        prop_assert_eq!(&streamed[4096..], &known[4096..]);
    }

    #[test]
    fn any_runs_read_verify((info, size) in infos(), cuts in any::<u64>()) {
        let disk = MemoryBackend::new();
        write(&disk, &info, size).unwrap();
        let reader = ShardReader::open(&disk, NAME).unwrap();
        for stripe in 0..reader.layout().stripes() {
            let wanted = |sub: &u32| (cuts >> ((stripe + u64::from(*sub)) % 64)) & 1 == 1;
            let runs: Vec<_> = (0..info.alpha).filter(wanted).map(|sub| sub..sub + 1).collect();
            let sub_len = reader.layout().sub_len(stripe);
            let mut buf = vec![0; runs.len() * sub_len];
            let cost = reader.read_runs(stripe, &runs, &mut buf).unwrap();
            prop_assert_eq!(cost.data_bytes, buf.len() as u64);
            prop_assert_eq!(cost.runs, runs.len() as u64);
            let whole = chunk(stripe, reader.layout().chunk_len(stripe));
            for (run, piece) in runs.iter().zip(buf.chunks(sub_len)) {
                let start = run.start as usize * sub_len;
                prop_assert_eq!(piece, &whole[start..start + sub_len]);
            }
        }
    }

    #[test]
    fn interrupted_parts_resume_to_the_same_bytes(
        (info, size) in infos(), stop in 0u64..45, cut in any::<u64>(), max in 0u64..50,
    ) {
        let disk = MemoryBackend::new();
        let mut writer = ShardWriter::create(&disk, PART, &info).unwrap();
        let layout = ShardInfo { size: Some(size), ..info.clone() }.layout().unwrap();
        append(&mut writer, info.sums, &layout, stop.min(layout.stripes())).unwrap();
        drop(writer);
        let mut bytes = disk.bytes(PART).unwrap();
        bytes.truncate((cut % (bytes.len() as u64 + 1)) as usize);
        disk.put(PART, bytes.clone());
        let valid = valid_segments(&disk, PART, &info).unwrap();
        let per_segment = u64::from(info.segment_stripes);
        let kept = valid.min(max / per_segment) * per_segment;
        prop_assert!(ShardWriter::at(&disk, PART, &info, (valid + 1) * per_segment).is_err());
        disk.put(PART, bytes);
        let writer = match cut % 2 {
            0 => ShardWriter::resume(&disk, PART, &info, max).unwrap(),
            _ => ShardWriter::at(&disk, PART, &info, kept).unwrap(),
        };
        prop_assert_eq!(writer.stripes(), kept);
        prop_assert!(writer.stripes() <= stop);
        complete(writer, &info, size).unwrap();
        prop_assert_eq!(disk.bytes(PART).unwrap(), image(&info, size));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        exercise(bytes);
    }

    #[test]
    fn mutated_shards_never_panic(
        edits in prop::collection::vec((any::<u16>(), any::<u8>()), 1..8),
        cut in any::<u16>(), streamed in any::<bool>(),
    ) {
        let mut bytes = image(&small((!streamed).then_some(868)), 868);
        for (at, value) in edits {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        if cut % 4 == 0 {
            bytes.truncate(usize::from(cut) % (bytes.len() + 1));
        }
        exercise(bytes);
    }

    #[test]
    fn forged_fields_with_right_checksums_never_panic(
        edits in prop::collection::vec((8usize..100, any::<u8>(), 0u8..3), 1..5),
        streamed in any::<bool>(),
    ) {
        let mut bytes = image(&small((!streamed).then_some(868)), 868);
        let trailer = bytes.len() - 24 - RECORD;
        for (at, value, place) in edits {
            match place {
                0 => bytes[at] = value,
                1 => bytes[trailer + at] = value,
                _ => (bytes[at], bytes[trailer + at]) = (value, value),
            }
        }
        reseal(&mut bytes, RECORD);
        exercise(bytes);
    }

    #[test]
    fn layouts_never_overflow(
        k in any::<u16>(), alpha in any::<u32>(), sub_chunk in any::<u32>(),
        stripes in any::<u32>(), shift in 0u32..32, size in any::<Option<u64>>(),
    ) {
        let (alpha, stripes) = (alpha >> shift, stripes >> shift);
        let sub_chunk = sub_chunk >> (31 - shift);
        if let Ok(layout) = Layout::new(k % 300, alpha, sub_chunk, stripes, size, SumKind::Crc32c) {
            prop_assert!(layout.trailer_offset() < 1 << 63);
            if let Some(last) = layout.stripes().checked_sub(1) {
                prop_assert!(layout.offset(last, alpha - 1) < layout.trailer_offset());
                prop_assert!(layout.stripe_start(last) < u64::MAX / 2);
                prop_assert!(layout.data_bytes() < layout.trailer_offset());
            }
        }
    }
}
