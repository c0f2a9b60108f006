// SPDX-License-Identifier: Apache-2.0
// message.c - gradients into a queue slot and out again.
//
//   part:  +------+----------------------------------------------------------+
//          | head | dense    count floats                                    |
//          |  64  | factors  x (max_batch, cols) | dy (.., rows)              |     | = next multiple
//          |      | gathered x (max_x, cols) | dy (max_batch, rows) | src_row |         of 64 bytes
//          |      | rows     ids (max_rows) | values (.., cols)               |
//          +------+----------------------------------------------------------+
//
// Where things lie follows from the layout alone; the head only says how much of it is used. A learner may
// have been killed while it wrote, or have overwritten it by mistake: a head is read once, and what it says
// is believed only as far as the layout has room. Row numbers are checked where they are used (updater/).
#include "ps/message.h"

#include "comm/stream.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LINE = MU_CACHE_LINE };

typedef struct part_head {
    uint32_t form; // mu_grad_form
    uint32_t unused;
    int64_t n;   // samples of factors or gathered rows; rows
    int64_t n_x; // gathered: rows of x
} part_head;

// Behind it: 1 + the step whose gradient this is, once it is complete.
static _Atomic int64_t *step_of(const char *slot, const mu_message_part *part) {
    return (_Atomic int64_t *)(uintptr_t)(slot + part->offset + sizeof(part_head));
}

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static size_t n_rows(const mu_param *p) { return (size_t)mu_param_rows(p); }
static size_t floats(int64_t n, size_t width) { return lines((size_t)n * width * sizeof(float)); }

// ---- layout ------------------------------------------------------------------------------------

enum { ARRAYS = 3 };

// Bytes of each array of a part.
static void sizes(const mu_message_part *part, const mu_param *p, size_t bytes[ARRAYS]) {
    const size_t o = n_rows(p), i = p->count / o;
    memset(bytes, 0, ARRAYS * sizeof *bytes);
    switch (part->form) {
    case MU_GRAD_FACTORS:
        bytes[0] = floats(part->max_batch, i);
        bytes[1] = floats(part->max_batch, o);
        break;
    case MU_GRAD_GATHERED:
        bytes[0] = floats(part->max_x, i);
        bytes[1] = bytes[2] = floats(part->max_batch, o);
        break;
    case MU_GRAD_ROWS:
        bytes[0] = lines((size_t)part->max_rows * sizeof(int32_t));
        bytes[1] = floats(part->max_rows, i);
        break;
    default:
        bytes[0] = lines(p->count * sizeof(float));
    }
}

static mu_message_part part_make(const mu_param *p) {
    mu_message_part part = {.form = MU_GRAD_DENSE, .bytes = LINE};
    if (p->allow_factors && mu_param_factors_pay(p)) {
        part.form = p->max_x ? MU_GRAD_GATHERED : MU_GRAD_FACTORS;
        part.max_batch = p->max_batch;
        part.max_x = p->max_batch * p->max_x;
    } else if (p->allow_factors && mu_param_rows_pay(p)) {
        part.form = MU_GRAD_ROWS;
        part.max_rows = p->max_rows;
    }
    size_t bytes[ARRAYS];
    sizes(&part, p, bytes);
    for (int k = 0; k < ARRAYS; k++) part.bytes += bytes[k];
    return part;
}

mu_status mu_message_layout_make(const mu_params *ps, mu_message_layout *out, mu_err *err) {
    mu_message_layout layout = {.n = ps->n};
    layout.part = mu_alloc_array((size_t)(ps->n ? ps->n : 1), sizeof *layout.part, "message layout");
    if (!layout.part) return MU_FAIL_NOMEM(err, "the layout of gradients");
    for (int i = 0; i < ps->n; i++) {
        layout.part[i] = part_make(ps->list[i]);
        layout.part[i].offset = layout.bytes;
        layout.bytes += layout.part[i].bytes;
    }
    *out = layout;
    return MU_OK;
}

