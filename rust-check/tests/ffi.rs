//! The C ABI: from Rust with pointers that no C program should pass, and from a C program.

use std::env;
use std::ffi::{CStr, CString};
use std::fs;
use std::mem::{align_of, size_of, zeroed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};

use loadwire_check::ffi::{
    loadwire_abi_version, loadwire_decode, loadwire_decode_as, loadwire_encode,
    loadwire_implementation, loadwire_parse_frames, loadwire_policy, loadwire_revision, CReading,
    CRefusal, ABI_VERSION, BAD_CALL, OK, REFUSED,
};
use loadwire_check::table::{FRAMES, PAYLOADS};
use loadwire_check::{decode_as, encode, parse_frames, Policy, Reason, Revision};

const READING: CReading = CReading { revision: 9, elements: 9, nil_mask: 9, values: [9; 32] };
const REFUSAL: CRefusal = CRefusal { reason: 9, frame: 9, element: 9, reserved: 9, offset: 9 };

/// Every form of every vector has the same answer through the C ABI as in Rust, and encodes to the
/// same bytes.
#[test]
fn every_vector_crosses_the_boundary() {
    for vector in PAYLOADS {
        for (_, payload) in vector.forms() {
            for &revision in Revision::ALL {
                let (mut out, mut refusal) = (READING, REFUSAL);
                // SAFETY: a slice and two locals.
                let status = unsafe {
                    loadwire_decode_as(
                        payload.as_ptr(),
                        payload.len(),
                        revision.number(),
                        &mut out,
                        &mut refusal,
                    )
                };
                match decode_as(payload, revision) {
                    Ok(stat) => {
                        assert_eq!((status, out), (OK, CReading::from(&stat)), "{}", vector.id);
                        assert_eq!((refusal.reason, refusal.frame, refusal.element), (0, -1, -1));
                        let (mut buffer, mut written) = ([0; 100], 9);
                        // SAFETY: a local of the length that is told.
                        let status = unsafe {
                            loadwire_encode(&out, buffer.as_mut_ptr(), buffer.len(), &mut written)
                        };
                        assert_eq!(status, OK);
                        assert_eq!(&buffer[..written], encode(&stat).as_bytes());
                    }
                    Err(why) => {
                        assert_eq!((status, out), (REFUSED, READING), "{}", vector.id);
                        assert_eq!(refusal, CRefusal::from(&why), "{}", vector.id);
                    }
                }
            }
        }
    }
}

/// Every frame vector has the same answer through the C ABI as in Rust.
#[test]
fn every_message_crosses_the_boundary() {
    for vector in FRAMES {
        let frames: Vec<_> = vector.frames.iter().map(|frame| frame.as_ptr()).collect();
        let lens: Vec<_> = vector.frames.iter().map(|frame| frame.len()).collect();
        let (mut sequence, mut out, mut refusal) = (-9, READING, REFUSAL);
        // SAFETY: two vectors of slices and their lengths, and three locals.
        let status = unsafe {
            loadwire_parse_frames(
                frames.as_ptr(),
                lens.as_ptr(),
                frames.len(),
                &mut sequence,
                &mut out,
                &mut refusal,
            )
        };
        match parse_frames(vector.frames) {
            Ok(message) => {
                assert_eq!((status, out), (OK, CReading::from(&message.stat)), "{}", vector.id);
                assert_eq!(sequence as u64, message.sequence);
            }
            Err(why) => {
                assert_eq!((status, sequence, out), (REFUSED, -9, READING), "{}", vector.id);
                assert_eq!(refusal, CRefusal::from(&why), "{}", vector.id);
            }
        }
    }
}

/// Null and misaligned pointers, and a revision that does not exist, are a bad call that touches
/// nothing; an empty payload may be null.
#[test]
fn bad_pointers_are_a_bad_call() {
    let payload = PAYLOADS[0].payload;
    let (data, len) = (payload.as_ptr(), payload.len());
    let (mut out, mut refusal) = (READING, REFUSAL);
    let (o, r): (*mut CReading, *mut CRefusal) = (&mut out, &mut refusal);
    // SAFETY: every pointer is null, misaligned (and so not followed) or that of a local.
    unsafe {
        assert_eq!(loadwire_decode(null(), len, o, r), BAD_CALL);
        assert_eq!(loadwire_decode(data, len, null_mut(), r), BAD_CALL);
        assert_eq!(loadwire_decode(data, len, o, null_mut()), BAD_CALL);
        assert_eq!(loadwire_decode(data, usize::MAX, o, r), BAD_CALL);
        assert_eq!(loadwire_decode(data, len, o.cast::<u8>().add(1).cast(), r), BAD_CALL);
        assert_eq!(loadwire_decode(data, len, o, r.cast::<u8>().add(4).cast()), BAD_CALL);
        for revision in [0, 3, u32::MAX] {
            assert_eq!(loadwire_decode_as(data, len, revision, o, r), BAD_CALL);
        }
        assert_eq!((out, refusal), (READING, REFUSAL));
        assert_eq!(loadwire_decode(null(), 0, &mut out, &mut refusal), REFUSED);
    }
    assert_eq!((out, refusal.reason), (READING, Reason::Truncated.number()));
}

