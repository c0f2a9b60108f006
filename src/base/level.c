// SPDX-License-Identifier: Apache-2.0
// level.c - see level.h. Asking the processor: the features of a level, as the x86-64 psABI lists them.
#include "base/level.h"

#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

atomic_int mu_level_chosen = -1;

#ifdef __x86_64__

// Those that __builtin_cpu_supports does not know in every compiler.
static bool has_v3_extras(void) {
    unsigned a, b, c = 0, d, extended = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && __get_cpuid(0x80000001u, &a, &b, &extended, &d) &&
           (c & bit_MOVBE) && (c & bit_F16C) && (extended & bit_ABM);
}

int mu_level_of_cpu(void) {
    __builtin_cpu_init();
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
    if (!(HAS("sse3") && HAS("ssse3") && HAS("sse4.1") && HAS("sse4.2") && HAS("popcnt"))) return 1;
    if (!(HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") && has_v3_extras())) return 2;
    if (!(HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl")))
        return 3;
#undef HAS
    return 4;
}

#else

int mu_level_of_cpu(void) { return 0; }

#endif

const char *mu_level_name(int level) {
    return level == 2 ? "v2" : level == 3 ? "v3" : level == 4 ? "v4" : "";
}

const char *mu_level_suffix(void) {
    const int level = mu_level();
    return level == 2 ? " (v2)" : level == 3 ? " (v3)" : level == 4 ? " (v4)" : "";
}

static const char *asked(void) {
    const char *word = getenv("MUSTER_CPU");
    return word && *word ? word : NULL;
}

bool mu_level_is_asked(void) { return asked() != NULL; }

#ifdef MU_LEVELS

mu_status mu_level_parse(const char *word, int cpu, int *level, mu_err *err) {
    int wanted = word && *word ? 0 : cpu < MU_LEVEL_FIRST ? MU_LEVEL_FIRST : cpu;
    for (int l = MU_LEVEL_FIRST; word && l <= MU_LEVEL_LAST; l++)
        if (!strcmp(word, mu_level_name(l))) wanted = l;
    if (!wanted)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "MUSTER_CPU=%s is no level of instructions", word), err,
                             "Write v2, v3 or v4, or unset it for the best that the processor has.");
    if (word && *word && wanted > cpu)
        return mu_err_hinted(
            MU_FAIL(err, MU_EUNSUPPORTED, "MUSTER_CPU=%s, but this processor has only x86-64-v%d", word, cpu),
            err, "Unset it, or write a lower level.");
    *level = wanted;
    return MU_OK;
}

#else

mu_status mu_level_parse(const char *word, MU_UNUSED int cpu, int *level, mu_err *err) {
    if (word && *word)
        return mu_err_hinted(
            MU_FAIL(err, MU_EUNSUPPORTED,
                    "MUSTER_CPU=%s, but this program was built for one kind of processor", word),
            err, "Unset it; or build for x86-64 without MUSTER_ARCH, which has the levels v2, v3 and v4.");
    *level = MU_LEVEL_ONLY;
    return MU_OK;
}

#endif

mu_status mu_level_check(mu_err *err) {
    int level;
    return mu_level_parse(asked(), mu_level_of_cpu(), &level, err);
}

int mu_level_choose(void) {
    mu_err err = {0};
    int level;
    if (mu_level_parse(asked(), mu_level_of_cpu(), &level, &err) &&
        mu_level_parse(NULL, mu_level_of_cpu(), &level, &err))
        level = MU_LEVEL_ONLY; // never so: no word is always good
    atomic_store_explicit(&mu_level_chosen, level, memory_order_relaxed);
    return level;
}

bool mu_level_set_core_type(int level) {
    const char *core = level == 2 ? "Nehalem" : level == 3 ? "Haswell" : NULL; // v4: the library's own choice
    return core && !getenv("OPENBLAS_CORETYPE") && !setenv("OPENBLAS_CORETYPE", core, 1);
}
