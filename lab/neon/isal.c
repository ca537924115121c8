/* Codes a stripe with ISA-L so many times, for tools that count what that takes:
 *
 *     isal K+M CHUNK encode|decode TIMES
 */
#include <isa-l/erasure_code.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_N 64

int main(int argc, char **argv) {
    int k = 0, m = 0;
    if (argc != 5 || sscanf(argv[1], "%d+%d", &k, &m) != 2 || k < 1 || m < 1 || k + m > MAX_N) {
        fprintf(stderr, "usage: isal K+M CHUNK encode|decode TIMES\n");
        return 2;
    }
    int chunk = atoi(argv[2]), times = atoi(argv[4]);
    uint8_t matrix[MAX_N * MAX_N], inverse[MAX_N * MAX_N], part[MAX_N * MAX_N];
    uint8_t tables[32 * MAX_N * MAX_N];
    uint8_t *chunks[MAX_N], *rebuilt = malloc((size_t)chunk);
    for (int j = 0; j < k + m; j++) {
        chunks[j] = malloc((size_t)chunk);
        if (chunks[j] == NULL || rebuilt == NULL) return 1;
        for (int i = 0; i < chunk; i++) chunks[j][i] = (uint8_t)(i * 7 + i / 256 * 11 + j * 13);
    }
    gf_gen_rs_matrix(matrix, k + m, k);
    ec_init_tables(k, m, matrix + k * k, tables);
    int encodes = strcmp(argv[3], "encode") == 0 ? times : 1;
    for (int i = 0; i < encodes; i++)
        ec_encode_data(chunk, k, m, tables, chunks, chunks + k);
    if (strcmp(argv[3], "encode") == 0) {
        printf("%d\n", k * chunk);
        return 0;
    }
    /* Chunk 0 from the k others that come next. */
    memcpy(part, matrix + k, (size_t)(k * k));
    if (gf_invert_matrix(part, inverse, k) != 0) return 1;
    ec_init_tables(k, 1, inverse, tables);
    for (int i = 0; i < times; i++)
        ec_encode_data(chunk, k, 1, tables, chunks + 1, &rebuilt);
    if (memcmp(rebuilt, chunks[0], (size_t)chunk) != 0) return 1;
    printf("%d\n", chunk);
    return 0;
}
