// SPDX-License-Identifier: Apache-2.0
// sums.c - see sums.h.
#include "learners/sums.h"

#include "learners/adding.h"

#include <string.h>

#define TAG "sums"

enum {
    CHUNKS = 64,            // of a stretch, about
    CHUNK_LEAST = 60 << 10, // bytes: a frame goes to a host by TCP without asking that host first
    CHUNK_MOST = 1 << 18,
    BLOCK = 1024, // floats added up at a time
};

// ---- places ----

static mu_adding adding_of(const mu_sums *s) { return (mu_adding){s->forms, s->shared, s->first, s->own}; }

static char *message_at(const mu_sums *s, int learner, int64_t step) {
    const mu_adding a = adding_of(s);
    return mu_adding_message(&a, learner, step);
}

static int64_t begin_of(const mu_sums *s, int rank) { return s->forms->stretch[rank]; }
static int64_t end_of(const mu_sums *s, int rank) { return s->forms->stretch[rank + 1]; }
static float *own_sum(const mu_sums *s) { return s->sum[s->halves.form ? 0 : s->step % 2]; }

// Floats of a frame and of a piece, at most: the same ones on all ranks, so a frame is of one piece. While one
// is under way the one before is added up, and its total goes back.
static int64_t chunk_of(const mu_sums *s) {
    const int64_t n = mu_wire_forms_floats(s->forms) / s->nodes->n / CHUNKS;
    const int64_t least = CHUNK_LEAST / (int64_t)mu_half_width(s->forms->half);
    return n < least ? least : n > CHUNK_MOST ? CHUNK_MOST : n;
}

// ---- beginning and end ----

static mu_status list_pieces(mu_sums *s, mu_err *err) {
    const int64_t begin = begin_of(s, s->nodes->rank), end = end_of(s, s->nodes->rank);
    const int64_t chunk = chunk_of(s), most = (end - begin) / chunk + s->forms->message.n + 1;
    s->piece = mu_alloc_array((size_t)most, sizeof *s->piece, TAG);
    if (!s->piece) return MU_FAIL_NOMEM(err, "the gradients of other ranks");
    for (int64_t at = begin; at < end;) {
        mu_summed p = mu_wire_forms_summed(s->forms, at, end);
        if (p.n > (size_t)chunk) p.n = (size_t)chunk;
        s->piece[s->n_pieces++] = (mu_sums_piece){.param = p.param, .from = p.from, .n = p.n, .at = at};
        at += (int64_t)p.n;
    }
    return MU_OK;
}

mu_status mu_sums_init(mu_sums *s, mu_nodes *n, mu_shared *shared, mu_err *err) {
    const int64_t floats = mu_wire_forms_floats(&n->forms);
    *s = (mu_sums){0};
    if (!floats) return MU_OK;
    const size_t params = (size_t)n->forms.message.n;
    s->nodes = n, s->shared = shared, s->forms = &n->forms;
    s->first = shared->head->own_first, s->own = shared->head->own_n;
    s->keeper = s->first ? 0 : s->own;
    s->sent = mu_alloc_array(params, sizeof *s->sent, TAG);
    s->totals = mu_alloc_array((size_t)n->n, sizeof *s->totals, TAG);
    bool good = s->sent && s->totals;
    for (int k = 0; k < (s->forms->half ? 1 : 2) && good; k++)
        good = (s->sum[k] = mu_alloc_block((size_t)floats * sizeof(float), TAG)) != NULL;
    if (!good) return MU_FAIL_NOMEM(err, "the gradients of other ranks");
    MU_TRY(mu_halves_init(&s->halves, s->forms->half, floats, err));
    return list_pieces(s, err);
}

void mu_sums_fini(mu_sums *s) {
    mu_free(s->sent);
    mu_free(s->piece);
    mu_free(s->totals);
    for (int k = 0; k < 2 && s->nodes; k++) mu_nodes_give_back(s->nodes, s->sum[k]);
    mu_halves_fini(&s->halves, s->nodes);
    *s = (mu_sums){0};
}

