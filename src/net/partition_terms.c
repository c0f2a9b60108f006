// SPDX-License-Identifier: Apache-2.0
// partition_terms.c - what there is to choose when a net is cut, and the terms that its cost is a sum of; see
// partition_auto.h.
#include "net/partition_auto.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KNOWN = 1 << 16 }; // prices that a term remembers
#define UNKNOWN INT64_MIN

typedef struct user { // of a blob: who reads it as its source k; of a parameter: who has it
    const mu_layer *l;
    int k;
    struct user *next;
} user;

typedef struct item { // one of these: a layer, a blob that may travel, a parameter
    const mu_layer *layer;
    const mu_blob *blob;
    const mu_param *param;
    user *users;
    int n_users;
    struct item *next;
} item;

typedef struct mu_term {
    int n, *choice; // which it hangs on, ascending
    item *items;
    int64_t *known; // price by their options; NULL = too many
    struct mu_term *next;
} mu_term;

struct mu_seen { // what a worker reads of a part at another one
    mu_rect rect;
    bool gradient;
};

// ---- plans ----

static mu_cut_plan plan_of(const mu_chooser *c, const mu_layer *l, const uint8_t *option) {
    mu_cut_plan p = {.grid = {1, 1}, .rules = c->pr->plan[l->at].rules};
    const mu_layer *like = c->like[l->at];
    if (like) {
        const mu_cut_plan as = plan_of(c, like, option);
        mu_plan_follow(l, &as, &p);
    } else if (c->of[l->at] >= 0) {
        const mu_option *o = &c->choice[c->of[l->at]].option[option[c->of[l->at]]];
        p.grid = o->grid;
        p.location = o->location;
    }
    return p;
}

// Number of the part at a worker; -1 = none.
static int part_at(const mu_cut_plan *p, int worker) {
    const int n = mu_plan_parts(p);
    return n == 1 ? (p->location == worker ? 0 : -1) : worker < n ? worker : -1;
}

// ---- loads ----

static void load_layer(const mu_chooser *c, const mu_layer *l, const uint8_t *option,
                       const mu_traffic_opts *o, mu_cut_load *out) {
    const mu_cut_plan p = plan_of(c, l, option);
    const mu_cost cost = mu_layer_cost(l);
    const double flops = cost.flops_forward + (mu_layer_runs_in_backward(l) ? cost.flops_backward : 0);
    double largest = 0;
    for (int i = 0; i < mu_plan_parts(&p); i++) {
        const mu_cut cut = mu_plan_cut(l, &p, i);
        double share = mu_cut_share(&cut);
        if (mu_is_cut(&cut.batch))
            share *= (double)(cut.batch.end - cut.batch.begin) / (double)cut.batch.whole;
        if (share > largest) largest = share;
    }
    out->largest += flops * largest;
    out->idle += flops * (largest * c->pr->o->workers - 1) * mu_traffic_groups(o);
}

// Notes what a reader at `worker` has to get of `has`; the same rectangle is sent once.
static int note_reading(const mu_chooser *c, const item *b, int reader, int worker, const mu_rect *has,
                        int n) {
    const user *u = b->users;
    for (int i = 0; i < reader; i++) u = u->next;
    const int part = part_at(&c->plan[reader], worker);
    if (part < 0) return n;
    const mu_cut cut = mu_plan_cut(u->l, &c->plan[reader], part),
                 reads = mu_layer_src_cut(u->l, &c->plan[reader].rules, &cut, u->k);
    const mu_rect rect = mu_rect_of(b->blob, &reads);
    mu_rect common;
    if (!mu_rect_meet(&rect, has, &common)) return n;
    int i = 0;
    while (i < n && memcmp(&c->seen[i].rect, &common, sizeof common)) i++;
    if (i == n) c->seen[n++] = (struct mu_seen){common, false};
    c->seen[i].gradient |= u->l->in_backward && b->blob->needs_grad;
    return n;
}

static int64_t bytes_to(const mu_chooser *c, const item *b, int worker, const mu_rect *has) {
    int64_t bytes = 0;
    int n = 0;
    for (int r = 0; r < b->n_users; r++) n = note_reading(c, b, r, worker, has, n);
    for (int i = 0; i < n; i++) {
        const mu_shape s = mu_rect_shape(b->blob, &c->seen[i].rect);
        bytes += mu_shape_count(&s) * (int64_t)sizeof(float) * (c->seen[i].gradient ? 2 : 1);
    }
    return bytes;
}

