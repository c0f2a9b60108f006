// SPDX-License-Identifier: Apache-2.0
// partition_explain.c - see partition_explain.h: figures of all options, and words for them.
#include "net/partition_explain.h"

#include "net/partition_auto.h"

#include <inttypes.h>
#include <stdio.h>

// ---- figures ----

static mu_status explain_layer(mu_xray *x, mu_chooser *c, uint8_t *option, int v, mu_err *err) {
    const mu_choosing *from = &c->choice[v];
    mu_xray_layer *to = &x->layer[v];
    *to = (mu_xray_layer){.layer = from->layer, .n = from->n, .chosen = option[v]};
    to->option = mu_arena_array(&x->arena, (size_t)from->n, sizeof *to->option);
    if (!to->option) return MU_FAIL_NOMEM(err, "the explanation");
    for (int i = 0; i < from->n; i++) {
        option[v] = (uint8_t)i;
        const int64_t price = mu_chooser_price(c, option, v);
        to->option[i] = (mu_xray_option){.grid = from->option[i].grid,
                                         .location = from->option[i].location,
                                         .load = mu_chooser_load(c, option, v, &c->pr->o->traffic),
                                         .price = price,
                                         .possible = price < MU_PRICE_NEVER};
    }
    option[v] = (uint8_t)to->chosen;
    return MU_OK;
}

// The option that has all parts on one axis, or the whole layer.
static uint8_t option_by(const mu_choosing *v, bool batch) {
    uint8_t whole = 0;
    for (int i = 0; i < v->n; i++) {
        const mu_grid *g = &v->option[i].grid;
        const int along = batch ? g->batch : g->feature, across = batch ? g->feature : g->batch;
        if (along > 1 && across == 1) return (uint8_t)i;
        if (along == 1 && across == 1 && v->option[i].location == 0) whole = (uint8_t)i;
    }
    return whole;
}

static mu_status explain_sums(mu_xray *x, mu_chooser *c, mu_err *err) {
    static const char *const name[] = {"by batch (data)", "by feature (model)", "as chosen"};
    mu_traffic_opts sent = c->pr->o->traffic, dense = sent;
    uint8_t *option = mu_arena_array(&x->arena, (size_t)c->n + 1, 1);
    if (!option) return MU_FAIL_NOMEM(err, "the explanation");
    sent.dense = false;
    dense.dense = true;
    for (int i = 0; i < MU_XRAY_SUMS; i++) {
        for (int v = 0; v < c->n; v++)
            option[v] = i == MU_XRAY_CHOSEN ? c->best[v] : option_by(&c->choice[v], i == MU_XRAY_BATCH);
        x->sum[i].name = name[i];
        x->sum[i].possible = mu_chooser_price(c, option, -1) < MU_PRICE_NEVER;
        x->sum[i].sent = mu_chooser_load(c, option, -1, &sent);
        x->sum[i].dense = mu_chooser_load(c, option, -1, &dense);
    }
    return MU_OK;
}

// ---- words ----

typedef struct figure {
    char text[24];
} figure;

static figure figure_of(double n, const char *unit) {
    static const char *const scale[] = {"", "k", "M", "G", "T"};
    figure f;
    size_t i = 0;
    while (n >= 999.95 && i + 1 < MU_COUNT(scale)) n /= 1000, i++;
    snprintf(f.text, sizeof f.text, i ? "%.1f %s%s" : "%.0f %s%s", n, scale[i], unit);
    return f;
}

void mu_xray_option_text(const mu_xray_option *o, char out[32]) {
    const mu_grid *g = &o->grid;
    if (g->batch > 1 && g->feature > 1) snprintf(out, 32, "%d x %d", g->batch, g->feature);
    else if (g->batch > 1) snprintf(out, 32, "batch");
    else if (g->feature > 1) snprintf(out, 32, "feature");
    else if (o->location) snprintf(out, 32, "whole at %d", o->location);
    else snprintf(out, 32, "whole");
}

static const mu_xray_option *rival_of(const mu_xray_layer *l) {
    const mu_xray_option *best = NULL;
    for (int i = 0; i < l->n; i++)
        if (i != l->chosen && l->option[i].possible && (!best || l->option[i].price < best->price))
            best = &l->option[i];
    return best;
}

// What the rival has most more of.
static const char *reason(mu_xray *x, const mu_xray_option *own, const mu_xray_option *rival) {
    const mu_traffic *a = &own->load.moved, *b = &rival->load.moved;
    const int64_t more[] = {b->values - a->values, b->gradients - a->gradients, b->weights - a->weights};
    static const char *const what[] = {"values", "gradients", "weights"};
    const double idle = rival->load.idle - own->load.idle;
    size_t most = 0;
    char text[32];
    mu_xray_option_text(rival, text);
    for (size_t i = 1; i < MU_COUNT(more); i++)
        if (more[i] > more[most]) most = i;
    if (rival->price == own->price)
        return mu_arena_printf(&x->arena, "as cheap by `%s`, which comes after", text);
    if (idle / MU_FLOPS_PER_BYTE > (double)more[most])
        return mu_arena_printf(&x->arena, "`%s` leaves others idle for %s more", text,
                               figure_of(idle, "flop").text);
    if (more[most] <= 0) return mu_arena_printf(&x->arena, "`%s` costs more", text);
    return mu_arena_printf(&x->arena, "`%s` moves %s more %s", text, figure_of((double)more[most], "B").text,
                           what[most]);
}

