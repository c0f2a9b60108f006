// SPDX-License-Identifier: Apache-2.0
// partition.c - the parts of all layers and what is between them, in one global order; see partition.h.
//
// A `hold` is a rectangle of a blob of the whole net that lies at one worker: what a part gives there, or an
// inserted layer makes of it. Who reads a rectangle first has it made, others read the same. Holds know of
// what they are made, so that a gradient that one reader needs is asked for all the way back.
#include "net/partition_inner.h"

#include <inttypes.h>
#include <string.h>

typedef struct hold {
    int worker;
    mu_rect rect;
    mu_from at;
    mu_part *made_by; // an inserted layer; NULL = a part or the data
    bool grad;
    int n_deps;
    struct hold *dep[MU_MAX_SRC], *next;
} hold;

typedef struct router {
    mu_partitioner *pr;
    mu_arena *arena;
    const mu_net *net;
    hold **of;      // [n_layers * MU_MAX_OUT] lists
    mu_part **list; // in the order of planning; ends of bridges at their sources are elsewhere
    size_t n, cap, n_bridges, cap_bridges;
} router;

// ---- rectangles ----

static bool same_rect(const mu_rect *a, const mu_rect *b) { return !memcmp(a, b, sizeof *a); }

mu_cut mu_rect_within(const mu_rect *r, const mu_rect *in) {
    mu_cut c = {{0}, {0}};
    const int64_t rows = in->row1 - in->row0, features = in->feature1 - in->feature0;
    if (r->row1 - r->row0 < rows) c.batch = (mu_extent){r->row0 - in->row0, r->row1 - in->row0, rows};
    if (r->feature1 - r->feature0 < features)
        c.feature = (mu_extent){r->feature0 - in->feature0, r->feature1 - in->feature0, features};
    return c;
}

mu_shape mu_rect_shape(const mu_blob *b, const mu_rect *r) {
    mu_shape s = b->value.shape;
    if (s.n) s.d[0] = r->row1 - r->row0;
    if (mu_feature_axis(&s) >= 0) s.d[mu_feature_axis(&s)] = r->feature1 - r->feature0;
    return s;
}

const mu_blob *mu_true_source(const mu_blob *b) {
    while (mu_is_net_split(b->producer)) b = b->producer->src[0];
    return b;
}

// ---- parts and holds ----

static mu_part *new_part(router *r, mu_part_kind kind, int worker, const char *name, mu_err *err) {
    mu_part *p = mu_arena_alloc(r->arena, sizeof *p);
    if (!p || !name) {
        MU_FAIL_NOMEM(err, "the partition");
        return NULL;
    }
    *p = (mu_part){.kind = kind, .worker = worker, .name = name, .bridge = -1};
    return p;
}

static mu_status append(router *r, mu_part *p, mu_err *err) {
    mu_part **list = mu_arena_grow(r->arena, r->list, r->n, &r->cap, sizeof *list, 64);
    if (!list) return MU_FAIL_NOMEM(err, "the partition");
    r->list = list;
    r->list[r->n++] = p;
    return MU_OK;
}

static hold **holds_of(router *r, const mu_blob *b) {
    return &r->of[(size_t)b->producer->at * MU_MAX_OUT + (size_t)(b - b->producer->out)];
}

static hold *find_hold(router *r, const mu_blob *b, int worker, const mu_rect *rect) {
    for (hold *h = *holds_of(r, b); h; h = h->next)
        if (h->worker == worker && same_rect(&h->rect, rect)) return h;
    return NULL;
}

static mu_status new_hold(router *r, const mu_blob *b, int worker, const mu_rect *rect, mu_from at,
                          hold **out, mu_err *err) {
    hold *h = mu_arena_alloc(r->arena, sizeof *h), **list = holds_of(r, b);
    if (!h) return MU_FAIL_NOMEM(err, "the partition");
    *h = (hold){.worker = worker, .rect = *rect, .at = at, .next = *list};
    *list = *out = h;
    return MU_OK;
}

static const char *name_at(const mu_from *f, const mu_blob *b) { return f->l ? f->l->name : b->name; }

