// SPDX-License-Identifier: Apache-2.0
// unroll_emit.c - writes the copies of unrolled layers as blocks; see unroll.h.
//
// A sequence is taken apart by steps(x), a `time_step` layer, and put together by stack(x), a `stack_time`
// layer. Layers have at most 16 sources and outputs, so longer ones are trees of them.
#include "net/unroll_inner.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// ---- lists and nodes ----

static mu_status add(unroller *u, mu_unrolled entry, mu_err *err) {
    mu_unrolled *out = mu_arena_grow(&u->nb->net->arena, u->out, u->n_out, &u->cap_out, sizeof *out, 64);
    if (!out) return MU_FAIL_NOMEM(err, "the layer list");
    u->out = out;
    u->out[u->n_out++] = entry;
    return MU_OK;
}

mu_status mu_unroll_pass(unroller *u, const mu_node *node, mu_err *err) {
    const char *name = mu_node_text(mu_node_find(node, "name"));
    return add(u, (mu_unrolled){.node = node, .name = name, .origin = name}, err);
}

// True when stack(x) or steps(x) is there already; else it is noted.
static mu_status was_done(unroller *u, const char *name, int64_t steps, const inserted **found, mu_err *err) {
    *found = NULL;
    for (size_t i = 0; i < u->n_done && !*found; i++)
        if (!strcmp(u->done[i].name, name)) *found = &u->done[i];
    if (*found) return MU_OK;
    inserted *done = mu_arena_grow(&u->nb->net->arena, u->done, u->n_done, &u->cap_done, sizeof *done, 16);
    if (!done) return MU_FAIL_NOMEM(err, "the layer list");
    u->done = done;
    u->done[u->n_done++] = (inserted){name, steps};
    return MU_OK;
}

static mu_status put_text(unroller *u, mu_node *parent, const char *key, const char *text, mu_srcpos pos,
                          mu_err *err) {
    mu_arena *a = &u->nb->net->arena;
    mu_node *n = mu_node_create(a, MU_SCALAR, pos);
    if (n) n->text = mu_arena_strdup(a, text);
    if (!n || !n->text) return MU_FAIL_NOMEM(err, "a layer");
    n->key = key;
    n->key_pos = pos;
    return mu_node_append(a, parent, n, err);
}

static mu_status put_int(unroller *u, mu_node *parent, const char *key, int64_t v, mu_srcpos pos,
                         mu_err *err) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    return put_text(u, parent, key, text, pos, err);
}

static mu_status put_sources(unroller *u, mu_node *map, const char *const *src, const mu_srcpos *pos,
                             size_t n, mu_err *err) {
    mu_node *list = mu_node_create(&u->nb->net->arena, MU_LIST, map->pos);
    if (!list) return MU_FAIL_NOMEM(err, "a layer");
    list->key = "src";
    list->key_pos = map->pos;
    for (size_t i = 0; i < n; i++) MU_TRY(put_text(u, list, NULL, src[i], pos[i], err));
    return mu_node_append(&u->nb->net->arena, map, list, err);
}

// Begins an inserted layer; the caller appends its keys to *map.
static mu_status insert(unroller *u, const char *name, const char *type, const char *const *src, size_t n,
                        mu_srcpos pos, mu_node **map, mu_err *err) {
    mu_srcpos at[MU_MAX_SRC];
    for (size_t i = 0; i < n; i++) at[i] = pos;
    *map = mu_node_create(&u->nb->net->arena, MU_MAP, pos);
    if (!*map) return MU_FAIL_NOMEM(err, "a layer");
    MU_TRY(put_text(u, *map, "name", name, pos, err));
    MU_TRY(put_text(u, *map, "type", type, pos, err));
    MU_TRY(put_sources(u, *map, src, at, n, err));
    return add(u, (mu_unrolled){.node = *map, .name = name, .origin = name, .inserted = true}, err);
}

// ---- sequences ----

// Steps of each output of a layer that takes `n` steps apart.
static int64_t chunk_of(int64_t n) {
    int64_t chunk = 1;
    while ((n + chunk - 1) / chunk > MU_MAX_OUT) chunk *= MU_MAX_OUT;
    return chunk;
}

