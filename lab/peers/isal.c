/* ISA-L's erasure code functions, driven as its manual says. */
#include "peer.h"

#include <isa-l/erasure_code.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif

/* Another release of the library, as an engine of its own. */
#ifndef PEER_NEXT
#define PEER_NEXT 0
#endif

#define MAX_N 64

typedef struct {
    int k, m;
    uint8_t matrix[MAX_N * MAX_N];     /* (k+m) x k, identity on top */
    uint8_t encode[32 * MAX_N * MAX_N]; /* expanded tables of the parity rows */
    uint8_t decode[32 * MAX_N * MAX_N]; /* of the last loss pattern */
    uint32_t lost[MAX_N];
    uint32_t nlost;
    int source[MAX_N]; /* the k chunks that decoding reads */
} Isal;

/* Held to AVX2: not the entry points that ask the CPU, and tables as AVX2 takes them, whatever
 * ec_init_tables makes where there is GFNI. */
static int held(void) {
    const char *isa = getenv("KILN_BENCH_ISA");
    return isa != NULL && strcmp(isa, "avx2") == 0;
}

static void tables(int k, int rows, uint8_t *matrix, uint8_t *out) {
    if (!held()) {
        ec_init_tables(k, rows, matrix, out);
        return;
    }
    for (int i = 0; i < k * rows; i++) gf_vect_mul_init(matrix[i], out + 32 * i);
}

static void encode(int len, int k, int rows, uint8_t *with, uint8_t **in, uint8_t **out) {
    if (held())
        ec_encode_data_avx2(len, k, rows, with, in, out);
    else
        ec_encode_data(len, k, rows, with, in, out);
}

uint32_t kp_abi(void) { return KP_ABI; }
const char *kp_engines(void) { return PEER_NEXT ? "isal-next" : "isal isal-cauchy"; }
const char *kp_version(void) { return "ISA-L " PEER_VERSION; }

void *kp_open(const char *engine, const char *code, uint32_t k, uint32_t m, uint32_t d,
              uint64_t chunk, char *error, size_t error_len) {
    (void)d;
    if (strcmp(code, "rs") != 0 || k + m > MAX_N || chunk > INT32_MAX) {
        snprintf(error, error_len, "%s: only rs, up to %d chunks of 2 GiB", engine, MAX_N);
        return NULL;
    }
    Isal *it = calloc(1, sizeof *it);
    if (it == NULL) {
        snprintf(error, error_len, "%s: no memory", engine);
        return NULL;
    }
    it->k = (int)k;
    it->m = (int)m;
    if (strcmp(engine, "isal-cauchy") == 0)
        gf_gen_cauchy1_matrix(it->matrix, it->k + it->m, it->k);
    else
        gf_gen_rs_matrix(it->matrix, it->k + it->m, it->k);
    tables(it->k, it->m, it->matrix + it->k * it->k, it->encode);
    return it;
}

int kp_encode(void *handle, const uint8_t *const *data, uint8_t *const *parity, uint64_t chunk,
              uint32_t stripes, uint32_t repeats) {
    Isal *it = handle;
    KP_EACH_STRIPE(s, stripes, repeats)
        encode((int)chunk, it->k, it->m, it->encode, (uint8_t **)(data + s * (uint64_t)it->k),
               (uint8_t **)(parity + s * (uint64_t)it->m));
    return KP_OK;
}

/* Tables for a loss pattern: rows of the lost chunks times the inverse of the rows read. */
static int prepare(Isal *it, const uint32_t *lost, uint32_t nlost) {
    int k = it->k, found = 0;
    uint8_t rows[MAX_N * MAX_N], inverse[MAX_N * MAX_N], wanted[MAX_N * MAX_N];
    for (int chunk = 0; chunk < k + it->m && found < k; chunk++) {
        int gone = 0;
        for (uint32_t i = 0; i < nlost; i++) gone |= lost[i] == (uint32_t)chunk;
        if (gone) continue;
        memcpy(rows + found * k, it->matrix + chunk * k, (size_t)k);
        it->source[found++] = chunk;
    }
    if (found < k || gf_invert_matrix(rows, inverse, k) != 0) return KP_FAILED;
    for (uint32_t i = 0; i < nlost; i++)
        for (int col = 0; col < k; col++) {
            uint8_t sum = 0;
            for (int j = 0; j < k; j++)
                sum ^= gf_mul(it->matrix[lost[i] * (uint32_t)k + (uint32_t)j],
                              inverse[j * k + col]);
            wanted[i * (uint32_t)k + (uint32_t)col] = sum;
        }
    tables(k, (int)nlost, wanted, it->decode);
    memcpy(it->lost, lost, nlost * sizeof *lost);
    it->nlost = nlost;
    return KP_OK;
}

int kp_decode(void *handle, uint8_t *const *chunks, const uint32_t *lost, uint32_t nlost,
              uint64_t chunk, uint32_t stripes, uint32_t repeats) {
    Isal *it = handle;
    if (nlost != it->nlost || memcmp(lost, it->lost, nlost * sizeof *lost) != 0)
        if (prepare(it, lost, nlost) != KP_OK) return KP_FAILED;
    uint8_t *in[MAX_N], *out[MAX_N];
    KP_EACH_STRIPE(s, stripes, repeats) {
        uint8_t *const *all = chunks + s * (uint64_t)(it->k + it->m);
        for (int j = 0; j < it->k; j++) in[j] = all[it->source[j]];
        for (uint32_t i = 0; i < nlost; i++) out[i] = all[lost[i]];
        encode((int)chunk, it->k, (int)nlost, it->decode, in, out);
    }
    return KP_OK;
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