// An inserted layer that makes `rect` of b at this worker from the holds in `from`.
static mu_status insert(router *r, mu_part_kind kind, const char *word, const mu_blob *b, int worker,
                        const mu_rect *rect, hold *const *from, int n, const char *reader, hold **out,
                        mu_err *err) {
    const char *name = n == 1 ? mu_arena_printf(r->arena, "%s(%s>%s)", word, name_at(&from[0]->at, b), reader)
                              : mu_arena_printf(r->arena, "%s(%s>%s)", word, b->name, reader);
    mu_part *p = new_part(r, kind, worker, name, err);
    if (!p) return MU_ENOMEM;
    p->blob = b;
    p->rect = *rect;
    for (p->n_src = 0; p->n_src < n; p->n_src++) {
        p->src[p->n_src] = from[p->n_src]->at;
        p->src_rect[p->n_src] = from[p->n_src]->rect;
    }
    MU_TRY(append(r, p, err));
    MU_TRY(new_hold(r, b, worker, rect, (mu_from){p, 0}, out, err));
    (*out)->made_by = p;
    if (n) memcpy((*out)->dep, from, (size_t)n * sizeof *from);
    (*out)->n_deps = n;
    return MU_OK;
}

// Brings `rect` of what a part at another worker gives: the source stands behind that part.
static mu_status bridge(router *r, const mu_blob *b, mu_part *from, int k, const mu_rect *has, int worker,
                        const mu_rect *rect, const char *reader, hold **out, mu_err *err) {
    mu_partition *p = r->pr->p;
    const char *name = mu_arena_printf(r->arena, "bridge(%s>%s)", from->name, reader);
    mu_bridge *list = mu_arena_grow(r->arena, p->bridge, r->n_bridges, &r->cap_bridges, sizeof *list, 32);
    mu_part *source = new_part(r, MU_PART_SOURCE, from->worker, name, err);
    if (!list || !source) return MU_FAIL_NOMEM(err, "the partition");
    p->bridge = list;
    source->blob = b;
    source->rect = *rect;
    source->src[0] = (mu_from){from, k};
    source->src_rect[0] = *has;
    source->n_src = 1;
    mu_part **end = &from->sources;
    while (*end) end = &(*end)->next_source;
    *end = source;
    MU_TRY(insert(r, MU_PART_DESTINATION, "bridge", b, worker, rect, NULL, 0, reader, out, err));
    mu_part *destination = (*out)->made_by;
    destination->name = name;
    destination->bridge = source->bridge = (int)r->n_bridges;
    const mu_shape shape = mu_rect_shape(b, rect);
    p->bridge[r->n_bridges++] = (mu_bridge){.name = name,
                                            .source = source,
                                            .destination = destination,
                                            .bytes = (size_t)mu_shape_count(&shape) * sizeof(float)};
    p->n_bridges = (int)r->n_bridges;
    return MU_OK;
}

// ---- what a part reads ----

static mu_status obtain_data(router *r, const mu_blob *b, int worker, const mu_rect *rect, const char *reader,
                             hold **out, mu_err *err) {
    mu_rect has = mu_rect_of(b, &(mu_cut){.batch = r->pr->p->rows[worker]});
    hold *all = find_hold(r, b, worker, &has);
    if (!all) MU_TRY(new_hold(r, b, worker, &has, (mu_from){NULL, (int)(b - b->producer->out)}, &all, err));
    *out = all;
    if (same_rect(&has, rect)) return MU_OK;
    return insert(r, MU_PART_SLICE, "slice", b, worker, rect, &all, 1, reader, out, err);
}

// The part of `rect` that one part of the producer gives, at this worker.
static mu_status obtain_piece(router *r, const mu_blob *b, mu_part *from, int worker, const mu_rect *has,
                              const mu_rect *rect, const char *reader, hold **out, mu_err *err) {
    const int k = (int)(b - b->producer->out);
    *out = find_hold(r, b, worker, rect);
    if (*out) return MU_OK;
    if (from->worker != worker) return bridge(r, b, from, k, has, worker, rect, reader, out, err);
    hold *own = find_hold(r, b, worker, has);
    if (!own) MU_TRY(new_hold(r, b, worker, has, (mu_from){from, k}, &own, err));
    *out = own;
    if (same_rect(has, rect)) return MU_OK;
    return insert(r, MU_PART_SLICE, "slice", b, worker, rect, &own, 1, reader, out, err);
}

static mu_status obtain(router *r, const mu_blob *b, int worker, const mu_rect *rect, const char *reader,
                        hold **out, mu_err *err) {
    *out = find_hold(r, b, worker, rect);
    if (*out) return MU_OK;
    if (b->producer->at == 0) return obtain_data(r, b, worker, rect, reader, out, err);
    const mu_cut_plan *c = &r->pr->plan[b->producer->at];
    hold *piece[MU_MAX_SRC] = {0};
    int n = 0;
    for (int i = 0; i < c->grid.batch * c->grid.feature; i++) {
        const mu_cut has = mu_layer_out_cut(b->producer, &c->part[i]->cut, (int)(b - b->producer->out));
        const mu_rect whole = mu_rect_of(b, &has);
        mu_rect common;
        if (mu_rect_meet(rect, &whole, &common))
            MU_TRY(obtain_piece(r, b, c->part[i], worker, &whole, &common, reader, &piece[n++], err));
    }
    *out = piece[0];
    return n == 1 ? MU_OK : insert(r, MU_PART_CONCAT, "concat", b, worker, rect, piece, n, reader, out, err);
}

