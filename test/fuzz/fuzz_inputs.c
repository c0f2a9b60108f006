// SPDX-License-Identifier: Apache-2.0
// Any bytes given as a model's description of its inputs are refused with a message, or readers that are
// opened by it read or complain.
#include "fuzz_data.h"

#include "data/inputs.h"

#include <stdlib.h>
#include <string.h>

static void open_by(const mu_inputs *in, const char *reader, const char *text) {
    const mu_known known = {.learnt = in->learnt, .labels = in->labels, .n_labels = in->n_labels};
    char path[32];
    const char *p = path;
    int fd = fuzz_file((const uint8_t *)text, strlen(text), path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *state = fuzz_options(&a, reader, "file", &p);
    if (!strcmp(reader, "chars")) {
        *(int64_t *)fuzz_option(state, reader, "streams") = 2;
        *(int64_t *)fuzz_option(state, reader, "length") = 4;
    }
    fuzz_reader_known(reader, state, &known);
    mu_arena_fini(&a);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char lines[] = "on\tturn on the light\noff\tturn off\n";
    mu_err err = {0};
    mu_inputs *in = NULL;
    const mu_status st = mu_inputs_read((const char *)data, size, "fuzz", &in, &err);
    if (st != MU_OK) {
        if ((st != MU_EMODEL && st != MU_ENOMEM) || !err.msg[0]) abort();
        return 0;
    }
    open_by(in, "sentences", lines);
    open_by(in, "chars", lines);
    open_by(in, "csv", "1,2,on\n3,4,off\n");
    mu_inputs_destroy(in);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
