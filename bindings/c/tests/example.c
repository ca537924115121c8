/* Encodes a stripe with clay:10+4, loses chunk 3, repairs it from a quarter of every other chunk,
 * and shows what errors look like. */
#include <errno.h>
#include <kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 14
#define SUB 96 /* bytes of a sub-chunk */

static void check(int result, const char *what, const char *message) {
    if (result == 0) return;
    fprintf(stderr, "%s: %s (%s)\n", what, message, strerror(-result));
    exit(1);
}

static void errors(void) {
    char message[200];
    kiln_codec *codec = NULL;
    int result = kiln_codec_new("turbo:10+4", &codec, message, sizeof message);
    if (result != -EINVAL || codec != NULL || strstr(message, "turbo") == NULL) exit(2);
    if (kiln_codec_new(NULL, &codec, NULL, 0) != -EINVAL) exit(3);
    check(kiln_codec_new("rs:2+1", &codec, message, sizeof message), "rs", message);
    uint32_t lost[] = {0, 1}, available[] = {2};
    kiln_plan *plan = NULL;
    result = kiln_plan_repair(codec, lost, 2, available, 1, &plan, message, sizeof message);
    if (result != -EIO || plan != NULL || strstr(message, "not recoverable") == NULL) exit(4);
    uint8_t buffer[3 * 8] = {1, 2, 3};
    const uint8_t *data[] = {buffer, buffer + 8};
    uint8_t *parity[] = {buffer + 12}; /* overlaps the second data chunk */
    if (kiln_encode(codec, data, parity, 8, message, sizeof message) != -EINVAL) exit(5);
    if (kiln_encode(codec, data, NULL, 8, NULL, 0) != -EINVAL) exit(6);
    kiln_codec_free(codec);
    kiln_codec_free(NULL);
}

static void repair(const kiln_codec *codec, uint8_t **chunks, size_t chunk_len) {
    char message[200];
    uint32_t lost[] = {3}, available[N - 1];
    for (uint32_t i = 0, at = 0; i < N; i++)
        if (i != lost[0]) available[at++] = i;
    kiln_plan *plan = NULL;
    check(kiln_plan_repair(codec, lost, 1, available, N - 1, &plan, message, sizeof message),
          "plan", message);
    size_t helpers = kiln_plan_helpers(plan), read = 0;
    const uint8_t *inputs[N];
    uint8_t *gathered[N];
    for (size_t i = 0; i < helpers; i++) {
        kiln_helper helper;
        if (kiln_plan_helper(plan, i, &helper) != 0) exit(7);
        uint8_t *to = gathered[i] = (uint8_t *)malloc((size_t)helper.sub_chunks * SUB);
        inputs[i] = to;
        for (size_t r = 0; r < helper.run_count; r++) {
            size_t first = helper.runs[r].first, count = helper.runs[r].count;
            memcpy(to, chunks[helper.chunk] + first * SUB, count * SUB);
            to += count * SUB;
        }
        read += helper.sub_chunks;
    }
    uint8_t *rebuilt = (uint8_t *)malloc(chunk_len), *outputs[] = {rebuilt};
    memset(rebuilt, 0xee, chunk_len);
    check(kiln_plan_run(plan, inputs, outputs, SUB, message, sizeof message), "run", message);
    int same = memcmp(rebuilt, chunks[lost[0]], chunk_len) == 0;
    printf("%zu helpers read %zu of %zu sub-chunks: %s bytes\n", helpers, read,
           N * chunk_len / SUB, same ? "same" : "WRONG");
    for (size_t i = 0; i < helpers; i++) free(gathered[i]);
    free(rebuilt);
    kiln_plan_free(plan);
    if (!same) exit(8);
}

int main(void) {
    char message[200], spec[1100];
    if (kiln_abi() != KILN_ABI) return 9;
    errors();
    kiln_codec *codec = NULL;
    check(kiln_codec_new("clay:10+4", &codec, message, sizeof message), "codec", message);
    check(kiln_codec_spec(codec, spec, sizeof spec), "spec", "");
    if (kiln_codec_spec(codec, spec, 5) != -ERANGE) return 10;
    kiln_shape shape;
    check(kiln_codec_shape(codec, &shape), "shape", "");
    size_t chunk_len = (size_t)shape.alpha * SUB;
    uint8_t *chunks[N];
    const uint8_t *data[N];
    for (uint32_t i = 0; i < N; i++) {
        data[i] = chunks[i] = (uint8_t *)malloc(chunk_len);
        for (size_t b = 0; b < chunk_len; b++) chunks[i][b] = (uint8_t)(b * 31 + b / 251 + i);
    }
    int result = kiln_encode(codec, data, chunks + shape.k, chunk_len, message, sizeof message);
    check(result, "encode", message);
    printf("kiln %s: %s\n", kiln_version(), spec);
    repair(codec, chunks, chunk_len);
    for (uint32_t i = 0; i < N; i++) free(chunks[i]);
    kiln_codec_free(codec);
    return 0;
}
