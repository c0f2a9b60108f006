// SPDX-License-Identifier: Apache-2.0
// head.h - where a net's answers meet the truth: the layer that compares them, and what it reads.
//
// A net may have several such layers. The head of classes is the first `accuracy` layer, else the first
// `softmax_loss`, else the first `sigmoid_loss` of one score with an integer label (two classes); it compares
// scores (n, classes) or (n, t, classes) with labels. The head of numbers is the first `euclidean_loss` whose
// one source is a target: data that no parameter has touched and that the other source, the answer, does not
// come from. So an auto-encoder has none (its target is its input), nor has a loss between two codes.
//
// What a head reads stays readable after a forward pass, also where memory is reused: in a net without
// backward the sources of losses and output layers live to the end (net/graph.c).
#ifndef MU_LOOK_HEAD_H
#define MU_LOOK_HEAD_H

#include "data/source.h"
#include "look/scores.h"
#include "net/net.h"

typedef enum mu_head_kind { MU_HEAD_CLASSES, MU_HEAD_NUMBERS } mu_head_kind;

typedef struct mu_head {   // zeroed = none; mu_head_fini
    const mu_layer *layer; // NULL = the net has none
    const mu_layer **copy; // [n_copies] itself, or all copies of an unrolled one
    int n_copies;
    int64_t places;           // answers of a sample in each copy: time steps
    int64_t width;            // classes, or outputs
    int64_t ignore;           // a label that does not count; INT64_MIN = none
    int answer;               // the source that has answers; the truth is in 1 - answer
    mu_confidence confidence; // of classes: what the scores are
    const char *const *names; // [n_names] of the first classes, as long as the source lives; or NULL
    int64_t n_names;
    mu_data_unit unit; // of numbers: what the answers and targets are counted in; deviation 0 = as they are
    const char *other; // a head of this kind that compares something else; NULL = none
} mu_head;

// `name` asks for one layer, as the job calls it; NULL = the first. No such head: MU_OK and out->layer NULL.
// `source` feeds the net.
MU_MUST_CHECK mu_status mu_head_find(const mu_net *net, const mu_source *source, mu_head_kind kind,
                                     const char *name, mu_head *out, mu_err *err);
void mu_head_fini(mu_head *h);
const char *mu_head_name(const mu_layer *l); // in the job

// What class k is called, in printable UTF-8: its name, "byte 0x0a" for a character that cannot be seen, or
// its number.
const char *mu_class_name(const char *const *names, int64_t n_names, int64_t k, char out[64]);

// Every answer of a batch of `rows` samples that counts: h->width scores, and the true class.
typedef void (*mu_class_visitor)(void *ctx, const float *score, int64_t truth);
void mu_head_each_class(const mu_head *h, int64_t rows, mu_class_visitor visit, void *ctx);
// Outputs are numbered in logical order, whatever the layout of the net.
void mu_head_add_numbers(const mu_head *h, int64_t rows, mu_number_scores *to);

#endif
