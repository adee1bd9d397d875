//! The server of the network block device protocol, fed by a client that says
//! anything: the whole conversation, on one thread, in memory.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use varve_device::MemoryDevice;
use varve_nbd::protocol::{
    CHUNK_MAGIC, Chunk, OPTION_REPLY_MAGIC, OptionReply, REQUEST_MAGIC, RequestHeader,
    SIMPLE_REPLY_MAGIC, chunk, command, option,
};
use varve_nbd::{Ending, Export, ExportOptions, Limits, Transport, serve};
use zerocopy::{FromBytes, IntoBytes};

const DEVICE_BYTES: u64 = 1 << 20;
/// Bits of the first byte of an input.
const GREETED: u8 = 1;
const BEGUN: u8 = 2;
const MENDED: u8 = 4;
const READ_ONLY: u8 = 8;
/// Replies that are kept to be looked at.
const REPLIES_BYTES_MAX: usize = 8 << 20;

/// A client whose words are fixed, and which keeps what it is told.
struct Scripted {
    said: Mutex<(Vec<u8>, usize)>,
    told: Mutex<Vec<u8>>,
}

impl Transport for Scripted {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut said = self.said.lock().expect("no panic while it is held");
        let (bytes, at) = &mut *said;
        // In pieces of uneven length, as a network gives them.
        let most = 1 + *at * 31 % 4099;
        let count = (bytes.len() - *at).min(buffer.len()).min(most);
        buffer[..count].copy_from_slice(&bytes[*at..*at + count]);
        *at += count;
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut told = self.told.lock().expect("no panic while it is held");
        if told.len() + bytes.len() > REPLIES_BYTES_MAX {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        told.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_patience(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self) {}

    fn stop_receiving(&self) {}

    fn peer(&self) -> String {
        "the fuzzer".into()
    }
}

fn option_bytes(kind: u32, data: &[u8]) -> Vec<u8> {
    let head = [&b"IHAVEOPT"[..], &kind.to_be_bytes()].concat();
    [&head[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Up to transmission, with everything agreed on.
fn handshake() -> Vec<u8> {
    let context = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
    [
        option_bytes(option::STRUCTURED_REPLY, &[]),
        option_bytes(option::SET_META_CONTEXT, context),
        option_bytes(option::GO, &[0; 6]),
    ]
    .concat()
}

/// Makes the requests in `bytes` such that more of them are served: magic
/// numbers right, and places and lengths within reach.
fn mend(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(Ok((header, _))) = bytes.get_mut(at..).map(RequestHeader::mut_from_prefix) {
        header.magic = REQUEST_MAGIC.into();
        header.kind = (header.kind.get() % 9).into();
        header.offset = ((header.offset.get() % (DEVICE_BYTES + 4096)) & !511).into();
        header.length = ((header.length.get() % (1 << 19)) & !511).into();
        at += size_of::<RequestHeader>();
        if header.kind.get() == command::WRITE {
            at += header.length.get() as usize;
        }
    }
}

/// A whole conversation.
pub fn conversation(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else {
        return;
    };
    let mut said = Vec::new();
    if flags & (GREETED | BEGUN) != 0 {
        said.extend([0, 0, 0, 3]);
    }
    if flags & BEGUN != 0 {
        said.extend(handshake());
    }
    let fixed = said.len();
    said.extend_from_slice(rest);
    if flags & MENDED != 0 {
        mend(&mut said[fixed..]);
    }
    let options = ExportOptions {
        name: "disk".into(),
        read_only: flags & READ_ONLY != 0,
        ..ExportOptions::default()
    };
    let export = Export::new(Arc::new(MemoryDevice::new(DEVICE_BYTES)), options);
    let limits = Limits {
        // On this thread, so that an input does the same each time.
        in_flight: 1,
        ..Limits::default()
    };
    let client = Scripted {
        said: Mutex::new((said, 0)),
        told: Mutex::default(),
    };
    serve(&client, &export, &limits, &Ending::default());
    let told = client
        .told
        .into_inner()
        .expect("no panic while it was held");
    let told = check_handshake(&told);
    if flags & BEGUN != 0 {
        check_replies(told);
    }
}

/// The greeting and whole answers to options; what follows them.
fn check_handshake(told: &[u8]) -> &[u8] {
    assert_eq!(&told[..18], b"NBDMAGICIHAVEOPT\0\x03");
    let mut rest = &told[18..];
    while rest.starts_with(&OPTION_REPLY_MAGIC.to_be_bytes()) {
        let (head, behind) = OptionReply::read_from_prefix(rest).expect("a whole answer");
        rest = &behind[head.length.get() as usize..];
    }
    rest
}

/// Whole replies, each of a form that is allowed. The last one may be cut short
/// where the client would take no more.
fn check_replies(mut rest: &[u8]) {
    let whole = rest.len() + (1 << 20) < REPLIES_BYTES_MAX;
    while !rest.is_empty() {
        let magic = u32::from_be_bytes(rest[..4].try_into().expect("four"));
        if magic == SIMPLE_REPLY_MAGIC {
            rest = &rest[16..];
            continue;
        }
        assert_eq!(magic, CHUNK_MAGIC);
        let (head, behind) = Chunk::read_from_prefix(rest).expect("a whole head");
        let length = head.length.get() as usize;
        if length > behind.len() && !whole {
            return;
        }
        let payload = &behind[..length];
        rest = &behind[length..];
        match head.kind.get() {
            chunk::NONE => assert_eq!(length, 0),
            chunk::OFFSET_DATA => {
                let at = u64::from_be_bytes(payload[..8].try_into().expect("eight"));
                assert!(length > 8 && at + length as u64 - 8 <= DEVICE_BYTES);
            }
            chunk::BLOCK_STATUS => {
                assert!(length >= 12 && (length - 4).is_multiple_of(8));
                for extent in payload[4..].chunks(8) {
                    assert_ne!(extent[..4], [0; 4], "an empty extent");
                }
            }
            chunk::ERROR => {
                assert_ne!(payload[..4], [0; 4], "a failure that is none");
                let text = u16::from_be_bytes([payload[4], payload[5]]);
                assert_eq!(length, 6 + usize::from(text));
            }
            other => panic!("a chunk of kind {other}"),
        }
    }
}

/// Conversations worth mutating.
pub fn seeds() -> Vec<Vec<u8>> {
    let request = |kind: u16, flags: u16, offset: u64, length: u32| {
        let header = RequestHeader {
            magic: REQUEST_MAGIC.into(),
            flags: flags.into(),
            kind: kind.into(),
            cookie: 7.into(),
            offset: offset.into(),
            length: length.into(),
        };
        header.as_bytes().to_vec()
    };
    let write = [request(command::WRITE, 1, 4096, 1024), vec![5; 1024]].concat();
    let mut many = write.clone();
    for (kind, flags) in [
        (0, 0),
        (3, 0),
        (0, 4),
        (4, 0),
        (6, 2),
        (6, 16),
        (7, 0),
        (7, 8),
    ] {
        let length = if kind == 3 { 0 } else { 8192 };
        many.extend(request(kind, flags, 0, length));
    }
    many.extend(request(command::DISC, 0, 0, 0));
    let mut seeds = Vec::new();
    for flags in 0..16u8 {
        seeds.push([&[flags][..], &many].concat());
        seeds.push([&[flags][..], &write].concat());
    }
    let info = b"\0\0\0\x04disk\0\x02\0\x01\0\x03";
    let list = b"\0\0\0\0\0\0\0\x02\0\0\0\x05base:\0\0\0\x03x:y";
    let options = [
        option_bytes(option::LIST, &[]),
        option_bytes(option::INFO, info),
        option_bytes(option::STRUCTURED_REPLY, &[]),
        option_bytes(option::LIST_META_CONTEXT, list),
        option_bytes(12345, b"what"),
        option_bytes(option::GO, info),
        many.clone(),
    ]
    .concat();
    seeds.push([&[GREETED][..], &options].concat());
    seeds.push([&[0, 0, 0, 0, 3][..], &options].concat());
    let old = [
        &[GREETED][..],
        &option_bytes(option::EXPORT_NAME, b"disk"),
        &many,
    ]
    .concat();
    seeds.push(old);
    seeds
}