static void load_blob(const mu_chooser *c, const item *b, const uint8_t *option, const mu_traffic_opts *o,
                      mu_cut_load *out) {
    const mu_layer *l = b->blob->producer;
    const mu_cut_plan from = plan_of(c, l, option);
    int64_t bytes = 0;
    mu_cut_plan *to = c->plan;
    for (const user *u = b->users; u; u = u->next) *to++ = plan_of(c, u->l, option);
    for (int i = 0; i < mu_plan_parts(&from); i++) {
        const mu_cut part = mu_plan_cut(l, &from, i),
                     cut = mu_layer_out_cut(l, &part, (int)(b->blob - l->out));
        const mu_rect has = mu_rect_of(b->blob, &cut);
        for (int w = 0; w < c->pr->o->workers; w++)
            if (w != mu_plan_worker(&from, i)) bytes += bytes_to(c, b, w, &has);
    }
    out->moved.values += bytes * mu_traffic_learners(o) * mu_traffic_groups(o);
}

// False: its users cannot share it like that.
static bool load_param(const mu_chooser *c, const item *p, const uint8_t *option, const mu_traffic_opts *o,
                       mu_cut_load *out) {
    const mu_cut_plan first = plan_of(c, p->users->l, option);
    mu_users all;
    mu_users_begin(&all, p->param);
    for (const user *u = p->users; u; u = u->next) {
        const mu_cut_plan plan = plan_of(c, u->l, option);
        if (!mu_plan_same_rows(p->users->l, &first, u->l, &plan)) return false;
        for (int i = 0; i < mu_plan_parts(&plan); i++) {
            const mu_cut cut = mu_plan_cut(u->l, &plan, i);
            mu_users_take(&all, u->l, &cut, mu_plan_worker(&plan, i), i % plan.grid.feature);
        }
    }
    mu_users_end(&all, o, &out->moved);
    return true;
}

static bool load_item(const mu_chooser *c, const item *i, const uint8_t *option, const mu_traffic_opts *o,
                      mu_cut_load *out) {
    if (i->layer) load_layer(c, i->layer, option, o, out);
    if (i->blob) load_blob(c, i, option, o, out);
    return !i->param || load_param(c, i, option, o, out);
}

static int64_t price_term(const mu_chooser *c, const mu_term *t, const uint8_t *option) {
    const mu_pricing *by = &c->pr->o->pricing;
    int64_t price = 0;
    for (const item *i = t->items; i; i = i->next) {
        mu_cut_load l = {{0}, 0, 0};
        if (!load_item(c, i, option, &c->pr->o->traffic, &l)) return MU_PRICE_NEVER;
        price += by->price ? by->price(by->ctx, &l) : mu_price_in_bytes(NULL, &l);
    }
    return price;
}

static int64_t price_of(const mu_chooser *c, mu_term *t, const uint8_t *option) {
    if (!t->known) return price_term(c, t, option);
    size_t at = 0;
    for (int i = 0; i < t->n; i++) at = at * (size_t)c->choice[t->choice[i]].n + option[t->choice[i]];
    if (t->known[at] == UNKNOWN) t->known[at] = price_term(c, t, option);
    return t->known[at];
}

static bool hangs_on(const mu_term *t, int choice) {
    for (int i = 0; i < t->n; i++)
        if (t->choice[i] == choice) return true;
    return choice < 0;
}

int64_t mu_chooser_price(mu_chooser *c, const uint8_t *option, int only) {
    int64_t price = 0;
    for (mu_term *t = c->term; t; t = t->next)
        if (hangs_on(t, only)) price = mu_price_sum(price, price_of(c, t, option));
    return price;
}

int64_t mu_chooser_price_ending(mu_chooser *c, int choice, const uint8_t *option) {
    int64_t price = 0;
    for (mu_term *t = c->term; t; t = t->next)
        if (t->choice[t->n - 1] == choice) price = mu_price_sum(price, price_of(c, t, option));
    return price;
}

mu_cut_load mu_chooser_load(mu_chooser *c, const uint8_t *option, int only, const mu_traffic_opts *o) {
    mu_cut_load all = {{0}, 0, 0};
    for (mu_term *t = c->term; t; t = t->next)
        for (const item *i = t->items; i && hangs_on(t, only); i = i->next) {
            mu_cut_load l = {{0}, 0, 0};
            if (load_item(c, i, option, o, &l)) mu_cut_load_add(&all, &l);
        }
    return all;
}

// ---- options ----

static uint32_t locations(const mu_chooser *c) {
    const mu_net *net = c->pr->o->whole;
    uint32_t set = 1;
    for (int i = 1; i < net->n_layers; i++) set |= (uint32_t)1 << c->pr->plan[i].location;
    return set;
}

