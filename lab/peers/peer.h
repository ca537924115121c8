/* The one interface between kiln-bench and the libraries it is measured against.
 *
 * Every driver here is a shared library with these functions. All calls of one handle come from
 * one thread. Chunks are pointers into buffers of the caller: a driver works in place and copies
 * only where its library leaves no other way.
 */
#ifndef KILN_BENCH_PEER_H
#define KILN_BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KP_OK 0
#define KP_UNSUPPORTED 1 /* the library has no such operation */
#define KP_FAILED 2      /* it has, and it failed */

/* Version of this interface; the caller refuses any other. */
#define KP_ABI 2
uint32_t kp_abi(void);

/* Engines of this library, separated by spaces, e.g. "isal isal-cauchy". Static text. */
const char *kp_engines(void);

/* Name and version of the library under test, for reports. Static text. */
const char *kp_version(void);

/* Opens an engine for a code ("rs", "clay", or one of bit matrices with its numbers, e.g.
 * "liberation,w=11,packet=1024") with k data, m parity, d helpers for a repair (rs: k) and chunks
 * of `chunk` bytes. NULL with a text in `error` if the engine does not do this. */
void *kp_open(const char *engine, const char *code, uint32_t k, uint32_t m, uint32_t d,
              uint64_t chunk, char *error, size_t error_len);

/* A pass: the work of kp_encode, kp_decode and kp_repair is done `repeats` times for each of
 * `stripes` stripes, whose pointers follow each other. One call a pass keeps the price of the
 * call itself out of the numbers (entering Go costs microseconds). */
#define KP_EACH_STRIPE(s, stripes, repeats)                                          \
    for (uint64_t kp_left = (uint64_t)(stripes) * (repeats), s = 0; kp_left > 0;     \
         kp_left--, s = s + 1 == (stripes) ? 0 : s + 1)

/* parity[0..m) from data[0..k), `chunk` bytes each. */
int kp_encode(void *handle, const uint8_t *const *data, uint8_t *const *parity, uint64_t chunk,
              uint32_t stripes, uint32_t repeats);

/* chunks[0..k+m): those named in lost[0..nlost) are written, the others are read. */
int kp_decode(void *handle, uint8_t *const *chunks, const uint32_t *lost, uint32_t nlost,
              uint64_t chunk, uint32_t stripes, uint32_t repeats);

/* The sub-chunks that a repair of `lost` reads of `helper`, in the order kp_repair wants them:
 * their number, positions in out[0..cap). 0 if the helper is not asked, -1 without repair. */
int64_t kp_reads(void *handle, uint32_t lost, uint32_t helper, uint32_t *out, uint64_t cap);

/* Rebuilds chunk `lost` into out[0]. parts[0..k+m): what kp_reads names, concatenated, or NULL. */
int kp_repair(void *handle, uint32_t lost, const uint8_t *const *parts, uint8_t *const *out,
              uint64_t chunk, uint32_t stripes, uint32_t repeats);

void kp_close(void *handle);

#ifdef __cplusplus
}
#endif
#endif
