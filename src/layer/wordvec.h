// SPDX-License-Identifier: Apache-2.0
// wordvec.h - word vectors from a text file.
//
//     [count dim]                          a first line of two whole numbers is skipped
//     word v1 v2 ... v_dim                 separated by blanks or tabs; plain or compressed (gzip, xz, zstd)
//
// The last dim columns of a line are its numbers; a word may hold blanks, except in the first vector, which
// tells whether dim is that of the file. Bytes of words are free but for NUL.
#ifndef MU_LAYER_WORDVEC_H
#define MU_LAYER_WORDVEC_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdint.h>

// Writes the vector of each word [0, n) that the file has to out[i * dim ...]; rows of other words stay as
// they are. Of a word that stands in the file twice the first counts. out NULL: only looks at the first
// vector. *n_found: words found (of the first line alone without out). MU_EIO, MU_EDATA with file and line.
MU_MUST_CHECK mu_status mu_wordvec_load(const char *path, int64_t n, const char *const *word, int64_t dim,
                                        float *out, int64_t *n_found, mu_err *err);

#endif