static mu_status add_options(mu_chooser *c, mu_choosing *v, uint32_t where, mu_err *err) {
    const mu_cut_plan *p = &c->pr->plan[v->layer->at];
    v->option = mu_arena_array(&c->arena, MU_MOST_GRIDS + MU_MAX_PARTS, sizeof *v->option);
    if (!v->option) return MU_FAIL_NOMEM(err, "the choice of a partition");
    if (!p->open) {
        v->option[v->n++] = (mu_option){p->grid, p->location};
        return MU_OK;
    }
    mu_grid grid[MU_MOST_GRIDS];
    const int n = mu_plan_grids(v->layer, &p->rules, c->pr->o->workers, grid);
    for (int edges = 1; edges >= 0; edges--) // batch, feature, then grids
        for (int i = 0; i < n; i++)
            if ((grid[i].batch == 1 || grid[i].feature == 1) == edges)
                v->option[v->n++] = (mu_option){grid[i], 0};
    for (int w = 0; w < MU_MAX_PARTS; w++)
        if (where >> w & 1) v->option[v->n++] = (mu_option){{1, 1}, w};
    return MU_OK;
}

// The choice that decides how a layer is cut; -1 = none, it is whole.
static int choice_of(const mu_chooser *c, const mu_layer *l) {
    while (c->like[l->at]) l = c->like[l->at];
    return c->of[l->at];
}

static mu_status list_choices(mu_chooser *c, mu_err *err) {
    const mu_net *net = c->pr->o->whole;
    const uint32_t where = locations(c);
    for (int i = 0; i < net->n_layers; i++) c->of[i] = -1;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (mu_is_net_split(l) || l->inserted) continue;
        if (l->copy_before) { // one block, one choice
            c->of[i] = c->of[l->copy_before->at];
            continue;
        }
        c->of[i] = c->n;
        c->choice[c->n].layer = l;
        MU_TRY(add_options(c, &c->choice[c->n++], where, err));
    }
    for (int i = 1; i < net->n_layers; i++)
        if (net->layer[i]->inserted && net->layer[i]->node) c->like[i] = mu_plan_like(net, net->layer[i]);
    return MU_OK;
}

// ---- terms ----

typedef struct item_lists { // while terms are made
    item **blob, **param;
    int most_users;
} item_lists;

static mu_status add_user(mu_chooser *c, item **at, const mu_layer *l, int k, item_lists *lists,
                          mu_err *err) {
    user *u = mu_arena_alloc(&c->arena, sizeof *u);
    if (!*at) *at = mu_arena_alloc(&c->arena, sizeof **at);
    if (!u || !*at) return MU_FAIL_NOMEM(err, "the choice of a partition");
    *u = (user){l, k, (*at)->users};
    (*at)->users = u;
    if (++(*at)->n_users > lists->most_users) lists->most_users = (*at)->n_users;
    return MU_OK;
}

static mu_status list_users(mu_chooser *c, item_lists *lists, mu_err *err) {
    const mu_net *net = c->pr->o->whole;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        for (int k = 0; k < l->n_src && !mu_is_net_split(l); k++) {
            const mu_blob *b = mu_true_source(l->src[k]);
            const int at = b->producer->at;
            if (!at) continue; // data is where it is read
            item **it = &lists->blob[at * MU_MAX_OUT + (int)(b - b->producer->out)];
            MU_TRY(add_user(c, it, l, k, lists, err));
            (*it)->blob = b;
        }
        for (int k = 0; k < l->n_param; k++) {
            item **it = &lists->param[l->param[k]->index];
            MU_TRY(add_user(c, it, l, k, lists, err));
            (*it)->param = l->param[k];
        }
    }
    return MU_OK;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// The choices that an item hangs on, ascending; returns how many.
static int hangs(const mu_chooser *c, const item *i, int *set) {
    int n = 0, m = 0;
    const mu_layer *own = i->blob ? i->blob->producer : i->layer;
    if (own && choice_of(c, own) >= 0) set[n++] = choice_of(c, own);
    for (const user *u = i->users; u; u = u->next)
        if (choice_of(c, u->l) >= 0) set[n++] = choice_of(c, u->l);
    qsort(set, (size_t)n, sizeof *set, by_number);
    for (int k = 0; k < n; k++)
        if (!m || set[m - 1] != set[k]) set[m++] = set[k];
    return m;
}

static mu_term *find_term(const mu_chooser *c, const int *set, int n) {
    for (mu_term *t = c->term; t; t = t->next)
        if (t->n == n && !memcmp(t->choice, set, (size_t)n * sizeof *set)) return t;
    return NULL;
}

