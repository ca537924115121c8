/* Ceilings of the machine behind the interface of a peer: what no code can beat.
 *
 * "xor" reads all data chunks, XORs them and writes the sum to every parity chunk: the memory
 * traffic of an encode with next to no computing. "xor-nt" fetches ahead and writes past the
 * cache. "copy" is memcpy of the data chunks onto the parity chunks, round robin; "read" only
 * reads. "gfni" does the multiplications of an encode on registers, without memory traffic.
 */
#include "peer.h"

#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { XOR, XOR_NT, COPY, READ, GFNI } Kind;

typedef struct {
    Kind kind;
    uint32_t k, m;
    int wide;
    uint64_t sink;
} Ceiling;

static const char *const NAMES[] = {"xor", "xor-nt", "copy", "read", "gfni"};

uint32_t kp_abi(void) { return KP_ABI; }
const char *kp_engines(void) { return "xor xor-nt copy read gfni"; }
const char *kp_version(void) { return "machine ceilings"; }

void *kp_open(const char *engine, const char *code, uint32_t k, uint32_t m, uint32_t d,
              uint64_t chunk, char *error, size_t error_len) {
    (void)d, (void)code;
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    for (unsigned kind = 0; kind < sizeof NAMES / sizeof *NAMES; kind++) {
        if (strcmp(engine, NAMES[kind]) != 0) continue;
        int gfni = wide && __builtin_cpu_supports("gfni");
        if (k == 0 || k > 24 || chunk % 256 != 0 || (kind == GFNI && !gfni) ||
            !__builtin_cpu_supports("avx2")) {
            snprintf(error, error_len, "%s: 1..24 sources, chunk of 256s, AVX2; GFNI", engine);
            return NULL;
        }
        Ceiling *it = calloc(1, sizeof *it);
        if (it != NULL) *it = (Ceiling){(Kind)kind, k, m, wide, 0};
        return it;
    }
    snprintf(error, error_len, "%s: unknown ceiling", engine);
    return NULL;
}

/* Bytes that sources are fetched ahead where stores go past the cache: without it memory that is
 * far away bounds the loop, not the machine. A prefetch beyond the end does nothing. */
#define AHEAD 1024

/* k is a constant wherever this is inlined, so every source is a load instruction of its own. */
#define XOR_BODY(VECTOR, WIDTH, LOAD, XOR2, STORE, STREAM, FENCE)                              \
    for (uint64_t at = 0; at < len; at += 4 * (WIDTH)) {                                       \
        if (nt)                                                                                \
            _Pragma("GCC unroll 24") for (uint32_t j = 0; j < k; j++)                          \
                for (int line = 0; line < 4 * (WIDTH); line += 64)                             \
                    _mm_prefetch((const char *)in[j] + at + AHEAD + line, _MM_HINT_T0);        \
        VECTOR sum[4];                                                                         \
        for (int v = 0; v < 4; v++) sum[v] = LOAD(in[0] + at + v * (WIDTH));                   \
        _Pragma("GCC unroll 24") for (uint32_t j = 1; j < k; j++) {                            \
            for (int v = 0; v < 4; v++) sum[v] = XOR2(sum[v], LOAD(in[j] + at + v * (WIDTH))); \
        }                                                                                      \
        for (uint32_t r = 0; r < m; r++)                                                       \
            for (int v = 0; v < 4; v++) {                                                      \
                if (nt) STREAM(out[r] + at + v * (WIDTH), sum[v]);                             \
                else STORE(out[r] + at + v * (WIDTH), sum[v]);                                 \
            }                                                                                  \
    }                                                                                          \
    if (nt) FENCE();

#define ARGS uint32_t k, uint32_t m, int nt, const uint8_t *const *in, uint8_t *const *out, \
             uint64_t len
#define LOAD512(p) _mm512_loadu_si512((const void *)(p))
#define STORE512(p, x) _mm512_storeu_si512((void *)(p), x)
#define STREAM512(p, x) _mm512_stream_si512((void *)(p), x)
#define LOAD256(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE256(p, x) _mm256_storeu_si256((__m256i *)(p), x)
#define STREAM256(p, x) _mm256_stream_si256((__m256i *)(p), x)

__attribute__((target("avx512f"), always_inline)) static inline void xor512(ARGS) {
    XOR_BODY(__m512i, 64, LOAD512, _mm512_xor_si512, STORE512, STREAM512, _mm_sfence)
}

__attribute__((target("avx2"), always_inline)) static inline void xor256(ARGS) {
    XOR_BODY(__m256i, 32, LOAD256, _mm256_xor_si256, STORE256, STREAM256, _mm_sfence)
}

#define CASE(FN, K) \
    case K: FN(K, m, nt, in, out, len); return;
