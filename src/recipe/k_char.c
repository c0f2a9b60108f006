// SPDX-License-Identifier: Apache-2.0
// k_char.c - a text to be continued: a recurrent net over its bytes.
#include "recipe/recipe.h"

#include "file/infile.h"

static mu_status count_bytes(const mu_infile *f, int *kinds, mu_err *err) {
    unsigned char seen[256] = {0}, block[4096];
    for (uint64_t at = 0; at < f->size; at += sizeof block) {
        const size_t n = f->size - at < sizeof block ? (size_t)(f->size - at) : sizeof block;
        const void *p;
        MU_TRY(mu_infile_read(f, at, n, block, &p, err));
        for (size_t i = 0; i < n; i++) seen[((const unsigned char *)p)[i]] = 1;
    }
    *kinds = 0;
    for (int i = 0; i < 256; i++) *kinds += seen[i];
    return MU_OK;
}

// A text that is small for the net is learnt by heart: more dropout there, and more passes over it.
static void write_job(const mu_recipe_ask *a, uint64_t size, int kinds, FILE *out) {
    const bool small = size < 2000000;
    fprintf(out,
            "name: %s\nseed: 1\n\ndata:\n"
            "  train: {reader: chars, file: \"%s\", to: 0.95, length: 50, streams: 50}\n"
            "  validation: {reader: chars, file: \"%s\", from: 0.95, length: 50, streams: 50}\n\nnet:\n"
            "  - {name: gru, type: gru, src: [data.chars, data.begin], hidden: 256}\n"
            "  - {name: drop, type: dropout, ratio: %s}\n"
            "  - {name: scores, type: inner_product, axis: 2, outputs: %d}\n"
            "  - {name: loss, type: softmax_loss, src: [scores, data.next], top: []}\n\n"
            "train: {batch: 50, epochs: %d}\n"
            "updater: {type: adam, clip_value: 5, rate: {type: cosine, base: 0.002}}\n"
            "test: {every: 1 epoch}\n",
            a->name, a->file, a->file, small ? "0.2" : "0.1", kinds, small ? 10 : 3);
}

static mu_status write(const mu_recipe_ask *a, FILE *out, char *found, size_t found_size, mu_err *err) {
    mu_infile f = {0};
    int kinds = 0;
    MU_TRY(mu_infile_open(&f, a->path, err));
    mu_status st = count_bytes(&f, &kinds, err);
    if (st == MU_OK) {
        write_job(a, f.size, kinds, out);
        snprintf(found, found_size, "%llu bytes, %d different", (unsigned long long)f.size, kinds);
    }
    mu_infile_close(&f);
    return st;
}

const mu_recipe_class mu_recipe_char = {
    .name = "char",
    .help = "recurrent net that continues your own text",
    .write = write,
};
