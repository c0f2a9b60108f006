// SPDX-License-Identifier: Apache-2.0
// g_shared.c - learner processes on this machine that share memory with a parameter server: the parent's
// part.
//
// The parent makes the shared memory, starts the children, watches and replaces them, takes snapshots for the
// evaluator process, merges the weights of server groups where there are several, and at the end takes the
// weights back into the session. An advance is one look at them all.
//
// With several ranks each has some of the groups, and this is the parent of one of them: of server groups
// with weights of their own (spread.h), of one server group on all ranks (joint.h), or of groups whose
// gradients go to rank 0 (relay.h).
#include "learners/gradients.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/live.h"
#include "learners/counts.h"
#include "learners/joint.h"
#include "learners/load.h"
#include "learners/merging.h"
#include "learners/rank_times.h"
#include "learners/relay.h"
#include "learners/run_log.h"
#include "learners/spread.h"
#include "learners/standing.h"
#include "learners/tables.h"
#include "train/stopflag.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 5000000         // between two looks at the children when nothing rings
#define SNAPSHOT_NS 500000      // the same while a snapshot is wanted, or a group waits to be merged
#define ROUND_NS 50000          // the same while weights travel between ranks, and learners wait for them

typedef struct shared_run {
    mu_training *t;
    mu_server_group *group;             // (n) owned
    int          n;
    mu_merging   merging;
    mu_spread    spread;                // over several ranks
    mu_joint     joint;                 // one server group, on several ranks
    mu_relay     relay;                 // groups whose gradients go to rank 0
    mu_tables    tables;                // for lines of metrics
    mu_standing_part *part;             // (all groups) where they stand in the snapshot, or at the end
    mu_run_log   log;                   // of a recorded run, which has one group
    bool         taking;                // a snapshot is wanted
    double       pause_s;               // since when
    bool         pausing;               // groups of this rank stand still until their copy is made
    bool         first;                 // the snapshot is of what all ranks begin with
    bool         ending;                // learners are to end
    int          told;                  // groups that were told to end
    bool         opened, started;       // the shared memory of all groups; the children
    bool         waits;                 // a group waits at its halt
    bool         looked;                // once
    uint32_t     rung;                  // the parent's bell at the last look
    mu_load      load;
} shared_run;

static bool wants(const mu_session *s, const mu_run_opts *o) {
    return mu_session_forks(s) || o->record;
}

static mu_shared *first_shared(shared_run *c) { return &c->group->shared; }
// This is rank 0 of a training whose weights are there alone.
static bool has_root(const shared_run *c) { return c->relay.nodes && mu_relay_leads(&c->relay); }

static int n_parts(const shared_run *c) { return has_root(c) ? 1 : c->t->s->setup.server_groups; }
// Ranks make the same steps, or all send to one: a look at them is a part of the work.
static bool acts_together(const shared_run *c) { return c->joint.nodes || c->relay.nodes; }

// ---- what the learners have done ----

// Of all ranks, where the gradients of all come here.
static mu_status refresh_root(shared_run *c, mu_advance *out, mu_err *err) {
    mu_finished finished;
    const int learners = out->learners * c->relay.nodes->n; // alive, if other ranks are like this one
    *out = (mu_advance){.learners = learners};
    mu_root_add(&c->relay.root, out);
    mu_root_part(&c->relay.root, c->part);
    c->t->rate = c->relay.root.rate;
    return mu_standing_of_points(c->group, c->part, 1, &c->t->at, &finished, err);
}

static mu_status refresh(shared_run *c, mu_advance *out, mu_err *err) {
    const double time_share = mu_training_time_share(c->t);
    *out = (mu_advance){0};
    for (int i = 0; i < c->n; i++) {
        if (!c->joint.nodes) atomic_store(&c->group[i].shared.head->time_share, time_share);
        mu_server_group_add(&c->group[i], out);
    }
    if (has_root(c)) return refresh_root(c, out, err);
    c->t->at = mu_standing_now(c->group, c->n, mu_spread_ranks(&c->spread));
    c->t->rate = atomic_load(&first_shared(c)->head->rate);
    return MU_OK;
}