static char *range_name(unroller *u, const char *kind, const char *of, int64_t lo, int64_t n, int64_t all) {
    if (n == all) return mu_arena_printf(&u->nb->net->arena, "%s(%s)", kind, of);
    return mu_arena_printf(&u->nb->net->arena, "%s(%s)@%" PRId64 "-%" PRId64, kind, of, lo, lo + n - 1);
}

// Takes steps [lo, lo + n) apart, which lie in `from`.
static mu_status emit_steps(unroller *u, const source *s, const char *from, int64_t lo, int64_t n,
                            int64_t all, mu_err *err) {
    int64_t chunk = chunk_of(n), parts = (n + chunk - 1) / chunk;
    const char *name = range_name(u, "steps", s->name, lo, n, all);
    mu_node *map = NULL;
    if (!name) return MU_FAIL_NOMEM(err, "a name");
    MU_TRY(insert(u, name, "time_step", &from, 1, s->pos, &map, err));
    MU_TRY(put_int(u, map, "step", 0, s->pos, err));
    MU_TRY(put_int(u, map, "outputs", parts, s->pos, err));
    MU_TRY(put_int(u, map, "length", chunk, s->pos, err));
    MU_TRY(put_int(u, map, "total", n, s->pos, err));
    for (int64_t j = 0; chunk > 1 && j < parts; j++) {
        const char *part = mu_arena_printf(&u->nb->net->arena, "%s.%" PRId64, name, j);
        int64_t rest = n - j * chunk;
        if (!part) return MU_FAIL_NOMEM(err, "a name");
        MU_TRY(emit_steps(u, s, part, lo + j * chunk, rest < chunk ? rest : chunk, all, err));
    }
    return MU_OK;
}

// The name of time step i of `all`.
static const char *step_name(unroller *u, const source *s, int64_t i, int64_t all) {
    int64_t lo = 0, n = all;
    for (int64_t chunk; (chunk = chunk_of(n)) > 1;) {
        int64_t j = (i - lo) / chunk, rest = n - j * chunk;
        lo += j * chunk;
        n = rest < chunk ? rest : chunk;
    }
    const char *name = range_name(u, "steps", s->name, lo, n, all);
    return name ? mu_arena_printf(&u->nb->net->arena, "%s.%" PRId64, name, i - lo) : NULL;
}

static const char *copy_name(unroller *u, const source *s, int64_t i) {
    return mu_arena_printf(&u->nb->net->arena, "%s#%" PRId64 "%s", s->of->name, i, s->suffix);
}

// Joins the names in list[0..n) by layers of at most 16 sources, level by level. A sequence that is alone at
// the end of a level moves up as it is.
static mu_status emit_stack(unroller *u, const source *s, const char **list, int64_t n, mu_err *err) {
    const int64_t all = n;
    const char *type = "stack_time";
    for (int64_t width = 1; n > 1 || width == 1; type = "concat") {
        int64_t joined = 0;
        width *= MU_MAX_SRC;
        for (int64_t k = 0; k < n; k += MU_MAX_SRC, joined++) {
            int64_t lo = joined * width, steps = all - lo < width ? all - lo : width;
            if (k == n - 1 && width > MU_MAX_SRC) {
                list[joined] = list[k];
                continue;
            }
            const char *name = range_name(u, "stack", s->name, lo, steps, all);
            mu_node *map = NULL;
            if (!name) return MU_FAIL_NOMEM(err, "a name");
            MU_TRY(insert(u, name, type, list + k, (size_t)(n - k < MU_MAX_SRC ? n - k : MU_MAX_SRC), s->pos,
                          &map, err));
            list[joined] = name;
        }
        n = joined;
    }
    return MU_OK;
}

// What must stand above block b so that it can take source s.
static mu_status emit_before(unroller *u, block *b, const source *s, mu_err *err) {
    const inserted *found;
    const block *of = s->of;
    if (of && of->exists && of->group != b->group && !of->exists[of->copies - 1]) {
        b->broken = true; // what is wrong is said of `of`
        return MU_OK;
    }
    if (s->connect == ONE_TO_ONE && b->copies && (!of || !of->copies)) {
        MU_TRY(was_done(u, s->name, b->copies, &found, err));
        if (!found) return emit_steps(u, s, s->name, 0, b->copies, b->copies, err);
        if (found->steps == b->copies) return MU_OK;
        mu_diags_add(u->nb->b->diags, MU_DIAG_ERROR, s->pos,
                     "`%s` is a sequence of %" PRId64 " steps for other layers, of %" PRId64 " for `%s`",
                     s->name, found->steps, b->copies, b->name);
        b->broken = true;
    } else if (s->connect == ONE_TO_ALL && of && of->copies) {
        const char *list[MU_UNROLL_MAX];
        int64_t n = 0;
        MU_TRY(was_done(u, s->name, of->copies, &found, err));
        for (int64_t i = 0; !found && i < of->copies; i++)
            if (of->exists[i] && !(list[n++] = copy_name(u, s, i))) return MU_FAIL_NOMEM(err, "a name");
        if (!found && n) return emit_stack(u, s, list, n, err);
    }
    return MU_OK;
}