static void ask_for_gradient(hold *h) {
    if (h->grad) return;
    h->grad = true;
    if (h->made_by) h->made_by->gradient = true;
    for (int i = 0; i < h->n_deps; i++) ask_for_gradient(h->dep[i]);
}

static const mu_blob *source_blob(const mu_layer *l, int k) { return mu_true_source(l->src[k]); }

static mu_status add_layer(router *r, const mu_layer *l, mu_part *p, const mu_cut_rules *rules, mu_err *err) {
    for (int k = 0; k < l->n_src; k++) {
        const mu_blob *b = source_blob(l, k);
        const mu_cut reads = mu_layer_src_cut(l, rules, &p->cut, k);
        const mu_rect rect = mu_rect_of(b, &reads);
        hold *h;
        MU_TRY(obtain(r, b, p->worker, &rect, p->name, &h, err));
        p->src[k] = h->at;
        p->n_src = k + 1;
        if (l->in_backward && b->needs_grad) ask_for_gradient(h);
    }
    return append(r, p, err);
}

mu_cut mu_plan_cut(const mu_layer *l, const mu_cut_plan *c, int i) {
    const int b = i / c->grid.feature, f = i % c->grid.feature;
    mu_cut cut = {{0}, {0}};
    if (c->grid.batch > 1) cut.batch = mu_extent_part(mu_layer_src_shape(l, 0)->d[0], 1, b, c->grid.batch);
    if (c->grid.feature > 1)
        cut.feature = mu_extent_part(mu_layer_features(l), c->rules.grain, f, c->grid.feature);
    return cut;
}

static mu_status make_parts(router *r, const mu_layer *l, mu_cut_plan *c, mu_err *err) {
    const int n = c->grid.batch * c->grid.feature;
    c->part = mu_arena_array(r->arena, (size_t)n, sizeof *c->part);
    if (!c->part) return MU_FAIL_NOMEM(err, "the partition");
    for (int i = 0; i < n; i++) {
        const char *name = n > 1 ? mu_arena_printf(r->arena, "%s@%d", l->name, i) : l->name;
        mu_part *p = c->part[i] = new_part(r, MU_PART_LAYER, n > 1 ? i : c->location, name, err);
        if (!p) return MU_ENOMEM;
        p->whole = l;
        p->piece = i % c->grid.feature;
        p->cut = mu_plan_cut(l, c, i);
    }
    return MU_OK;
}

// The rows of the batch that a worker's layers read of the data.
static void find_rows(router *r, const mu_layer *l, const mu_cut_plan *c) {
    bool data = false;
    for (int k = 0; k < l->n_src; k++) data |= source_blob(l, k)->producer->at == 0;
    for (int i = 0; data && i < c->grid.batch * c->grid.feature; i++) {
        mu_extent *have = &r->pr->p->rows[c->part[i]->worker];
        const mu_extent *cut = &c->part[i]->cut.batch;
        const mu_extent rows = mu_is_cut(cut) ? *cut : (mu_extent){0, r->net->batch, r->net->batch};
        if (!mu_is_cut(have)) *have = rows;
        if (rows.begin < have->begin) have->begin = rows.begin;
        if (rows.end > have->end) have->end = rows.end;
    }
}

// ---- the global order ----

static size_t room_of(const mu_bridge *b) { return mu_channel_memory_size(b->bytes); }

static mu_status put_in_order(router *r, mu_err *err) {
    mu_partition *p = r->pr->p;
    p->layer = mu_arena_array(r->arena, r->n + r->n_bridges + 1, sizeof *p->layer);
    if (!p->layer) return MU_FAIL_NOMEM(err, "the partition");
    for (size_t i = 0; i < r->n; i++) {
        p->layer[p->n_layers++] = r->list[i];
        for (mu_part *s = r->list[i]->sources; s; s = s->next_source) p->layer[p->n_layers++] = s;
    }
    for (int i = 0; i < p->n_layers; i++) p->layer[i]->at = i;
    for (int i = 0; i < p->n_bridges; i++) {
        mu_bridge *b = &p->bridge[i];
        b->gradient = b->destination->gradient;
        b->at[0] = i ? p->bridge[i - 1].at[1] + room_of(&p->bridge[i - 1]) : 0;
        b->at[1] = b->at[0] + room_of(b);
        ((mu_part *)(uintptr_t)b->source)->gradient = b->gradient;
    }
    return MU_OK;
}

