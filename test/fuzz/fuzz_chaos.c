// SPDX-License-Identifier: Apache-2.0
// fuzz_chaos.c - libFuzzer target: any text as a schedule. It is refused with a message, or every rule is
// within its limits and reads back from its own text as the same rule.
#include "watch/chaos_script.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const mu_chaos_rule *a, const mu_chaos_rule *b) {
    return a->act == b->act && a->target == b->target && a->learner == b->learner && a->by_s == b->by_s &&
           a->for_s == b->for_s && a->at_s == b->at_s && a->every_s == b->every_s &&
           a->random_gap == b->random_gap && a->until_s == b->until_s && a->times == b->times;
}

static void check(const mu_chaos_rule *r) {
    char text[200];
    mu_chaos_script again = {0};
    if (r->learner < 0 || r->times < 0 || r->by_s < 0 || r->by_s > 2000) abort();
    mu_chaos_rule_text(r, text, sizeof text);
    if (mu_chaos_parse(text, &again, NULL) != MU_OK || again.n != 1 || !same(r, &again.rule[0])) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[4096];
    if (size >= sizeof text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    mu_chaos_script script = {0};
    mu_err err = {0};
    if (mu_chaos_parse(text, &script, &err) != MU_OK) {
        if (!err.msg[0] || script.n) abort();
        return 0;
    }
    if (script.n < 1 || script.n > MU_CHAOS_RULES) abort();
    for (int i = 0; i < script.n; i++) check(&script.rule[i]);
    return 0;
}
