//! Bytes that are made to hurt: depth, lengths that lie, text that is none.

use std::time::{Duration, Instant};

use loadwire_check::{decode, parse_frames, Reason};

/// A revision-1 reading with one element behind it.
fn with_tail(tail: &[u8]) -> Vec<u8> {
    [b"\x97\xa8LoadStat\x01\x02\x03\x04\x05", tail].concat()
}

/// A million nested arrays, or maps, behind a reading are an unknown element like any other.
#[test]
fn depth_costs_no_stack() {
    for (open, close) in [(&[0x91][..], &[0xc0][..]), (&[0x81, 0x00], &[0xc0]), (&[0x91], &[])] {
        let tail = [open.repeat(1_000_000), close.to_vec()].concat();
        let payload = with_tail(&tail);
        match (decode(&payload), close.is_empty()) {
            (Ok(stat), false) => assert_eq!(stat.num_running_reqs, 1),
            (Err(refusal), true) => {
                assert_eq!(refusal.reason, Reason::Truncated);
                assert_eq!((refusal.offset, refusal.element), (payload.len(), Some(6)));
            }
            (answer, _) => panic!("{answer:?}"),
        }
    }
}

/// Depth in the place of the tag or of a count is refused by what it is, not by its depth.
#[test]
fn depth_in_a_slot_is_a_wrong_type() {
    let nested = [vec![0x91; 1_000_000], vec![0xc0]].concat();
    let tag = [&[0x96][..], &nested, &[1, 2, 3, 4, 5]].concat();
    assert_eq!(decode(&tag).unwrap_err().reason, Reason::BadTag);
    let count = [b"\x96\xa8LoadStat", &nested[..], &[2, 3, 4, 5]].concat();
    let refusal = decode(&count).unwrap_err();
    assert_eq!((refusal.reason, refusal.offset, refusal.element), (Reason::BadType, 10, Some(1)));
}

/// A length of 2^31 or 2^32-1, of any sized format and in any place, is not believed: the answer is
/// that the bytes end, and it comes at once.
#[test]
fn lengths_that_lie_are_truncated() {
    let began = Instant::now();
    for marker in [0xc6u8, 0xc9, 0xdb, 0xdd, 0xdf] {
        for len in [1u32 << 31, u32::MAX] {
            let lie = [&[marker][..], &len.to_be_bytes()].concat();
            let tag = [&[0x96][..], &lie].concat();
            let slot = [b"\x96\xa8LoadStat\x01", &lie[..], b"\x03"].concat();
            for (payload, element) in [(tag, 0), (slot, 2), (with_tail(&lie), 6)] {
                let refusal = decode(&payload).unwrap_err();
                assert_eq!(refusal.reason, Reason::Truncated, "{}", payload.escape_ascii());
                assert_eq!(refusal.element, Some(element));
                assert_eq!(refusal.offset, payload.len());
            }
        }
    }
    for len in [1u32 << 31, u32::MAX] {
        let header =
            [&[0xdd][..], &len.to_be_bytes(), b"\xa8LoadStat\x01\x02\x03\x04\x05"].concat();
        let refusal = decode(&header).unwrap_err();
        assert_eq!((refusal.reason, refusal.element), (Reason::Truncated, Some(6)));
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Containers that announce 2^32-1 elements inside each other cannot overflow what is owed.
#[test]
fn nested_lies_do_not_overflow() {
    for header in [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"] {
        let payload = with_tail(&header.repeat(200_000));
        let refusal = decode(&payload).unwrap_err();
        assert_eq!((refusal.reason, refusal.element), (Reason::Truncated, Some(6)));
    }
}

/// A tag or a topic that is no text is shown escaped, and a long one is cut.
#[test]
fn refusals_show_bytes_safely() {
    let tag = decode(b"\x96\xa8Load\xff\x00\x1b\n\x01\x02\x03\x04\x05").unwrap_err();
    assert_eq!(
        tag.to_string(),
        "bad-tag: expected the string \"LoadStat\", got the string \"Load\\xff\\x00\\x1b\\n\", \
         at byte 1, element 0 (the tag) (rule W1)"
    );
    let long = [b"x".repeat(1000), vec![], vec![]];
    assert_eq!(
        parse_frames(&long).unwrap_err().to_string(),
        "bad-topic: expected the topic \"load\", got the topic \"xxxxxxxxxxxx…\" of 1000 bytes, \
         at byte 0 of frame 0 (rule F2)"
    );
}

/// A message of the KV-event stream on the load port is refused, and the text says what it looks
/// like, whatever topic it has (rule F5).
#[test]
fn a_kv_event_is_named() {
    let batch = b"\x93\xcb\x41\xd9\x00\x00\x00\x00\x00\x00\x90\x00";
    for topic in [&b"kv"[..], b"", b"load"] {
        let refusal = parse_frames(&[topic, &[0; 8], batch]).unwrap_err();
        assert!(refusal.looks_like_kv_events());
        assert!(refusal.to_string().contains("KV-event stream"), "{refusal}");
    }
    let other = parse_frames(&[&b"loadx"[..], &[0; 8], b"\x90"]).unwrap_err();
    assert!(!other.looks_like_kv_events());
}
