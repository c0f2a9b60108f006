// SPDX-License-Identifier: Apache-2.0
// unroll.c - reads and checks the connections of unrolled layers; unroll_emit.c writes the copies.
//
// Works on blocks of the job, before any is bound: a net without `unroll` passes through as it is. A mistake
// is said once, of the block, not of its copies; what is wrong is marked (broken) and goes on, so that
// binding finds the rest. What the kinds of connection mean is in unroll.h.
#include "net/unroll_inner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct src_opts { const char *layer; int64_t shift; int connect; } src_opts;

const mu_field mu_src_fields[] = {
    MU_FIELD(src_opts, layer, MU_STRING, NULL, NULL,
             "a layer, one of its outputs (`lstm.1`), or data.<field>"),
    MU_FIELD(src_opts, shift, MU_INT, "0", "[0,1000]",
             "copy i takes copy i - shift of the source; none when there is no such copy"),
    MU_FIELD_ENUM(src_opts, connect, "one_to_one", "one_to_one|one_to_all|first_to_last",
                  "copy by copy; every copy all of the source; copy 0 the last copy of the source"),
    {0},
};

// ---- reading ----

// The block of a source's name, and what follows it: ".1" of "lstm.1".
static block *find_block(unroller *u, const char *name, const char **suffix) {
    const char *dot = strrchr(name, '.');
    const size_t whole = strlen(name), stem = dot && strspn(dot + 1, "0123456789") == strlen(dot + 1)
                                                  ? (size_t)(dot - name) : whole;
    block *found = NULL;
    *suffix = name + whole;
    for (size_t i = 0; i < u->n; i++) {
        block *b = &u->block[i];
        if (!b->name) continue;
        if (!strcmp(b->name, name)) {
            *suffix = name + whole;
            return b;
        }
        if (!found && strlen(b->name) == stem && !strncmp(b->name, name, stem)) {
            found = b;
            *suffix = name + stem;
        }
    }
    return found;
}

static void read_source(unroller *u, block *b, const mu_node *node) {
    source *s = &b->src[b->n_src];
    *s = (source){.name = mu_node_text(node), .pos = node->pos};
    if (node->kind == MU_MAP) {
        src_opts o = {0};
        char what[160];
        snprintf(what, sizeof what, "a source of layer `%.100s`", b->name);
        size_t before = u->nb->b->diags->n_errors;
        mu_bind(u->nb->b, node, node->pos, what, &(mu_bind_part){mu_src_fields, &o}, 1, NULL, 0);
        b->broken |= u->nb->b->diags->n_errors > before;
        const mu_node *layer = mu_node_find(node, "layer");
        s->name = o.layer;
        s->pos = layer ? layer->pos : node->pos;
        s->shift = o.shift;
        s->connect = (connect)o.connect;
    }
    if (node->kind == MU_LIST)
        mu_diags_add(u->nb->b->diags, MU_DIAG_ERROR, node->pos,
                     "a source of layer `%s` must be a name or a block {layer: NAME}, not a list", b->name);
    if (s->name) {
        s->of = find_block(u, s->name, &s->suffix);
        b->n_src++;
    } else {
        b->broken = true;
    }
}

// What a layer without `src` takes: the layer above, or the first field of the data.
static void read_default_source(unroller *u, block *b) {
    source *s = &b->src[0];
    *s = (source){.pos = b->name_pos, .suffix = ""};
    for (const block *above = b; above-- > u->block && !s->name;)
        if (!above->absent && above->name) {
            s->of = &u->block[above - u->block];
            s->name = above->name;
        }
    const mu_layer *data = u->nb->net->layer[0];
    if (!s->name && data->n_out) s->name = data->out[0].name;
    if (s->name) b->n_src = 1;
    else b->broken = true;
}

