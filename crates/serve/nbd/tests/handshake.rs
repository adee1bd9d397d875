//! The handshake, option by option, byte by byte.

use crate::support::{Running, go, meta};
use std::io::Write;
use std::sync::Arc;
use varve_device::MemoryDevice;
use varve_nbd::protocol::{answer, info, option, transmission};
use varve_nbd::{ExportOptions, Limits};

const SIZE: u64 = 1 << 20;

fn named() -> Running {
    let options = ExportOptions {
        name: "disk".into(),
        description: "for tests".into(),
        read_only: false,
        rotational: true,
    };
    Running::with(
        Arc::new(MemoryDevice::new(SIZE)),
        options,
        Limits::default(),
    )
}

#[test]
fn the_export_is_listed_and_described() {
    let server = named();
    let mut client = server.client();
    client.greet(3);
    let (end, found) = client.ask(option::LIST, &[]);
    let entry = b"\0\0\0\x04diskfor tests".to_vec();
    assert_eq!((end, found), (answer::ACK, vec![(answer::SERVER, entry)]));
    assert_eq!(client.ask(option::LIST, b"x").0, answer::ERR_INVALID);

    let kinds = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 77];
    let (end, items) = client.ask(option::INFO, &go("disk", &kinds));
    assert_eq!(end, answer::ACK);
    let item = |kind: u16| {
        let found = items
            .iter()
            .find(|(_, data)| data[..2] == kind.to_be_bytes());
        found.map(|(_, data)| data[2..].to_vec())
    };
    assert_eq!(items.len(), 4);
    assert_eq!(item(info::NAME).unwrap(), b"disk");
    assert_eq!(item(info::DESCRIPTION).unwrap(), b"for tests");
    let sizes = [512u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
    assert_eq!(item(info::BLOCK_SIZE).unwrap(), sizes);
    let export = item(info::EXPORT).unwrap();
    assert_eq!(export[..8], SIZE.to_be_bytes());
    let flags = u16::from_be_bytes([export[8], export[9]]);
    let multi = transmission::CAN_MULTI_CONN | transmission::ROTATIONAL;
    assert_eq!(flags & (multi | transmission::READ_ONLY), multi);
    assert_eq!(
        flags & transmission::SEND_DF,
        0,
        "not before structured replies"
    );

    assert_eq!(
        client.ask(option::INFO, &go("other", &[])).0,
        answer::ERR_UNKNOWN
    );
    assert_eq!(
        client.ask(option::GO, &go("other", &[])).0,
        answer::ERR_UNKNOWN
    );
    assert_eq!(client.ask(option::GO, b"short").0, answer::ERR_INVALID);
    // After every error the handshake continues.
    assert_eq!(client.ask(option::GO, &go("", &[])).0, answer::ACK);
    assert_eq!(client.read(0, 512), [0; 512]);
}

#[test]
fn unknown_options_are_refused_and_the_client_may_end() {
    let server = named();
    let mut client = server.client();
    client.greet(1);
    // STARTTLS, PEEK_EXPORT, EXTENDED_HEADERS and unassigned numbers.
    for unknown in [5, 4, 11, 12345, u32::MAX] {
        assert_eq!(client.ask(unknown, b"data").0, answer::ERR_UNSUP);
    }
    assert_eq!(
        client.ask(option::STRUCTURED_REPLY, b"x").0,
        answer::ERR_INVALID
    );
    assert_eq!(client.ask(option::ABORT, b"ignored").0, answer::ACK);
    assert!(client.is_closed());
    server.settle();
    assert_eq!(server.count("connections_broken"), 0);
}

#[test]
fn the_old_way_in_has_its_padding_unless_it_is_waived() {
    let server = named();
    for (flags, padding) in [(1, 124), (3, 0), (0, 124)] {
        let mut client = server.client();
        client.greet(flags);
        client.send_option(option::EXPORT_NAME, b"");
        assert_eq!(client.take(), SIZE.to_be_bytes());
        let _flags: [u8; 2] = client.take();
        assert!(client.bytes(padding).iter().all(|&byte| byte == 0));
        client.write(512, &[7; 512]);
        assert_eq!(client.read(512, 512), [7; 512]);
    }
    let mut client = server.client();
    client.greet(3);
    client.send_option(option::EXPORT_NAME, b"other");
    assert!(client.is_closed(), "there is no other way to say no");
}

#[test]
fn contexts_are_listed_and_set() {
    let server = named();
    let mut client = server.client();
    client.greet(3);
    let all = meta("", &["base:allocation"]);
    assert_eq!(
        client.ask(option::SET_META_CONTEXT, &all).0,
        answer::ERR_INVALID
    );
    assert_eq!(client.ask(option::STRUCTURED_REPLY, &[]).0, answer::ACK);
    let context = |id: u32| {
        let data = [&id.to_be_bytes()[..], b"base:allocation"].concat();
        (answer::ACK, vec![(answer::META_CONTEXT, data)])
    };
    for queries in [&[][..], &["base:"], &["qemu:", "base:allocation"]] {
        assert_eq!(
            client.ask(option::LIST_META_CONTEXT, &meta("disk", queries)),
            context(0)
        );
    }
    let nothing = (answer::ACK, vec![]);
    for queries in [&[][..], &["base:"], &["base:other", "x-y:z"]] {
        assert_eq!(
            client.ask(option::SET_META_CONTEXT, &meta("", queries)),
            nothing
        );
    }
    assert_eq!(
        client.ask(option::LIST_META_CONTEXT, &meta("no", &[])).0,
        answer::ERR_UNKNOWN
    );
    assert_eq!(client.ask(option::SET_META_CONTEXT, &all), context(1));
    // A failed option clears the earlier selection.
    assert_eq!(
        client.ask(option::SET_META_CONTEXT, b"\0\0").0,
        answer::ERR_INVALID
    );
    assert_eq!(client.ask(option::GO, &go("", &[])).0, answer::ACK);
    client.structured = true;
    assert_eq!(client.call(7, 0, 0, 4096, &[]).error, 22);
}

#[test]
fn what_breaks_the_rules_ends_the_connection() {
    let server = named();
    let bad: [&[u8]; 4] = [
        &[0, 0, 0, 4],                                   // an unknown client flag
        b"\0\0\0\x03IHAVENOT\0\0\0\x03\0\0\0\0",         // no magic number
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff", // four gigabytes
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x05wrong",  // an unknown name
    ];
    for bytes in bad {
        let mut client = server.client();
        let _greeting: [u8; 18] = client.take();
        client.stream.write_all(bytes).unwrap();
        assert!(client.is_closed(), "{bytes:?}");
    }
    server.settle();
    assert_eq!(server.count("connections_broken"), bad.len() as u64);
}
