// SPDX-License-Identifier: Apache-2.0
// ranks_model.c - what the root takes for a training: two parameters, a rule that lets the book look at each
// update, and a session with some data. Wrong drivers, too.
#include "sim/ranks.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- the rule ----

static void apply(const void *state, const mu_slice *s, float lr, mu_rule_step step) {
    ranks_book_update(*(ranks_world *const *)state, lr, step.update);
    for (size_t i = 0; i < s->n; i++) s->value[i] -= lr * s->grad[i];
}

static const mu_updater_class rule = {
    .name = "descent", .help = "plain descent, seen by the book", .apply = apply};

static double rate(MU_UNUSED const void *state, double base, MU_UNUSED double t, MU_UNUSED double end) {
    return base;
}

static const mu_schedule_class schedule = {.name = "same", .help = "always the same", .rate = rate};

// ---- the session: of its own there are data, so that epochs have a length ----

static const char job_text[] = "name: sim\ntrain: {batch: 2, steps: 3}\n"
                               "data: {train: {reader: csv, file: %s, header: no}}\n"
                               "net:\n- {name: ip, type: inner_product, outputs: 2}\n"
                               "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
                               "updater: {type: sgd, rate: 0.1}\n";

static bool open_session(ranks_world *w) {
    char path[] = "/tmp/muster-sim-XXXXXX", text[sizeof job_text + sizeof path];
    static const char rows[] = "1,2,0\n2,1,1\n1,3,0\n3,1,1\n";
    mu_err err = {0};
    const int fd = mkstemp(path);
    if (fd < 0) return false;
    const bool written = write(fd, rows, sizeof rows - 1) == (ssize_t)(sizeof rows - 1);
    snprintf(text, sizeof text, job_text, path);
    mu_status st = mu_job_parse("sim.yaml", text, strlen(text), NULL, 0, &w->job, &err);
    if (st == MU_OK) st = mu_session_open(w->job, &(mu_session_opts){.phases = MU_TRAIN}, &w->opened, &err);
    (void)close(fd);
    (void)unlink(path);
    if (st != MU_OK) fprintf(stderr, "muster-sim: %s\n", err.msg);
    return written && st == MU_OK;
}

// One of them is added up by relays, the other one travels in messages, whatever would be cheaper.
static bool make_params(ranks_world *w) {
    static const char *const names[] = {"sums", "parts"};
    mu_err err = {0};
    for (int i = 0; i < 2; i++) {
        mu_param *p = w->list[i] = &w->param[i];
        *p = (mu_param){.name = names[i],
                        .shape = {1, {RANKS_PART}},
                        .index = i,
                        .offset = (size_t)i * RANKS_PART,
                        .count = RANKS_PART,
                        .lr_mult = 1,
                        .decay_mult = 1,
                        .n_users = 1,
                        .value = w->value + (ptrdiff_t)i * RANKS_PART};
    }
    w->params = (mu_params){.n = 2, .cap = 2, .list = w->list, .count = RANKS_FLOATS, .value = w->value};
    if (mu_wire_forms_make(&w->params, 2, RANKS_OWN, false, MU_HALF_NONE, &w->forms, &err) != MU_OK) return false;
    w->forms.summed[0] = w->forms.apart[0] = true;
    w->forms.at[1] = w->forms.at[2] = w->forms.stretch[1] = w->forms.stretch[2] = RANKS_PART;
    w->forms.share = (mu_wire_share){&w->params, &w->forms.message, w->forms.apart};
    return true;
}

bool ranks_create(ranks_world *w, const sim_opts *o) {
    const size_t most = (size_t)RANKS_GROUPS * RANKS_OWN;
    memset(w, 0, sizeof *w);
    w->opts = *o;
    w->value = mu_alloc_block(RANKS_FLOATS * sizeof(float), "sim");
    bool good = w->value && open_session(w) && make_params(w);
    if (good) {
        w->session = *w->opened;
        w->session.params = &w->params;
        w->session.updater = &w->updater;
        w->updater = (mu_updater){.class = &rule, .schedule = &schedule, .base = 0.25};
        w->updater.state = mu_alloc(sizeof w, "sim");
        w->slots = mu_alloc_block(most * MU_CORE_SLOTS * w->forms.message.bytes, "sim");
    }
    w->learner = mu_alloc_array(most, sizeof *w->learner, "sim");
    w->letter = mu_alloc_array(RANKS_LETTERS, sizeof *w->letter, "sim");
    w->book.sample = mu_alloc(RANKS_SAMPLES, "sim");
    w->book.history = mu_alloc_array((size_t)RANKS_HISTORY * RANKS_CHUNKS, sizeof *w->book.history, "sim");
    good &= sim_queue_create(&w->queue, 8 * (int64_t)most + RANKS_LETTERS) && w->learner && w->letter &&
            w->book.sample && w->book.history && w->updater.state && w->slots;
    if (good) memcpy(w->updater.state, &w, sizeof w);
    else ranks_destroy(w);
    return good;
}

