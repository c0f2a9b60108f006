// SPDX-License-Identifier: Apache-2.0
// op.c - the registry of op implementations and the choice among them.
//
// Candidates of a primitive are tried from the highest rank down: one whose accepts() says no, or whose
// create() answers MU_EUNSUPPORTED (a library may know only then), is passed over; every other failure
// ends the search. The reference implementations accept everything, so only MUSTER_OPS or memory can
// leave a layer without an op.
#include "ops/op.h"

#include "base/alloc.h"
#include "base/level.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define X(name) MU_AT_LEVELS(extern const mu_op_class, mu_op_##name, );
#include "op_list.inc"
#undef X

static const mu_plugin *const list[] = {
#define X(name) &MU_LEVEL_LOWEST(mu_op_##name).plugin,
#include "op_list.inc"
#undef X
};

// The same at every level.
static const mu_op_class *const classes[][MU_LEVEL_COUNT] = {
#define X(name) {MU_LEVEL_ADDRESSES(mu_op_##name)},
#include "op_list.inc"
#undef X
};

const mu_registry mu_ops = {"op", MU_COUNT(list), list};

#define MAX_CANDIDATES 16

static const char *const prim_name[] = {
    [MU_PRIM_CONV] = "convolution", [MU_PRIM_POOL] = "pooling", [MU_PRIM_LRN] = "lrn",
    [MU_PRIM_NORM] = "batch norm", [MU_PRIM_INNER] = "inner product", [MU_PRIM_ACTIVATION] = "activation",
    [MU_PRIM_SOFTMAX] = "softmax", [MU_PRIM_DROPOUT] = "dropout", [MU_PRIM_RNN] = "recurrent cell",
    [MU_PRIM_TEXT] = "sentence convolution",
};
_Static_assert(MU_COUNT(prim_name) == MU_PRIM_TEXT + 1, "every kind of op has a name");

// Is the last part of `name` ("conv_onednn" -> "onednn") in the comma-separated list? No list allows all.
static bool allowed(const char *name, const char *filter) {
    if (!filter || !*filter) return true;
    const char *part = strrchr(name, '_');
    part = part ? part + 1 : name;
    size_t n = strlen(part);
    for (const char *p = filter; *p;) {
        size_t m = strcspn(p, ",");
        if (m == n && !strncmp(p, part, n)) return true;
        p += m + (p[m] == ',');
    }
    return false;
}

const mu_op_class *mu_op_at(size_t i) { return classes[i][mu_level_index()]; }

// Allowed classes of the primitive, highest rank first, file order among equals.
static size_t candidates(mu_prim prim, const char *filter, const mu_op_class *out[MAX_CANDIDATES]) {
    size_t n = 0;
    for (size_t i = 0; i < MU_COUNT(list); i++) {
        const mu_op_class *c = mu_op_at(i);
        if (c->prim != prim || !allowed(c->name, filter) || n == MAX_CANDIDATES) continue;
        size_t at = n++;
        for (; at > 0 && out[at - 1]->rank < c->rank; at--) out[at] = out[at - 1];
        out[at] = c;
    }
    return n;
}

mu_status mu_op_create_class(const mu_op_class *c, const mu_op_desc *d, mu_op **out, mu_err *err) {
    mu_op *op = mu_alloc(sizeof *op, "op");
    if (!op) return MU_FAIL_NOMEM(err, c->name);
    op->class = c;
    op->desc = *d;
    if (c->state_size && !(op->state = mu_alloc(c->state_size, "op"))) {
        mu_free(op);
        return MU_FAIL_NOMEM(err, c->name);
    }
    mu_status s = c->create ? c->create(op, err) : MU_OK;
    if (s != MU_OK) {
        mu_op_destroy(op);
        return s;
    }
    *out = op;
    return MU_OK;
}

mu_status mu_op_create(const mu_op_desc *d, const char *who, mu_op **out, mu_err *err) {
    const char *filter = getenv("MUSTER_OPS");
    const mu_op_class *c[MAX_CANDIDATES];
    size_t n = candidates(d->prim, filter, c);
    for (size_t i = 0; i < n; i++) {
        if (c[i]->accepts && !c[i]->accepts(d)) continue;
        mu_err refusal = {0};
        mu_status s = mu_op_create_class(c[i], d, out, &refusal);
        if (s == MU_OK) {
            mu_debug("%s: %s%s", who, c[i]->name, mu_level_suffix());
            return MU_OK;
        }
        if (s != MU_EUNSUPPORTED) return mu_err_pass(s, &refusal, err);
        mu_debug("%s: %s refuses: %s", who, c[i]->name, refusal.msg);
    }
    MU_FAIL(err, MU_EUNSUPPORTED, "no implementation of %s for `%s`", prim_name[d->prim], who);
    if (filter && *filter)
        mu_err_hint(err, "MUSTER_OPS=%s leaves out those that could; add `ref` to it or unset it.", filter);
    return MU_EUNSUPPORTED;
}

void mu_op_destroy(mu_op *op) {
    if (!op) return;
    if (op->class->destroy) op->class->destroy(op);
    mu_free(op->state);
    mu_free(op);
}
