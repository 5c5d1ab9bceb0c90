//! The decoder against a naive one, over bytes that nobody thought of.

#[path = "support/msgpack.rs"]
mod msgpack;
#[path = "support/naive.rs"]
mod naive;

use loadwire_check::table::PAYLOADS;
use loadwire_check::{decode_as, encode, Revision};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn compare(bytes: &[u8]) -> Result<(), TestCaseError> {
    for &revision in Revision::ALL {
        let fast = decode_as(bytes, revision);
        let fast = match &fast {
            Ok(stat) => Ok(stat.fields().collect::<Vec<_>>()),
            Err(refusal) => Err((refusal.reason.code(), refusal.offset, refusal.element)),
        };
        let slow = naive::decode(bytes, u64::from(revision.elements()));
        prop_assert_eq!(fast, slow, "{} as {}", bytes.escape_ascii(), revision);
    }
    Ok(())
}

/// A msgpack value in any format, nested a little, with lengths that are sometimes a lie.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let integers = (0xccu8..=0xd3, any::<[u8; 8]>()).prop_map(|(marker, body)| {
        let width = 1 << ((marker - 0xcc) % 4);
        [&[marker][..], &body[..width]].concat()
    });
    let sized =
        (0xc4u8..=0xc9, vec(any::<u8>(), 0..20), any::<Index>()).prop_map(|(marker, body, lie)| {
            let width = 1 << ((marker - 0xc4) % 3);
            let len = if lie.index(8) == 0 { body.len() + 1 } else { body.len() };
            let len = (len as u32).to_be_bytes();
            let kind = if marker >= 0xc7 { vec![1] } else { vec![] };
            [vec![marker], len[4 - width..].to_vec(), kind, body].concat()
        });
    let leaf = prop_oneof![
        4 => (0u8..=0x7f).prop_map(|byte| vec![byte]),
        4 => integers,
        1 => (0xe0u8..=0xff).prop_map(|byte| vec![byte]),
        2 => Just(vec![0xc0]),
        1 => Just(vec![0xc1]),
        1 => (0xc2u8..=0xc3).prop_map(|byte| vec![byte]),
        1 => any::<f64>().prop_map(|float| [&[0xcb][..], &float.to_be_bytes()].concat()),
        1 => any::<f32>().prop_map(|float| [&[0xca][..], &float.to_be_bytes()].concat()),
        1 => vec(any::<u8>(), 0..20).prop_map(|text| [vec![0xd9, text.len() as u8], text].concat()),
        1 => sized,
        1 => (0u32..5, any::<[u8; 17]>()).prop_map(|(power, body)| {
            [&[0xd4 + power as u8][..], &body[..1 + (1 << power)]].concat()
        }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        (prop_oneof![Just(0x90u8), Just(0x80)], vec(inner, 0..4)).prop_map(|(kind, values)| {
            let count = if kind == 0x80 { values.len() / 2 } else { values.len() };
            [vec![kind | count as u8], values.concat()].concat()
        })
    })
}

/// An array that could be a payload: mostly the right tag, mostly counts, any length around the
/// revisions', any header, sometimes one that announces more or less than there is.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop_oneof![
        12 => Just(b"\xa8LoadStat".to_vec()),
        1 => Just(b"\xd9\x08LoadStat".to_vec()),
        1 => Just(b"\xdb\0\0\0\x08LoadStat".to_vec()),
        1 => Just(b"\xc4\x08LoadStat".to_vec()),
        1 => Just(b"\xa9LoadStats".to_vec()),
        1 => value(),
    ];
    let count = prop_oneof![6 => (0u8..=0x7f).prop_map(|byte| vec![byte]), 1 => value()];
    let length = prop_oneof![3 => Just(5usize), 3 => Just(10), 4 => 0usize..20];
    let elements = length.prop_flat_map(move |length| vec(count.clone(), length));
    let behind = prop_oneof![8 => Just(vec![]), 1 => vec(any::<u8>(), 1..4)];
    (tag, elements, 0u8..3, prop_oneof![8 => Just(0i8), 1 => -2i8..=2], behind).prop_map(
        |(tag, elements, width, lie, behind)| {
            let len = (elements.len() + 1).saturating_add_signed(lie.into());
            let header = match width {
                0 if len < 16 => vec![0x90 | len as u8],
                0 | 1 => vec![0xdc, 0, len as u8],
                _ => vec![0xdd, 0, 0, 0, len as u8],
            };
            [header, tag, elements.concat(), behind].concat()
        },
    )
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Remove(Index),
    Insert(Index, u8),
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Markers are what a decoder branches on.
    let byte = prop_oneof![any::<u8>(), 0xc0u8..=0xdf, Just(0x96), Just(0x9b)];
    prop_oneof![
        4 => (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Remove),
        1 => (any::<Index>(), byte).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
    ]
}

fn mutated(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        match *mutation {
            Mutation::Insert(at, byte) => bytes.insert(at.index(bytes.len() + 1), byte),
            _ if bytes.is_empty() => {}
            Mutation::Set(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            Mutation::Remove(at) => {
                bytes.remove(at.index(bytes.len()));
            }
            Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
    bytes
}

fn vector() -> impl Strategy<Value = Vec<u8>> {
    // The few long vectors, all tail, would only slow the run down.
    let forms: Vec<&'static [u8]> = PAYLOADS
        .iter()
        .flat_map(|vector| vector.forms().map(|(_, bytes)| bytes))
        .filter(|bytes| bytes.len() < 1000)
        .collect();
    any::<Index>().prop_map(move |index| forms[index.index(forms.len())].to_vec())
}

fn config() -> ProptestConfig {
    // PROPTEST_CASES raises it; nothing is written into the tree.
    let cases = ProptestConfig::default().cases.max(20_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Arbitrary bytes get the same answer from both, down to offset and element.
    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..120)) {
        compare(&bytes)?;
    }

    /// Arrays that could be payloads get the same answer from both.
    #[test]
    fn near_payloads(bytes in payload()) {
        compare(&bytes)?;
    }

    /// Vectors with a few bytes changed get the same answer from both.
    #[test]
    fn mutated_vectors(bytes in vector(), mutations in vec(mutation(), 0..4)) {
        compare(&mutated(bytes, &mutations))?;
    }

    /// Whatever is read is encoded to bytes that read the same, and no longer than what was read.
    #[test]
    fn what_is_read_can_be_sent(bytes in payload()) {
        if let Ok(stat) = decode_as(&bytes, Revision::LATEST) {
            let encoded = encode(&stat);
            prop_assert!(encoded.len() <= bytes.len());
            prop_assert_eq!(decode_as(&encoded, Revision::LATEST), Ok(stat));
        }
    }
}

/// The naive decoder gives the vectors' own answers, so that an agreement with it means something.
#[test]
fn the_naive_decoder_passes_every_vector() {
    for vector in PAYLOADS {
        for (_, bytes) in vector.forms() {
            compare(bytes).unwrap_or_else(|why| panic!("{}: {why}", vector.id));
        }
    }
}