// ---- copies ----

// What copy i takes from s, *out NULL = nothing.
static mu_status resolve(unroller *u, const block *b, const source *s, int64_t i, const char **out,
                         mu_err *err) {
    const int64_t n = s->of ? s->of->copies : 0, k = i - s->shift;
    *out = NULL;
    if (b->copies && s->connect == FIRST_TO_LAST && i) return MU_OK;
    if (b->copies && s->connect == ONE_TO_ONE) {
        if (k < 0 || (n && !s->of->exists[k])) return MU_OK;
        *out = n ? copy_name(u, s, k) : step_name(u, s, k, b->copies);
    } else if (!n) {
        *out = s->name;
    } else if (s->connect == ONE_TO_ALL) {
        *out = range_name(u, "stack", s->name, 0, 1, 1);
    } else {
        *out = copy_name(u, s, n - 1);
    }
    return *out ? MU_OK : MU_FAIL_NOMEM(err, "a name");
}

static const mu_layer_class *class_of(const block *b) {
    const char *type = mu_node_text(mu_node_find(b->node, "type"));
    return (const mu_layer_class *)(type ? mu_registry_find(&mu_layers, type) : NULL);
}

// The objective is the mean over the time steps: each copy of a loss has its share of the weight.
static mu_status put_share(unroller *u, mu_node *map, const block *b, mu_err *err) {
    const mu_layer_class *c = class_of(b);
    mu_node *given = mu_node_find(b->node, "loss_weight");
    double weight = 1;
    if (!c || !b->copies || !(c->flags & MU_LAYER_LOSS)) return MU_OK;
    for (const mu_field *f = c->fields; f && f->key; f++) {
        if (strcmp(f->key, "loss_weight")) continue;
        if (given ? !mu_node_text(given) || !mu_parse_double(given->text, &weight)
                  : f->def && !mu_parse_double(f->def, &weight))
            return given ? mu_node_append(&u->nb->net->arena, map, given, err) : MU_OK;
        char text[40];
        snprintf(text, sizeof text, "%.9g", weight / (double)b->copies);
        return put_text(u, map, "loss_weight", text, given ? given->pos : b->name_pos, err);
    }
    return MU_OK;
}

// The block with other sources.
static mu_status rewrite(unroller *u, const block *b, const char *const *src, const mu_srcpos *pos, size_t n,
                         mu_node **out, mu_err *err) {
    mu_arena *a = &u->nb->net->arena;
    mu_node *map = mu_node_create(a, MU_MAP, b->node->pos);
    if (!map) return MU_FAIL_NOMEM(err, "a layer");
    for (size_t i = 0; i < b->node->n; i++) {
        mu_node *item = b->node->item[i];
        if (!strcmp(item->key, "src") || (b->copies && !strcmp(item->key, "loss_weight"))) continue;
        MU_TRY(mu_node_append(a, map, item, err));
    }
    MU_TRY(put_share(u, map, b, err));
    *out = map;
    return b->broken ? MU_OK : put_sources(u, map, src, pos, n, err);
}

// Source `gap` is left out of copy i, and others follow it: for most layers these would change their meaning.
// Several sources of a layer that takes one are meant to take turns.
static void check_gap(unroller *u, block *b, size_t gap, int64_t i) {
    mu_diags *d = u->nb->b->diags;
    const mu_layer_class *c = class_of(b);
    if (!c || c->flags & MU_LAYER_GAPS || mu_layer_max_src(c) == 1) return;
    if (u->nb->o->one_step) return; // who samples refuses all gaps
    const source *s = &b->src[gap];
    mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, s->pos,
                              "copy %" PRId64 " of layer `%s` has no `%s`, its other sources would move up",
                              i, b->name, s->name);
    mu_diag_hint(d, g, "Put sources that are not there at every time step last.");
    b->broken = true;
}

