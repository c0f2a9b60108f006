// SPDX-License-Identifier: Apache-2.0
// predict_wire.c - several nodes: what travels, when it can begin, and what no computing hides.
//
// Of every message a processor of either side pays message_s and byte_s; who carries them is the parent of a
// rank, which has a core of its own where the learners leave one, and else takes it from them.
#include "plan/predict_inner.h"

#include <math.h>
#include <string.h>

enum { SMALL = 2048, FRAME = 1 << 18 }; // floats of a parameter that is not summed; bytes of a message at most

// ---- what leaves a node, by parameter ----

typedef struct load { double bytes, messages, summed; } load;

// As ps/wire_forms.c chooses: each gradient to each other rank as it is, or the sum of all, in two halves.
static load load_of(const mu_scene *s, const mu_cost_param *p) {
    const double n = s->c->nodes, l = s->learners;
    const double each = mu_cost_at(s->k, p->message_bytes, s->mu) * (n - 1) * l;
    const double sum = 4 * p->floats * 2 * (n - 1) / n;
    if (p->fixed && strcmp(p->form, "dense") == 0) return (load){0};
    if (p->floats >= SMALL && sum <= each)
        return (load){sum, 2 * (n - 1) * ceil(sum / (2 * (n - 1)) / FRAME), p->floats};
    return (load){each, (n - 1) * l * ceil(each / ((n - 1) * l) / FRAME), 0};
}

static bool is_of(const mu_cost_param *p, const mu_cost_layer *l) {
    const size_t n = strlen(l->name);
    return !strncmp(p->name, l->name, n) && (p->name[n] == '.' || !p->name[n]);
}

// Gradients leave as backward makes them, the last layers' first, one after the other:
//   end = max(end, made) + bytes / bandwidth
// What is left of that when backward has ended is what a step waits for, twice for sums, whose second half
// begins when the first is there.
void mu_wire_joint(const mu_scene *s, double *summed, mu_prediction *out) {
    const mu_costs *k = s->k;
    const mu_machine_network *w = &s->m->network;
    const double rate = w->bytes_per_s;
    double forward = 0, backward = 0, bytes = 0, messages = 0, end = 0;
    for (int i = 0; i < k->n_layers; i++) {
        forward += mu_cost_at(k, k->layer[i].forward_s, s->mu);
        backward += mu_cost_at(k, k->layer[i].backward_s, s->mu);
    }
    const double scale = forward + backward > 0 ? s->compute_s / (forward + backward) : 1;
    double now = forward * scale;
    for (int i = k->n_layers - 1; i >= 0; i--) {
        now += mu_cost_at(k, k->layer[i].backward_s, s->mu) * scale;
        for (int j = 0; j < k->n_params; j++) {
            if (!is_of(&k->param[j], &k->layer[i])) continue;
            const load l = load_of(s, &k->param[j]);
            end = fmax(end, now) + l.bytes / rate;
            bytes += l.bytes, messages += l.messages, *summed += l.summed;
        }
    }
    const double left = fmax(0, end - s->compute_s), processor = messages * 2 * w->message_s + bytes * 2 * w->byte_s;
    const bool core = s->processes < s->m->cores;
    out->wire_bytes = bytes;
    out->term_s[MU_TERM_WIRE] += left + (*summed > 0 ? 2 : 1) * w->latency_s +
                                 (core ? fmax(0, processor - s->compute_s) : processor / s->processes);
    // The parent adds up what its learners leave, and the stretch that is its own.
    const double adds = 4 * *summed * (s->learners + 2) * s->memory_s;
    out->term_s[MU_TERM_WIRE] += core ? fmax(0, adds - 0.5 * s->compute_s) : adds / s->processes;
}

// ---- groups that merge ----

