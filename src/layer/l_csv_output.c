// SPDX-License-Identifier: Apache-2.0
// l_csv_output.c - writes the values of its sources to a CSV file, one line for each sample.
//
// Columns are the sample's number (`index`), then the values of every source in logical order. Numbers
// have nine digits, which read back exactly. See rowfile.h for when the file starts anew.
#include "file/json.h"
#include "layer/infer.h"
#include "layer/rowfile.h"

#include <inttypes.h>

struct csv_output {
    const char *path;
    bool header, index;
    // private
    mu_rowfile file;
    const char *head;           // the line of column names, in the net's arena
};

static const mu_field fields[] = {
    MU_FIELD(struct csv_output, path, MU_PATH, NULL, NULL, "file to write"),
    MU_FIELD(struct csv_output, header, MU_BOOL, "true", NULL, "begin with a line of column names"),
    MU_FIELD(struct csv_output, index, MU_BOOL, "true", NULL, "first column is the number of the sample"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    char text[96];
    int64_t n = l->src[0]->value.shape.d[0];
    for (int k = 0; k < l->n_src; k++) {
        const mu_shape *in = mu_layer_src_shape(l, k);
        if (in->n < 1 || in->d[0] != n)
            return mu_layer_fail(l, err, "`%s` gives %s, not %" PRId64 " rows as `%s`",
                                 mu_infer_src_name(l, k), mu_shape_text(in, text), n,
                                 mu_infer_src_name(l, 0));
    }
    return MU_OK;
}

// Place in memory of logical element i of a sample.
static int64_t stored_at(const mu_shape *s, int64_t i) {
    if (!mu_shape_is_reordered(s)) return i;
    int64_t hw = s->d[2] * s->d[3];
    return i % hw * s->d[1] + i / hw;
}

static void add_name(mu_text *head, const char *name, int64_t i) {
    mu_text text = {0};
    mu_text_printf(&text, "%s", name);
    if (i >= 0) mu_text_printf(&text, ".%" PRId64, i);
    if (head->n) mu_text_put(head, ",", 1);
    mu_text_csv_cell(head, text.s ? text.s : "");
    head->failed |= text.failed;
    mu_text_fini(&text);
}

// The header, here since a step allocates nothing.
static mu_status setup(mu_layer *l, mu_err *err) {
    struct csv_output *s = l->state;
    mu_text head = {0};
    if (s->index) mu_text_put(&head, "sample", 6);
    for (int k = 0; k < l->n_src; k++) {
        int64_t n = mu_shape_inner(mu_layer_src_shape(l, k), 1);
        for (int64_t i = 0; i < n; i++) add_name(&head, mu_infer_src_name(l, k), n > 1 ? i : -1);
    }
    s->head = head.s && !head.failed ? mu_arena_strdup(l->arena, head.s) : NULL;
    mu_text_fini(&head);
    return s->head ? MU_OK : MU_FAIL_NOMEM(err, "a line of column names");
}

static void write_row(const mu_layer *l, const struct csv_output *s, int64_t row, int64_t sample) {
    const char *comma = "";
    if (s->index) fprintf(s->file.file, "%" PRId64, sample), comma = ",";
    for (int k = 0; k < l->n_src; k++) {
        const mu_tensor *t = &l->src[k]->value;
        int64_t n = mu_shape_inner(&t->shape, 1);
        for (int64_t i = 0; i < n; i++, comma = ",") {
            int64_t at = row * n + stored_at(&t->shape, i);
            if (t->dtype == MU_I32) fprintf(s->file.file, "%s%" PRId32, comma, t->i[at]);
            else fprintf(s->file.file, "%s%.9g", comma, (double)t->f[at]);
        }
    }
    fputc('\n', s->file.file);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct csv_output *s = l->state;
    bool fresh;
    MU_TRY(mu_rowfile_begin(&s->file, l, s->path, step, &fresh, err));
    if (fresh && s->header) fprintf(s->file.file, "%s\n", s->head);
    for (int64_t b = 0; b < step->rows; b++) write_row(l, s, b, step->first_sample + b);
    return mu_rowfile_end(&s->file, l, err);
}

static void teardown(mu_layer *l) {
    struct csv_output *s = l->state;
    mu_rowfile_close(&s->file);
}

const mu_layer_class mu_layer_csv_output = {
    .name = "csv_output",
    .help = "writes values to a CSV file",
    .fields = fields,
    .state_size = sizeof(struct csv_output),
    .n_src_max = MU_MAX_SRC,
    .flags = MU_LAYER_OUTPUT,
    .cuts = MU_CUT_NEVER,
    .uncut = "it writes one file",
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .teardown = teardown,
};