// The sources of copy i, *n of them.
static mu_status choose_sources(unroller *u, block *b, int64_t i, const char **src, mu_srcpos *pos, size_t *n,
                                unsigned *left_out, mu_err *err) {
    size_t gap = SIZE_MAX;
    bool follows = false;
    for (size_t k = 0; k < b->n_src && *n <= MU_MAX_SRC; k++) {
        MU_TRY(resolve(u, b, &b->src[k], i, &src[*n], err));
        pos[*n] = b->src[k].pos;
        if (src[*n]) {
            follows |= gap < k;
            ++*n;
        } else {
            if (gap == SIZE_MAX) gap = k;
            if (k < 8 * sizeof *left_out) *left_out |= 1u << k;
        }
    }
    if (follows) check_gap(u, b, gap, i);
    return MU_OK;
}

static mu_status emit_copy(unroller *u, block *b, int64_t i, mu_err *err) {
    mu_arena *a = &u->nb->net->arena;
    const char *src[MU_MAX_SRC + 1];
    mu_srcpos pos[MU_MAX_SRC + 1];
    size_t n = 0;
    mu_unrolled entry = {.name = b->name, .origin = b->name};
    if (!b->broken) MU_TRY(choose_sources(u, b, i, src, pos, &n, &entry.left_out, err));
    if (b->copies) b->exists[i] = n || !b->n_src || b->broken;
    if (!n && b->n_src && !b->broken) return MU_OK;
    entry.broken = b->broken;
    mu_node *map = NULL;
    MU_TRY(rewrite(u, b, src, pos, n, &map, err));
    entry.node = map;
    if (b->copies) {
        entry.name = mu_arena_printf(a, "%s#%" PRId64, b->name, i);
        entry.copy = (int)i;
        entry.n_copies = (int)b->copies;
        if (!entry.name) return MU_FAIL_NOMEM(err, "a name");
    }
    return add(u, entry, err);
}

static mu_status emit_group(unroller *u, block *first, block *end, mu_err *err) {
    int64_t n = first->copies ? first->copies : 1;
    for (block *b = first; b < end; b++) {
        if (b->group != first->group) continue;
        for (size_t k = 0; k < b->n_src && !b->broken; k++) MU_TRY(emit_before(u, b, &b->src[k], err));
        if (b->copies) b->exists = mu_arena_array(&u->nb->net->arena, (size_t)b->copies, sizeof *b->exists);
        if (b->copies && !b->exists) return MU_FAIL_NOMEM(err, "the layer list");
    }
    for (int64_t i = 0; i < n; i++)
        for (block *b = first; b < end; b++)
            if (b->group == first->group) MU_TRY(emit_copy(u, b, i, err));
    for (block *b = first; b < end; b++)
        if (b->group == first->group && b->copies && !b->exists[n - 1])
            mu_diags_add(u->nb->b->diags, MU_DIAG_ERROR, b->name_pos,
                         u->nb->o->one_step
                             ? "layer `%s` takes only what was before, and nothing carries it over"
                             : "the last copy of layer `%s` has no source at all", b->name);
    return MU_OK;
}

// Absent or without a name: binding still looks at its keys.
static mu_status emit_absent(unroller *u, block *b, mu_err *err) {
    mu_node *map = NULL;
    if (!b->name) return mu_unroll_pass(u, b->node, err);
    b->broken = true;
    MU_TRY(rewrite(u, b, NULL, NULL, 0, &map, err));
    return add(u, (mu_unrolled){.node = map, .name = b->name, .origin = b->name, .absent = true}, err);
}

mu_status mu_unroll_emit(unroller *u, mu_err *err) {
    for (block *b = u->block, *end; b < u->block + u->n; b = end) {
        end = b + 1;
        if (!b->group) {
            MU_TRY(emit_absent(u, b, err));
            continue;
        }
        for (block *m = end; m < u->block + u->n && (m->group == b->group || !m->group); m++) end = m + 1;
        MU_TRY(emit_group(u, b, end, err));
        for (block *m = b + 1; m < end; m++)
            if (!m->group) MU_TRY(emit_absent(u, m, err));
    }
    return MU_OK;
}
