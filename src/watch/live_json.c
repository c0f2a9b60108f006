// SPDX-License-Identifier: Apache-2.0
// live_json.c - a view of a running job as JSON. Keys are a contract: added, never renamed.
#include "watch/live_view.h"

#include "base/attr.h"
#include "file/json.h"
#include "ps/moved.h"

#include <math.h>
#include <string.h>

// A folder's name may be no UTF-8, which JSON cannot hold.
static json_t *text_json(const char *s) {
    return json_string(mu_json_utf8_valid(s, strlen(s)) ? s : "?");
}

// The object, or NULL when something could not be put into it.
static json_t *finished(json_t *o, int wrong) {
    if (!wrong) return o;
    json_decref(o);
    return NULL;
}

static json_t *learner_json(const mu_live_view *v, int index) {
    const mu_live_learner *l = &v->learner[index];
    const int workers = v->n_processes / v->n_learners;
    const mu_json_int counts[] = {
        {"learner", index / workers},    {"worker", index % workers},     {"pid", l->pid},
        {"server_group", index / (v->n_processes / v->server_groups)},
        {"incarnation", l->incarnation}, {"samples", l->samples},         {"gradients", l->gradients},
        {"version", l->version},         {"staleness_max", l->stale_max}, {"losses", l->losses},
        {"slow_us", l->slow_us},         {"records_read", l->records},
    };
    const mu_json_real numbers[] = {
        {"samples_per_s", l->samples_per_s}, {"compute_share", l->compute_share},
        {"wait_share", l->wait_share}, {"compute_s", l->compute_s}, {"wait_s", l->wait_s},
        {"apply_s", l->apply_s}, {"quiet_s", l->quiet_s < 0 ? NAN : l->quiet_s},
        {"loss", l->loss}, {"accuracy", l->accuracy},
        {"staleness_mean", l->n_stale ? (double)l->stale_sum / (double)l->n_stale : NAN},
    };
    json_t *o = json_object();
    int wrong = mu_json_put_ints(o, counts, MU_COUNT(counts));
    wrong |= json_object_set_new(o, "doing", json_string(mu_doing_name(l->doing)));
    wrong |= mu_json_put_reals(o, numbers, MU_COUNT(numbers));
    if (l->rank) wrong |= json_object_set_new(o, "rank", json_integer(l->rank));
    return finished(o, wrong);
}

static json_t *staleness_json(const mu_live_view *v) {
    json_t *hist = json_array(), *o = json_object();
    int last = MU_STALENESS_BINS, wrong = 0;
    while (last > 0 && !v->stale_hist[last - 1]) last--;
    for (int b = 0; b < last; b++) wrong |= json_array_append_new(hist, json_integer(v->stale_hist[b]));
    wrong |= mu_json_put_reals(o, &(mu_json_real){"mean", v->stale_mean}, 1);
    wrong |= mu_json_put_ints(o, &(mu_json_int){"max", v->stale_max}, 1);
    wrong |= json_object_set_new(o, "hist", hist);
    return finished(o, wrong);
}

static json_t *ledger_json(const mu_live_view *v) {
    if (!v->ledger_known) return json_null();
    const mu_ledger *l = &v->ledger;
    const mu_json_int rows[] = {
        {"produced", l->produced}, {"applied", l->applied}, {"rejected", l->rejected}, {"lost", l->lost},
        {"in_flight", l->in_flight},
    };
    json_t *o = json_object();
    return finished(o, mu_json_put_ints(o, rows, MU_COUNT(rows)));
}

