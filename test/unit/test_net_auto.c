// SPDX-License-Identifier: Apache-2.0
// test_net_auto.c - the choice of the cheapest partition is that of all assignments of nets of up to 10
// layers, under prices drawn at random.
#include "auto_help.h"

#include "net/partition_explain.h"

// ---- the choice ----

typedef struct random_price {
    int64_t values, gradients, weights, flops;
} random_price;

static int64_t price_at_random(const void *ctx, const mu_cut_load *l) {
    const random_price *r = ctx;
    return l->moved.values * r->values + l->moved.gradients * r->gradients + l->moved.weights * r->weights +
           (int64_t)l->idle * r->flops / 8;
}

static bool next_way(const mu_chooser *c, uint8_t *option) {
    for (int v = 0; v < c->n; v++) {
        if (++option[v] < c->choice[v].n) return true;
        option[v] = 0;
    }
    return false;
}

static int rank_of(const mu_chooser *c, const uint8_t *option) {
    int rank = 0;
    for (int v = 0; v < c->n; v++) rank += option[v];
    return rank;
}

static void compare_with_all(const subject *s, const mu_partition_opts *o) {
    trial t;
    uint8_t option[LAYERS] = {0};
    int64_t least = INT64_MAX;
    int rank = 0;
    open_trial(&t, s, o);
    do {
        const int64_t price = mu_chooser_price(t.c, option, -1);
        const int own = rank_of(t.c, option);
        if (price < least || (price == least && own < rank)) least = price, rank = own;
    } while (next_way(t.c, option));
    const int64_t found = mu_chooser_price(t.c, t.c->best, -1);
    if (found != least || rank_of(t.c, t.c->best) != rank) {
        for (int i = 0; s->layer[i]; i++) fprintf(stderr, "- %s}\n", s->layer[i]);
        fail_msg("seed %" PRIu64 ", %d workers: found %" PRId64 " (%d), the least is %" PRId64 " (%d)", seed,
                 o->workers, found, rank_of(t.c, t.c->best), least, rank);
    }
    assert_true(t.c->exact);
    close_trial(&t);
}

static void no_assignment_is_cheaper(void **state) {
    (void)state;
    for (int i = 0; i < n_nets; i++) {
        random_net r;
        const int workers = 2 + roll(3);
        const random_price price = {roll(3), roll(3), roll(2), roll(3)};
        mu_partition_opts o = {.workers = workers, .traffic = {.learners = roll(3), .dense = roll(2)}};
        if (i % 3) o.pricing = (mu_pricing){price_at_random, &price};
        draw_net(&r, 4 + roll(workers == 4 ? 5 : 7));
        compare_with_all(&r.s, &o);
    }
    for (size_t k = 0; k < MU_COUNT(kinds); k++)
        compare_with_all(&kinds[k], &(mu_partition_opts){.workers = 2 + (int)k % 3});
}

// The partition that is made is the one that was chosen, and cuts nothing that may not be cut.
static void the_choice_can_be_made(void **state) {
    (void)state;
    for (int i = 0; i < n_nets; i++) {
        random_net r;
        trial t;
        mu_partition *p = NULL;
        mu_err err = {0};
        draw_net(&r, 4 + roll(9));
        const mu_partition_opts o = {.workers = 2 + roll(3)};
        open_trial(&t, &r.s, &o);
        check(&t.m, mu_partition_create(&t.m.b, &t.o, &p, &err), &err);
        const mu_traffic made = mu_partition_traffic(p, &o.traffic);
        const mu_cut_load told = mu_chooser_load(t.c, t.c->best, -1, &o.traffic);
        same_traffic("random", "told", &told.moved, &made, "");
        for (int k = 1; k < t.m.net->n_layers; k++) {
            const mu_layer *l = t.m.net->layer[k];
            const mu_cut_rules rules = mu_layer_cut_rules(l);
            if (!(rules.cuts & MU_CUT_BATCH)) assert_true(p->grid[k].batch <= 1);
            if (!(rules.cuts & MU_CUT_FEATURE)) assert_true(p->grid[k].feature <= 1);
        }
        for (int w = 0; w < o.workers; w++) {
            mu_net *net = NULL;
            check(&t.m, mu_partition_net(&t.m.b, p, w, &net, &err), &err);
            mu_net_destroy(net);
        }
        mu_partition_destroy(p);
        close_trial(&t);
    }
}