// Each group gives its weights and takes the merged ones, once in `sync_every` updates, and stands still
// meanwhile: as many floats leave a node as with a sum over all.
void mu_wire_merges(const mu_scene *s, mu_prediction *out) {
    const mu_machine_network *w = &s->m->network;
    const double n = s->c->nodes, bytes = 4 * s->k->floats * 2 * (n - 1) / n;
    const double updates = s->in_step ? 1 : fmax(1, s->core.splits);
    const double often = s->c->sync_every > 0 ? updates / (double)s->c->sync_every : 0; // merges of a step
    const double messages = 2 * (n - 1) * ceil(bytes / (2 * (n - 1)) / FRAME);
    const double one = bytes / w->bytes_per_s + 2 * w->latency_s + 2 * messages * w->message_s +
                       2 * bytes * w->byte_s + 3 * 4 * s->k->floats * s->memory_s;
    out->wire_bytes = bytes * often;
    out->term_s[MU_TERM_WIRE] += one * often;
    // All groups end a stretch of `sync_every` updates together: their sums vary less than one step.
    out->term_s[MU_TERM_WAIT] += s->k->spread * mu_expected_max(s->c->nodes) * s->compute_s *
                                 sqrt(often > 0 ? fmin(1, often) : 0);
}

// ---- rank 0 has the weights ----

// What comes in for one gradient of a contributor, and what goes out to it: equation 10 of the paper, with one
// parameter server whose network all share. adv: the sum of a rank's learners, and weights once a rank.
static double traffic_of(const mu_scene *s, double *in, double *back) {
    double sum = 0;
    for (int i = 0; i < s->k->n_params; i++) {
        const mu_cost_param *p = &s->k->param[i];
        const double each = mu_cost_at(s->k, p->message_bytes, s->mu) * s->learners;
        sum += p->floats >= SMALL ? fmin(each, 4 * p->floats) : each;
    }
    *in = s->c->architecture == MU_ARCHITECTURE_BASE ? s->message_bytes : sum;
    *back = 4 * s->k->floats;
    return *in + *back;
}

// Far contributors: all but those of rank 0.
static double far_of(const mu_scene *s) {
    return s->contributors * (s->c->nodes - 1.0) / s->c->nodes;
}

// In step all wait for rank 0: gradients in, the update by the one process that applies, weights out. Else a
// closed queue at rank 0 (equation 11: reading weights overlaps with others' computing); by adv* a learner goes
// on meanwhile, with two gradients on the way, and weights come down a tree of ranks.
void mu_wire_root(const mu_scene *s, mu_prediction *out) {
    const mu_machine_network *w = &s->m->network;
    double in, back;
    traffic_of(s, &in, &back);
    const bool star = s->c->architecture == MU_ARCHITECTURE_ADV_STAR;
    const double n = s->contributors, far = far_of(s), of_update = s->in_step ? n : fmax(1, floor(n / s->core.splits));
    const double processor = 2 * w->message_s * ceil((in + back) / FRAME) + (in + back) * w->byte_s;
    const double served = s->sweep_s / of_update + s->gradient_s;
    const double weights = star && n > 2 ? back * 2 / n : back; // rank 0 sends to two, these to others
    const double group = s->k->spread * mu_expected_max(s->learners) * s->compute_s;
    const double own = s->compute_s + s->data_s + group;
    const double at_root = served + (in + weights) / w->bytes_per_s * far / n + processor * far / n;
    double round;
    if (s->in_step)
        round = own + s->k->spread * mu_expected_max((int)n) * s->compute_s + s->sweep_s + n * s->gradient_s +
                far * ((in + weights) / w->bytes_per_s + processor) + 2 * w->latency_s;
    else if (star) round = mu_queue_with_slots((int)n, own, at_root);
    else round = mu_queue_with_answer((int)n, own + 2 * w->latency_s, at_root);
    const double apply = s->in_step ? s->sweep_s + n * s->gradient_s : fmin(served, fmax(0, round - own));
    out->wire_bytes = far * (in > weights ? in : weights);
    out->term_s[MU_TERM_COMPUTE] = s->compute_s;
    out->term_s[MU_TERM_DATA] = s->data_s;
    out->term_s[MU_TERM_APPLY] = apply;
    const double wire = s->in_step ? far * ((in + weights) / w->bytes_per_s + processor) + 2 * w->latency_s
                                   : fmin(at_root - served + 2 * w->latency_s, fmax(0, round - own - apply));
    out->term_s[MU_TERM_WIRE] = wire;
    out->term_s[MU_TERM_WAIT] = fmax(0, round - s->compute_s - s->data_s - apply - wire);
}