#define CASES(FN)                                                                         \
    switch (k) {                                                                          \
        CASE(FN, 1) CASE(FN, 2) CASE(FN, 3) CASE(FN, 4) CASE(FN, 5) CASE(FN, 6)           \
        CASE(FN, 7) CASE(FN, 8) CASE(FN, 9) CASE(FN, 10) CASE(FN, 11) CASE(FN, 12)        \
        CASE(FN, 13) CASE(FN, 14) CASE(FN, 15) CASE(FN, 16) CASE(FN, 17) CASE(FN, 18)     \
        CASE(FN, 19) CASE(FN, 20) CASE(FN, 21) CASE(FN, 22) CASE(FN, 23) CASE(FN, 24)     \
    }

__attribute__((target("avx512f"))) static void run512(ARGS) { CASES(xor512) }
__attribute__((target("avx2"))) static void run256(ARGS) { CASES(xor256) }

__attribute__((target("avx2"))) static uint64_t read_all(const uint8_t *p, uint64_t len) {
    __m256i sum[8];
    for (int v = 0; v < 8; v++) sum[v] = _mm256_setzero_si256();
    for (uint64_t at = 0; at < len; at += 256)
        for (int v = 0; v < 8; v++)
            sum[v] = _mm256_or_si256(sum[v], LOAD256(p + at + 32 * (uint64_t)v));
    for (int v = 1; v < 8; v++) sum[0] = _mm256_or_si256(sum[0], sum[v]);
    return (uint64_t)_mm256_extract_epi64(sum[0], 0);
}

/* Affine products of registers, XORed into 16 sums: enough chains to keep every multiplier busy
 * over the latency of product and XOR. */
__attribute__((target("avx512f,avx512bw,gfni"))) static uint64_t multiply(uint64_t products) {
    __m512i x = _mm512_set1_epi64(3), by = _mm512_set1_epi64(0x0102040810204080), sum[16];
    for (int v = 0; v < 16; v++) sum[v] = _mm512_set1_epi64(v + 1);
    for (uint64_t i = 0; i < products; i += 16) {
        __asm__ volatile("" : "+v"(x)); /* another value each round, for all the compiler knows */
        _Pragma("GCC unroll 16") for (int v = 0; v < 16; v++) {
            __m512i made = _mm512_gf2p8affine_epi64_epi8(_mm512_xor_si512(x, sum[v]), by, 0);
            sum[v] = made;
        }
    }
    _Pragma("GCC unroll 16") for (int v = 1; v < 16; v++) sum[0] = _mm512_xor_si512(sum[0], sum[v]);
    return (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(sum[0]));
}

static void pass(Ceiling *it, const uint8_t *const *data, uint8_t *const *parity,
                 uint64_t chunk) {
    uint32_t k = it->k, m = it->m;
    switch (it->kind) {
    case XOR:
    case XOR_NT:
        if (it->wide) run512(k, m, it->kind == XOR_NT, data, parity, chunk);
        else run256(k, m, it->kind == XOR_NT, data, parity, chunk);
        break;
    case COPY:
        for (uint32_t j = 0; j < k; j++) memcpy(parity[j % m], data[j], chunk);
        break;
    case READ:
        for (uint32_t j = 0; j < k; j++) it->sink += read_all(data[j], chunk);
        break;
    case GFNI:
        it->sink += multiply((uint64_t)k * m * chunk / 64);
        break;
    }
}

int kp_encode(void *handle, const uint8_t *const *data, uint8_t *const *parity, uint64_t chunk,
              uint32_t stripes, uint32_t repeats) {
    Ceiling *it = handle;
    KP_EACH_STRIPE(s, stripes, repeats) pass(it, data + s * it->k, parity + s * it->m, chunk);
    return KP_OK;
}

int kp_decode(void *handle, uint8_t *const *chunks, const uint32_t *lost, uint32_t nlost,
              uint64_t chunk, uint32_t stripes, uint32_t repeats) {
    (void)handle, (void)chunks, (void)lost, (void)nlost, (void)chunk, (void)stripes, (void)repeats;
    return KP_UNSUPPORTED;
}

int64_t kp_reads(void *handle, uint32_t lost, uint32_t helper, uint32_t *out, uint64_t cap) {
    (void)handle, (void)lost, (void)helper, (void)out, (void)cap;
    return -1;
}

int kp_repair(void *handle, uint32_t lost, const uint8_t *const *parts, uint8_t *const *out,
              uint64_t chunk, uint32_t stripes, uint32_t repeats) {
    (void)handle, (void)lost, (void)parts, (void)out, (void)chunk, (void)stripes, (void)repeats;
    return KP_UNSUPPORTED;
}

void kp_close(void *handle) { free(handle); }
