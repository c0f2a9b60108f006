// SPDX-License-Identifier: Apache-2.0
// fuzz_wire.c - libFuzzer target: any bytes as a frame of another node. They are refused with a message, or
// pack to the same bytes again, whether sums travel as they are or in half width. The check would stop nearly
// every mutation, so the target first makes it right, and the size in the head.
#include "../unit/wire_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(wire_rig *rig, const uint8_t *data, size_t size) {
    const uint64_t live = mu_alloc_get_stats().n_calls;
    unsigned char *frame = malloc(size + 1); // of just that size: reading beyond it is seen
    if (!frame) abort();
    if (size) memcpy(frame, data, size);
    if (size >= MU_WIRE_HEAD) {
        const uint64_t bytes = size - MU_WIRE_HEAD;
        memcpy(frame + 8, &bytes, sizeof bytes);
        memcpy(frame + 16, &rig->shape.layout, sizeof rig->shape.layout);
    }
    wire_sign(frame, size);
    unsigned char *exact = realloc(frame, size ? size : 1);
    mu_wire w;
    mu_err err = {0};
    const mu_status st = mu_wire_unpack(&rig->shape, exact, size, &w, &err);
    if (st == MU_OK) {
        if (!wire_is_legal(rig, &w, exact, size)) abort();
    } else if (st != MU_EDATA || !err.msg[0]) {
        abort();
    }
    if (mu_alloc_get_stats().n_calls != live) abort(); // nothing is allocated by what a frame says
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static wire_rig *rig[2];
    for (int k = 0; k < 2; k++) {
        if (!rig[k]) rig[k] = wire_rig_make_half(k ? MU_HALF_BF16 : MU_HALF_NONE);
        if (size <= WIRE_BYTES) try(rig[k], data, size);
    }
    return 0;
}