// ---- snapshots ----

static void ask_evaluator(shared_run *c, const mu_snapshot_task *task) {
    mu_evaluator_box *box = first_shared(c)->extra;
    box->task = *task;
    atomic_store(&box->state, MU_EVALUATOR_ASKED);
    mu_bell_ring(&box->bell);
}

static void begin_pause(shared_run *c) {
    c->taking = c->pausing = true;
    c->pause_s = mu_clock_s();
}

static void pause_updates(shared_run *c) {
    begin_pause(c);
    for (int i = 0; i < c->n; i++) mu_server_group_pause(&c->group[i], true);
}

static void end_pause(shared_run *c) {
    for (int i = 0; i < c->n; i++)
        if (c->group[i].pausing) mu_server_group_pause(&c->group[i], false);
    c->taking = c->pausing = false;
}

// The mean of the copies of this rank's groups.
static void join_copies(shared_run *c) {
    float *value[MU_MERGE_GROUPS], *const *slot[MU_MERGE_GROUPS];
    for (int i = 0; i < c->n; i++) {
        value[i] = c->group[i].shared.snapshot;
        slot[i] = c->group[i].shared.snapshot_history;
    }
    mu_standing_mean(c->t->s->params, c->n, value, slot);
}

static void note_points(shared_run *c) {
    if (c->spread.nodes) mu_spread_note_points(&c->spread, c->group);
    else if (has_root(c)) mu_root_part(&c->relay.root, c->part);
    else
        for (int i = 0; i < c->n; i++) c->part[i] = mu_standing_part_of(&c->group[i]);
}

// Each group goes on when its own copy is made. True: all of this rank are.
static bool copy_groups(shared_run *c) {
    bool all = true;
    for (int i = 0; i < c->n && c->pausing; i++) {
        mu_server_group *g = &c->group[i];
        if (g->pausing && mu_server_snapshot(&g->shared, &g->point)) mu_server_group_pause(g, false);
        all &= !g->pausing;
    }
    if (!c->pausing || !all) return all;
    c->pausing = false;
    note_points(c);
    join_copies(c);
    mu_merging_snapshot(&c->merging);
    return true;
}

static mu_status stand_at(shared_run *c, mu_evaluator_box *box, mu_err *err) {
    if (c->spread.nodes && c->first) {
        box->answer.at = c->group->begin;
        box->answer.finished = c->t->finished;
        return MU_OK;
    }
    return mu_standing_of_points(c->group, c->part, n_parts(c), &box->answer.at,
                                 &box->answer.finished, err);
}

// Nothing has to stand still: this process makes the updates.
static void take_root(shared_run *c, const mu_snapshot_task *task, mu_snapshot_answer *out) {
    mu_shared *first = first_shared(c);
    mu_root *root = &c->relay.root;
    mu_err_clear(&out->error);
    mu_root_copy_out(root, first->snapshot, first->snapshot_history);
    mu_root_part(root, c->part);
    out->missed = stand_at(c, first->extra, &out->error) != MU_OK;
    if (!out->missed) ask_evaluator(c, task);
}

// True: the snapshot is taken and the evaluator asked, or it was waited for too long.
static bool take_snapshot(shared_run *c, const mu_snapshot_task *task, mu_snapshot_answer *out) {
    mu_shared *first = first_shared(c);
    mu_evaluator_box *box = first->extra;
    const bool all_ranks = c->spread.nodes && !c->first;
    const bool got = copy_groups(c) && (!all_ranks || mu_spread_has_copies(&c->spread));
    const double waited = mu_clock_s() - c->pause_s;
    out->missed = !got && (waited >= 3 * c->group->setup.hang_timeout || (all_ranks && c->spread.missed));
    if (!got && !out->missed) return false;
    end_pause(c);
    mu_err_clear(&out->error);
    if (out->missed) {
        MU_FAIL(&out->error, MU_EBACKEND, "no quiet moment for a snapshot in %.0f s", waited);
        return true;
    }
    if (all_ranks) mu_spread_join(&c->spread, c->t->s->params, first->snapshot, first->snapshot_history);
    out->missed = stand_at(c, box, &out->error) != MU_OK;
    c->first = false;
    if (!out->missed) ask_evaluator(c, task);
    return true;
}

