//! A client of network block devices that sends whatever it likes: every option is answered, and no
//! request passes that does not lie within the export.

use kiln_nbd::{About, Command, Handshake, MAX_PAYLOAD, Next, REQUEST, Request};

const SIZE: u64 = 1 << 20;

pub fn run(input: &[u8]) {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let about = About { name: "disk".to_owned(), size: SIZE, read_only: kind & 1 == 1 };
    let mut handshake = Handshake::new(about, kind & 2 == 2);
    let mut out = Vec::new();
    // Options: kind, length, data.
    while let Some((&[kind, len], data)) = rest.split_first_chunk::<2>() {
        let (data, more) = data.split_at(data.len().min(len.into()));
        let said = out.len();
        match handshake.option(kind.into(), data, &mut out) {
            Next::Option => assert!(out.len() > said, "an option without an answer"),
            Next::Tls => handshake.encrypted(),
            Next::Transmission | Next::End => {
                rest = more;
                break;
            }
        }
        rest = more;
    }
    for bytes in rest.chunks_exact(REQUEST) {
        let Ok(bytes) = bytes.try_into() else { return };
        let Some(request) = Request::parse(bytes) else { continue };
        if request.check(SIZE, false).is_err() {
            continue;
        }
        let free = matches!(request.command, Command::Flush | Command::Disconnect);
        let end = request.offset.checked_add(request.len.into());
        assert!(free || end.is_some_and(|end| end <= SIZE));
        let with_data = matches!(request.command, Command::Read | Command::Write);
        assert!(!with_data || request.len <= MAX_PAYLOAD);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let go = [&[7, 10, 0, 0, 0, 4][..], b"disk", &[0, 0]].concat();
    let context = [&[10, 27, 0, 0, 0, 4][..], b"disk", &[0, 0, 0, 1, 0, 0, 0, 15]].concat();
    let context = [&context[..], b"base:allocation"].concat();
    let request = [&0x2560_9513u32.to_be_bytes()[..], &[0; 20], &[0, 0, 16, 0]].concat();
    let all = [&[0, 8, 0][..], &context, &go, &request].concat();
    vec![all, [&[2, 5, 0, 3, 0][..], &go].concat(), [&[1, 1, 4][..], b"disk", &request].concat()]
}