void mu_message_layout_fini(mu_message_layout *layout) {
    mu_free(layout->part);
    *layout = (mu_message_layout){0};
}

// ---- put and get -------------------------------------------------------------------------------

// Is there room for what the head says?
static bool has_room(const mu_message_part *part, const part_head *h) {
    if (h->form != (uint32_t)part->form) return false;
    const int64_t most = part->form == MU_GRAD_ROWS ? part->max_rows : part->max_batch; // dense has 0
    return h->n >= 0 && h->n <= most && h->n_x >= 0 && h->n_x <= part->max_x;
}

// Beginnings of the arrays of a part.
static void places(const mu_message_part *part, const mu_param *p, size_t at[ARRAYS]) {
    size_t bytes[ARRAYS], next = part->offset + LINE;
    sizes(part, p, bytes);
    for (int k = 0; k < ARRAYS; next += bytes[k++]) at[k] = next;
}

static part_head head_of(const mu_param *p) {
    const mu_grad *g = &p->grad;
    part_head h = {.form = p->is_stat ? MU_GRAD_DENSE : (uint32_t)g->form};
    if (h.form == MU_GRAD_FACTORS || h.form == MU_GRAD_GATHERED) h.n = g->batch;
    if (h.form == MU_GRAD_GATHERED) h.n_x = g->n_x;
    if (h.form == MU_GRAD_ROWS) h.n = g->n_rows;
    return h;
}

void mu_message_put(const mu_message_layout *layout, char *slot, int i, const mu_param *p) {
    const mu_message_part *part = &layout->part[i];
    const mu_grad *g = &p->grad;
    const size_t rows = n_rows(p), cols = p->count / rows;
    part_head head = head_of(p);
    assert(head.form == MU_GRAD_NONE || has_room(part, &head));
    if (!has_room(part, &head)) head.form = MU_GRAD_NONE;
    size_t at[ARRAYS];
    places(part, p, at);
    const size_t n = (size_t)head.n;
    switch (head.form) {
    case MU_GRAD_DENSE:
        mu_stream_copy(slot + at[0], p->is_stat ? p->value : g->dense, p->count * sizeof(float));
        break;
    case MU_GRAD_FACTORS:
        mu_stream_copy(slot + at[0], g->x, n * cols * sizeof(float));
        mu_stream_copy(slot + at[1], g->dy, n * rows * sizeof(float));
        break;
    case MU_GRAD_GATHERED:
        mu_stream_copy(slot + at[0], g->x, (size_t)g->n_x * cols * sizeof(float));
        mu_stream_copy(slot + at[1], g->dy, n * rows * sizeof(float));
        mu_stream_copy(slot + at[2], g->src_row, n * rows * sizeof(int32_t));
        break;
    case MU_GRAD_ROWS:
        mu_stream_copy(slot + at[0], g->row, n * sizeof(int32_t));
        mu_stream_copy(slot + at[1], g->row_value, n * cols * sizeof(float));
        break;
    default:
        break;
    }
    memcpy(slot + part->offset, &head, sizeof head);
}

void mu_message_set_step(const mu_message_layout *layout, char *slot, int i, int64_t step) {
    atomic_store_explicit(step_of(slot, &layout->part[i]), step + 1, memory_order_release);
}

int64_t mu_message_step(const mu_message_layout *layout, const char *slot, int i) {
    return atomic_load_explicit(step_of(slot, &layout->part[i]), memory_order_acquire) - 1;
}

// Checked and used: one reading.
static part_head read_head(const mu_message_layout *layout, const char *slot, int i) {
    const volatile part_head *in_slot = (const void *)(slot + layout->part[i].offset);
    return (part_head){.form = in_slot->form, .n = in_slot->n, .n_x = in_slot->n_x};
}

