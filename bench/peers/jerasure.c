/* Jerasure's Reed-Solomon with its own Vandermonde matrix, w = 8. */
#include "peer.h"

#include <jerasure.h>
#include <jerasure/reed_sol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif

#define MAX_N 64

typedef struct {
    int k, m;
    int *matrix;
} Jerasure;

uint32_t kp_abi(void) { return KP_ABI; }
const char *kp_engines(void) { return "jerasure"; }
const char *kp_version(void) { return "Jerasure " PEER_VERSION; }

void *kp_open(const char *engine, const char *code, uint32_t k, uint32_t m, uint32_t d,
              uint64_t chunk, char *error, size_t error_len) {
    (void)d;
    if (strcmp(code, "rs") != 0 || k + m > MAX_N || chunk > INT32_MAX || chunk % 16 != 0) {
        snprintf(error, error_len, "%s: only rs, chunks of a multiple of 16 bytes", engine);
        return NULL;
    }
    Jerasure *it = calloc(1, sizeof *it);
    int *matrix = reed_sol_vandermonde_coding_matrix((int)k, (int)m, 8);
    if (it == NULL || matrix == NULL) {
        snprintf(error, error_len, "%s: no matrix for %u+%u", engine, k, m);
        free(it);
        free(matrix);
        return NULL;
    }
    *it = (Jerasure){(int)k, (int)m, matrix};
    return it;
}

int kp_encode(void *handle, const uint8_t *const *data, uint8_t *const *parity, uint64_t chunk,
              uint32_t stripes, uint32_t repeats) {
    Jerasure *it = handle;
    KP_EACH_STRIPE(s, stripes, repeats)
        jerasure_matrix_encode(it->k, it->m, 8, it->matrix,
                               (char **)(data + s * (uint64_t)it->k),
                               (char **)(parity + s * (uint64_t)it->m), (int)chunk);
    return KP_OK;
}

int kp_decode(void *handle, uint8_t *const *chunks, const uint32_t *lost, uint32_t nlost,
              uint64_t chunk, uint32_t stripes, uint32_t repeats) {
    Jerasure *it = handle;
    int erasures[MAX_N + 1];
    for (uint32_t i = 0; i < nlost; i++) erasures[i] = (int)lost[i];
    erasures[nlost] = -1;
    KP_EACH_STRIPE(s, stripes, repeats) {
        char **all = (char **)(chunks + s * (uint64_t)(it->k + it->m));
        int status = jerasure_matrix_decode(it->k, it->m, 8, it->matrix, 1, erasures, all,
                                            all + it->k, (int)chunk);
        if (status != 0) return KP_FAILED;
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

void kp_close(void *handle) {
    Jerasure *it = handle;
    free(it->matrix);
    free(it);
}
