// SPDX-License-Identifier: Apache-2.0
// d_cpu.c - the processor as a device: blocks from the heap, properties from /proc, speed by probing.
//
// There is one CPU device. Its two probes give `muster time` and `muster doctor` the roof to compare
// with: the best multiply-add rate of one core, and the rate at which one core can read and write memory
// beyond the caches. Both take the best of several short bursts, because another program may be running.
#include "device/device.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/level.h"
#include "device/burst.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

// ---- properties ----

static void read_model(char *out, size_t size) {
    struct utsname u;
    snprintf(out, size, "%s", uname(&u) ? "unknown processor" : u.machine); // arm has no name there
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, size, "%s", colon);
        break;
    }
    fclose(f);
}

// Cores this process may use, which taskset, Slurm or a container can make fewer than the machine has.
static int count_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static void props(MU_UNUSED const mu_device *d, mu_device_props *out) {
    memset(out, 0, sizeof *out);
    read_model(out->model, sizeof out->model);
    snprintf(out->isa, sizeof out->isa, "%s", mu_burst_isa());
    out->n_cores = count_cores();
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
    out->memory_bytes = pages > 0 && page_bytes > 0 ? (int64_t)pages * (int64_t)page_bytes : 0;
}

// ---- memory ----

static void *alloc(MU_UNUSED mu_device *d, size_t size, const char *tag) { return mu_alloc_block(size, tag); }

static void release(MU_UNUSED mu_device *d, void *p) { mu_free(p); }

static const mu_device_class cpu_class = {
    .name = "cpu", .props = props, .alloc = alloc, .free = release,
};

mu_device *mu_device_cpu(void) {
    static mu_device cpu = {&cpu_class};
    return &cpu;
}

// ---- does the processor fit the build? ----

static const char *const needed[] = {   // by this build, from the oldest on
#ifdef __SSE4_2__
    "sse4.2",
#endif
#ifdef __AVX__
    "avx",
#endif
#ifdef __AVX2__
    "avx2",
#endif
#ifdef __FMA__
    "fma",
#endif
#ifdef __AVX512F__
    "avx512f",
#endif
#ifdef __AVX512BW__
    "avx512bw",
#endif
#ifdef __AVX512VL__
    "avx512vl",
#endif
#ifdef __AVX512DQ__
    "avx512dq",
#endif
    NULL,
};

// The built-in takes literals only.
static bool this_cpu_has(MU_UNUSED const char *feature) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
#define ANSWER(name)                                                                               \
    if (!strcmp(feature, name)) return __builtin_cpu_supports(name) != 0;
    ANSWER("sse4.2")
    ANSWER("avx")
    ANSWER("avx2")
    ANSWER("fma")
    ANSWER("avx512f")
    ANSWER("avx512bw")
    ANSWER("avx512vl")
    ANSWER("avx512dq")
#undef ANSWER
#endif
    return true;
}

mu_status mu_device_check_build_on(bool (*has)(const char *feature), mu_err *err) {
    const char *const *f = needed;
    while (*f && has(*f)) f++;
    if (!*f) return MU_OK;
    return mu_err_hinted(
        MU_FAIL(err, MU_EUNSUPPORTED, "this program was built for processors with %s, this one lacks it", *f),
        err, "Build without MUSTER_ARCH, for any processor since 2009, or with MUSTER_ARCH=native here.");
}

mu_status mu_device_check_build(mu_err *err) {
    MU_TRY(mu_device_check_build_on(this_cpu_has, err));
    return mu_level_check(err);
}

// ---- probes ----

#define BURSTS 8

static double peak_gflops, stream_gbs;

static void probe_peak(void) {
    float sink = 0;
    double start = mu_clock_s();
    for (int i = 0; i < BURSTS || mu_clock_s() - start < 0.015; i++) {
        double rate = mu_burst_multiply_add(&sink);
        if (rate > peak_gflops) peak_gflops = rate;
    }
    if (sink == -1.0f) peak_gflops = 0; // never so: the sums stay positive, but the compiler must make them
}

static void probe_stream(void) {
    size_t n = (size_t)24 << 20; // floats: 96 MiB
    float *p = mu_alloc_block(n * sizeof *p, "probe");
    if (!p) return;
    for (int pass = 0; pass < 3; pass++) {
        double start = mu_clock_s();
        mu_burst_stream(p, n);
        double seconds = mu_clock_s() - start, rate = 2.0 * (double)(n * sizeof *p) / seconds * 1e-9;
        if (rate > stream_gbs) stream_gbs = rate;
    }
    if (p[n / 2] < 0) stream_gbs = 0; // never so, as above
    mu_free(p);
}

double mu_device_cpu_peak_gflops(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe_peak);
    return peak_gflops;
}

double mu_device_cpu_stream_gbs(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe_stream);
    return stream_gbs;
}
