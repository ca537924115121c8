/* kiln: erasure codes that repair with the least I/O. The C interface, version 1.
 *
 * Every function that can fail returns 0 or a negative errno and, if asked, puts one line that
 * says what is wrong into `message`, cut to `message_len` bytes and always ended by a zero byte.
 * Handles are immutable: any number of threads may use one at the same time.
 *
 * Made from bindings/c/src by cbindgen; a test keeps it up to date. */


#ifndef KILN_H
#define KILN_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. It grows only when something that exists changes; additions
// leave it as it is.
#define KILN_ABI 1

// A code with everything it needs. Made by `kiln_codec_new`, ended by `kiln_codec_free`.
typedef struct kiln_codec kiln_codec;

// A repair: made by `kiln_plan_repair` or `kiln_plan_decode`, ended by `kiln_plan_free`.
typedef struct kiln_plan kiln_plan;

// The numbers of a code.
typedef struct {
    // Data chunks.
    uint32_t k;
    // Parity chunks.
    uint32_t m;
    // Sub-chunks of a chunk: the length of a chunk is a multiple of it.
    uint32_t alpha;
} kiln_shape;

// A contiguous range of sub-chunks.
typedef struct {
    // The first sub-chunk.
    uint32_t first;
    // Number of sub-chunks.
    uint32_t count;
} kiln_run;

// The reads of one helper.
typedef struct {
    // The helper's chunk.
    uint32_t chunk;
    // Sub-chunks in all its runs together.
    uint32_t sub_chunks;
    // Its runs, ascending; they live as long as the plan.
    const kiln_run *runs;
    // Number of runs.
    size_t run_count;
} kiln_helper;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The interface's version that the library was built with: compare it with `KILN_ABI`.
uint32_t kiln_abi(void);

// The library's version as text, e.g. `0.1.0`. It lives as long as the program.
const char *kiln_version(void);

// Makes a code from a spec (`clay:10+4,d=13`) or from a Ceph profile (`plugin=isa k=8 m=4`).
//
// # Safety
// `spec` ends with a zero byte; `codec` may be written to; `message` is null or has `message_len`
// bytes.
int kiln_codec_new(const char *spec,
                   kiln_codec **codec,
                   char *message,
                   size_t message_len);

// Ends a code; null is allowed. Plans made from it live on.
//
// # Safety
// `codec` is null or came from `kiln_codec_new`, and is not used any more.
void kiln_codec_free(kiln_codec *codec);

// The numbers of a code.
//
// # Safety
// `codec` is alive, `shape` may be written to.
int kiln_codec_shape(const kiln_codec *codec, kiln_shape *shape);

// Returns the bytes of a packet, and writes into `count` how many sub-chunks hold the same blocks
// of packets (Jerasure's `packetsize`), so that they are read together. 0, and 1 sub-chunk, for
// codes without packets.
//
// # Safety
// `codec` is alive, `count` may be written to.
size_t kiln_codec_packet(const kiln_codec *codec,
                         uint32_t *count);

// Writes the code's spec, complete, as text ended by a zero byte: two codes of one such text make
// the same bytes. -ERANGE when it does not fit; 1100 bytes are always enough.
//
// # Safety
// `codec` is alive; `spec` has `spec_len` bytes.
int kiln_codec_spec(const kiln_codec *codec,
                    char *spec,
                    size_t spec_len);

// Encodes a stripe: `parity[0..m]` from `data[0..k]`, all of `chunk_len` bytes, a multiple of
// alpha. No parity may overlap another buffer.
//
// # Safety
// `codec` is alive; `data` leads to k pointers and `parity` to m, each to `chunk_len` bytes;
// `message` is null or has `message_len` bytes.
int kiln_encode(const kiln_codec *codec,
                const uint8_t *const *data,
                uint8_t *const *parity,
                size_t chunk_len,
                char *message,
                size_t message_len);

// Plans the cheapest way, in bytes read, to rebuild the chunks `lost` from some of `available`.
// -EIO when too few are available.
//
// # Safety
// `codec` is alive; the lists have as many entries as said; `plan` may be written to; `message`
// is null or has `message_len` bytes.
int kiln_plan_repair(const kiln_codec *codec,
                     const uint32_t *lost,
                     size_t lost_count,
                     const uint32_t *available,
                     size_t available_count,
                     kiln_plan **plan,
                     char *message,
                     size_t message_len);

// As `kiln_plan_repair`, but with k whole chunks read, data chunks first: for reads that want the
// whole object anyway.
//
// # Safety
// As `kiln_plan_repair`.
int kiln_plan_decode(const kiln_codec *codec,
                     const uint32_t *lost,
                     size_t lost_count,
                     const uint32_t *available,
                     size_t available_count,
                     kiln_plan **plan,
                     char *message,
                     size_t message_len);

// Ends a plan; null is allowed.
//
// # Safety
// `plan` is null or came from `kiln_plan_repair` or `kiln_plan_decode`, and is not used any
// more.
void kiln_plan_free(kiln_plan *plan);

// The number of helpers; 0 for null.
//
// # Safety
// `plan` is null or alive.
size_t kiln_plan_helpers(const kiln_plan *plan);

// Returns the reads of helper number `index`, chunks ascending.
//
// # Safety
// `plan` is alive, `helper` may be written to.
int kiln_plan_helper(const kiln_plan *plan, size_t index, kiln_helper *helper);

// Rebuilds: `inputs[i]` holds the runs of helper i one after the other, `outputs[j]` becomes the
// whole j-th lost chunk, lost chunks ascending. A sub-chunk has `sub_chunk_len` bytes. No output
// may overlap another buffer.
//
// # Safety
// `plan` is alive; `inputs` leads to a pointer for each helper, to its `sub_chunks` x
// `sub_chunk_len` bytes; `outputs` to one for each lost chunk, to alpha x `sub_chunk_len` bytes;
// `message` is null or has `message_len` bytes.
int kiln_plan_run(const kiln_plan *plan,
                  const uint8_t *const *inputs,
                  uint8_t *const *outputs,
                  size_t sub_chunk_len,
                  char *message,
                  size_t message_len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KILN_H */
