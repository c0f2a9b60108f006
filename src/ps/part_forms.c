// SPDX-License-Identifier: Apache-2.0
// part_forms.c - see part_forms.h.
#include "ps/part_forms.h"

#include <stdio.h>

#define TAG "wire forms"

enum { SMALL = 2048 }; // floats: less is not worth a turn of its own

// Nothing applies its gradient.
static bool is_frozen(const mu_param *p, mu_grad_form form) {
    return form == MU_GRAD_DENSE && !p->is_stat && !p->is_state && p->lr_mult == 0;
}

static mu_status make_share(mu_part_forms *f, int w, const mu_params *ps, mu_err *err) {
    MU_TRY(mu_message_layout_make(ps, &f->message[w], err));
    f->apart[w] = mu_alloc_array((size_t)ps->n + 1, sizeof **f->apart, TAG);
    if (!f->apart[w]) return MU_FAIL_NOMEM(err, "the forms of gradients between ranks");
    for (int i = 0; i < ps->n; i++) f->apart[w][i] = is_frozen(ps->list[i], f->message[w].part[i].form);
    f->share[w] = (mu_wire_share){ps, &f->message[w], f->apart[w]};
    return MU_OK;
}

static mu_status make_channels(mu_part_forms *f, const mu_partition *p, mu_err *err) {
    f->channels = 4 * p->n_bridges;
    f->channel_bytes = mu_alloc_array((size_t)f->channels + 1, sizeof *f->channel_bytes, TAG);
    if (!f->channel_bytes) return MU_FAIL_NOMEM(err, "the bridges between ranks");
    for (int i = 0; i < p->n_bridges; i++)
        for (int back = 0; back < 2; back++)
            f->channel_bytes[mu_part_channel(i, back)] = (int64_t)p->bridge[i].bytes;
    return MU_OK;
}

// The workers of this rank: [*first, *end) of each of its learners.
static void workers_here(const mu_setup *s, int *first, int *end) {
    const int own = mu_setup_own_processes(s);
    *first = mu_setup_first_process(s) % s->workers;
    *end = *first + (own < s->workers ? own : s->workers);
}

// The parameter of a worker that is a piece, if its gradient is dense; -1 = there is none.
static int find_dense(const mu_part_forms *f, int w, const mu_piece *piece) {
    const mu_params *ps = f->share[w].params;
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        if (p->whole == piece->whole && p->row0 == piece->row0 && mu_param_rows(p) == piece->rows)
            return f->message[w].part[i].form == MU_GRAD_DENSE && !f->apart[w][i] ? i : -1;
    }
    return -1;
}

// Statistics and memories of layers are no gradients: they are not added up.
static mu_status make_sums(mu_part_forms *f, const mu_setup *s, const mu_partition *p, mu_err *err) {
    int first, end;
    workers_here(s, &first, &end);
    f->sum = mu_alloc_array((size_t)p->n_pieces + 1, sizeof *f->sum, TAG);
    if (!f->sum) return MU_FAIL_NOMEM(err, "the sums of gradients");
    for (int i = 0; i < p->n_pieces; i++) {
        const mu_piece *piece = &p->piece[i];
        mu_part_sum sum = {.at = f->sum_floats};
        sum.count = piece->whole->count / (size_t)mu_param_rows(piece->whole) * (size_t)piece->rows;
        for (int w = first; w < end; w++) {
            const int at = piece->whole->is_stat || piece->whole->is_state ? -1 : find_dense(f, w, piece);
            if (at < 0) continue;
            sum.worker[sum.n] = w;
            sum.index[sum.n++] = at;
        }
        if (sum.n < 2 || sum.count < SMALL) continue;
        f->sum[f->n_sums++] = sum;
        f->sum_floats += sum.count;
    }
    return MU_OK;
}

