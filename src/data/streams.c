// SPDX-License-Identifier: Apache-2.0
// streams.c - see streams.h.
#include "data/streams.h"

bool mu_streams_reset(const mu_streams *s, int64_t g) {
    if (s->reset == MU_RESET_NEVER || s->n <= 0) return false;
    if (s->reset == MU_RESET_RANDOM) {
        uint32_t u[4];
        mu_rng_block(s->key, 0, (uint64_t)g, u);
        return (uint64_t)u[0] * (uint64_t)s->every < UINT64_C(1) << 32; // u / 2^32 < 1 / every
    }
    const int64_t stream = g % s->n, number = g / s->n;
    return (number + stream * s->every / s->n) % s->every == 0;
}

int64_t mu_streams_record_before(const mu_streams *s, int64_t g) {
    const int64_t number = (g + 1) / s->n - 1;                  // g / n rounded down: -1 is the last before 0
    const int64_t stream = g - number * s->n;
    return (s->per_stream + number) * s->n + (stream + s->n - 1) % s->n;
}
