// SPDX-License-Identifier: Apache-2.0
// merge.h - how server groups bring their weights together: plug-ins m_<name>.c.
//
// Server groups train copies of the same weights, each with learners, protocol, clock and history of its own.
// Every `sync_every` updates of a group its weights are merged with those of the others. Where a rule has a
// center, that is one more set of weights, which belongs to no group and is in every checkpoint.
//
//     group 0   w0 w0 w0 w0 w0 ─┐        ┌─ w w w ...
//     group 1   w1 w1 w1 w1 w1 ─┼─ merge ┼─ w w w ...
//     center    c ──────────────┘        └─ c
//
// Groups that merge together wait for each other. Where a rule lets each group merge with the center alone,
// none waits, but for one that is too far ahead. Between merges the model, which is evaluated and saved, is
// the mean of the groups' weights.
//
// A rule sees one parameter at a time, whole and while nothing else changes it. Memories of layers
// (`is_state`) are not merged: each belongs to the samples of one group.
#ifndef MU_PS_MERGE_H
#define MU_PS_MERGE_H

#include "net/params.h"
#include "ps/protocol.h"

enum { MU_MERGE_GROUPS = 64 };  // also in the range of `server_groups`

typedef struct mu_merge {               // one parameter at one merge
    const mu_param *param;
    int      groups;                    // of the run
    int      n;                         // at this merge: all, or one
    float   *weights[MU_MERGE_GROUPS];  // (n x param->count) of these groups
    float   *center;                    // (param->count); NULL = the rule has none
    float   *history[MU_MAX_SLOTS];     // (n_slots) the same of the center
    int64_t  number;                    // merges of this parameter before this one
} mu_merge;

typedef struct mu_merge_class {
    MU_PLUGIN_HEAD;
    // 0: all groups merge together. Else each alone, at most so many merges ahead of the slowest; over
    // several ranks together, too, one after the other.
    int         most_ahead;
    // (optional, no center) Histories of the center, with names for checkpoints.
    int       (*n_slots)(const void *state);
    const char *(*slot_name)(const void *state, int k);
    // (optional, all states are good) What is wrong with the bound fields together; NULL = nothing.
    const char *(*check)(const void *state);
    void      (*merge)(const void *state, const mu_merge *m);
} mu_merge_class;

// Center and histories: blocks of as many floats as a set of parameters has, at the same offsets.
typedef struct mu_merge_blocks {
    size_t   count;                     // floats of each
    int      n_slots;
    float   *center, *history[MU_MAX_SLOTS];
    int64_t  merges;                    // parts merged, over all resumes; counted by the group ahead
    bool     filled;                    // they hold what they should
    float   *own;                       // memory of its own behind the pointers; NULL = they are borrowed
} mu_merge_blocks;

MU_MUST_CHECK mu_status mu_merge_blocks_create(size_t count, int n_slots, mu_merge_blocks **out, mu_err *err);
void   mu_merge_blocks_destroy(mu_merge_blocks *b);
void mu_merge_blocks_point(mu_merge_blocks *b, float *memory); // memory: count * (1 + n_slots) floats
size_t mu_merge_blocks_floats(const mu_merge_blocks *b);
void mu_merge_blocks_copy(mu_merge_blocks *to, const mu_merge_blocks *from); // numbers, too; of the same size

// Parts of about the same size that are merged in turn: part i is parameters [first[i], first[i + 1]).
// first: (parts + 1).
void    mu_merge_cut(const mu_params *ps, int64_t parts, int *first);
// Bytes of values that a group gives and takes when these parameters are merged once.
int64_t mu_merge_bytes(const mu_params *ps, int first, int end);

extern const mu_registry mu_merges;

static inline const mu_merge_class *mu_merge_class_of(const mu_setup *p) {
    return (const mu_merge_class *)(const void *)p->merge.plugin;
}

#endif
