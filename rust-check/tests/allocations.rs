//! The decoder's promise that it allocates nothing, held by an allocator that counts.
//!
//! It counts those of this thread alone: the one that runs the tests allocates whenever it likes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use loadwire_check::table::{FRAMES, PAYLOADS};
use loadwire_check::{build_frames, decode_as, encode, parse_frames, Revision};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more, and is not the one that is asked.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Decoding, parsing, encoding and building allocate nothing for any vector, accepted or refused,
/// and nothing for a payload that nests deeply or lies about its length.
#[test]
fn nothing_is_allocated() {
    let deep = [&b"\x97\xa8LoadStat\x01\x02\x03\x04\x05"[..], &[0x91; 100_000], &[0xc0]].concat();
    let lying = b"\xdd\xff\xff\xff\xff\xa8LoadStat\x01\x02\x03\x04\x05\xdb\xff\xff\xff\xff";
    assert!(allocations(|| drop(black_box(vec![1u8]))) > 0, "the counter counts");

    let count = allocations(|| {
        for vector in PAYLOADS {
            for (_, payload) in vector.forms() {
                for &revision in Revision::ALL {
                    if let Ok(stat) = black_box(decode_as(black_box(payload), revision)) {
                        black_box(encode(&stat));
                    }
                }
            }
        }
        for vector in FRAMES {
            if let Ok(message) = black_box(parse_frames(black_box(vector.frames))) {
                let _ = black_box(build_frames(message.sequence, &message.stat));
            }
        }
        for payload in [&deep[..], lying] {
            let _ = black_box(decode_as(black_box(payload), Revision::LATEST));
        }
    });
    assert_eq!(count, 0);
}