/// Frames may be null where there are none or they are empty, and are not looked at when their
/// number is wrong.
#[test]
fn bad_frames_are_a_bad_call() {
    let (mut sequence, mut out, mut refusal) = (-9, READING, REFUSAL);
    let (s, o, r): (*mut i64, *mut CReading, *mut CRefusal) =
        (&mut sequence, &mut out, &mut refusal);
    let wild = 1 as *const u8;
    // SAFETY: the wild pointers are not followed, which is what this test is about; the rest is null
    // or that of a local.
    unsafe {
        let lens = [4usize, 8, 11, 2];
        let frames = [b"load".as_ptr(), null(), null(), wild];
        assert_eq!(loadwire_parse_frames(null(), lens.as_ptr(), 3, s, o, r), BAD_CALL);
        assert_eq!(loadwire_parse_frames(frames.as_ptr(), null(), 3, s, o, r), BAD_CALL);
        assert_eq!(loadwire_parse_frames(frames.as_ptr(), lens.as_ptr(), 3, s, o, r), BAD_CALL);
        let (f, l) = (frames.as_ptr(), lens.as_ptr());
        assert_eq!(loadwire_parse_frames(f, l, 3, null_mut(), o, r), BAD_CALL);
        assert_eq!(loadwire_parse_frames(f, l, usize::MAX, s, o, r), BAD_CALL);
        assert_eq!((sequence, out, refusal), (-9, READING, REFUSAL));

        for count in [2, 4] {
            let wild = [wild; 4];
            assert_eq!(loadwire_parse_frames(wild.as_ptr(), l, count, s, o, r), REFUSED);
            assert_eq!(refusal.reason, Reason::FrameCount.number());
        }
        assert_eq!(loadwire_parse_frames(null(), null(), 0, s, o, r), REFUSED);
        assert_eq!((refusal.reason, refusal.frame), (Reason::FrameCount.number(), -1));
        let empty = [0usize; 3];
        assert_eq!(loadwire_parse_frames(frames.as_ptr(), empty.as_ptr(), 3, s, o, r), REFUSED);
        assert_eq!((refusal.reason, refusal.frame), (Reason::BadTopic.number(), 0));
    }
    assert_eq!((sequence, out), (-9, READING));
}

/// Encoding refuses what no engine could send and a buffer that is too small, and says that
/// nothing was written.
#[test]
fn bad_readings_are_a_bad_call() {
    let stat = decode_as(PAYLOADS[0].payload, Revision::V1).expect("a golden");
    let good = CReading::from(&stat);
    let len = encode(&stat).len();
    let mut buffer = [9u8; 100];
    let mut call = |reading: *const CReading, capacity: usize| {
        let mut written = 9;
        // SAFETY: a reading that is null or a local, and a buffer of at least that capacity.
        let status =
            unsafe { loadwire_encode(reading, buffer.as_mut_ptr(), capacity, &mut written) };
        (status, written)
    };
    assert_eq!(call(&good, len), (OK, len));
    assert_eq!(call(&good, len - 1), (BAD_CALL, 0));
    assert_eq!(call(&good, 0), (BAD_CALL, 0));
    assert_eq!(call(null(), 100), (BAD_CALL, 0));
    for revision in [0, 2, 3] {
        assert_eq!(call(&CReading { revision, ..good }, 100), (BAD_CALL, 0));
    }
    assert_eq!(call(&CReading { elements: 11, ..good }, 100), (BAD_CALL, 0));
    assert_eq!(call(&CReading { nil_mask: 1 << 5, ..good }, 100).0, OK);
    for bit in [0, 1, 6, 63] {
        assert_eq!(call(&CReading { nil_mask: 1 << bit, ..good }, 100), (BAD_CALL, 0));
    }
    let mut written = 9;
    // SAFETY: null or a local.
    unsafe {
        assert_eq!(loadwire_encode(&good, null_mut(), 100, &mut written), BAD_CALL);
        assert_eq!(loadwire_encode(&good, buffer.as_mut_ptr(), 100, null_mut()), BAD_CALL);
    }
    assert_eq!(written, 0);
}

