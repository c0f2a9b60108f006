// SPDX-License-Identifier: Apache-2.0
// i_file.c - values of another run: a tensor of a safetensors file, by name, straight or transposed.
//
// This is how pre-trained parameters are ported into another net: the weight of an RBM becomes that of an
// encoder, and transposed that of its decoder. (`train.init_from` takes everything of equal name instead.)
// Shapes must agree exactly; all that can be wrong is reported by a check of the job already.
#include "file/safetensors.h"
#include "layer/param.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL "model.safetensors"       // what a run folder and a checkpoint call it

struct file {
    const char *path, *tensor;
    bool transpose;
};

static const mu_field fields[] = {
    MU_FIELD(struct file, path, MU_PATH, NULL, NULL,
             "safetensors file, or the folder of a run or checkpoint with a `" MODEL "`"),
    MU_FIELD(struct file, tensor, MU_STRING, "", NULL, "name in the file; the parameter's own when left out"),
    MU_FIELD(struct file, transpose, MU_BOOL, "false", NULL, "swap rows and columns of the matrix"),
    {0},
};

static mu_status open_file(const char *path, mu_st_file **out, mu_err *err) {
    char inner[4096];
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (snprintf(inner, sizeof inner, "%s/" MODEL, path) >= (int)sizeof inner)
            return MU_FAIL(err, MU_EJOB, "path too long: `%.80s...`", path);
        path = inner;
    }
    mu_status s = mu_st_open(path, out, err);
    if (s == MU_ENOTFOUND) mu_err_hint(err, "Initial values come from this file: train its model first.");
    return s;
}

static mu_status report_unknown(const mu_st_file *f, const char *path, const char *name, mu_err *err) {
    const char *known[64];
    size_t n = mu_st_count(f) < MU_COUNT(known) ? mu_st_count(f) : MU_COUNT(known);
    for (size_t i = 0; i < n; i++) known[i] = mu_st_at(f, i)->name;
    MU_FAIL(err, MU_EJOB, "`%s` has no tensor `%s`", path, name);
    mu_err_suggest(MU_EJOB, err, "tensor: ", mu_nearest(name, known, n));
    if (n) mu_err_hint(err, "It has %zu, such as `tensor: %s`.", mu_st_count(f), known[0]);
    return MU_EJOB;
}

// The shape that the tensor in the file must have.
static mu_status wanted_shape(const struct file *s, const char *name, const mu_shape *shape, mu_shape *out,
                              mu_err *err) {
    char text[96];
    *out = *shape;
    if (!s->transpose) return MU_OK;
    if (shape->n != 2)
        return MU_FAIL(err, MU_EJOB, "only a matrix can be transposed, `%s` is %s", name,
                       mu_shape_text(shape, text));
    *out = MU_SHAPE(shape->d[1], shape->d[0]);
    return MU_OK;
}

static mu_status check(const struct file *s, const mu_st_tensor *t, const char *name, const mu_shape *shape,
                       const mu_shape *want, mu_err *err) {
    char have[96], need[96];
    if (t->dtype != MU_ST_F32)
        return MU_FAIL(err, MU_EJOB, "tensor `%s` of `%s` is stored as %s, expected F32", t->name, s->path,
                       mu_st_dtype_name(t->dtype));
    if (mu_shape_equal(&t->shape, want)) return MU_OK;
    mu_status st = MU_FAIL(err, MU_EJOB, "tensor `%s` of `%s` has shape %s, `%s` needs %s%s", t->name,
                           s->path, mu_shape_text(&t->shape, have), name, mu_shape_text(want, need),
                           s->transpose ? " to be transposed" : "");
    bool turned = t->shape.n == 2 && shape->n == 2 && t->shape.d[0] == want->d[1] &&
                  t->shape.d[1] == want->d[0];
    if (turned && !s->transpose) mu_err_hint(err, "It fits with `transpose: true`.");
    else if (turned) mu_err_hint(err, "It fits without `transpose`.");
    return st;
}

static void copy(const mu_st_tensor *t, const mu_shape *shape, bool transpose, float *out) {
    const char *from = t->data; // perhaps not aligned
    if (!transpose) {
        if (t->size_bytes) memcpy(out, from, t->size_bytes);
        return;
    }
    int64_t rows = shape->d[0], cols = shape->d[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            memcpy(out + r * cols + c, from + (size_t)(c * rows + r) * sizeof(float), sizeof(float));
}

static mu_status load(const void *state, const char *name, const mu_shape *shape, float *out, mu_err *err) {
    const struct file *s = state;
    const char *tensor = s->tensor && *s->tensor ? s->tensor : name;
    mu_shape want;
    mu_st_file *f;
    MU_TRY(wanted_shape(s, name, shape, &want, err));
    MU_TRY(open_file(s->path, &f, err));
    const mu_st_tensor *t = mu_st_find(f, tensor);
    mu_status st = t ? check(s, t, name, shape, &want, err) : report_unknown(f, s->path, tensor, err);
    if (st == MU_OK && out) copy(t, shape, s->transpose, out);
    mu_st_close(f);
    return st;
}

const mu_init_class mu_init_file = {
    .name = "file",
    .help = "values of another run, from a safetensors file",
    .fields = fields,
    .state_size = sizeof(struct file),
    .load = load,
};
