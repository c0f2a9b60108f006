// SPDX-License-Identifier: Apache-2.0
// k_char.c - a text to be continued: a recurrent net over its bytes.
//
// The net is chosen by the size of the text. A wide net learns a small text by heart, so the smaller the
// text, the narrower the net and the more of it is dropped out; and the more passes over it are needed for as
// many updates. The rate falls to zero: validation then falls to the end instead of turning. Validation has a
// piece of every stream, because the end of a text is often of another kind (an index, a licence, another
// author).
#include "recipe/recipe.h"

#include "file/infile.h"
#include "job/job.h"

#include <inttypes.h>

enum { LENGTH = 50, LEAST_BYTES = 2000 };

typedef struct plan {
    uint64_t below; // for texts of fewer bytes
    int hidden, streams, epochs;
    const char *dropout, *rate, *to; // to: where training ends and validation begins
} plan;

static const plan plans[] = {
    {60000, 96, 10, 25, "0.4", "0.003", "0.9"},      {200000, 128, 16, 25, "0.3", "0.003", "0.9"},
    {600000, 192, 32, 15, "0.25", "0.002", "0.95"},  {2500000, 256, 50, 10, "0.2", "0.002", "0.95"},
    {10000000, 256, 50, 3, "0.1", "0.002", "0.95"},  {40000000, 256, 50, 2, "0.1", "0.002", "0.98"},
    {UINT64_MAX, 384, 100, 1, "0", "0.002", "0.99"},
};

static mu_status look(const mu_infile *f, int *kinds, mu_err *err) {
    unsigned char seen[256] = {0}, block[4096];
    for (uint64_t at = 0; at < f->size; at += sizeof block) {
        const size_t n = f->size - at < sizeof block ? (size_t)(f->size - at) : sizeof block;
        const void *p;
        MU_TRY(mu_infile_read(f, at, n, block, &p, err));
        for (size_t i = 0; i < n; i++) seen[((const unsigned char *)p)[i]] = 1;
    }
    *kinds = 0;
    for (int i = 0; i < 256; i++) *kinds += seen[i];
    if (f->size < LEAST_BYTES)
        return MU_FAIL(err, MU_EDATA,
                       "`%s` has %" PRIu64 " bytes; a text to learn from has at least %d, better "
                       "100000",
                       f->path, f->size, LEAST_BYTES);
    if (seen[0]) return MU_FAIL(err, MU_EDATA, "`%s` is no text: it has bytes that are 0", f->path);
    return MU_OK;
}

static void put_data(const mu_recipe_ask *a, const char *phase, const char *part, int streams, FILE *out) {
    fprintf(out, "  %s: {reader: chars, file: ", phase);
    mu_job_put_text(a->file, out);
    fprintf(out, ", %slength: %d, streams: %d}\n", part, LENGTH, streams);
}

// So many that each has at least two records in the share of the text that is held back.
static int fit_streams(uint64_t size, double share, int wanted) {
    const int fit = (int)(share * (double)size / (2 * LENGTH));
    return fit < 1 ? 1 : fit < wanted ? fit : wanted;
}

static void write_job(const mu_recipe_ask *a, uint64_t size, FILE *out) {
    const plan *p = plans;
    while (size >= p->below) p++;
    double to = 0;
    sscanf(p->to, "%lf", &to);
    char part[32];
    const int streams = fit_streams(size, 1 - to, p->streams);
    fputs("# A recurrent net that reads a text byte by byte and learns what comes next.\n#\n"
          "# command   muster train JOB\n"
          "#           muster sample RUN --prime 'The ' --temperature 0.6\n"
          "name: ",
          out);
    mu_job_put_text(a->name, out);
    fprintf(out, "\nseed: 1\n\ndata:                                   # the end of each part of the text is "
                 "held back\n");
    snprintf(part, sizeof part, "of: stream, to: %s, ", p->to);
    put_data(a, "train", part, streams, out);
    snprintf(part, sizeof part, "of: stream, from: %s, ", p->to);
    put_data(a, "validation", part, streams, out);
    if (a->test_file) {
        const mu_recipe_ask test = {.file = a->test_file};
        put_data(&test, "test", "", streams, out);
    }
    fprintf(out,
            "\nnet:\n"
            "  - {name: gru, type: gru, src: [data.chars, data.begin], hidden: %d}\n",
            p->hidden);
    if (p->dropout[1]) fprintf(out, "  - {name: drop, type: dropout, ratio: %s}\n", p->dropout);
    fprintf(out,
            "  - {name: scores, type: inner_product, axis: 2, outputs: auto}         # the different bytes "
            "of the text\n"
            "  - {name: loss, type: softmax_loss, src: [scores, data.next], top: []}   # nats per byte\n\n"
            "train: {batch: %d, epochs: %d}           # a row for each stream: its state goes from batch to "
            "batch\n"
            "updater: {type: adam, clip_value: 5, rate: {type: cosine, base: %s}}\n"
            "test: {every: %s}\n",
            streams, p->epochs, p->rate, p->epochs > 2 ? "1 epoch" : "1000 steps");
}

static mu_status make_char(const mu_recipe_ask *a, FILE *out, char *found, size_t found_size, mu_err *err) {
    if (a->label) return MU_FAIL(err, MU_EUSAGE, "a text has no columns: `--label` is for tables");
    mu_infile f = {0};
    int kinds = 0;
    MU_TRY(mu_infile_open(&f, a->path, err));
    mu_status st = look(&f, &kinds, err);
    if (st == MU_OK) {
        write_job(a, f.size, out);
        snprintf(found, found_size, "a text of %" PRIu64 " bytes, %d different ones", f.size, kinds);
    }
    mu_infile_close(&f);
    return st;
}

const mu_recipe_class mu_recipe_char = {
    .name = "char",
    .help = "recurrent net that continues your own text",
    .write = make_char,
};
