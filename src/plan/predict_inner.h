// SPDX-License-Identifier: Apache-2.0
// predict_inner.h - what the files of the prediction share: predict.c (a node, and the sum), predict_queue.c
// (closed queues), predict_wire.c (several nodes).
#ifndef MU_PLAN_PREDICT_INNER_H
#define MU_PLAN_PREDICT_INNER_H

#include "plan/predict.h"

// One configuration, taken apart. Seconds are of one gradient of one learner, on the machine that is asked for.
typedef struct mu_scene {
    const mu_costs   *k;
    const mu_machine *m;
    const mu_config  *c;
    const mu_protocol_class *p;
    mu_core_config core;                // by the protocol, for the contributors of one copy of the weights
    bool     in_step;
    int      learners, processes;       // of one node
    int      contributors;              // learners of one copy of the weights; groups of ranks with a root
    double   mu;
    double   compute_s, alone_s;        // with everybody else of the node at work
    double   sweep_s, gradient_s;       // of an update: over the weights, and what each gradient adds
    double   data_s;
    double   line_s, memory_s;          // of a byte that another core has written, of one of one's own
    bool     measured_lines;            // what lines of others cost is in the costs
    double   weight_bytes;              // that a gradient changes
    double   message_bytes;
    double   executors;                 // of the node, that share an update
} mu_scene;

// E[max] of n standard normal numbers.
double mu_expected_max(int n);
// Seconds in which each of n learners makes a gradient: it computes for compute_s, then its gradient is served
// for service_s by one server; it has two slots and goes on while one is free.
double mu_queue_with_slots(int n, double compute_s, double service_s);
// The same where a learner waits for its answer: one customer each, exact mean value analysis.
double mu_queue_with_answer(int n, double compute_s, double service_s);
// `update` says which gradients are summed over nodes: their floats.
void mu_wire_joint(const mu_scene *s, double *summed_floats, mu_prediction *out);
void mu_wire_merges(const mu_scene *s, mu_prediction *out);
void mu_wire_root(const mu_scene *s, mu_prediction *out);
#endif