// ---- pieces ----

static mu_status add_pieces(router *r, const mu_param *whole, const mu_cut_plan *c, size_t *cap,
                            mu_err *err) {
    mu_partition *p = r->pr->p;
    for (int i = 0; i < c->grid.batch * c->grid.feature; i++) {
        const mu_extent rows = mu_extent_scaled(&c->part[i]->cut.feature, mu_param_rows(whole));
        const uint32_t worker = (uint32_t)1 << c->part[i]->worker;
        int k = 0;
        while (k < p->n_pieces && (p->piece[k].whole != whole || p->piece[k].row0 != rows.begin)) k++;
        if (k < p->n_pieces) {
            p->piece[k].workers |= worker;
            continue;
        }
        mu_piece *list = mu_arena_grow(r->arena, p->piece, (size_t)p->n_pieces, cap, sizeof *list, 32);
        if (!list) return MU_FAIL_NOMEM(err, "the partition");
        p->piece = list;
        p->piece[p->n_pieces++] = (mu_piece){whole, rows.begin, rows.end - rows.begin, worker};
    }
    return MU_OK;
}

static mu_status list_pieces(router *r, mu_err *err) {
    size_t cap = 0;
    for (int i = 1; i < r->net->n_layers; i++)
        for (int k = 0; k < r->net->layer[i]->n_param; k++)
            MU_TRY(add_pieces(r, r->net->layer[i]->param[k], &r->pr->plan[i], &cap, err));
    return MU_OK;
}

mu_status mu_partition_route(mu_partitioner *pr, mu_err *err) {
    const mu_net *net = pr->o->whole;
    router r = {.pr = pr, .arena = &pr->p->arena, .net = net};
    r.of = mu_arena_array(r.arena, (size_t)net->n_layers * MU_MAX_OUT, sizeof *r.of);
    pr->p->rows = mu_arena_array(r.arena, (size_t)pr->o->workers, sizeof *pr->p->rows);
    if (!r.of || !pr->p->rows) return MU_FAIL_NOMEM(err, "the partition");
    for (int i = 1; i < net->n_layers; i++) {
        if (mu_is_net_split(net->layer[i])) continue;
        MU_TRY(make_parts(&r, net->layer[i], &pr->plan[i], err));
        find_rows(&r, net->layer[i], &pr->plan[i]);
    }
    for (int w = 0; w < pr->o->workers; w++) { // all of the batch is no cut
        mu_extent *rows = &pr->p->rows[w];
        if (rows->end - rows->begin == rows->whole) *rows = (mu_extent){0};
    }
    for (int i = 1; i < net->n_layers; i++) {
        const mu_cut_plan *c = &pr->plan[i];
        for (int k = 0; k < c->grid.batch * c->grid.feature; k++)
            MU_TRY(add_layer(&r, net->layer[i], c->part[k], &c->rules, err));
    }
    MU_TRY(list_pieces(&r, err));
    return put_in_order(&r, err);
}

// ---- life ----

static mu_status create(mu_partitioner *pr, mu_err *err) {
    MU_TRY(mu_partition_decide(pr, err));
    pr->p->grid = mu_arena_array(&pr->p->arena, (size_t)pr->o->whole->n_layers, sizeof *pr->p->grid);
    if (!pr->p->grid) return MU_FAIL_NOMEM(err, "the partition");
    for (int i = 1; i < pr->o->whole->n_layers; i++) pr->p->grid[i] = pr->plan[i].grid;
    return mu_partition_route(pr, err);
}

mu_status mu_partition_check_workers(int n, mu_err *err) {
    if (n >= 1 && n <= MU_MAX_PARTS) return MU_OK;
    return MU_FAIL(err, MU_EUSAGE, "a net is split over 1 to %d workers, not %d", MU_MAX_PARTS, n);
}

mu_status mu_partition_create(mu_binder *b, const mu_partition_opts *o, mu_partition **out, mu_err *err) {
    MU_TRY(mu_partition_check_workers(o->workers, err));
    mu_partition *p = mu_alloc(sizeof *p, "partition");
    if (!p) return MU_FAIL_NOMEM(err, "the partition");
    mu_arena_init(&p->arena, "partition");
    p->whole = o->whole;
    p->workers = o->workers;
    mu_partitioner pr = {.p = p, .o = o, .b = b};
    const mu_status st = create(&pr, err);
    if (st == MU_OK) *out = p;
    else mu_partition_destroy(p);
    return st;
}

