// SPDX-License-Identifier: Apache-2.0
// Any text given to the parser of costs is refused with a message, or is written, read again and written alike;
// predictions from it are numbers. The same text as an overlay and as what was learnt.
#include "base/alloc.h"
#include "plan/config.h"
#include "plan/learnt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const mu_costs *k) {
    for (int64_t n = 1; n < 100; n += 7) {
        const double s = mu_cost_at(k, k->gradient_s, (double)n);
        if (!isfinite(s) || s < 0) abort();
    }
    char *text = mu_costs_write(k), *two;
    mu_costs again;
    mu_err err = {0};
    if (!text || mu_costs_parse(text, strlen(text), "again", &again, &err) != MU_OK) abort();
    two = mu_costs_write(&again);
    if (!two || strcmp(text, two) != 0) abort();
    mu_free(text);
    mu_free(two);
    mu_costs_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mu_costs k;
    mu_learnt l;
    mu_config_edits e;
    mu_err err = {0}, of_learnt = {0}, of_edits = {0};
    char *text = malloc(size + 1); // no terminator behind it: ASan sees a reader that wants one
    if (size) memcpy(text, data, size);
    mu_status st = mu_costs_parse(text, size, "fuzz", &k, &err);
    if (st != MU_OK && (st != MU_EDATA || !err.msg[0])) abort();
    if (st == MU_OK) check(&k);
    mu_costs_fini(&k);
    st = mu_learnt_parse(text, size, "fuzz", &l, &of_learnt);
    if (st != MU_OK && (st != MU_EDATA || !of_learnt.msg[0])) abort();
    st = mu_config_parse("fuzz", text, size, &e, &of_edits);
    if (st != MU_OK && (st != MU_EJOB || !of_edits.msg[0])) abort();
    free(text);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