// The weights that the training holds become the snapshot.
static void put_kept(shared_run *c) {
    mu_evaluator_box *box = first_shared(c)->extra;
    const mu_kept *k = &c->t->kept;
    mu_kept_copy_out(k, first_shared(c)->snapshot, first_shared(c)->snapshot_history);
    box->answer.at = k->at;
    box->answer.finished = k->finished;
}

static void weights(void *state, const float **value, float *const **slot) {
    shared_run *c = state;
    *value = first_shared(c)->snapshot;
    *slot = first_shared(c)->snapshot_history;
}

static mu_status snapshot(void *state, const mu_snapshot_task *task, mu_snapshot_answer *out, bool *done,
                          mu_err *err) {
    shared_run *c = state;
    mu_evaluator_box *box = first_shared(c)->extra;
    *done = false;
    const int32_t box_state = atomic_load(&box->state);
    if (box_state == MU_EVALUATOR_ASKED) return MU_OK;
    if (box_state == MU_EVALUATOR_DONE) {
        *out = box->answer;
        out->paused_s = 0; // the learners went on
        *done = true;
        atomic_store(&box->state, MU_EVALUATOR_IDLE);
    } else if (task->same) {
        if (task->kept) put_kept(c);
        ask_evaluator(c, task);
    } else if (has_root(c)) {
        take_root(c, task, out);
        *done = out->missed;
    } else {
        if (!c->taking && c->spread.nodes) MU_TRY(mu_spread_ask(&c->spread, err));
        if (!c->taking) pause_updates(c);
        *done = take_snapshot(c, task, out) && out->missed;
    }
    return MU_OK;
}

// ---- other ranks ----

// Of a rank that follows: rank 0 wants a copy.
static mu_status give_copy(shared_run *c, mu_err *err) {
    mu_shared *first = first_shared(c);
    mu_spread *s = &c->spread;
    if (!c->taking && (!s->wanted || s->nodes->owed[MU_TOPIC_COPY]))
        return MU_OK; // the last one is on its way
    if (!c->taking) pause_updates(c);
    const bool got = copy_groups(c),
               missed = !got && mu_clock_s() - c->pause_s >= 3 * c->group->setup.hang_timeout;
    if (!got && !missed) return MU_OK;
    end_pause(c);
    return mu_spread_give(s, missed, first->snapshot, first->snapshot_history, err);
}

static const char *reason(bool due) {
    if (due) return "rank 0";
    return mu_stop_requested() ? "signal" : "stop";
}

static mu_status look_at_joint(shared_run *c, mu_err *err) {
    mu_joint *j = &c->joint;
    MU_TRY(mu_joint_look(j, &first_shared(c)->head->parent, LOOK_NS, err));
    if (j->asked && !c->t->why) c->t->why = reason(j->due);
    if (mu_joint_leads(j) ? c->ending : mu_training_stop_asked(c->t))
        return mu_joint_say_stop(j, mu_joint_leads(j) && !mu_training_interrupted(c->t), err);
    return MU_OK;
}

static mu_status look_at_relay(shared_run *c, mu_err *err) {
    mu_relay *r = &c->relay;
    MU_TRY(mu_relay_look(r, &first_shared(c)->head->parent, LOOK_NS, err));
    if (r->asked && !c->t->why) c->t->why = reason(r->due);
    if (mu_relay_leads(r) ? c->ending : mu_training_stop_asked(c->t))
        return mu_relay_say_stop(r, mu_relay_leads(r) && !mu_training_interrupted(c->t), err);
    return MU_OK;
}

