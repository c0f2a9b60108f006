// SPDX-License-Identifier: Apache-2.0
// Any bytes given to the parser of run logs are refused with a message, or give a log whose every number is
// what a replay relies on. The checks would stop nearly every mutation at the door, so the target first makes
// them right, frame by frame.
#include "learners/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(unsigned char *b, size_t size) {
    uint64_t check = 0;
    for (size_t at = sizeof mu_runlog_magic; at + MU_RUNLOG_FRAME <= size;) {
        size_t n = b[at + 4] | (size_t)b[at + 5] << 8 | (size_t)b[at + 6] << 16 | (size_t)b[at + 7] << 24;
        if (n > size - at - MU_RUNLOG_FRAME) return;
        check = mu_runlog_check(b + at, 8 + n, check);
        for (int i = 0; i < 8; i++) b[at + 8 + n + (size_t)i] = (unsigned char)(check >> (8 * i));
        at += n + MU_RUNLOG_FRAME;
    }
}

static void examine(const mu_runlog *log) {
    size_t parts = 0;
    for (size_t i = 0; i < log->head.n_sets; i++)
        if (!log->head.sets[i]) abort();
    for (size_t u = 0; u < log->n_updates; u++) {
        const mu_runlog_update *it = &log->updates[u];
        if (it->first_part != parts || it->u.version != log->head.first_version + (int64_t)u + 1) abort();
        parts += (size_t)it->u.n_parts;
        for (int i = 0; i < it->u.n_parts; i++) {
            const mu_journal_part *p = &log->parts[it->first_part + (size_t)i];
            if (p->id.learner < 0 || p->id.learner >= log->head.learners || p->id.rows > log->head.rows)
                abort();
            if (p->id.version < log->head.first_version || p->id.version >= it->u.version) abort();
        }
    }
    if (parts != log->n_parts) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mu_err err = {0};
    mu_runlog *log = NULL;
    unsigned char *copy = malloc(size + 1);
    if (size) memcpy(copy, data, size);
    sign(copy, size);
    mu_status status = mu_runlog_parse(copy, size, "fuzz", &log, &err);
    free(copy);
    if (status == MU_OK) examine(log);
    else if (status != MU_EDATA || !err.msg[0]) abort();
    mu_runlog_destroy(log);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
