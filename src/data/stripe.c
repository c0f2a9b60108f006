// SPDX-License-Identifier: Apache-2.0
// stripe.c - see stripe.h.
#include "data/stripe.h"

int64_t mu_stripe_sample(const mu_stripe *s, int64_t number) {
    const int64_t n = number - s->base;
    if (s->of < 2 || n < 0) return number;
    return s->base + (n / s->width * s->of + s->index) * s->width + n % s->width;
}

int64_t mu_stripe_count(const mu_stripe *s, int64_t sample) {
    const int64_t n = sample - s->base, round = s->width * s->of;
    if (s->of < 2 || n <= 0 || sample == INT64_MAX) return sample;
    int64_t rest = n % round - s->index * s->width;
    if (rest < 0) rest = 0;
    if (rest > s->width) rest = s->width;
    return s->base + n / round * s->width + rest;
}

bool mu_stripe_each(const mu_stripe *s, mu_range numbers, bool (*add)(void *ctx, mu_range samples),
                    void *ctx) {
    if (s->of < 2) return numbers.first >= numbers.end || add(ctx, numbers);
    while (numbers.first < numbers.end) {
        const int64_t left = s->width - (numbers.first - s->base) % s->width,
                      all = numbers.end - numbers.first;
        const int64_t n = left < all ? left : all, first = mu_stripe_sample(s, numbers.first);
        if (!add(ctx, (mu_range){first, first + n})) return false;
        numbers.first += n;
    }
    return true;
}
