// SPDX-License-Identifier: Apache-2.0
// split_dot.c - see split.h: a graph for graphviz. Each destination of a bridge is a point in its cluster, so
// that a bridge is one edge, however many layers read what it brings.
#include "plot/split.h"

#include <stdio.h>

void mu_split_bytes(const mu_bridge *b, char out[48]) {
    snprintf(out, 48, "%s%zu bytes", b->gradient ? "2 x " : "", b->bytes);
}

void mu_split_what(const mu_part *l, char out[160]) {
    char shape[96] = "";
    const mu_shape s = mu_part_shape(l);
    if (s.n) mu_shape_text(&s, shape);
    snprintf(out, 160, "%s%s%s", mu_part_type(l), s.n ? " " : "", shape);
}

bool mu_split_reads_data(const mu_part *l) {
    bool data = false;
    for (int k = 0; k < l->n_src; k++) data |= !l->src[k].l;
    return data;
}

static void put_quoted(mu_text *t, const char *s) {
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') mu_text_put(t, "\\", 1);
        mu_text_put(t, s, 1);
    }
}

static void put_node(mu_text *t, const mu_part *l) {
    char what[160];
    mu_split_what(l, what);
    mu_text_printf(t, "    n%d [", l->at);
    if (l->kind == MU_PART_DESTINATION) {
        mu_text_printf(t, "shape=point];\n");
        return;
    }
    mu_text_printf(t, "label=\"");
    put_quoted(t, l->name);
    mu_text_printf(t, "\\n%s\"%s];\n", what,
                   l->kind == MU_PART_LAYER ? ", style=filled, fillcolor=\"#e3eef7\"" : ", color=gray");
}

static void put_worker(mu_text *t, const mu_partition *p, int worker) {
    mu_text_printf(t, "  subgraph cluster_%d {\n    label=\"worker %d\";\n    color=gray;\n", worker, worker);
    bool data = false;
    for (int i = 0; i < p->n_layers; i++)
        data |= p->layer[i]->worker == worker && mu_split_reads_data(p->layer[i]);
    if (data) mu_text_printf(t, "    d%d [label=\"data\", shape=cylinder];\n", worker);
    for (int i = 0; i < p->n_layers; i++)
        if (p->layer[i]->worker == worker && p->layer[i]->kind != MU_PART_SOURCE) put_node(t, p->layer[i]);
    mu_text_printf(t, "  }\n");
}

static void put_edges(mu_text *t, const mu_partition *p, const mu_part *l) {
    for (int k = 0; k < l->n_src; k++)
        if (l->src[k].l) mu_text_printf(t, "  n%d -> n%d;\n", l->src[k].l->at, l->at);
        else
            mu_text_printf(t, "  d%d -> n%d [label=\"%s\"];\n", l->worker, l->at,
                           p->whole->layer[0]->out[l->src[k].out].name);
}

static void put_bridge(mu_text *t, const mu_bridge *b) {
    char bytes[48];
    mu_split_bytes(b, bytes);
    mu_text_printf(t, "  n%d -> n%d [label=\"%s\", color=\"#0072b2\"%s];\n", b->source->src[0].l->at,
                   b->destination->at, bytes, b->gradient ? ", dir=both" : "");
}

mu_status mu_split_dot(const mu_partition *p, const char *title, mu_text *t, mu_err *err) {
    mu_text_printf(t, "digraph net {\n  label=\"");
    put_quoted(t, title);
    mu_text_printf(t, ": %d bridges, %zu bytes between workers in a step\";\n", p->n_bridges,
                   mu_partition_bytes(p));
    mu_text_printf(
        t,
        "  newrank=true;\n  node [shape=box, fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n");
    for (int w = 0; w < p->workers; w++) put_worker(t, p, w);
    for (int i = 0; i < p->n_layers; i++)
        if (p->layer[i]->kind != MU_PART_SOURCE) put_edges(t, p, p->layer[i]);
    for (int i = 0; i < p->n_bridges; i++) put_bridge(t, &p->bridge[i]);
    mu_text_printf(t, "}\n");
    return t->failed ? MU_FAIL_NOMEM(err, "the graph") : MU_OK;
}