static mu_status make_term(mu_chooser *c, const int *set, int n, mu_term **out, mu_err *err) {
    mu_term *t = mu_arena_alloc(&c->arena, sizeof *t);
    if (t) t->choice = mu_arena_array(&c->arena, (size_t)n + 1, sizeof *set);
    if (!t || !t->choice) return MU_FAIL_NOMEM(err, "the choice of a partition");
    memcpy(t->choice, set, (size_t)n * sizeof *set);
    t->n = n;
    size_t ways = 1;
    for (int i = 0; i < n && ways <= MOST_KNOWN; i++) ways *= (size_t)c->choice[set[i]].n;
    if (ways <= MOST_KNOWN) {
        t->known = mu_arena_array(&c->arena, ways, sizeof *t->known);
        if (!t->known) return MU_FAIL_NOMEM(err, "the choice of a partition");
        for (size_t i = 0; i < ways; i++) t->known[i] = UNKNOWN;
    }
    for (int i = 0; i < n; i++)
        if (set[n - 1] > c->choice[set[i]].last) c->choice[set[i]].last = set[n - 1];
    t->next = c->term;
    c->term = *out = t;
    return MU_OK;
}

static mu_status add_item(mu_chooser *c, item *i, int *set, mu_err *err) {
    const int n = i ? hangs(c, i, set) : 0;
    mu_term *t = find_term(c, set, n);
    if (!n) return MU_OK; // nobody decides it
    if (!t) MU_TRY(make_term(c, set, n, &t, err));
    i->next = t->items;
    t->items = i;
    return MU_OK;
}

static mu_status list_terms(mu_chooser *c, mu_err *err) {
    const mu_net *net = c->pr->o->whole;
    const size_t n = (size_t)net->n_layers;
    item_lists lists = {.blob = mu_arena_array(&c->arena, n * MU_MAX_OUT, sizeof(item *)),
                        .param = mu_arena_array(&c->arena, (size_t)net->params->n + 1, sizeof(item *))};
    if (!lists.blob || !lists.param) return MU_FAIL_NOMEM(err, "the choice of a partition");
    MU_TRY(list_users(c, &lists, err));
    const size_t most = (size_t)lists.most_users + 1;
    int *set = mu_arena_array(&c->arena, most, sizeof *set);
    c->plan = mu_arena_array(&c->arena, most, sizeof *c->plan);
    c->seen = mu_arena_array(&c->arena, most, sizeof *c->seen);
    if (!set || !c->plan || !c->seen) return MU_FAIL_NOMEM(err, "the choice of a partition");
    for (size_t i = 1; i < n; i++) {
        if (mu_is_net_split(net->layer[i])) continue;
        item *own = mu_arena_alloc(&c->arena, sizeof *own);
        if (!own) return MU_FAIL_NOMEM(err, "the choice of a partition");
        own->layer = net->layer[i];
        MU_TRY(add_item(c, own, set, err));
    }
    for (size_t i = 0; i < n * MU_MAX_OUT; i++) MU_TRY(add_item(c, lists.blob[i], set, err));
    for (int i = 0; i < net->params->n; i++) MU_TRY(add_item(c, lists.param[i], set, err));
    return MU_OK;
}

// ---- life ----

static mu_status fill(mu_chooser *c, mu_err *err) {
    const size_t n = (size_t)c->pr->o->whole->n_layers;
    c->of = mu_arena_array(&c->arena, n, sizeof *c->of);
    c->like = mu_arena_array(&c->arena, n, sizeof *c->like);
    c->choice = mu_arena_array(&c->arena, n, sizeof *c->choice);
    c->best = mu_arena_array(&c->arena, n, 1);
    if (!c->of || !c->like || !c->choice || !c->best) return MU_FAIL_NOMEM(err, "the choice of a partition");
    MU_TRY(list_choices(c, err));
    return list_terms(c, err);
}

mu_status mu_chooser_open(const mu_partitioner *pr, mu_chooser **out, mu_err *err) {
    mu_chooser *c = mu_alloc(sizeof *c, "partition");
    if (!c) return MU_FAIL_NOMEM(err, "the choice of a partition");
    mu_arena_init(&c->arena, "partition");
    c->pr = pr;
    const mu_status st = fill(c, err);
    if (st == MU_OK) *out = c;
    else mu_chooser_close(c);
    return st;
}

void mu_chooser_close(mu_chooser *c) {
    if (!c) return;
    mu_arena_fini(&c->arena);
    mu_free(c);
}