static mu_status read_sources(unroller *u, block *b, mu_err *err) {
    const mu_node *src = mu_node_find(b->node, "src");
    bool list = src && src->kind == MU_LIST;
    b->src = mu_arena_array(&u->nb->net->arena, list ? src->n + 1 : 1, sizeof *b->src);
    if (!b->src) return MU_FAIL_NOMEM(err, "the sources of a layer");
    if (list)
        for (size_t i = 0; i < src->n; i++) read_source(u, b, src->item[i]);
    else if (src && !mu_node_is_null(src)) read_source(u, b, src);
    else read_default_source(u, b);
    return MU_OK;
}

static void read_block(unroller *u, const mu_node *node) {
    const mu_node *name = mu_node_find(node, "name");
    block *b = &u->block[u->n++];
    *b = (block){.node = node, .name = mu_node_text(name), .name_pos = name ? name->pos : node->pos};
    if (b->name && !*b->name) b->name = NULL;
    if (!b->name) return;
    const char *text = mu_node_text(mu_node_find(node, "unroll"));
    if (text && (!mu_parse_int(text, &b->copies) || b->copies < 0 || b->copies > MU_UNROLL_MAX))
        b->copies = 0; // binding reports it
    if (b->copies && u->nb->o->one_step) b->copies = 1;
    b->absent = mu_build_is_absent(u->nb, node, b->name);
    if (b->absent) u->nb->absent[u->nb->n_absent++] = b->name;
}

// Is there anything to do? Most nets are not recurrent.
static bool concerns(const mu_node *node) {
    const mu_node *src = mu_node_find(node, "src");
    if (mu_node_find(node, "unroll") || (src && src->kind == MU_MAP)) return true;
    for (size_t i = 0; src && src->kind == MU_LIST && i < src->n; i++)
        if (src->item[i]->kind == MU_MAP) return true;
    return false;
}

// ---- groups ----

static bool needs_all_copies(const block *b, int group) {
    for (size_t i = 0; i < b->n_src; i++)
        if (b->src[i].of && b->src[i].of->group == group && b->src[i].connect != ONE_TO_ONE) return true;
    return false;
}

static void make_groups(unroller *u) {
    const block *last = NULL;
    int group = 0;
    for (size_t i = 0; i < u->n; i++) {
        block *b = &u->block[i];
        if (b->absent || !b->name) continue;
        bool joins = last && last->copies && last->copies == b->copies && !needs_all_copies(b, group);
        if (!joins) group++;
        b->group = group;
        last = b;
    }
}

// ---- checking ----

static mu_diag *complain(unroller *u, block *b, const source *s, const char *fmt, ...) MU_PRINTF(4, 5);
static mu_diag *complain(unroller *u, block *b, const source *s, const char *fmt, ...) {
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    b->broken = true;
    return mu_diags_add(u->nb->b->diags, MU_DIAG_ERROR, s->pos, "%s", text);
}

// The source does not stand above its consumer.
static void complain_order(unroller *u, block *b, const source *s) {
    mu_diags *d = u->nb->b->diags;
    mu_diag *g;
    if (!b->copies || !s->of->copies || s->connect != ONE_TO_ONE) {
        mu_build_report_src(u->nb, b->name, s->of->name, s->pos);
        b->broken = true;
        return;
    }
    if (s->shift) {
        g = complain(u, b, s, "`%s` cannot feed layer `%s` back: other layers stand between them", s->name,
                     b->name);
        mu_diag_hint(d, g, "Layers that feed each other stand directly below one another in the file, all "
                           "with `unroll: %" PRId64 "`.", b->copies);
        return;
    }
    if (s->of == b) g = complain(u, b, s, "layer `%s` takes itself at the same time step", b->name);
    else g = complain(u, b, s, "layer `%s` takes `%s`, which is defined below it, at the same time step",
                      b->name, s->name);
    mu_diag_hint(d, g, "Write `{layer: %s, shift: 1}` to take it from the step before.", s->name);
}

