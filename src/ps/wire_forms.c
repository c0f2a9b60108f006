// SPDX-License-Identifier: Apache-2.0
// wire_forms.c - see wire_forms.h.
#include "ps/wire_forms.h"

#include <stdio.h>

enum {
    SMALL = 2048, // floats: a parameter below is not worth messages of its own
    ALIGN = 16,   // floats of a line
};

// Bytes that leave a rank in a step when each of its gradients goes to each other rank.
static double bytes_of_each(const mu_param *p, const mu_message_part *part, int ranks, int learners) {
    const double rows = (double)mu_param_rows(p), cols = (double)p->count / rows, n = (double)part->max_batch;
    double floats = (double)p->count;
    if (part->form == MU_GRAD_FACTORS) floats = n * (rows + cols);
    if (part->form == MU_GRAD_GATHERED) floats = (double)part->max_x * cols + 2 * n * rows;
    if (part->form == MU_GRAD_ROWS) floats = (double)part->max_rows * (1 + cols);
    return 4 * floats * (ranks - 1) * learners;
}

static double bytes_of_sum(const mu_param *p, int ranks, mu_half half) {
    return (double)mu_half_width(half) * (double)p->count * 2 * (ranks - 1) / ranks;
}

static bool is_factored(mu_grad_form form) { return form == MU_GRAD_FACTORS || form == MU_GRAD_GATHERED; }

// Statistics and memories of layers are no gradients: they are not added up.
static bool is_dense_gradient(const mu_param *p, mu_grad_form form) {
    return form == MU_GRAD_DENSE && !p->is_stat && !p->is_state;
}

// Nothing applies its gradient, where there is one.
static bool is_frozen(const mu_param *p, mu_grad_form form) {
    return is_dense_gradient(p, form) && p->lr_mult == 0;
}

static void give_up_factors(mu_params *ps, const mu_wire_forms *f) {
    const mu_message_layout *m = &f->message;
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        if (is_factored(m->part[i].form) && p->count >= SMALL &&
            bytes_of_sum(p, f->ranks, f->half) < bytes_of_each(p, &m->part[i], f->ranks, f->learners))
            p->allow_factors = false;
    }
}

static void choose(const mu_params *ps, bool scaled, mu_wire_forms *f) {
    double bytes = 0;
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        const mu_grad_form form = f->message.part[i].form;
        f->apart[i] = is_frozen(p, form);
        f->at[i + 1] = f->at[i];
        if (f->apart[i]) continue;
        const double each = bytes_of_each(p, &f->message.part[i], f->ranks, f->learners);
        const double sum = bytes_of_sum(p, f->ranks, f->half);
        f->summed[i] = is_dense_gradient(p, form) && p->count >= SMALL && !scaled && sum <= each;
        f->apart[i] = f->summed[i];
        f->at[i + 1] += f->summed[i] ? (int64_t)p->count : 0;
        f->n_factors += is_factored(form);
        f->n_rows += form == MU_GRAD_ROWS;
        f->n_summed += f->summed[i];
        f->n_dense += form == MU_GRAD_DENSE && !f->summed[i];
        bytes += f->summed[i] ? sum : each;
    }
    f->step_bytes = (int64_t)bytes;
    const int64_t all = f->at[ps->n];
    for (int r = 0; r < f->ranks; r++) f->stretch[r] = all * r / f->ranks / ALIGN * ALIGN;
    f->stretch[f->ranks] = all;
}

mu_status mu_wire_forms_make(mu_params *ps, int ranks, int learners, bool scaled, mu_half half,
                             mu_wire_forms *out, mu_err *err) {
    mu_wire_forms f = {.ranks = ranks, .learners = learners, .half = half};
    MU_TRY(mu_message_layout_make(ps, &f.message, err));
    if (!scaled) give_up_factors(ps, &f);
    mu_message_layout_fini(&f.message);
    MU_TRY(mu_message_layout_make(ps, &f.message, err));
    const size_t n = (size_t)ps->n + 1;
    f.summed = mu_alloc_array(n, sizeof *f.summed, "wire forms");
    f.apart = mu_alloc_array(n, sizeof *f.apart, "wire forms");
    f.at = mu_alloc_array(n, sizeof *f.at, "wire forms");
    f.stretch = mu_alloc_array((size_t)ranks + 1, sizeof *f.stretch, "wire forms");
    if (!f.summed || !f.apart || !f.at || !f.stretch) {
        mu_wire_forms_fini(&f);
        return MU_FAIL_NOMEM(err, "the forms of gradients between ranks");
    }
    choose(ps, scaled, &f);
    *out = f;
    out->share = (mu_wire_share){ps, &out->message, out->apart};
    return MU_OK;
}

void mu_wire_forms_fini(mu_wire_forms *f) {
    mu_message_layout_fini(&f->message);
    mu_free(f->summed);
    mu_free(f->apart);
    mu_free(f->at);
    mu_free(f->stretch);
    *f = (mu_wire_forms){0};
}

void mu_wire_forms_text(const mu_wire_forms *f, char *out, size_t size) {
    const struct {
        int n;
        const char *how;
    } kinds[] = {{f->n_factors, "as factors"},
                 {f->n_rows, "as rows"},
                 {f->n_dense, "dense"},
                 {f->n_summed, f->half == MU_HALF_BF16   ? "summed up in bf16"
                               : f->half == MU_HALF_FP16 ? "summed up in fp16"
                                                         : "summed up"}};
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].n || at >= size) continue;
        at += (size_t)snprintf(out + at, size - at, "%s%d %s", at ? ", " : "", kinds[i].n, kinds[i].how);
    }
    const double bytes = (double)f->step_bytes;
    const bool large = bytes >= 1e6;
    if (at < size)
        snprintf(out + at, size - at, "; at most %.1f %s leave a rank in a step",
                 bytes * (large ? 1e-6 : 1e-3), large ? "MB" : "KB");
}

mu_summed mu_wire_forms_summed(const mu_wire_forms *f, int64_t at, int64_t end) {
    int lo = 0, hi = f->message.n; // the last parameter that begins at or before `at`
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if (f->at[mid] <= at) lo = mid;
        else hi = mid;
    }
    const int64_t until = f->at[lo + 1] < end ? f->at[lo + 1] : end;
    return (mu_summed){lo, (size_t)(at - f->at[lo]), (size_t)(until - at)};
}