// What came, and what is to be told of the end.
static mu_status look_at_ranks(shared_run *c, mu_err *err) {
    mu_spread *s = &c->spread;
    mu_training *t = c->t;
    if (c->relay.nodes) return look_at_relay(c, err);
    if (c->joint.nodes) return look_at_joint(c, err);
    if (!s->nodes) return MU_OK;
    MU_TRY(mu_nodes_look(s->nodes, err));
    if (s->asked && !t->why) t->why = reason(s->due);
    if (mu_spread_leads(s))
        return c->ending ? mu_spread_say_stop(s, !mu_training_interrupted(t), err) : MU_OK;
    if (mu_training_stop_asked(t)) MU_TRY(mu_spread_say_stop(s, false, err));
    return give_copy(c, err);
}

// Have the learners of all ranks ended? own: those of this one have.
static mu_status have_ended(shared_run *c, bool own, bool *all, mu_err *err) {
    mu_spread *s = &c->spread;
    *all = own && (!c->joint.nodes || mu_joint_has_ended(&c->joint));
    if (c->relay.nodes && own) return mu_relay_has_ended(&c->relay, all, err);
    if (!s->nodes) return MU_OK;
    *all = own && !mu_merging_is_under_way(&c->merging);
    if (*all) MU_TRY(mu_spread_say_ended(s, err));
    *all &= mu_spread_leads(s) ? mu_spread_all_ended(s) : s->closed;
    return MU_OK;
}

// ---- one look ----

// Who could not be told is told at the next look. What other ranks were shown stays as it is until it is
// merged.
static void tell_learners_to_end(shared_run *c) {
    if (mu_merging_is_under_way(&c->merging) || acts_together(c)) return; // all ranks
    while (c->told < c->n && mu_server_group_end(&c->group[c->told])) c->told++;
}

// Over several ranks learners that use up their samples end by themselves: others may have some left.
static void end(void *state) {
    shared_run *c = state;
    const char *why = c->t->why;
    c->ending = (!c->spread.nodes && !acts_together(c)) || (strcmp(why, "steps") && strcmp(why, "epochs"));
}

static void wait_for_work(shared_run *c) {
    mu_bell *bell = &first_shared(c)->head->parent;
    const int64_t most = mu_merging_is_under_way(&c->merging) ? ROUND_NS
                         : c->taking || c->waits              ? SNAPSHOT_NS
                                                              : LOOK_NS;
    if (c->looked && !acts_together(c)) (void)mu_bell_wait(bell, c->rung, 0, most);
    c->rung = mu_bell_read(bell); // what rings from here on is seen by the next look
    c->looked = true;
}

static mu_status advance(void *state, mu_advance *out, mu_err *err) {
    shared_run *c = state;
    mu_training *t = c->t;
    wait_for_work(c);
    mu_run_log_drain(&c->log);
    mu_rank_times_note(t->o->nodes, c->group, c->n);
    MU_TRY(look_at_ranks(c, err));
    for (int i = 0; i < c->n; i++) MU_TRY(mu_watchdog_look(&c->group[i].dog, err));
    if (!c->pausing && !c->relay.nodes) MU_TRY(mu_merging_look(&c->merging, &c->waits, err));
    MU_TRY(refresh(c, out, err));
    mu_learners_load load;
    const bool advises = !c->ending && t->s->setup.server_groups == 1 && !acts_together(c);
    if (advises && mu_load_look(&c->load, first_shared(c), &load)) mu_advisor_measured(t, &load);
    if (atomic_load(&first_shared(c)->head->stop_asked) && !t->why) t->why = "stop";
    if (c->ending) tell_learners_to_end(c);
    bool own = true;
    for (int i = 0; i < c->n; i++) own &= mu_watchdog_all_ended(&c->group[i].dog);
    MU_TRY(have_ended(c, own, &out->ended, err));
    if (out->ended && !mu_training_finished(t))
        t->why = t->s->job->train.steps > 0 ? "steps" : "epochs"; // all samples are used
    return MU_OK;
}

