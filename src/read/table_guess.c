// SPDX-License-Identifier: Apache-2.0
// table_guess.c - see table.h: which column is to be predicted, where nobody says.
#include "read/table.h"

#include <string.h>
#include <strings.h>

static bool usual_name(const char *name) {
    static const char *const names[] = {"label",   "labels",   "class",    "target",   "y",
                                        "outcome", "response", "species",  "category", "diagnosis",
                                        "survived", "default", "churn",    "quality",  "price"};
    for (size_t i = 0; i < MU_COUNT(names); i++)
        if (!strcasecmp(names[i], name)) return true;
    return false;
}

static bool may_be_label(const mu_table_column *c) {
    return c->n_values && (c->kind == MU_TABLE_NUMBER || c->kind == MU_TABLE_CATEGORY);
}

int64_t mu_table_guess_label(const mu_table *t) {
    int64_t last = -1, named = -1;
    for (size_t i = 0; i < t->n_known; i++) {
        if (!may_be_label(&t->column[i])) continue;
        last = (int64_t)i;
        if (t->header && usual_name(t->column[i].name)) named = (int64_t)i;
    }
    return named >= 0 ? named : last;
}

mu_status mu_table_guess_file(const char *path, mu_arena *arena, const char **label, mu_err *err) {
    mu_infile in = {0};
    mu_table t;
    mu_table_init(&t, arena, path);
    MU_TRY(mu_infile_open(&in, path, err));
    mu_status st = mu_infile_load(&in, err);
    const mu_table_options o = {.label = "none", .only_look = true};
    if (st == MU_OK) st = mu_table_learn(&t, &in, mu_table_separator(&in), &o, err);
    mu_infile_close(&in);
    const int64_t at = st == MU_OK ? mu_table_guess_label(&t) : -1;
    if (st == MU_OK && at < 0)
        st = MU_FAIL(err, MU_EDATA, "`%s` has no column that could be predicted", path);
    if (st == MU_OK) {
        *label = t.header ? t.column[at].name : mu_arena_printf(arena, "%lld", (long long)at);
        if (!*label) st = MU_FAIL_NOMEM(err, path);
    }
    mu_table_fini(&t);
    return st;
}
