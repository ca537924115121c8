/* Jerasure: Reed-Solomon with its own Vandermonde matrix, w = 8, and its codes of bit matrices,
 * which run by a schedule of XORs: the dumb one (the traditional order) or the smart one. */
#include "peer.h"

#include <jerasure.h>
#include <jerasure/cauchy.h>
#include <jerasure/liberation.h>
#include <jerasure/reed_sol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif

#define MAX_N 64

typedef struct {
    int k, m, w, packet, smart;
    int *matrix;    /* of elements for Reed-Solomon, else of bits */
    int **schedule; /* NULL for Reed-Solomon */
    int ***decoders; /* schedules of all losses, m = 2 only */
} Jerasure;

uint32_t kp_abi(void) { return KP_ABI; }
const char *kp_engines(void) { return "jerasure jerasure-dumb jerasure-smart"; }
const char *kp_version(void) { return "Jerasure " PEER_VERSION; }

static int *bit_matrix(const char *family, int k, int m, int w) {
    if (m == 2 && strcmp(family, "liberation") == 0) return liberation_coding_bitmatrix(k, w);
    if (m == 2 && strcmp(family, "blaum-roth") == 0) return blaum_roth_coding_bitmatrix(k, w);
    if (m == 2 && strcmp(family, "liber8tion") == 0) return liber8tion_coding_bitmatrix(k);
    if (strcmp(family, "cauchy") == 0) {
        int *elements = cauchy_good_general_coding_matrix(k, m, w);
        int *bits = elements ? jerasure_matrix_to_bitmatrix(k, m, w, elements) : NULL;
        free(elements);
        return bits;
    }
    return NULL;
}

/* The codes of bit matrices: chunks are blocks of w packets. */
static int open_bits(Jerasure *it, const char *code, uint64_t chunk) {
    char family[32];
    if (sscanf(code, "%31[^,],w=%d,packet=%d", family, &it->w, &it->packet) != 3) return 0;
    uint64_t block = (uint64_t)it->w * (uint64_t)it->packet;
    if (it->w < 1 || it->packet < 8 || it->packet % 8 != 0 || chunk % block != 0) return 0;
    it->matrix = bit_matrix(family, it->k, it->m, it->w);
    if (it->matrix == NULL) return 0;
    it->schedule = it->smart
        ? jerasure_smart_bitmatrix_to_schedule(it->k, it->m, it->w, it->matrix)
        : jerasure_dumb_bitmatrix_to_schedule(it->k, it->m, it->w, it->matrix);
    if (it->m == 2)
        it->decoders = jerasure_generate_schedule_cache(it->k, 2, it->w, it->matrix, it->smart);
    return it->schedule != NULL;
}

static void close_it(Jerasure *it) {
    if (it->decoders) jerasure_free_schedule_cache(it->k, it->m, it->decoders);
    if (it->schedule) jerasure_free_schedule(it->schedule);
    free(it->matrix);
    free(it);
}

void *kp_open(const char *engine, const char *code, uint32_t k, uint32_t m, uint32_t d,
              uint64_t chunk, char *error, size_t error_len) {
    (void)d;
    int bits = strcmp(engine, "jerasure") != 0;
    if (k + m > MAX_N || chunk > INT32_MAX || chunk % 16 != 0) {
        snprintf(error, error_len, "%s: chunks of a multiple of 16 bytes", engine);
        return NULL;
    }
    Jerasure *it = calloc(1, sizeof *it);
    if (it == NULL) return NULL;
    it->k = (int)k;
    it->m = (int)m;
    it->smart = strcmp(engine, "jerasure-smart") == 0;
    int opened = 0;
    if (bits) {
        opened = open_bits(it, code, chunk);
    } else if (strcmp(code, "rs") == 0) {
        it->matrix = reed_sol_vandermonde_coding_matrix((int)k, (int)m, 8);
        opened = it->matrix != NULL;
    }
    if (!opened) {
        snprintf(error, error_len, "%s: no code %s of %u+%u, chunks of %llu", engine, code, k, m,
                 (unsigned long long)chunk);
        close_it(it);
        return NULL;
    }
    return it;
}

int kp_encode(void *handle, const uint8_t *const *data, uint8_t *const *parity, uint64_t chunk,
              uint32_t stripes, uint32_t repeats) {
    Jerasure *it = handle;
    KP_EACH_STRIPE(s, stripes, repeats) {
        char **from = (char **)(data + s * (uint64_t)it->k);
        char **to = (char **)(parity + s * (uint64_t)it->m);
        if (it->schedule)
            jerasure_schedule_encode(it->k, it->m, it->w, it->schedule, from, to, (int)chunk,
                                     it->packet);
        else
            jerasure_matrix_encode(it->k, it->m, 8, it->matrix, from, to, (int)chunk);
    }
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
        int status;
        if (it->decoders)
            status = jerasure_schedule_decode_cache(it->k, it->m, it->w, it->decoders, erasures,
                                                    all, all + it->k, (int)chunk, it->packet);
        else if (it->schedule)
            status = jerasure_schedule_decode_lazy(it->k, it->m, it->w, it->matrix, erasures, all,
                                                   all + it->k, (int)chunk, it->packet, it->smart);
        else
            status = jerasure_matrix_decode(it->k, it->m, 8, it->matrix, 1, erasures, all,
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

void kp_close(void *handle) { close_it(handle); }