// ---- the end ----

static void drain_log(void *c) { mu_run_log_drain(&((shared_run *)c)->log); }

// The last merge of all ranks, if it is due.
static mu_status end_together(shared_run *c, mu_err *err) {
    int64_t version[MU_MERGE_GROUPS];
    MU_TRY(mu_spread_end(&c->spread, err));
    for (int g = 0; g < c->spread.all; g++) version[g] = c->part[g].point.version;
    return mu_merging_end_together(&c->merging, version, err);
}

// No child is left. What lies in the queues is applied: the last learner may have gone during a pause, and
// the server before it saw the last gradients. Not where rank 0 applies: a group of a training that failed may
// have formed an update whose weights never came, and none of its executors makes it. *used: samples of this
// rank.
static mu_status drain(shared_run *c, int64_t *used, mu_err *err) {
    mu_advance rest;
    int64_t one;
    *used = 0;
    for (int i = 0; i < c->n; i++) {
        if (!c->relay.nodes) MU_TRY(mu_server_group_drain(&c->group[i], drain_log, c, err));
        MU_TRY(mu_server_group_settle(&c->group[i], &one, err));
        *used += one;
    }
    note_points(c);
    if (c->spread.nodes) MU_TRY(end_together(c, err));
    else if (!c->relay.nodes) mu_merging_end(&c->merging);
    MU_TRY(refresh(c, &rest, err));
    c->t->loss_sum += rest.loss_sum;
    c->t->accuracy_sum += rest.accuracy_sum;
    c->t->loss_n += rest.n;
    return MU_OK;
}

// From here on the training stands where its weights do: what waits is not in them. used: samples of all
// ranks.
static mu_status settle(shared_run *c, bool well, int64_t used, mu_err *err) {
    mu_training *t = c->t;
    mu_finished finished;
    const mu_position begin = c->group->begin;
    if (well && t->loss_n) mu_training_log(t); // of what was done; the position may go back a little
    MU_TRY(mu_standing_of_points(c->group, c->part, n_parts(c), &t->at, &finished, err));
    t->finished = finished;
    const int64_t done = t->at.samples - begin.samples + t->at.repeated - begin.repeated;
    if (done == used || t->follows) return MU_OK;
    return MU_FAIL(err, MU_EBACKEND, "the samples do not balance: %lld used, %lld finished", (long long)used,
                   (long long)done);
}

static mu_status sum_up(shared_run *c, mu_learners_result *r, mu_err *err) {
    const mu_setup *p = &c->t->s->setup;
    *r = (mu_learners_result){
        .count = p->learners,
        .protocol = p->protocol->name,
        .rows = p->rows,
        .global_batch = p->global_batch,
        .server_groups = mu_setup_merges(p) ? p->server_groups : 1,
        .ranks = mu_setup_nodes(p),
        .counts_moved = mu_setup_nodes(p) == 1, // of this machine alone they say little
        .bad_records = mu_source_get_stats(c->t->s->train.source).n_bad,
        .replace_p50_s = NAN,
        .replace_p99_s = NAN,
    };
    for (int i = 0; i < c->n; i++) MU_TRY(mu_server_group_sum_up(&c->group[i], r, err));
    r->rank[0] = (mu_rank_times){r->compute_s, r->wait_s}; // of others it is in their counts
    r->steps = (double)(c->t->at.samples - c->group->begin.samples) / (double)p->global_batch;
    return MU_OK;
}

// Into the snapshot of the first group: the mean of all of this rank.
static void copy_weights(shared_run *c) {
    for (int i = 0; i < c->n; i++) {
        mu_shared *g = &c->group[i].shared;
        mu_shared_copy_out(g, g->snapshot, g->snapshot_history);
    }
    join_copies(c);
}