// More branches than can be tried in all ways: what is found is good, not known to be the best, and says so.
static void many_branches(void **state) {
    (void)state;
    random_net r = {.s = {"branches", "bp", {0}, {NULL}}};
    trial t;
    uint8_t option[LAYERS] = {0};
    char all[TEXT] = "";
    for (; r.n < 12; r.n++) {
        snprintf(layer_text[r.n], TEXT, "{name: l%d, type: inner_product, src: data.image, outputs: %d", r.n,
                 20 + r.n);
        r.s.layer[r.n] = layer_text[r.n];
        snprintf(all + strlen(all), TEXT - strlen(all), "%sl%d", r.n ? ", " : "", r.n);
    }
    snprintf(layer_text[r.n], TEXT, "{name: l12, type: concat, src: [%s]", all);
    r.s.layer[r.n] = layer_text[r.n];
    r.n++;
    finish_net(&r);
    open_trial(&t, &r.s, &(mu_partition_opts){.workers = 4});
    assert_false(t.c->exact);
    const int64_t found = mu_chooser_price(t.c, t.c->best, -1);
    assert_true(found <= mu_chooser_price(t.c, option, -1)); // all by batch
    close_trial(&t);
}

// ---- by hand ----

static const subject big = {
    "big",
    "bp",
    {0},
    {"{name: c1, type: convolution, src: data.image, filters: 64, kernel: 3, pad: 1", "{name: r1, type: relu",
     "{name: c2, type: convolution, filters: 64, kernel: 3, pad: 1",
     "{name: fc1, type: inner_product, outputs: 500", "{name: fc2, type: inner_product, outputs: 5",
     "{name: loss, type: softmax_loss, src: [fc2, data.label]"}};

static int64_t bytes_alone(MU_UNUSED const void *ctx, const mu_cut_load *l) {
    return mu_traffic_sum(&l->moved);
}

static const mu_option *chosen(const trial *t, const char *name) {
    for (int v = 0; v < t->c->n; v++)
        if (!strcmp(t->c->choice[v].layer->name, name)) return &t->c->choice[v].option[t->c->best[v]];
    fail_msg("no layer %s", name);
    return NULL;
}

// Bytes alone would leave all work to one worker; what its idle partners could do decides against that.
static void work_is_shared(void **state) {
    (void)state;
    trial t;
    open_trial(&t, &big, &(mu_partition_opts){.workers = 4, .pricing = {bytes_alone, NULL}});
    assert_int_equal(mu_chooser_price(t.c, t.c->best, -1), 0);
    assert_int_equal(chosen(&t, "c2")->grid.batch * chosen(&t, "c2")->grid.feature, 1);
    close_trial(&t);
    open_trial(&t, &big, &(mu_partition_opts){.workers = 4});
    assert_int_equal(chosen(&t, "c1")->grid.batch * chosen(&t, "c1")->grid.feature, 4);
    assert_int_equal(chosen(&t, "c2")->grid.batch * chosen(&t, "c2")->grid.feature, 4);
    assert_int_equal(chosen(&t, "fc1")->grid.feature, 4);
    close_trial(&t);
}

static void keys_of_the_job_stand(void **state) {
    (void)state;
    static const subject s = {
        "keys",
        "bp",
        {0},
        {"{name: c1, type: convolution, src: data.image, filters: 64, kernel: 3, partition: feature",
         "{name: r1, type: relu, partition: auto",
         "{name: fc1, type: inner_product, outputs: 50, location: 2",
         "{name: fc2, type: inner_product, outputs: 5, partition: none",
         "{name: loss, type: softmax_loss, src: [fc2, data.label]"}};
    trial t;
    open_trial(&t, &s, &(mu_partition_opts){.workers = 3});
    assert_int_equal(chosen(&t, "c1")->grid.feature, 3);
    assert_int_equal(chosen(&t, "r1")->grid.feature, 3);
    assert_int_equal(chosen(&t, "fc1")->location, 2);
    assert_int_equal(chosen(&t, "fc2")->location, 0);
    close_trial(&t);
}

// Every allocation fails once: an error comes back, and nothing is lost.
static void no_memory(void **state) {
    (void)state;
    trial t;
    mu_status st = MU_ENOMEM;
    open_trial(&t, &big, &(mu_partition_opts){.workers = 3});
    for (int n = 1; st != MU_OK; n++) {
        mu_partition *p = NULL;
        mu_xray *x = NULL;
        mu_err err = {0};
        const uint64_t live = mu_alloc_get_stats().n_live;
        mu_alloc_fail_at(n);
        st = mu_partition_create(&t.m.b, &t.o, &p, &err);
        if (st == MU_OK) st = mu_partition_explain(&t.m.b, &t.o, &x, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(err.status, st);
        assert_true(st == MU_OK || st == MU_ENOMEM);
        mu_xray_destroy(x);
        mu_partition_destroy(p);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        assert_true(n < 1000);
    }
    close_trial(&t);
}

int main(void) {
    read_settings();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_assignment_is_cheaper),
        cmocka_unit_test(the_choice_can_be_made),
        cmocka_unit_test(many_branches),
        cmocka_unit_test(work_is_shared),
        cmocka_unit_test(keys_of_the_job_stand),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
