// SPDX-License-Identifier: Apache-2.0
// question.h - what a person asks a model, as the block `data.predict` of its job.
//
//     muster predict RUN "turn off the light" "good night"     sentences as typed
//     muster predict RUN photo.jpg other.png                   images
//     muster predict RUN folder/                               a folder of images
//     muster predict RUN table.csv                             a file such as the training file
//     muster predict RUN -                                     the same from standard input
//
// The block is that of the training data with the input in its place, so a question is read and transformed
// as the training data was; where that was packed, by the reader that read it before (mu_origin). A file has
// labels if all of its records can be read with them, and none if none can; in between is an error.
#ifndef MU_LOOK_QUESTION_H
#define MU_LOOK_QUESTION_H

#include "train/session.h"

typedef struct mu_question {
    int   fd;                   // of the text typed or piped in; -1 = none
    bool  labelled;             // the records have labels
    const char *const *input;   // [n_input] what was asked, record by record; NULL = only the source knows
    size_t n_input;
} mu_question;

#define MU_QUESTION_NONE ((mu_question){.fd = -1})

// Puts the words into the job, which must have been loaded without problems; inputs: of the model, or NULL.
// MU_EUSAGE with what the model's data can be asked. Always ended by mu_question_close.
MU_MUST_CHECK mu_status mu_question_put(mu_question *q, mu_job *job, const mu_inputs *inputs,
                                        const char *const *words, size_t n, mu_err *err);
// Typed texts alone, without a change of the job: *out reads text i as record i. Everything is built in
// `arena`; the caller closes the reader, then the question.
MU_MUST_CHECK mu_status mu_question_open_typed(mu_question *q, mu_arena *arena, const mu_job *job,
                                               const mu_inputs *inputs, const char *const *texts, size_t n,
                                               mu_reader **out, mu_err *err);
void mu_question_close(mu_question *q);         // after the session

#endif