// Rank 0 gets the counts and weights of all; *used becomes theirs, too. Afterwards no rank needs another one.
static mu_status gather(shared_run *c, mu_learners_result *r, int64_t *used, mu_err *err) {
    mu_shared *first = first_shared(c);
    mu_spread *s = &c->spread;
    const mu_wire_counts own = mu_counts_of(s->nodes->rank, r, *used, c->t->ps.skipped);
    MU_TRY(mu_spread_gather(s, &own, first->snapshot, first->snapshot_history, err));
    for (int rank = 1; rank < s->nodes->n && mu_spread_leads(s); rank++) {
        mu_counts_add(&s->gathering.counts[rank], r);
        *used += s->gathering.counts[rank].used;
        c->t->ps.skipped += s->gathering.counts[rank].skipped;
    }
    if (mu_spread_leads(s)) mu_spread_join(s, c->t->s->params, first->snapshot, first->snapshot_history);
    r->wire_sent = s->nodes->bytes_sent;
    r->wire_received = s->nodes->bytes_received;
    (void)mu_nodes_end(s->nodes, NULL);
    return mu_counts_check(r, err);
}

// The session gets the model: that of one group, or the mean of all, which is in the snapshot of the first
// one. Later groups go first, as the parameters are in the memory of the first one. lent: a transport may
// still read from it, so it stays until the process ends.
static void take_weights(shared_run *c, bool lent) {
    mu_shared *first = first_shared(c);
    if (c->t->s->setup.server_groups > 1)
        mu_shared_give_back(first, first->snapshot, first->snapshot_history);
    mu_merging_close(&c->merging);
    for (int i = c->n; i-- > 0 && !lent;) mu_server_group_close(&c->group[i]);
}

// Rank 0 alone knows where the training stands.
static mu_status finish_relay(shared_run *c, bool well, int64_t used, mu_learners_result *out, mu_err *err) {
    MU_TRY(sum_up(c, out, err));
    if (well) MU_TRY(mu_relay_gather(&c->relay, out, &used, err));
    return has_root(c) ? settle(c, well, used, err) : MU_OK;
}

static mu_status finish(shared_run *c, mu_status how, mu_learners_result *out, mu_err *err) {
    int64_t used;
    const bool well = how == MU_OK;
    MU_TRY(drain(c, &used, err));
    if (c->relay.nodes) return finish_relay(c, well, used, out, err);
    if (!c->spread.nodes) {
        MU_TRY(settle(c, well, used, err));
        if (well) MU_TRY(sum_up(c, out, err));
        return well && c->joint.nodes ? mu_joint_gather(&c->joint, out, err) : MU_OK;
    }
    MU_TRY(sum_up(c, out, err));
    MU_TRY(mu_nodes_wait(c->spread.nodes, NULL, NULL, err)); // an earlier copy may be lent
    copy_weights(c);
    MU_TRY(gather(c, out, &used, err));
    return settle(c, well, used, err);
}

// ---- beginning and end ----

static mu_status open_groups(shared_run *c, mu_err *err) {
    mu_training *t = c->t;
    char id[MU_RUN_ID];
    if (t->o->no_files) snprintf(id, sizeof id, "%.40s-%d", t->s->job->name, (int)getpid());
    else mu_rundir_id(t->dir.path, id);
    for (int i = 0; i < c->n; i++) {
        const mu_server_group_opts o = {t, id, i ? c->group : NULL, i, c->n,
                                        t->o->nodes ? mu_nodes_before_on_host(t->o->nodes) : 0};
        MU_TRY(mu_server_group_open(&c->group[i], &o, err));
        if (i) atomic_store(&c->group[i - 1].shared.head->next_fd, c->group[i].shared.region.fd);
    }
    const mu_setup *p = &t->s->setup;
    const bool joint = mu_setup_is_joint(p), relayed = mu_setup_is_relayed(p);
    MU_TRY(mu_spread_open(&c->spread, joint || relayed ? NULL : t->o->nodes, t, err));
    MU_TRY(mu_joint_open(&c->joint, joint ? t->o->nodes : NULL, c->group, err));
    MU_TRY(mu_relay_open(&c->relay, t->o->nodes, c->group, c->first, err));
    c->part = c->spread.nodes ? c->spread.part
                              : mu_alloc_array((size_t)p->server_groups, sizeof *c->part, "learners");
    if (!c->part) return MU_FAIL_NOMEM(err, "where the server groups stand");
    if (!relayed)
        MU_TRY(mu_merging_open(&c->merging, c->group, c->n, c->spread.nodes ? &c->spread.rounds : NULL, err));
    c->opened = true;
    if (t->o->no_files) return MU_OK;
    return mu_live_write(t->dir.path, getpid(), first_shared(c)->region.fd, id, err);
}