/// Every policy is answered by name, within the capacity and with its zero.
#[test]
fn policies_are_answered() {
    for &policy in Policy::ALL {
        let name = CString::new(policy.name()).expect("a name");
        let text = policy.ours().name();
        let mut answer = [9; 16];
        // SAFETY: a zero-terminated name and a local of at least the capacity.
        let mut call =
            |capacity| unsafe { loadwire_policy(name.as_ptr(), answer.as_mut_ptr(), capacity) };
        assert_eq!(call(text.len()), BAD_CALL, "no room for the zero");
        assert_eq!(call(text.len() + 1), OK);
        // SAFETY: terminated by the call above.
        assert_eq!(unsafe { CStr::from_ptr(answer.as_ptr()) }.to_str(), Ok(text));
        assert_eq!(answer[text.len() + 1], 9, "nothing behind the zero is touched");
    }
    let mut answer = [9; 16];
    for unknown in ["", "trailingbytes", "TrailingBytes "] {
        let name = CString::new(unknown).expect("a name");
        // SAFETY: as above.
        unsafe {
            assert_eq!(loadwire_policy(name.as_ptr(), answer.as_mut_ptr(), 16), BAD_CALL);
            assert_eq!(loadwire_policy(null(), answer.as_mut_ptr(), 16), BAD_CALL);
            assert_eq!(loadwire_policy(name.as_ptr(), null_mut(), 16), BAD_CALL);
        }
    }
    assert_eq!(answer, [9; 16]);
}

