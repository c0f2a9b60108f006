// SPDX-License-Identifier: Apache-2.0
// sample.h - text drawn from a trained character model, one character after the other.
//
// The net of phase predict is built for one stream of records of one character. Layers that take `data.begin`
// carry their state from call to call by the growing sample number, as they do in training; others see a
// single character. A recurrent layer without it would forget the text with every character: it is refused.
// The scores are those that the job's last softmax_loss takes.
#ifndef MU_LOOK_SAMPLE_H
#define MU_LOOK_SAMPLE_H

#include "train/session.h"

typedef struct mu_sampler mu_sampler;

// Is the job's data a text of characters? Without that there is nothing to draw.
bool mu_sampler_fits(const mu_session *s);

// `s` was opened without any phase. Opens the data's reader for its characters, and builds s->predict.net and
// s->params, which belong to the session; parameters are loaded by the caller afterwards. MU_EJOB with a
// place when the job is no character model.
mu_status mu_sampler_create(mu_session *s, mu_sampler **out, mu_err *err);
void      mu_sampler_destroy(mu_sampler *m);    // NULL is fine; before the session closes

#define MU_SAMPLE_MAX (1 << 24) // characters of one text, with its prime: what the states can count

typedef struct mu_sample_opts {
    const char *prime;          // read first, so that the text continues it; "" or NULL = none
    int64_t     length;         // characters drawn
    int64_t     warmup;         // without a prime: characters drawn before and not handed out
    double temperature; // scores are divided by it: 1 = as trained, below = more certain, 0 = the best only
    uint64_t    seed;
} mu_sample_opts;

// Gets each character drawn, not those of the prime. Any status but MU_OK ends the drawing.
typedef mu_status (*mu_sample_sink)(void *ctx, char c, mu_err *err);

// A text; the same options give the same text. A model knows texts that are under way better than the state
// zero of a net that has read nothing. So it reads the prime first. Without one it reads a new line, and
// draws `warmup` characters for itself at temperature 1 and on to the end of their line, at most as many
// again. *nats: mean of -log p of the characters drawn, as the model sees them at temperature 1.
mu_status mu_sampler_draw(mu_sampler *m, const mu_sample_opts *o, mu_sample_sink sink, void *ctx,
                          double *nats, mu_err *err);

#endif