void mu_partition_destroy(mu_partition *p) {
    if (!p) return;
    mu_arena_fini(&p->arena);
    mu_free(p);
}

mu_extent mu_partition_rows(const mu_partition *p, int worker) {
    bool data = false;
    for (int i = 0; i < p->n_layers; i++)
        for (int k = 0; k < p->layer[i]->n_src; k++)
            data |= p->layer[i]->worker == worker && !p->layer[i]->src[k].l;
    const mu_extent *rows = &p->rows[worker];
    return mu_is_cut(rows) ? *rows : (mu_extent){0, data ? p->whole->batch : 0, p->whole->batch};
}

size_t mu_partition_bytes(const mu_partition *p) {
    size_t n = 0;
    for (int i = 0; i < p->n_bridges; i++) n += p->bridge[i].bytes * (p->bridge[i].gradient ? 2 : 1);
    return n;
}

size_t mu_bridge_memory_bytes(const mu_partition *p) {
    const mu_bridge *last = p->n_bridges ? &p->bridge[p->n_bridges - 1] : NULL;
    return last ? last->at[1] + room_of(last) : 0;
}

mu_status mu_open_bridge_memory(void *ctx, const mu_bridge *b, bool back, mu_channel **out, mu_err *err) {
    const mu_bridge_memory *m = ctx;
    return mu_channel_open_memory(b->name, b->bytes, m->terms, m->base + b->at[back], out, err);
}

void mu_bridge_memory_reset(const mu_partition *p, char *base) {
    for (int i = 0; i < p->n_bridges; i++)
        for (int back = 0; back < 2; back++) mu_channel_memory_reset(base + p->bridge[i].at[back]);
}

size_t mu_piece_gradient_bytes(const mu_piece *p) {
    const size_t cols = p->whole->count / (size_t)mu_param_rows(p->whole);
    if (p->whole->is_stat) return 0;
    return (size_t)(__builtin_popcount(p->workers) - 1) * (size_t)p->rows * cols * sizeof(float);
}

size_t mu_partition_gradient_bytes(const mu_partition *p) {
    size_t n = 0;
    for (int i = 0; i < p->n_pieces; i++) n += mu_piece_gradient_bytes(&p->piece[i]);
    return n;
}

const char *mu_part_type(const mu_part *p) {
    return p->kind == MU_PART_LAYER ? p->whole->class->name : mu_seam_class(p->kind)->name;
}

mu_shape mu_part_shape(const mu_part *p) {
    if (p->kind != MU_PART_LAYER) return mu_rect_shape(p->blob, &p->rect);
    if (!p->whole->n_out) return (mu_shape){0};
    const mu_cut c = mu_layer_out_cut(p->whole, &p->cut, 0);
    return mu_cut_shape(&p->whole->out[0].value.shape, &c);
}

static void print_part(const mu_partition *p, const mu_part *l, FILE *out) {
    char shape[96] = "";
    const mu_shape s = mu_part_shape(l);
    if (s.n) mu_shape_text(&s, shape);
    fprintf(out, "%6d  %-32s %-16s %-20s", l->worker, l->name, mu_part_type(l), shape);
    if (l->bridge >= 0) {
        const mu_bridge *b = &p->bridge[l->bridge];
        const bool source = l->kind == MU_PART_SOURCE;
        fprintf(out, " %s worker %d, %zu bytes%s", source ? "to" : "from",
                source ? b->destination->worker : b->source->worker, b->bytes,
                b->gradient ? ", the gradient back" : "");
    }
    for (int k = 0; k < l->n_src; k++)
        fprintf(out, "%s%s",
                k                           ? ", "
                : l->kind == MU_PART_SOURCE ? " of "
                                            : " reads ",
                l->src[k].l ? l->src[k].l->name : p->whole->layer[0]->out[l->src[k].out].name);
    fputc('\n', out);
}

void mu_partition_print(const mu_partition *p, FILE *out) {
    fprintf(out, "%6s  %-32s %-16s %s\n", "worker", "layer", "type", "output");
    for (int i = 0; i < p->n_layers; i++) print_part(p, p->layer[i], out);
    fprintf(out, "%d bridges, %zu bytes between workers in a step; %zu bytes of dense gradients to add up\n",
            p->n_bridges, mu_partition_bytes(p), mu_partition_gradient_bytes(p));
}
