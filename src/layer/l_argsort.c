// SPDX-License-Identifier: Apache-2.0
// l_argsort.c - numbers of the k best scores of each sample, best first, as integers (n, k).
//
// With `path` they also go to a file, one line of space-separated numbers for each sample. Of equal
// scores the lower number comes first.
#include "layer/infer.h"
#include "layer/rowfile.h"

#include <inttypes.h>

struct argsort {
    int64_t top;
    const char *path;
    int64_t n, c; // derived
    mu_rowfile file;
};

static const mu_field fields[] = {
    MU_FIELD(struct argsort, top, MU_INT, "1", "[1,)", "how many of the best scores"),
    MU_FIELD(struct argsort, path, MU_PATH, "", NULL,
             "file to write them to, one line a sample; none by default"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct argsort *s = l->state;
    MU_TRY(mu_infer_matrix(l, 0, &s->n, &s->c, err));
    if (s->top > s->c)
        return mu_layer_fail(l, err, "top %" PRId64 " of only %" PRId64 " scores from `%s`", s->top, s->c,
                             mu_infer_src_name(l, 0));
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->n, s->top), MU_I32, err);
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    if (((const struct argsort *)l->state)->path) rules->cuts = MU_CUT_NEVER;
}

// Insertion into the k best so far; a score that is not a number sorts last.
static void best(const float *x, int64_t c, int32_t *out, int64_t k) {
    int64_t have = 0;
    for (int64_t j = 0; j < c; j++) {
        int64_t at = have;
        while (at > 0 && (x[j] > x[out[at - 1]] || (x[out[at - 1]] != x[out[at - 1]] && x[j] == x[j]))) at--;
        if (at == k) continue;
        if (have < k) have++;
        for (int64_t i = have - 1; i > at; i--) out[i] = out[i - 1];
        out[at] = (int32_t)j;
    }
}

static mu_status write_rows(mu_layer *l, const mu_step *step, mu_err *err) {
    struct argsort *s = l->state;
    bool fresh;
    MU_TRY(mu_rowfile_begin(&s->file, l, s->path, step, &fresh, err));
    for (int64_t b = 0; b < step->rows; b++)
        for (int64_t i = 0; i < s->top; i++)
            fprintf(s->file.file, "%" PRId32 "%c", l->out[0].value.i[b * s->top + i],
                    i + 1 < s->top ? ' ' : '\n');
    return mu_rowfile_end(&s->file, l, err);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct argsort *s = l->state;
    for (int64_t b = 0; b < s->n; b++)
        best(l->src[0]->value.f + b * s->c, s->c, l->out[0].value.i + b * s->top, s->top);
    return s->path ? write_rows(l, step, err) : MU_OK;
}

static void teardown(mu_layer *l) {
    struct argsort *s = l->state;
    mu_rowfile_close(&s->file);
}

const mu_layer_class mu_layer_argsort = {
    .name = "argsort",
    .help = "class numbers of the k best scores, best first",
    .fields = fields,
    .state_size = sizeof(struct argsort),
    .flags = MU_LAYER_OUTPUT,
    .cuts = MU_CUT_BATCH,
    .uncut = "it compares all scores, and writes one file",
    .cut_rules = cut_rules,
    .infer = infer,
    .forward = forward,
    .teardown = teardown,
};