static void check_unrolled(unroller *u, block *b, const source *s) {
    mu_diags *d = u->nb->b->diags;
    const block *of = s->of;
    if (s->shift >= b->copies && b->copies > 1) { // a single step has nothing before it
        mu_diag *g = complain(u, b, s, "a shift of %" PRId64 " leaves none of the %" PRId64 " copies of "
                              "layer `%s` with this source", s->shift, b->copies, b->name);
        mu_diag_hint(d, g, "Copies are numbered from 0; `shift: 1` is the time step before.");
    } else if (s->shift && s->connect != ONE_TO_ONE) {
        complain(u, b, s, "`shift` goes with `connect: one_to_one` only");
    } else if (of && of->copies && s->connect == ONE_TO_ONE && of->copies != b->copies) {
        mu_diag *g = complain(u, b, s, "layer `%s` has %" PRId64 " copies, its source `%s` has %" PRId64,
                              b->name, b->copies, s->name, of->copies);
        mu_diag_hint(d, g, "Give both the same `unroll`, or connect by `one_to_all` or `first_to_last`.");
    } else if (of && (s->shift && of->copies ? of->group > b->group : of >= b)) {
        complain_order(u, b, s);
    }
}

static void check_source(unroller *u, block *b, const source *s) {
    mu_diags *d = u->nb->b->diags;
    const mu_layer *data = u->nb->net->layer[0];
    bool field = false;
    for (int k = 0; k < data->n_out; k++) field |= !strcmp(data->out[k].name, s->name);
    if (s->of ? s->of->absent : !field) {
        mu_build_report_src(u->nb, b->name, s->of ? s->of->name : s->name, s->pos);
        b->broken = true;
    } else if (b->copies) {
        check_unrolled(u, b, s);
    } else if (s->shift || s->connect == FIRST_TO_LAST) {
        mu_diag *g = complain(u, b, s, "layer `%s` is not unrolled, so it cannot take a source by `%s`",
                              b->name, s->shift ? "shift" : "connect: first_to_last");
        mu_diag_hint(d, g, "Give it `unroll: T`, the number of time steps.");
    } else if (s->of && s->of >= b) {
        complain_order(u, b, s);
    }
}

static void check_names(unroller *u, const block *b) {
    for (const block *o = u->block; o < b; o++) { // gru and gru#0 would not meet later
        if (o->absent || !o->name || strcmp(o->name, b->name) || !(o->copies || b->copies)) continue;
        mu_diag *g = mu_diags_add(u->nb->b->diags, MU_DIAG_ERROR, b->name_pos, "two layers are called `%s`",
                                  b->name);
        mu_diag_hint(u->nb->b->diags, g, "The first one is at line %d.", o->name_pos.line);
    }
}

static mu_status read_net(unroller *u, const mu_node *list, mu_err *err) {
    u->block = mu_arena_array(&u->nb->net->arena, list->n + 1, sizeof *u->block);
    if (!u->block) return MU_FAIL_NOMEM(err, "the layer list");
    for (size_t i = 0; i < list->n; i++)
        if (list->item[i]->kind == MU_MAP) read_block(u, list->item[i]);
    for (size_t i = 0; i < u->n; i++)
        if (u->block[i].name && !u->block[i].absent) MU_TRY(read_sources(u, &u->block[i], err));
    make_groups(u);
    for (size_t i = 0; i < u->n; i++) {
        block *b = &u->block[i];
        if (!b->name || b->absent) continue;
        check_names(u, b);
        for (size_t k = 0; k < b->n_src && !b->broken; k++) check_source(u, b, &b->src[k]);
    }
    return MU_OK;
}

mu_status mu_unroll(mu_net_builder *nb, mu_unrolled **list, size_t *n, mu_err *err) {
    const mu_node *net = nb->o->net;
    bool any = false;
    for (size_t i = 0; i < net->n; i++) any |= concerns(net->item[i]);
    unroller u = {.nb = nb};
    if (any) {
        MU_TRY(read_net(&u, net, err));
        MU_TRY(mu_unroll_emit(&u, err));
    } else {
        for (size_t i = 0; i < net->n; i++)
            if (net->item[i]->kind == MU_MAP) MU_TRY(mu_unroll_pass(&u, net->item[i], err));
    }
    *list = u.out;
    *n = u.n_out;
    return MU_OK;
}