void ranks_destroy(ranks_world *w) {
    mu_wire_forms_fini(&w->forms);
    mu_session_close(w->opened);
    mu_job_destroy(w->job);
    void *all[] = {w->value,  w->slots,       w->updater.state, w->learner,
                   w->letter, w->book.sample, w->book.history};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mu_free(all[i]);
    sim_queue_destroy(&w->queue);
    memset(w, 0, sizeof *w);
}

// ---- wrong drivers ----

static const char *const names[RANKS_M_LAST + 1] = {
    [RANKS_M_NONE] = "the right driver",
    [RANKS_M_COMPLETE_TWICE] = "a gradient is said to be complete twice",
    [RANKS_M_NO_GRANT] = "a gradient is sent before it is granted",
    [RANKS_M_EARLY_WEIGHTS] = "weights are installed while learners compute",
    [RANKS_M_NO_LEAVE] = "a group that leaves does not say so",
    [RANKS_M_NO_ASK] = "a question for weights is lost",
    [RANKS_M_DISORDER] = "frames overtake each other",
    [RANKS_M_SLOT_LENT] = "slots are written again while they are lent",
    [RANKS_M_SUM_SHORT] = "a sum without its last learner",
    [RANKS_M_SUM_TWICE] = "a sum on top of the one before",
    [RANKS_M_FALSE_VERSION] = "a gradient claims newer weights",
    [RANKS_M_GRANT_LOST] = "a grant is lost",
    [RANKS_M_HALF_WEIGHTS] = "half of the weights are installed",
    [RANKS_M_TREE_LENT] = "weights on their way down the tree are overwritten",
    [RANKS_M_NO_WATCHDOG] = "dead learners are not replaced",
    [RANKS_M_OLD_MESSAGE] = "sums are made before all have their gradients",
    [RANKS_M_NO_STOP] = "a rank is not told of the stop",
    [RANKS_M_NOT_GIVEN_UP] = "a step that nobody has begun is waited for at the end",
    [RANKS_M_EARLY_STOP] = "groups in step end before a step that some have begun",
    [RANKS_M_BEYOND_END] = "learners do not halt at the end",
    [RANKS_M_DEALT_TWICE] = "samples are dealt twice",
    [RANKS_M_LEASE_LOST] = "samples that are dealt are lost",
    [RANKS_M_NO_HALT] = "learners do not halt where nothing is dealt",
    [RANKS_M_NO_END] = "a group is not told that there is nothing more",
    [RANKS_M_EARLY_COMPLETE] = "a gradient is said to be complete before its step is formed",
    [RANKS_M_ROOT] = "root: the samples that came",
    [RANKS_M_ROOT + 1] = "root: a grant too many",
    [RANKS_M_ROOT + 2] = "root: the clock back",
    [RANKS_M_ROOT + 3] = "root: samples dealt twice",
    [RANKS_M_ROOT + 4] = "root: a sum that waits",
    [RANKS_M_ROOT + 5] = "root: the place of a gradient that waits is lost",
};

const char *ranks_mutant_name(int mutant) { return names[mutant]; }

bool ranks_mutant_is(const ranks_world *w, ranks_mutant m) {
    return (int)m == w->opts.mutant && w->events > 100;
}

// Writes one wrong number, once, where the state allows that it matters.
void ranks_mutant_scribble(ranks_world *w) {
    if (w->mutated || w->events < 100) return;
    mu_root *r = &w->root;
    mu_root_group *g = &r->group[w->events % r->n];
    mu_root_place *p = &g->place[w->events % MU_CORE_SLOTS];
    const bool waits = p->step >= 0 && p->step < g->next; // in the core
    switch (w->opts.mutant - RANKS_M_ROOT) {
    case 0:
        if (p->step < 0 || p->complete || waits) return;
        p->rows++;
        break;
    case 1:
        g->granted++;
        break;
    case 2:
        r->core->version--;
        break;
    case 3:
        r->core->next_sample -= r->core->config.rows;
        break;
    case 4:
        if (!waits) return;
        p->sum[0] += 1;
        break;
    default:
        if (!waits) return;
        p->step = -1;
        break;
    }
    w->mutated = true;
}