void mu_sums_begin(mu_sums *s, int64_t step, int64_t version) {
    s->step = step, s->version = version;
    if (s->forms) memset(s->sent, 0, (size_t)s->forms->message.n * sizeof *s->sent);
    for (int i = 0; i < s->n_pieces; i++) s->piece[i].added = false;
}

// ---- what comes in ----

static mu_sums_piece *piece_at(mu_sums *s, int64_t at) {
    mu_sums_piece *p = s->piece;
    while (p->at + (int64_t)p->n <= at) p++;
    return p;
}

// More floats of a piece than there are other ranks to send them cannot be.
static bool is_too_much(mu_sums *s, int64_t at, size_t n) {
    const mu_sums_piece *p = piece_at(s, at);
    return p->came + (int64_t)n > (int64_t)p->n * (s->nodes->n - 1);
}

static mu_status unexpected(int peer, const mu_wire_sum *w, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "rank %d sent sums of step %lld, which are not due", peer,
                   (long long)w->number);
}

static mu_status put_floats(mu_sums *s, int peer, const mu_wire_sum *w, bool mine, mu_err *err) {
    char *message = message_at(s, mine ? peer * s->own : s->keeper, w->number);
    const char *from = w->floats;
    for (int64_t at = w->begin; at < w->end;) {
        const mu_summed p = mu_wire_forms_summed(s->forms, at, w->end);
        if (mine && is_too_much(s, at, p.n)) return unexpected(peer, w, err);
        float *to = mu_adding_dense(s->forms, message, p.param) + p.from;
        if (s->forms->half) mu_half_widen(s->forms->half, p.n, from, to);
        else memcpy(to, from, p.n * sizeof *to);
        if (mine) piece_at(s, at)->came += (int64_t)p.n;
        from += p.n * mu_half_width(s->forms->half);
        at += (int64_t)p.n;
    }
    return MU_OK;
}

// For the own stretch, or the total of the peer's. The next step's may come while the totals of others for
// this one are missing: those of a piece only when its own total is known to all.
mu_status mu_sums_take(mu_sums *s, int peer, const mu_wire_sum *w, mu_err *err) {
    if (!s->forms) return unexpected(peer, w, err);
    const int rank = s->nodes->rank;
    const bool mine = w->begin >= begin_of(s, rank) && w->end <= end_of(s, rank);
    const bool theirs = w->begin >= begin_of(s, peer) && w->end <= end_of(s, peer);
    const int64_t each = end_of(s, peer) - begin_of(s, peer);
    if (w->rank != peer || w->number < s->step || w->number > s->step + mine || (!mine && !theirs) ||
        (theirs && s->totals[peer] / each != w->number))
        return unexpected(peer, w, err);
    MU_TRY(put_floats(s, peer, w, mine, err));
    if (theirs) s->totals[peer] += w->end - w->begin;
    return MU_OK;
}

// ---- own gradients ----

static mu_status send_floats(mu_sums *s, int peer, int64_t begin, int64_t end, mu_err *err) {
    const int64_t chunk = chunk_of(s);
    for (int64_t at = begin; at < end; at += chunk) {
        const mu_wire w = {.type = MU_WIRE_SUM,
                           .sum = {.rank = s->nodes->rank,
                                   .number = s->step,
                                   .version = s->version,
                                   .begin = at,
                                   .end = end - at < chunk ? end : at + chunk,
                                   .floats = mu_halves_of(&s->halves, s->step, at, own_sum(s) + at)}};
        MU_TRY(mu_nodes_send(s->nodes, peer, mu_node_topic_of_step(s->step), &w, err));
    }
    return MU_OK;
}

// To each rank what of the parameter lies in its stretch.
static mu_status send_own(mu_sums *s, int param, mu_err *err) {
    const int64_t first = s->forms->at[param], last = s->forms->at[param + 1];
    s->sent[param] = true;
    for (int r = 0; r < s->nodes->n; r++) {
        const int64_t begin = begin_of(s, r) > first ? begin_of(s, r) : first;
        const int64_t end = end_of(s, r) < last ? end_of(s, r) : last;
        if (r == s->nodes->rank || begin >= end) continue;
        mu_halves_round(&s->halves, s->step, begin, (size_t)(end - begin), own_sum(s) + begin);
        MU_TRY(send_floats(s, r, begin, end, err));
    }
    return MU_OK;
}

