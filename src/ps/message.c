// SPDX-License-Identifier: Apache-2.0
// message.c - gradients into a queue slot and out again.
//
//   part:  +------+---------------------------------------------+
//          | head | dense    count floats                       |
//          |  64  | factors  x (max_batch, cols) | dy (.., rows) |     | = next multiple of 64 bytes
//          |      | rows     ids (max_rows) | values (.., cols)  |
//          +------+---------------------------------------------+
//
// Where things lie follows from the plan alone; the head only says how much of it is used. A learner may have
// been killed while it wrote, or have gone wild: a head is read once, and what it says is believed only as
// far as the plan has room. Row numbers are checked where they are used (updater/).
#include "ps/message.h"

#include "comm/stream.h"

#include <assert.h>
#include <string.h>

enum { LINE = MU_CACHE_LINE };

typedef struct part_head {
    uint32_t form; // mu_grad_form
    uint32_t unused;
    int64_t n; // samples of factors, rows
} part_head;

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static size_t n_rows(const mu_param *p) { return (size_t)(p->shape.n ? p->shape.d[0] : 1); }

// ---- plan ------------------------------------------------------------------------------------

static bool factors_pay(const mu_param *p, double batch) {
    const double o = (double)n_rows(p), i = (double)p->count / o;
    return batch > 0 && p->n_users <= 1 && batch * (i + o) < 0.5 * i * o;
}

static mu_message_part part_make(const mu_param *p, int64_t rows) {
    const size_t o = n_rows(p), i = p->count / o;
    mu_message_part part = {.bytes = LINE + lines(p->count * sizeof(float))};
    if (p->is_stat) return part;
    // A layer gives factors of its whole batch, however few samples a step has.
    const int64_t batch = p->max_batch && p->max_batch < rows ? rows : p->max_batch;
    if (factors_pay(p, (double)batch)) {
        part.factors = true;
        part.max_batch = batch;
        part.bytes =
            LINE + lines((size_t)batch * i * sizeof(float)) + lines((size_t)batch * o * sizeof(float));
    } else if (p->max_rows > 0 && p->n_users <= 1 && (size_t)p->max_rows <= o) {
        part.max_rows = p->max_rows;
        part.bytes = LINE + lines((size_t)p->max_rows * sizeof(int32_t)) +
                     lines((size_t)p->max_rows * i * sizeof(float));
    }
    return part;
}

mu_status mu_message_plan_make(const mu_params *ps, int64_t rows, mu_message_plan *out, mu_err *err) {
    mu_message_plan plan = {.n = ps->n};
    plan.part = mu_alloc_array((size_t)(ps->n ? ps->n : 1), sizeof *plan.part, "message plan");
    if (!plan.part) return MU_FAIL_NOMEM(err, "the layout of gradients");
    for (int i = 0; i < ps->n; i++) {
        plan.part[i] = part_make(ps->list[i], rows);
        plan.part[i].offset = plan.bytes;
        plan.bytes += plan.part[i].bytes;
        ps->list[i]->allow_factors = plan.part[i].factors || plan.part[i].max_rows;
    }
    *out = plan;
    return MU_OK;
}

void mu_message_plan_fini(mu_message_plan *plan) {
    mu_free(plan->part);
    *plan = (mu_message_plan){0};
}

// ---- put and get -------------------------------------------------------------------------------

// Is there room for n samples or rows of this form?
static bool has_room(const mu_message_part *part, uint32_t form, int64_t n) {
    switch (form) {
    case MU_GRAD_DENSE:
        return !part->factors && !part->max_rows;
    case MU_GRAD_FACTORS:
        return part->factors && n >= 0 && n <= part->max_batch;
    case MU_GRAD_ROWS:
        return part->max_rows > 0 && n >= 0 && n <= part->max_rows;
    default:
        return false;
    }
}

// Beginnings of the one or two arrays of a part.
static void places(const mu_message_part *part, const mu_param *p, size_t at[2]) {
    const size_t cols = p->count / n_rows(p);
    at[0] = part->offset + LINE;
    at[1] = at[0];
    if (part->factors) at[1] += lines((size_t)part->max_batch * cols * sizeof(float));
    else if (part->max_rows) at[1] += lines((size_t)part->max_rows * sizeof(int32_t));
}

void mu_message_put(const mu_message_plan *plan, char *slot, int i, const mu_param *p) {
    const mu_message_part *part = &plan->part[i];
    const mu_grad *g = &p->grad;
    const size_t rows = n_rows(p), cols = p->count / rows;
    part_head head = {.form = p->is_stat ? MU_GRAD_DENSE : (uint32_t)g->form};
    if (head.form == MU_GRAD_FACTORS) head.n = g->batch;
    if (head.form == MU_GRAD_ROWS) head.n = g->n_rows;
    assert(head.form == MU_GRAD_NONE || has_room(part, head.form, head.n));
    if (!has_room(part, head.form, head.n)) head.form = MU_GRAD_NONE;
    size_t at[2];
    places(part, p, at);
    const size_t n = (size_t)head.n;
    if (head.form == MU_GRAD_DENSE) {
        mu_stream_copy(slot + at[0], p->is_stat ? p->value : g->dense, p->count * sizeof(float));
    } else if (head.form == MU_GRAD_FACTORS) {
        mu_stream_copy(slot + at[0], g->x, n * cols * sizeof(float));
        mu_stream_copy(slot + at[1], g->dy, n * rows * sizeof(float));
    } else if (head.form == MU_GRAD_ROWS) {
        mu_stream_copy(slot + at[0], g->row, n * sizeof(int32_t));
        mu_stream_copy(slot + at[1], g->row_value, n * cols * sizeof(float));
    }
    memcpy(slot + part->offset, &head, sizeof head);
}

mu_grad mu_message_get(const mu_message_plan *plan, const char *slot, int i, const mu_param *p) {
    const mu_message_part *part = &plan->part[i];
    const volatile part_head *in_slot = (const void *)(slot + part->offset); // checked and used: one reading
    const part_head head = {.form = in_slot->form, .n = in_slot->n};
    mu_grad g = {.form = MU_GRAD_NONE};
    if (!has_room(part, head.form, head.n)) return g;
    size_t at[2];
    places(part, p, at);
    const void *first = slot + at[0], *second = slot + at[1];
    g.form = (mu_grad_form)head.form;
    if (g.form == MU_GRAD_DENSE) {
        g.dense = (float *)(uintptr_t)first; // a view: whoever reads gradients does not write them
    } else if (g.form == MU_GRAD_FACTORS) {
        g.batch = head.n;
        g.x = first;
        g.dy = second;
    } else {
        g.n_rows = head.n;
        g.row = first;
        g.row_value = second;
    }
    return g;
}