static mu_status start(void *state, mu_training *t, bool hold, mu_err *err) {
    shared_run *c = state;
    c->t = t;
    c->n = mu_setup_own_groups(&t->s->setup);
    c->group = mu_alloc_array((size_t)c->n, sizeof *c->group, "learners");
    if (!c->group) return MU_FAIL_NOMEM(err, "the server groups");
    for (int i = 0; i < c->n; i++) c->group[i].shared.region.fd = -1;
    c->first = hold;
    MU_TRY(mu_failpoints_open(err));
    MU_TRY(open_groups(c, err));
    MU_TRY(mu_run_log_open(&c->log, t, c->group, err));
    MU_TRY(mu_tables_open(&c->tables, t, c->group, c->n, err));
    t->advisor.facts = &((mu_learners_room *)first_shared(c)->extra)->facts;
    if (c->relay.nodes) hold = false; // the root holds
    if (hold) begin_pause(c);
    c->started = true;
    for (int i = 0; i < c->n; i++) MU_TRY(mu_server_group_start(&c->group[i], hold, c->merging.copy, err));
    if (c->joint.parts.nodes) c->group->dog.partners = &c->joint.parts.partners;
    return MU_OK;
}

static void free_run(shared_run *c) {
    mu_relay_close(&c->relay);
    mu_joint_close(&c->joint);
    mu_tables_close(&c->tables);
    if (c->spread.nodes) mu_spread_close(&c->spread);
    else mu_free(c->part);
    mu_free(c->group);
}

// Made perhaps, but not announced.
static void close_unopened(shared_run *c) {
    mu_merging_close(&c->merging);
    for (int i = c->n; c->group && i-- > 0;) mu_server_group_close(&c->group[i]);
    free_run(c);
}

static mu_status stop(void *state, mu_status how, mu_learners_result *out, mu_err *err) {
    shared_run *c = state;
    mu_status st = MU_OK;
    if (!c->opened) {
        close_unopened(c);
        return MU_OK;
    }
    for (int i = 0; i < c->n; i++)
        if (c->group[i].started) mu_watchdog_stop(&c->group[i].dog);
    const bool alone = !c->spread.nodes; // the weights of the training are here
    if (how == MU_OK || alone) st = finish(c, how, out, err);
    mu_shared *first = first_shared(c);
    if (has_root(c)) mu_root_copy_out(&c->relay.root, first->snapshot, first->snapshot_history);
    else if (alone && c->n > 1) copy_weights(c);
    mu_run_log_close(&c->log, how == MU_OK && st == MU_OK);
    if (!c->t->o->no_files) mu_live_remove(c->t->dir.path);
    take_weights(c, mu_setup_nodes(&c->t->s->setup) > 1 && (how != MU_OK || st != MU_OK));
    free_run(c);
    return st;
}

const mu_gradient_source mu_gradients_shared = {
    .name = "shared",
    .help = "learner processes on this machine and a parameter server in shared memory",
    .state_size = sizeof(shared_run),
    .rank = 10,
    .wants = wants,
    .prepare = mu_run_log_prepare,
    .start = start,
    .advance = advance,
    .end = end,
    .snapshot = snapshot,
    .weights = weights,
    .stop = stop,
};