mu_grad mu_message_get(const mu_message_layout *layout, const char *slot, int i, const mu_param *p) {
    const mu_message_part *part = &layout->part[i];
    const part_head head = read_head(layout, slot, i);
    if (!has_room(part, &head)) return (mu_grad){.form = MU_GRAD_NONE};
    size_t at[ARRAYS];
    places(part, p, at);
    const void *first = slot + at[0], *second = slot + at[1], *third = slot + at[2];
    switch (part->form) {
    case MU_GRAD_FACTORS:
        return (mu_grad){.form = MU_GRAD_FACTORS, .batch = head.n, .x = first, .dy = second};
    case MU_GRAD_GATHERED:
        return (mu_grad){.form = MU_GRAD_GATHERED, .batch = head.n, .x = first, .dy = second,
                         .n_x = head.n_x, .src_row = third};
    case MU_GRAD_ROWS:
        return (mu_grad){.form = MU_GRAD_ROWS, .n_rows = head.n, .row = first, .row_value = second};
    default: // a view: gradients are read from a slot, never written
        return (mu_grad){.form = MU_GRAD_DENSE, .dense = (float *)(uintptr_t)first};
    }
}

// ---- spans ---------------------------------------------------------------------------------------

static part_head head_for(const mu_message_use *use) {
    return (part_head){.form = (uint32_t)use->form, .n = use->n, .n_x = use->n_x};
}

bool mu_message_has_room(const mu_message_layout *layout, int i, const mu_message_use *use) {
    const part_head head = head_for(use);
    if (use->form == MU_GRAD_NONE) return !use->n && !use->n_x;
    return has_room(&layout->part[i], &head);
}

mu_message_use mu_message_used(const mu_message_layout *layout, const char *slot, int i) {
    const part_head head = read_head(layout, slot, i);
    if (!has_room(&layout->part[i], &head)) return (mu_message_use){.form = MU_GRAD_NONE};
    return (mu_message_use){layout->part[i].form, head.n, head.n_x};
}

int mu_message_spans(const mu_message_layout *layout, int i, const mu_param *p, const mu_message_use *use,
                     mu_message_span out[MU_MESSAGE_SPANS]) {
    const size_t rows = n_rows(p), cols = p->count / rows, n = (size_t)use->n, n_x = (size_t)use->n_x;
    size_t at[ARRAYS], values[ARRAYS] = {0}; // all are 4 bytes
    int n_out = 0;
    places(&layout->part[i], p, at);
    if (use->form == MU_GRAD_DENSE) values[0] = p->count;
    if (use->form == MU_GRAD_FACTORS) values[0] = n * cols, values[1] = n * rows;
    if (use->form == MU_GRAD_GATHERED) values[0] = n_x * cols, values[1] = values[2] = n * rows;
    if (use->form == MU_GRAD_ROWS) values[0] = n, values[1] = n * cols;
    for (int k = 0; k < ARRAYS; k++)
        if (values[k]) out[n_out++] = (mu_message_span){at[k], values[k] * sizeof(float)};
    return n_out;
}

void mu_message_mark(const mu_message_layout *layout, char *slot, int i, const mu_message_use *use) {
    const part_head head = head_for(use);
    memcpy(slot + layout->part[i].offset, &head, sizeof head);
}

uint64_t mu_message_layout_hash(const mu_params *ps, const mu_message_layout *layout) {
    uint64_t h = XXH64(&layout->n, sizeof layout->n, 0);
    for (int i = 0; i < layout->n; i++) {
        const mu_param *p = ps->list[i];
        const mu_message_part *m = &layout->part[i];
        const int64_t words[] = {(int64_t)p->offset, (int64_t)p->count, mu_param_rows(p), p->is_stat,
                                 (int64_t)m->offset, (int64_t)m->bytes, (int64_t)m->form, m->max_batch,
                                 m->max_rows,        m->max_x};
        h = XXH64(words, sizeof words, XXH64(p->name, strlen(p->name), h));
    }
    return h;
}