static mu_status give_reason(mu_xray *x, mu_xray_layer *l, bool open, mu_err *err) {
    const mu_xray_option *rival = rival_of(l);
    if (x->workers == 1) l->why = "one worker has all";
    else if (!open) l->why = "as the job says";
    else if (rival) l->why = reason(x, &l->option[l->chosen], rival);
    else if (l->n > 1) l->why = "it shares a parameter with layers that are cut so";
    else l->why = l->layer->class->uncut ? l->layer->class->uncut : "it cannot be cut";
    return l->why ? MU_OK : MU_FAIL_NOMEM(err, "the explanation");
}

// ---- life ----

static mu_status explain(mu_xray *x, mu_chooser *c, mu_err *err) {
    MU_TRY(mu_chooser_solve(c, err));
    x->workers = c->pr->o->workers;
    x->n_layers = c->n;
    x->exact = c->exact;
    x->dense = c->pr->o->traffic.dense;
    x->layer = mu_arena_array(&x->arena, (size_t)c->n + 1, sizeof *x->layer);
    if (!x->layer) return MU_FAIL_NOMEM(err, "the explanation");
    for (int v = 0; v < c->n; v++) {
        MU_TRY(explain_layer(x, c, c->best, v, err));
        MU_TRY(give_reason(x, &x->layer[v], c->pr->plan[c->choice[v].layer->at].open, err));
    }
    return explain_sums(x, c, err);
}

static mu_status decide_and_explain(mu_partitioner *pr, mu_xray *x, mu_err *err) {
    mu_chooser *c = NULL;
    MU_TRY(mu_partition_decide(pr, err));
    MU_TRY(mu_chooser_open(pr, &c, err));
    const mu_status st = explain(x, c, err);
    mu_chooser_close(c);
    return st;
}

mu_status mu_partition_explain(mu_binder *b, const mu_partition_opts *o, mu_xray **out, mu_err *err) {
    mu_xray *x = mu_alloc(sizeof *x, "partition");
    if (!x) return MU_FAIL_NOMEM(err, "the explanation");
    mu_arena_init(&x->arena, "partition");
    mu_partition p = {.whole = o->whole, .workers = o->workers};
    mu_arena_init(&p.arena, "partition");
    mu_partitioner pr = {.p = &p, .o = o, .b = b};
    const mu_status st =
        mu_partition_check_workers(o->workers, err) == MU_OK ? decide_and_explain(&pr, x, err) : MU_EUSAGE;
    mu_arena_fini(&p.arena);
    if (st == MU_OK) *out = x;
    else mu_xray_destroy(x);
    return st;
}

void mu_xray_destroy(mu_xray *x) {
    if (!x) return;
    mu_arena_fini(&x->arena);
    mu_free(x);
}

// ---- print ----

static void print_option(const mu_xray_layer *l, int i, FILE *out) {
    const mu_xray_option *o = &l->option[i];
    const mu_traffic *t = &o->load.moved;
    const bool chosen = i == l->chosen;
    char text[32];
    mu_xray_option_text(o, text);
    fprintf(out, "%-16s %-16s %c %-10s", i ? "" : mu_layer_job_name(l->layer), i ? "" : l->layer->class->name,
            chosen ? '*' : ' ', text);
    if (!o->possible) {
        fprintf(out, " %s\n", "shares a parameter with a layer that is cut differently");
        return;
    }
    fprintf(out, " %11s %11s %11s %12s %11s", figure_of((double)t->values, "B").text,
            figure_of((double)t->gradients, "B").text, figure_of((double)t->weights, "B").text,
            figure_of(o->load.idle, "flop").text, figure_of((double)o->price, "B").text);
    fprintf(out, "%s%s\n", chosen ? "  " : "", chosen ? l->why : "");
}

static void print_sum(const mu_xray *x, int i, bool dense, FILE *out) {
    const mu_cut_load *l = dense ? &x->sum[i].dense : &x->sum[i].sent;
    const mu_traffic *t = &l->moved;
    fprintf(out, "%-33s   %-10s", x->sum[i].name, dense ? "dense" : "as sent");
    if (!x->sum[i].possible) {
        fprintf(out, " layers that share a parameter cannot be cut so\n");
        return;
    }
    fprintf(out, " %11s %11s %11s %12s %11s  %" PRId64 " bytes\n", figure_of((double)t->values, "B").text,
            figure_of((double)t->gradients, "B").text, figure_of((double)t->weights, "B").text,
            figure_of(l->idle, "flop").text, figure_of((double)mu_price_in_bytes(NULL, l), "B").text,
            mu_traffic_sum(t));
}

void mu_xray_print(const mu_xray *x, FILE *out) {
    fprintf(out, "%-16s %-16s   %-10s %11s %11s %11s %12s %11s\n", "layer", "type", "cut", "values",
            "gradients", "weights", "idle", "cost");
    for (int k = 0; k < x->n_layers; k++)
        for (int i = 0; i < x->layer[k].n; i++) print_option(&x->layer[k], i, out);
    fprintf(out, "\n%-33s   %-10s %11s %11s %11s %12s %11s\n", "all layers", "gradients", "values",
            "gradients", "weights", "idle", "cost");
    for (int i = 0; i < MU_XRAY_SUMS; i++)
        for (int dense = 1; dense >= 0; dense--) print_sum(x, i, dense, out);
    if (!x->exact) fprintf(out, "too many branches at once to try all ways: this is a good one\n");
}
