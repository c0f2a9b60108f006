// SPDX-License-Identifier: Apache-2.0
// machine.h - what a cluster can do, as numbers: measured here (profile.h) or described by a person.
//
// A file of it is JSON that a person can read and change; a cluster that one does not own is described in
// the same form, as JSON or as YAML with comments (every JSON file of ours is YAML, too). Numbers that a
// described machine leaves out are derived from those it has (machine_derive.c says how); so cores, their
// speed and a network are enough to begin with.
//
//   node       of one machine: what a process gets when so many of them work at once
//   lines      memory that one core has written and another one reads next. What two processes exchange
//              moves this way. The host may move virtual cores: then the same machine is near at one time
//              and far at another (comm/cores.h), and the profile keeps which one it saw
//   apply      how fast an update rule goes over weights, histories and a gradient
//   network    what a message between two nodes takes, and costs the processor of each side
#ifndef MU_PLAN_MACHINE_H
#define MU_PLAN_MACHINE_H

#include "file/fs.h"
#include "file/json.h"

#include <stdint.h>

enum {
    MU_MACHINE_LOADS = 16,              // numbers of processes that are measured: 1, 2, 4, ... and all cores
    MU_MACHINE_RULES = 16,              // update rules
    MU_MACHINE_NODES = 4096,            // at most
};

typedef struct mu_machine_load {        // of one process, while so many work
    int      processes;
    double   flops_per_s;               // of multiply-adds in registers
    double   bytes_per_s;               // read and written, of blocks far larger than the caches
} mu_machine_load;

// Bytes of an update: weights, gradient and each history of the rule, every one counted once, 4 * (2 +
// histories) a weight (mu_machine_apply_s).
typedef struct mu_machine_rule {        // of an update, one process
    char     name[24];                  // of the rule: sgd, adam, ...
    double   cached_bytes_per_s;        // weights, histories and gradient in the caches of a core
    double   bytes_per_s;               // in memory
} mu_machine_rule;

typedef struct mu_machine_lines {
    double   round_trip_s;              // of a flag between two cores
    double   bytes_per_s;               // one core reads what another has just written
} mu_machine_lines;

typedef struct mu_machine_network {     // between any two nodes; zeroed where there is one
    double   latency_s;                 // one way, of a message of a few bytes
    double   bytes_per_s;               // of one node, in and out at once
    double   message_s;                 // of a processor, for each message, at either end
    double   byte_s;                    // the same for each byte of it
} mu_machine_network;

typedef struct mu_machine {
    char     name[64];
    char     cpu[96], level[8];         // as doctor says; "" = not known
    char     made[32];                  // date and time of the profile; "" = described
    int      nodes;
    int      cores;                     // of a node
    double   memory_bytes;              // of a node
    double   cache_bytes, shared_cache_bytes;   // second level of a core, third level of all
    int      n_loads;
    mu_machine_load load[MU_MACHINE_LOADS];     // by rising processes; the first is of one
    mu_machine_lines lines;
    double   wake_s;                    // from a ring to who slept
    double   event_s;                   // of the protocol core under its lock; the one before was another's
    double   busy;                      // share of the cores that other programs took while it was measured
    int      n_rules;
    mu_machine_rule rule[MU_MACHINE_RULES];
    mu_machine_network network;
} mu_machine;

// Reads a file; numbers that it leaves out are derived. MU_ENOTFOUND: it is not there. MU_EDATA: names the
// key and what is wrong with it; err->pos borrows the path.
MU_MUST_CHECK mu_status mu_machine_load_file(const char *path, mu_machine *out, mu_err *err);
MU_MUST_CHECK mu_status mu_machine_parse(const char *text, size_t size, const char *path, mu_machine *out,
                                         mu_err *err);
MU_MUST_CHECK mu_status mu_machine_save_file(const mu_machine *m, const char *path, mu_err *err);
void mu_machine_write(const mu_machine *m, mu_text *out);       // the text of such a file; see out->failed

// The profile of this machine is kept in a folder of the user's ($XDG_CACHE_HOME/muster, ~/.cache/muster), by
// processor, level and number of cores. MU_ENOTFOUND: there is none; the hint says how one is made.
// MU_EDATA: there is one that cannot be read.
MU_MUST_CHECK mu_status mu_machine_find(mu_machine *out, mu_err *err);
MU_MUST_CHECK mu_status mu_machine_keep(const mu_machine *m, mu_err *err);
MU_MUST_CHECK mu_status mu_machine_path(char out[MU_FS_PATH], mu_err *err);     // also if it is not there
void mu_machine_describe_here(mu_machine *out);         // what needs no measuring: processor, cores, memory
// Is it of this machine? *why gets a text that stays, of what differs.
bool mu_machine_is_here(const mu_machine *m, const char **why);

// Of one process, while so many work on a node. Between the loads that were measured it is interpolated.
// Beyond the last one all processes together keep the bandwidth they had, and beyond the cores the flops.
mu_machine_load mu_machine_at(const mu_machine *m, int processes);
// Of a rule that the profile does not know: the slowest one it knows. Never NULL.
const mu_machine_rule *mu_machine_rule_of(const mu_machine *m, const char *name);
// Of one gradient of so many floats into weights and histories, by one process alone on the node.
double mu_machine_apply_s(const mu_machine *m, const char *rule, double floats, int histories);
// "near" or "far": which mode the cores were in (comm/cores.h); "" where it is not known.
const char *mu_machine_mode(const mu_machine *m);

// Fills in what is not known (0, no loads, no rules) from what is. Of a machine whose `cores` are set. core:
// of one process alone, node_bytes_per_s: of all together; 0 = not known either.
void mu_machine_derive(mu_machine *m, const mu_machine_load *core, double node_bytes_per_s);
#endif