static void add_up(mu_part_forms *f, const mu_setup *s, const mu_partition *p) {
    int first, end;
    workers_here(s, &first, &end);
    const int n = end - first;
    const int64_t times = (int64_t)mu_setup_own_learners(s) * (s->nodes - 1);
    for (int i = 0; i < f->n_sums; i++) // all but one of each
        f->gradient_bytes -= (int64_t)f->message[f->sum[i].worker[0]].part[f->sum[i].index[0]].bytes *
                             (f->sum[i].n - 1) * times;
    for (int w = first; w < end; w++)
        for (int i = 0; i < f->message[w].n; i++) {
            const mu_message_part *part = &f->message[w].part[i];
            if (f->apart[w][i]) continue;
            f->n_rows += part->form == MU_GRAD_ROWS;
            f->n_dense += part->form == MU_GRAD_DENSE;
            f->n_factors += part->form == MU_GRAD_FACTORS || part->form == MU_GRAD_GATHERED;
            f->gradient_bytes += (int64_t)part->bytes * times;
        }
    for (int i = 0; f->channels && i < p->n_bridges; i++) {
        const mu_bridge *b = &p->bridge[i];
        const bool from = b->source->worker >= first && b->source->worker < first + n;
        const bool to = b->destination->worker >= first && b->destination->worker < first + n;
        if (from && !to) f->value_bytes += (int64_t)b->bytes;
        if (to && !from && b->gradient) f->value_bytes += (int64_t)b->bytes;
    }
}

mu_status mu_part_forms_make(const mu_setup *s, const mu_partition *p, mu_net *const *worker_net,
                             mu_part_forms **out, mu_err *err) {
    mu_part_forms *f = mu_alloc(sizeof *f, TAG);
    if (!f) return MU_FAIL_NOMEM(err, "the forms of gradients between ranks");
    const size_t n = (size_t)s->workers;
    f->workers = s->workers;
    f->message = mu_alloc_array(n, sizeof *f->message, TAG);
    f->share = mu_alloc_array(n, sizeof *f->share, TAG);
    f->apart = mu_alloc_array(n, sizeof *f->apart, TAG);
    mu_status st = f->message && f->share && f->apart
                       ? MU_OK
                       : MU_FAIL_NOMEM(err, "the forms of gradients between ranks");
    for (int w = 0; w < s->workers && st == MU_OK; w++) st = make_share(f, w, worker_net[w]->params, err);
    if (st == MU_OK && mu_setup_ranks_of_learner(s) > 1) st = make_channels(f, p, err);
    if (st == MU_OK) st = make_sums(f, s, p, err);
    if (st != MU_OK) {
        mu_part_forms_destroy(f);
        return st;
    }
    add_up(f, s, p);
    *out = f;
    return MU_OK;
}

void mu_part_forms_destroy(mu_part_forms *f) {
    if (!f) return;
    for (int w = 0; w < f->workers; w++) {
        if (f->message) mu_message_layout_fini(&f->message[w]);
        if (f->apart) mu_free(f->apart[w]);
    }
    mu_free(f->message);
    mu_free(f->share);
    mu_free(f->apart);
    mu_free(f->channel_bytes);
    mu_free(f->sum);
    mu_free(f);
}

void mu_part_forms_shape(const mu_part_forms *f, mu_wire_shape *shape) {
    shape->workers = f->workers;
    shape->share = f->share;
    shape->channels = f->channels;
    shape->channel_bytes = f->channel_bytes;
}

static size_t put_bytes(int64_t bytes, char *out, size_t size) {
    const bool large = bytes >= 1000000;
    return (size_t)snprintf(out, size, "%.1f %s", (double)bytes * (large ? 1e-6 : 1e-3), large ? "MB" : "KB");
}

void mu_part_forms_text(const mu_part_forms *f, char *out, size_t size) {
    const struct { int n; const char *how; } kinds[] = {
        {f->n_factors, "as factors"}, {f->n_rows, "as rows"}, {f->n_dense, "dense"}};
    char gradients[32], values[32];
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].n || at >= size) continue;
        at += (size_t)snprintf(out + at, size - at, "%s%d %s", at ? ", " : "", kinds[i].n, kinds[i].how);
    }
    (void)put_bytes(f->gradient_bytes, gradients, sizeof gradients);
    (void)put_bytes(f->value_bytes, values, sizeof values);
    if (at < size)
        snprintf(out + at, size - at, "; at most %s of them and %s of values leave this rank in a step",
                 gradients, values);
}