json_t *mu_moved_json(bool known, const mu_traffic *t, double steps) {
    if (!known) return json_null();
    const mu_json_int sums[] = {{"values", t->values}, {"gradients", t->gradients}, {"weights", t->weights}};
    const mu_json_real shares[] = {
        {"values", mu_moved_per_step(t->values, steps, false)},
        {"gradients", mu_moved_per_step(t->gradients, steps, false)},
        {"weights", mu_moved_per_step(t->weights, steps, true)},
    };
    json_t *o = json_object(), *each = json_object();
    int wrong = mu_json_put_ints(o, sums, MU_COUNT(sums));
    wrong |= mu_json_put_reals(each, shares, MU_COUNT(shares));
    wrong |= json_object_set_new(o, "per_step", each);
    return finished(o, wrong);
}

json_t *mu_rank_times_json(const mu_rank_times *rank, int ranks) {
    json_t *o = json_object(), *compute = json_array(), *wait = json_array(), *overlap = json_array();
    int wrong = 0;
    for (int i = 0; i < ranks; i++) {
        wrong |= json_array_append_new(compute, mu_json_number(rank[i].compute_s));
        wrong |= json_array_append_new(wait, mu_json_number(rank[i].wait_s));
        wrong |= json_array_append_new(overlap, mu_json_number(mu_overlap(rank[i].compute_s, rank[i].wait_s)));
    }
    wrong |= json_object_set_new(o, "compute_s", compute) | json_object_set_new(o, "wait_s", wait);
    wrong |= json_object_set_new(o, "overlap", overlap);
    return finished(o, wrong);
}

json_t *mu_live_json(const mu_live_view *v) {
    const struct { const char *key, *text; } texts[] = {
        {"state", mu_run_state_name(v->state)}, {"run", v->run_dir}, {"run_id", v->run_id},
        {"job", v->job_name}, {"protocol", v->protocol},
    };
    const mu_json_int counts[] = {
        {"pid", v->parent_pid},
        {"server_pid", v->server_pid},
        {"statistics_pid", v->evaluator_pid},
        {"learners", v->n_learners},
        {"workers", v->n_processes / v->n_learners},
        {"server_groups", v->server_groups},
        {"merges", v->merges},
        {"merged_bytes", v->merged_bytes},
        {"mu", v->rows},
        {"global_batch", v->global_batch},
        {"version", v->version},
        {"step", v->step},
        {"end_steps", v->end_steps},
        {"samples", v->samples},
        {"waiting", v->waiting},
        {"learners_lost", v->losses},
        {"server_losses", v->server_losses},
        {"skipped_updates", v->skipped_updates},
        {"lock_repairs", v->lock_repairs},
    };
    const mu_json_real numbers[] = {
        {"elapsed_s", v->elapsed_s}, {"epoch", v->epoch}, {"end_epochs", v->end_epochs}, {"rate", v->rate},
        {"loss", v->loss}, {"samples_per_s", v->samples_per_s}, {"compute_s", v->compute_s},
        {"wait_s", v->wait_s}, {"apply_s", v->apply_s}, {"overlap", v->overlap},
    };
    json_t *o = json_object(), *list = json_array();
    int wrong = 0;
    for (size_t i = 0; i < MU_COUNT(texts); i++)
        wrong |= json_object_set_new(o, texts[i].key, text_json(texts[i].text));
    wrong |= json_object_set_new(o, "stop_asked", json_boolean(v->stop_asked));
    wrong |= json_object_set_new(o, "warming", json_boolean(v->warming));
    wrong |= mu_json_put_ints(o, counts, MU_COUNT(counts)) | mu_json_put_reals(o, numbers, MU_COUNT(numbers));
    for (int i = 0; i < v->n_processes; i++)
        wrong |= json_array_append_new(list, learner_json(v, i));
    if (v->n_ranks) wrong |= json_object_set_new(o, "rank_times", mu_rank_times_json(v->rank, v->n_ranks));
    wrong |= json_object_set_new(o, "staleness", staleness_json(v));
    wrong |= json_object_set_new(o, "bytes", mu_moved_json(v->counts_moved, &v->moved, v->run_steps));
    wrong |= json_object_set_new(o, "gradients", ledger_json(v)) | json_object_set_new(o, "table", list);
    return finished(o, wrong);
}