/// Version, revision and name are told, and are those of the header and of the crate.
#[test]
fn the_library_says_what_it_is() {
    assert_eq!(loadwire_abi_version(), ABI_VERSION);
    assert_eq!(loadwire_revision(), Revision::LATEST.number());
    // SAFETY: a static string.
    let name = unsafe { CStr::from_ptr(loadwire_implementation()) };
    assert_eq!(name.to_str(), Ok(concat!("loadwire-check ", env!("CARGO_PKG_VERSION"))));
    let header = fs::read_to_string(root().join("include/loadwire.h")).expect("the header");
    assert!(header.contains(&format!("#define LOADWIRE_ABI_VERSION {ABI_VERSION}\n")));
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The C side of the tests below: prints every size, offset and number of the header, then what the
/// library answers.
const PROGRAM: &str = r#"
#include "loadwire.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(type))
#define AT(type, field) printf("offsetof " #type "." #field " %zu\n", offsetof(type, field))

int main(void) {
    static const uint8_t good[] = "\x96\xa8LoadStat\x07\x03\xcd\x04\x00\xcd\x20\x00\xc0";
    static const uint8_t sequence_frame[8] = {0, 0, 0, 0, 0, 0, 1, 2};
    const size_t good_len = sizeof good - 1;
    loadwire_reading reading;
    loadwire_refusal refusal;
    char answer[16];
    uint8_t buffer[100];
    size_t written;
    int64_t sequence;

    SIZE(loadwire_reading);
    AT(loadwire_reading, revision);
    AT(loadwire_reading, elements);
    AT(loadwire_reading, nil_mask);
    AT(loadwire_reading, values);
    SIZE(loadwire_refusal);
    AT(loadwire_refusal, reason);
    AT(loadwire_refusal, frame);
    AT(loadwire_refusal, element);
    AT(loadwire_refusal, reserved);
    AT(loadwire_refusal, offset);
    printf("reasons %d %d\n", LOADWIRE_MALFORMED, LOADWIRE_NEGATIVE_SEQ);
    printf("statuses %d %d %d %d\n", LOADWIRE_OK, LOADWIRE_REFUSED, LOADWIRE_BAD_CALL, LOADWIRE_PANIC);

    printf("version %d of %" PRIu32 "\n", LOADWIRE_ABI_VERSION, loadwire_abi_version());
    printf("revision %" PRIu32 "\n", loadwire_revision());
    printf("name %s\n", loadwire_implementation());
    printf("decode %d", loadwire_decode(good, good_len, &reading, &refusal));
    printf(" %" PRIu32 " %" PRIu32 " %" PRIu64, reading.revision, reading.elements, reading.nil_mask);
    for (uint32_t i = 1; i < reading.elements; i++) printf(" %" PRIu64, reading.values[i]);
    printf("\nrefuse %d", loadwire_decode(good, good_len - 1, &reading, &refusal));
    printf(" %" PRIu32 " %d %d %" PRIu64 "\n", refusal.reason, (int)refusal.frame, (int)refusal.element, refusal.offset);
    printf("encode %d", loadwire_encode(&reading, buffer, sizeof buffer, &written));
    printf(" %d\n", written == good_len && memcmp(buffer, good, written) == 0);
    const uint8_t *frames[3] = {(const uint8_t *)"load", sequence_frame, good};
    const size_t lens[3] = {4, 8, good_len};
    printf("frames %d", loadwire_parse_frames(frames, lens, 3, &sequence, &reading, &refusal));
    printf(" %" PRId64 "\n", sequence);
    printf("policy %d", loadwire_policy("PartialTail", answer, sizeof answer));
    printf(" %s\n", answer);
    return 0;
}
"#;

fn said_by_rust() -> String {
    // SAFETY: plain integers.
    let (reading, refusal): (CReading, CRefusal) = unsafe { (zeroed(), zeroed()) };
    macro_rules! at {
        ($struct:ident . $field:ident) => {
            std::ptr::addr_of!($struct.$field) as usize - std::ptr::addr_of!($struct) as usize
        };
    }
    let numbers: Vec<u32> = Reason::ALL.iter().map(|reason| reason.number()).collect();
    [
        format!("sizeof loadwire_reading {}", size_of::<CReading>()),
        format!("offsetof loadwire_reading.revision {}", at!(reading.revision)),
        format!("offsetof loadwire_reading.elements {}", at!(reading.elements)),
        format!("offsetof loadwire_reading.nil_mask {}", at!(reading.nil_mask)),
        format!("offsetof loadwire_reading.values {}", at!(reading.values)),
        format!("sizeof loadwire_refusal {}", size_of::<CRefusal>()),
        format!("offsetof loadwire_refusal.reason {}", at!(refusal.reason)),
        format!("offsetof loadwire_refusal.frame {}", at!(refusal.frame)),
        format!("offsetof loadwire_refusal.element {}", at!(refusal.element)),
        format!("offsetof loadwire_refusal.reserved {}", at!(refusal.reserved)),
        format!("offsetof loadwire_refusal.offset {}", at!(refusal.offset)),
        format!("reasons {} {}", numbers[0], numbers[numbers.len() - 1]),
        "statuses 0 1 2 3".into(),
        format!("version {ABI_VERSION} of {ABI_VERSION}"),
        format!("revision {}", Revision::LATEST.number()),
        format!("name loadwire-check {}", env!("CARGO_PKG_VERSION")),
        "decode 0 1 6 32 7 3 1024 8192 0".into(),
        format!("refuse 1 {} -1 5 18", Reason::Truncated.number()),
        "encode 0 1".into(),
        "frames 0 258".into(),
        "policy 0 older".into(),
    ]
    .join("\n")
}

/// The C compiler, or `None` with a word on the terminal.
fn compiler() -> Option<String> {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
    match Command::new(&cc).arg("--version").output() {
        Ok(_) => Some(cc),
        Err(why) => {
            eprintln!("NOT RUN: no C compiler ({cc}: {why}), so the header is not compiled");
            None
        }
    }
}

/// The shared library that cargo built along with this test.
fn library() -> Option<PathBuf> {
    let name = format!("{}loadwire_check{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let test = env::current_exe().expect("a path");
    let found =
        test.ancestors().skip(1).map(|folder| folder.join(&name)).find(|path| path.exists());
    if found.is_none() {
        eprintln!("NOT RUN: no {name} beside this test, so no C program is linked with it");
    }
    found
}

fn compile(cc: &str, folder: &Path, arguments: &[&str]) {
    let output = Command::new(cc)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(root().join("include"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("a compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A C program that is built against the header and linked with the library sees the structs that
/// Rust sees, byte for byte, and gets its answers.
#[test]
fn a_c_program_can_use_it() {
    let (Some(cc), Some(library)) = (compiler(), library()) else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ffi");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("program.c"), PROGRAM).expect("a file");
    let library = library.to_str().expect("UTF-8");
    compile(&cc, &folder, &["-std=c99", "program.c", library, "-o", "program"]);
    let beside = Path::new(library).parent().expect("a folder");
    let output = Command::new(folder.join("program"))
        .env("LD_LIBRARY_PATH", beside)
        .env("DYLD_LIBRARY_PATH", beside)
        .output()
        .expect("the program");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), said_by_rust());
    assert_eq!(align_of::<CReading>(), 8);
}

/// The header compiles alone, twice in one file, and as C++ where there is a C++ compiler.
#[test]
fn the_header_stands_alone() {
    let Some(cc) = compiler() else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("header");
    fs::create_dir_all(&folder).expect("a folder");
    let twice = "#include \"loadwire.h\"\n#include \"loadwire.h\"\n";
    fs::write(folder.join("alone.c"), twice).expect("a file");
    compile(&cc, &folder, &["-std=c99", "-c", "alone.c", "-o", "alone.o"]);
    fs::write(folder.join("alone.cc"), twice).expect("a file");
    if Command::new("c++").arg("--version").output().is_ok() {
        compile("c++", &folder, &["-c", "alone.cc", "-o", "alone-cc.o"]);
    } else {
        eprintln!("NOT RUN: no C++ compiler, so the header is not compiled as C++");
    }
}
