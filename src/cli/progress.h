// SPDX-License-Identifier: Apache-2.0
// progress.h - how far a training is, for the person who waits.
//
// On a terminal one line is redrawn, at most ten times a second:
//   epoch 3/10  step 2420/9380  26% [##>       ]  loss 0.0421  acc 98.7%  41.2k/s  eta 0:42
// Otherwise plain lines, one per 30 s or 5 %, whichever comes first, without `\r` and escapes:
//   2026-01-05T10:11:12Z epoch=3/10 step=2420/9380 loss=0.0421 acc=0.987 samples_s=41200 lr=0.01 eta_s=42
// With --log-format=json the same as one object a line. quiet shows neither.
//
// Messages of mu_log erase the redrawn line first, from whatever thread they come; the next update draws
// it again. One mu_progress at a time; update and done on the thread that made it. update is made to be
// called after every step: it costs one look at the clock when nothing is due.
#ifndef MU_CLI_PROGRESS_H
#define MU_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mu_progress_now {
    double  epoch, epochs;      // passes done and planned; 0 = open end
    int64_t step, steps;        // updates done and planned in the whole run; 0 = open end
    double  loss, accuracy;     // NaN = unknown
    double  samples_per_s;
    double  rate;               // effective learning rate; 0 = not shown
    double  eta_s;              // negative = worked out here from steps or epochs
    int     learners, of_learners;      // shown when of_learners > 1
} mu_progress_now;

typedef struct mu_progress {
    FILE  *out;
    bool   quiet, json, live;
    // private
    bool   started;
    double start_s, start_share;        // where this process began (a resumed run does not begin at 0)
    double last_s;                      // time of the last line shown
    int    last_mark;                   // twentieths that were done then
    bool   table;                       // the table's head was printed
} mu_progress;

void mu_progress_init(mu_progress *p, FILE *stream, bool quiet, bool json);
void mu_progress_update(mu_progress *p, const mu_progress_now *now);
void mu_progress_done(mu_progress *p);  // erases the redrawn line; takes an unused or finished one

// One row of the summary table, printed when an epoch (or an evaluation) is over:
//   epoch  train_loss  valid_loss valid_acc      time
typedef struct mu_progress_row {
    const char *set;                                    // what was evaluated: "valid" or "test"
    double epoch, train_loss, loss, accuracy;           // NaN = unknown, shown as -
    double time_s;                                      // of this epoch
} mu_progress_row;

void mu_progress_add_row(mu_progress *p, const mu_progress_row *row);

// "41.2k", "1.25M", "980"; "0:42", "1:02:03", "2d 3h". Return out.
const char *mu_format_count(char *out, size_t size, double value);
const char *mu_format_time(char *out, size_t size, double seconds);

#endif
