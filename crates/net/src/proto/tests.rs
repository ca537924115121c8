use super::message::MESSAGES;
use super::*;
use proptest::prelude::*;

/// A message as a release wrote it.
struct Vector {
    line: &'static str,
    version: String,
    number: u16,
    body: Vec<u8>,
}

/// One message of each kind, and those that changed once more.
fn vectors() -> Vec<Vector> {
    let lines = include_str!("../../tests/vectors/wire.txt").lines();
    let vector = |line: &'static str| {
        let words: Vec<&str> = line.split(' ').collect();
        let digits = words[2].trim_start_matches('-');
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let body = (0..digits.len()).step_by(2).map(byte).collect();
        Vector { line, version: words[0].to_owned(), number: words[1].parse().unwrap(), body }
    };
    lines.filter(|line| !line.starts_with('#')).map(vector).collect()
}

/// Messages of all kinds, with some of their bytes changed where they are messages then.
fn messages() -> impl Strategy<Value = Message> {
    let changes = proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4);
    (any::<usize>(), changes).prop_map(|(which, changes)| {
        let mut vectors = vectors();
        let Vector { number, body, .. } = vectors.swap_remove(which % vectors.len());
        let take = |body: &[u8]| Message::take(number, &mut Reader::new(body));
        let mut changed = body.clone();
        for (at, byte) in changes.into_iter().filter(|_| !body.is_empty()) {
            changed[at % body.len()] = byte;
        }
        take(&changed).or_else(|_| take(&body)).unwrap()
    })
}

fn frames() -> impl Strategy<Value = Frame> {
    let payload = proptest::collection::vec(any::<u8>(), 0..600);
    (any::<u64>(), 0..3u8, any::<u32>(), messages(), payload).prop_map(
        |(id, priority, deadline_ms, message, payload)| {
            let priority =
                [Priority::Control, Priority::Client, Priority::Repair][usize::from(priority)];
            Frame { id, priority, deadline_ms, message, payload: payload.into() }
        },
    )
}

fn parse(bytes: &[u8], session: u64) -> Result<Frame> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(NetError::protocol("short"));
    };
    let header = Header::parse(header, session)?;
    let Some((body, payload)) = rest.split_at_checked(header.body as usize) else {
        return Err(NetError::protocol("short"));
    };
    Frame::parse(&header, body, Bytes::copy_from_slice(payload))
}

proptest! {
    #[test]
    fn frames_come_back(frame in frames(), session in any::<u64>()) {
        let bytes = frame.encode(session);
        prop_assert_eq!(parse(&bytes, session).unwrap(), frame);
    }

    #[test]
    fn every_change_of_a_byte_is_noticed(
        frame in frames(), session in any::<u64>(), at in any::<usize>(), mask in 1..=255u8,
    ) {
        let mut bytes = frame.encode(session);
        let at = at % bytes.len();
        bytes[at] ^= mask;
        prop_assert!(parse(&bytes, session).is_err());
    }

    #[test]
    fn frames_of_other_sessions_are_refused(
        frame in frames(), a in any::<u64>(), b in any::<u64>(),
    ) {
        prop_assume!(a != b);
        prop_assert!(parse(&frame.encode(a), b).is_err());
    }

    /// Arbitrary bodies: no panic, and what is accepted means what it says.
    #[test]
    fn any_body_is_read_or_refused(
        kind in 0..50u16, body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut reader = Reader::new(&body);
        if let Ok(message) = Message::take(kind, &mut reader) {
            let read = body.len() - reader.take_bytes(0).map_or(0, |_| remaining(&mut reader));
            let mut again = Vec::new();
            message.put(&mut again);
            prop_assert_eq!(&again, &body[..read]);
        }
    }
}

fn remaining(reader: &mut Reader<'_>) -> usize {
    let mut left = 0;
    while reader.u8().is_ok() {
        left += 1;
    }
    left
}

#[test]
fn lengths_beyond_the_limits_are_refused_before_they_are_allocated() {
    let mut frame = Frame::new(1, Message::Data {});
    frame.payload = vec![7; PAYLOAD_MAX + 1].into();
    let bytes = frame.head(5);
    let error = Header::parse(bytes[..HEADER].try_into().unwrap(), 5).unwrap_err();
    assert!(error.to_string().contains("1048577"), "{error}");
    // A list that claims four thousand million names in a body of 5 bytes.
    let body = [255, 255, 255, 255, 0];
    let error = Message::take(4, &mut Reader::new(&body)).unwrap_err();
    assert!(error.to_string().contains("longer than its bytes"), "{error}");
    // A text that is longer than texts may be is cut where a character ends.
    let mut out = Vec::new();
    field::Field::put(&"ü".repeat(4000), &mut out);
    assert_eq!(out.len(), 2 + field::TEXT_MAX);
}

#[test]
fn versions_and_numbers_are_for_ever() {
    let frame = Frame::new(0x0102, Message::Read { handle: 3, offset: 4, len: 5 });
    let mut bytes = frame.encode(0);
    assert_eq!(bytes[..8], [0x4b, 0x4c, 0x4e, 0x57, 1, 1, 6, 0]);
    assert_eq!(bytes[8..20], [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[20..28], [16, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[40..], [3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    bytes[4] = 2;
    assert!(parse(&bytes, 0).unwrap_err().to_string().contains("version 2"));
    let numbers: Vec<u16> = MESSAGES.iter().map(|(number, _)| *number).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u16), "{numbers:?}");
}

/// Messages as every version ever released wrote them.
#[test]
fn messages_of_all_versions_are_read() {
    let mut seen = Vec::new();
    for Vector { line, version, number, body } in vectors() {
        let message = Message::take(number, &mut Reader::new(&body)).unwrap();
        let mut again = Vec::new();
        message.put(&mut again);
        assert_eq!((again, message.since().to_string()), (body, version), "{line}");
        seen.push(number);
    }
    assert!(MESSAGES.iter().all(|(number, _)| seen.contains(number)), "{seen:?}");
    let unknown = [vec![5], vec![0; 67]].concat();
    let unknown = Message::take(25, &mut Reader::new(&unknown)).unwrap_err();
    assert!(unknown.to_string().contains("state 5"), "{unknown}");
}