// ---- totals ----

// In the order of ranks, so that the bits do not depend on who came first.
static mu_status add_piece(mu_sums *s, mu_sums_piece *p, mu_err *err) {
    float *own = own_sum(s) + p->at, sum[BLOCK];
    float *kept = mu_adding_dense(s->forms, message_at(s, s->keeper, s->step), p->param) + p->from;
    for (size_t at = 0; at < p->n; at += BLOCK) {
        const size_t n = p->n - at < BLOCK ? p->n - at : BLOCK;
        memset(sum, 0, n * sizeof *sum);
        for (int r = 0; r < s->nodes->n; r++) {
            char *message = message_at(s, r * s->own, s->step);
            mu_adding_floats(
                sum,
                (r == s->nodes->rank ? own : mu_adding_dense(s->forms, message, p->param) + p->from) + at, n);
        }
        memcpy(own + at, sum, n * sizeof *sum);
        mu_halves_round(&s->halves, s->step, p->at + (int64_t)at, n, own + at);
        memcpy(kept + at, own + at, n * sizeof *sum);
    }
    p->added = true;
    p->came = 0;
    return send_floats(s, -1, p->at, p->at + (int64_t)p->n, err);
}

mu_status mu_sums_look(mu_sums *s, const mu_sums_step *now, bool *moved, mu_err *err) {
    const mu_adding adding = adding_of(s);
    const mu_adding_step step = {s->step, now->takes_part, now->done};
    for (int i = s->forms ? s->forms->message.n - 1 : -1; i >= 0; i--) { // the last layers are ready first
        if (!s->forms->summed[i] || s->sent[i] || !mu_adding_is_ready(&adding, &step, i)) continue;
        mu_adding_add(&adding, &step, i, own_sum(s) + s->forms->at[i]);
        MU_TRY(send_own(s, i, err));
        *moved = true;
    }
    for (int i = s->n_pieces - 1; i >= 0; i--) {
        mu_sums_piece *p = &s->piece[i];
        if (p->added || !s->sent[p->param] || p->came < (int64_t)p->n * (s->nodes->n - 1)) continue;
        MU_TRY(add_piece(s, p, err));
        *moved = true;
    }
    return MU_OK;
}

bool mu_sums_are_complete(const mu_sums *s) {
    bool all = true;
    for (int i = 0; i < s->n_pieces; i++) all &= s->piece[i].added;
    for (int r = 0; s->forms && r < s->nodes->n && all; r++)
        all = r == s->nodes->rank || s->totals[r] >= (s->step + 1) * (end_of(s, r) - begin_of(s, r));
    return all;
}

// Has any learner a gradient of it? From now on none has.
static bool take_from_all(mu_sums *s, const mu_sums_step *now, int learners, int param) {
    const mu_message_layout *m = &s->forms->message;
    const mu_message_use none = {.form = MU_GRAD_NONE};
    bool any = false;
    for (int i = 0; i < learners; i++) {
        char *message = message_at(s, i, s->step);
        if (!now->takes_part[i]) continue;
        any |= mu_message_used(m, message, param).form == MU_GRAD_DENSE;
        mu_message_mark(m, message, param, &none);
    }
    return any;
}

void mu_sums_settle(mu_sums *s, const mu_sums_step *now, int learners) {
    const mu_message_use dense = {.form = MU_GRAD_DENSE};
    int to = s->keeper;
    if (!s->forms) return;
    for (int i = 0; !now->takes_part[to] && i < learners; i++) to = i;
    char *message = message_at(s, to, s->step), *kept = message_at(s, s->keeper, s->step);
    for (int p = 0; p < s->forms->message.n; p++) {
        if (!s->forms->summed[p] || !take_from_all(s, now, learners, p)) continue;
        if (to != s->keeper) // in the last step it may have no samples
            memcpy(mu_adding_dense(s->forms, message, p), mu_adding_dense(s->forms, kept, p),
                   s->forms->share.params->list[p]->count * sizeof(float));
        mu_message_mark(&s->forms->message, message, p, &dense);
    }
}
