/*
 * loadwire.h: the C ABI behind which any decoder of the load gauge can be checked in process.
 *
 * A library that exports the five required functions is a testee: the checker loads it, compares
 * loadwire_abi_version() with LOADWIRE_ABI_VERSION before it calls anything else, and runs every
 * vector through loadwire_decode(). The crate loadwire-check exports all functions of this file.
 *
 * The caller owns every buffer. Nothing that a library allocates crosses the boundary, no function
 * keeps a pointer after it returns, and every function may be called from several threads at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADWIRE_H
#define LOADWIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a struct, a number or the meaning of a function changes, and not when one is added. */
#define LOADWIRE_ABI_VERSION 1

/* Room for array elements in a reading, the tag included. */
#define LOADWIRE_MAX_ELEMENTS 32

/* What every function that can fail returns. */
enum loadwire_status {
    LOADWIRE_OK = 0,
    LOADWIRE_REFUSED = 1,  /* the bytes break the contract: the refusal says which rule and where */
    LOADWIRE_BAD_CALL = 2, /* a null or misaligned pointer, a buffer too small, an unknown name */
    LOADWIRE_PANIC = 3     /* the library failed inside and caught it: a bug in the library */
};

/* Why bytes are refused. 0 in a refusal means that nothing was refused. */
enum loadwire_reason {
    LOADWIRE_MALFORMED = 1,      /* W10: a byte that msgpack never uses */
    LOADWIRE_TRUNCATED = 2,      /* W10: the bytes end inside the array */
    LOADWIRE_NOT_ARRAY = 3,      /* W10: no msgpack array */
    LOADWIRE_BAD_TAG = 4,        /* W1:  element 0 is not the string "LoadStat" */
    LOADWIRE_TOO_SHORT = 5,      /* W9:  an element that the reader needs is not there */
    LOADWIRE_BAD_TYPE = 6,       /* W5:  a count that is no integer */
    LOADWIRE_OUT_OF_RANGE = 7,   /* W5:  a negative count */
    LOADWIRE_TRAILING_BYTES = 8, /* W6:  bytes behind the array */
    LOADWIRE_FRAME_COUNT = 9,    /* F1:  not exactly three frames */
    LOADWIRE_BAD_TOPIC = 10,     /* F2:  frame 0 is not exactly "load" */
    LOADWIRE_BAD_SEQ_LENGTH = 11, /* F3: frame 1 is not 8 bytes */
    LOADWIRE_NEGATIVE_SEQ = 12   /* F3:  the sequence is negative */
};

/*
 * One reading of the gauge. values[i] is element i of the array; element 0 is the tag, so values[0]
 * is always 0. An element that the payload's revision does not have is absent, which is not zero:
 * only values[1] to values[elements - 1] mean anything.
 */
typedef struct loadwire_reading {
    uint32_t revision; /* the revision that was read: 1 or 2; 0 in no reading */
    uint32_t elements; /* how many array elements were read, the tag included: 6 or 11 */
    uint64_t nil_mask; /* bit i is set when element i was nil; values[i] is 0 then */
    uint64_t values[LOADWIRE_MAX_ELEMENTS];
} loadwire_reading;

/* Why and where bytes were refused. */
typedef struct loadwire_refusal {
    uint32_t reason;   /* enum loadwire_reason */
    int32_t frame;     /* 0, 1 or 2; -1: none */
    int32_t element;   /* index in the payload's array; -1: none */
    uint32_t reserved; /* 0 */
    uint64_t offset;   /* byte offset in the payload or in the frame */
} loadwire_refusal;

/* ---- required ---------------------------------------------------------------------------- */

/* The ABI version that the library was built for: LOADWIRE_ABI_VERSION. */
uint32_t loadwire_abi_version(void);

/* Name and version of the decoder, as a static UTF-8 string. */
const char *loadwire_implementation(void);

/* The newest revision of the contract that loadwire_decode() reads. */
uint32_t loadwire_revision(void);

/*
 * Decodes one payload as a reader of the newest revision.
 *
 * payload may be null when len is 0. On LOADWIRE_OK *out is written and *refusal is cleared; on
 * LOADWIRE_REFUSED *refusal is written and *out keeps what it held, so that an earlier reading
 * stands. On any other status neither is touched.
 */
int32_t loadwire_decode(const uint8_t *payload, size_t len, loadwire_reading *out,
                        loadwire_refusal *refusal);

/*
 * How the decoder answers where the contract leaves a choice. name is one of TrailingBytes,
 * OmittedRank, TagAsBin, CountAboveI64, PartialTail, NilTail; the answer is "accept" or "reject",
 * for PartialTail "older" or "partial", written with its terminating zero into capacity bytes.
 * LOADWIRE_BAD_CALL: an unknown name, or an answer that does not fit.
 */
int32_t loadwire_policy(const char *name, char *answer, size_t capacity);

/* ---- optional: a library may lack these --------------------------------------------------- */

/* loadwire_decode() as a reader of that revision. LOADWIRE_BAD_CALL: a revision it does not know. */
int32_t loadwire_decode_as(const uint8_t *payload, size_t len, uint32_t revision,
                           loadwire_reading *out, loadwire_refusal *refusal);

/*
 * Parses one message: frames[i] has lens[i] bytes. frames and lens may be null when count is 0, and
 * a frame may be null when its length is 0. With a count other than 3 no frame is looked at.
 * Writes as loadwire_decode() does, *sequence together with *out.
 */
int32_t loadwire_parse_frames(const uint8_t *const *frames, const size_t *lens, size_t count,
                              int64_t *sequence, loadwire_reading *out, loadwire_refusal *refusal);

/*
 * Encodes a reading in the canonical form that an engine sends (W6). *written is the length, or 0
 * after a failure; 100 bytes are always enough. LOADWIRE_BAD_CALL: the buffer is too small, the
 * revision is unknown, elements does not belong to it, or an element other than the rank is nil.
 */
int32_t loadwire_encode(const loadwire_reading *reading, uint8_t *buffer, size_t capacity,
                        size_t *written);

#ifdef __cplusplus
}
#endif

#endif /* LOADWIRE_H */
