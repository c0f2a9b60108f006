// SPDX-License-Identifier: Apache-2.0
// c_doctor.c - `muster doctor`: is this machine ready, and if not, what to install or change.
//
// Each check is one function that fills one finding. A finding is ok, note (works, could be better) or
// missing (something will fail). Only `missing` makes the exit status 1.
#include "cli/cli.h"

#include "base/clock.h"
#include "ops/dnnl.h"
#include "run/json.h"

#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef MU_HAVE_BLAS
#include <cblas.h>
#endif

#ifndef MU_ARCH
#define MU_ARCH "unknown"
#endif

typedef enum verdict { OK, NOTE, MISSING } verdict;
static const char *const verdict_names[] = {"ok", "note", "missing"};

typedef struct finding {
    verdict verdict;
    char    text[160];          // what was found
    char    advice[160];        // what to do; "" = nothing
} finding;

struct doctor { bool latency; };

static void MU_PRINTF(3, 4) found(finding *f, verdict v, const char *fmt, ...) {
    va_list ap;
    f->verdict = v;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

static void advise(finding *f, const char *text) { snprintf(f->advice, sizeof f->advice, "%s", text); }

// ---- libraries ----------------------------------------------------------------------------------

static void check_onednn(finding *f) {
#ifdef MU_HAVE_DNNL
    const dnnl_version_t *v = dnnl_version();
    found(f, OK, "%d.%d.%d", v->major, v->minor, v->patch);
#else
    found(f, NOTE, "not built in; convolutions use the slower matrix-product path");
    advise(f, "apt-get install libdnnl-dev, then make clean && make");
#endif
}

static void check_openblas(finding *f) {
#ifdef MU_HAVE_BLAS
    const char *config = openblas_get_config(); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    char version[64] = "?";
    sscanf(config, "OpenBLAS %63s", version);
    found(f, OK, "%s, kernels for %s", version, openblas_get_corename());
#else
    found(f, NOTE, "not built in");
    advise(f, "apt-get install libopenblas-dev, then make clean && make");
#endif
}

static void check_images(finding *f) {
    const char *png = "no PNG", *jpeg = "no JPEG";
#ifdef MU_HAVE_PNG
    png = "PNG";
#endif
#ifdef MU_HAVE_TURBOJPEG
    jpeg = "JPEG";
#endif
    bool both = png[0] != 'n' && jpeg[0] != 'n';
    found(f, both ? OK : NOTE, "%s, %s", png, jpeg);
    if (!both) advise(f, "apt-get install libpng-dev libturbojpeg0-dev, then make clean && make");
}

// ---- machine ------------------------------------------------------------------------------------

static void cpu_name(char *out, size_t size) {
    struct utsname u;
    snprintf(out, size, "%s", uname(&u) ? "unknown" : u.machine);
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 2);
        break;
    }
    if (f) fclose(f);
}

// Best instruction set of the build and of this processor, from 0 up; names by the same numbers.
static const char *const isa_names[] = {"baseline", "avx2", "avx512f"};

static int isa_of_build(void) {
#if defined(__AVX512F__)
    return 2;
#elif defined(__AVX2__)
    return 1;
#else
    return 0;
#endif
}

static int isa_of_cpu(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return 2;
    if (__builtin_cpu_supports("avx2")) return 1;
#endif
    return 0;
}

static void check_cpu(finding *f) {
    char name[100];
    cpu_name(name, sizeof name);
    int build = isa_of_build(), cpu = isa_of_cpu();
    found(f, build > cpu ? MISSING : build < cpu ? NOTE : OK, "%s; has %s, built for %s (-march=%s)", name,
          isa_names[cpu], isa_names[build], MU_ARCH);
    if (build != cpu) advise(f, "rebuild on this machine: make clean && make");
}

static void check_cores(finding *f) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set);
    found(f, OK, "%d usable of %ld", usable, online);
}

static void check_memory(finding *f) {
    double unit = (double)sysconf(_SC_PAGESIZE) / (1 << 30);
    double total = (double)sysconf(_SC_PHYS_PAGES) * unit, free_now = 0, kib;
    FILE *m = fopen("/proc/meminfo", "re");
    char line[128];
    while (m && fgets(line, sizeof line, m))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) free_now = kib / (1 << 20);
    if (m) fclose(m);
    found(f, free_now < 1 ? NOTE : OK, "%.1f GiB, %.1f available", total, free_now);
    if (free_now < 1) advise(f, "large nets will not fit; close other programs");
}

static void check_shm(finding *f) {
    struct statvfs s;
    if (statvfs("/dev/shm", &s)) {
        found(f, NOTE, "/dev/shm: %s", strerror(errno));
        advise(f, "runs with several learners share memory there; mount a tmpfs");
        return;
    }
    double mib = (double)s.f_bavail * (double)s.f_frsize / (1 << 20);
    found(f, mib < 256 ? NOTE : OK, "/dev/shm: %.0f MiB free", mib);
    if (mib < 256) advise(f, "little for several learners; in a container give --shm-size=1g");
}

// ---- data and folders ---------------------------------------------------------------------------

static void check_data(finding *f) {
    const char *file = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";
    bool there = !access(file, R_OK);
    found(f, there ? OK : NOTE, "%s", there ? "Fashion-MNIST" : "no Fashion-MNIST for the examples");
    if (!there) advise(f, "apt-get install dataset-fashion-mnist");
}

static void check_folder(finding *f) {
    char name[] = "muster-doctor-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) {
        found(f, MISSING, "the current folder cannot be written: %s", strerror(errno));
        advise(f, "runs are kept in ./runs; change folder or give --out");
        return;
    }
    bool synced = !fsync(fd);
    close(fd);
    unlink(name);
    struct statvfs s = {0};
    double gib = statvfs(".", &s) ? 0 : (double)s.f_bavail * (double)s.f_frsize / (1 << 30);
    found(f, synced && gib > 0.5 ? OK : NOTE, "writable%s, %.1f GiB free", synced ? "" : " (no fsync)", gib);
    if (gib <= 0.5) advise(f, "checkpoints need room");
}

// ---- core to core -------------------------------------------------------------------------------

// Two threads on two cores hand one flag to and fro; every wait is bounded by the round count and by
// yielding, so a busy machine only makes the figure worse.
enum { ROUNDS = 20000 };
static atomic_int ball;

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)!pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static bool await(int value, double until) {
    for (long spins = 0; atomic_load_explicit(&ball, memory_order_acquire) != value; spins++)
        if (spins % 4096 == 4095) {
            if (mu_clock_s() > until) return false;
            sched_yield();
        }
    return true;
}

static void *partner(void *cpu) {
    pin(*(const int *)cpu);
    double until = mu_clock_s() + 5;
    for (int i = 0; i < ROUNDS && await(2 * i + 1, until); i++)
        atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
    return NULL;
}

// Finds two usable cores; the main thread's own binding is put back by the caller.
static int two_cores(const cpu_set_t *set, int core[2]) {
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET((size_t)i, set)) core[n++] = i;
    return n;
}

static void check_latency(finding *f) {
    cpu_set_t old;
    int core[2];
    pthread_t t;
    if (sched_getaffinity(0, sizeof old, &old) || two_cores(&old, core) < 2) {
        found(f, NOTE, "one core only: no second one to speak with");
        return;
    }
    atomic_store(&ball, 0);
    if (pthread_create(&t, NULL, partner, &core[1])) {
        found(f, NOTE, "no thread could be started");
        return;
    }
    pin(core[0]);
    double start = mu_clock_s(), until = start + 5;
    int done = 0;
    for (; done < ROUNDS; done++) {
        atomic_store_explicit(&ball, 2 * done + 1, memory_order_release);
        if (!await(2 * done + 2, until)) break;
    }
    double ns = 1e9 * (mu_clock_s() - start) / (done ? done : 1);
    pthread_join(t, NULL);
    sched_setaffinity(0, sizeof old, &old);
    found(f, ns > 1000 ? NOTE : OK, "%.0f ns there and back between cores %d and %d", ns, core[0], core[1]);
    if (ns > 1000) advise(f, "cores are far apart or busy: several learners will wait on each other");
}

// ---- report -------------------------------------------------------------------------------------

static const struct check { const char *name; void (*run)(finding *); bool slow; } checks[] = {
    {"onednn", check_onednn, false}, {"openblas", check_openblas, false}, {"images", check_images, false},
    {"cpu", check_cpu, false},       {"cores", check_cores, false},       {"memory", check_memory, false},
    {"shm", check_shm, false},       {"data", check_data, false},         {"folder", check_folder, false},
    {"latency", check_latency, true},
};

static void put_json(mu_text *t, const char *name, const finding *f) {
    mu_text_printf(t, "%s{\"check\":", t->n > 1 ? "," : "");
    mu_text_json_string(t, name);
    mu_text_printf(t, ",\"verdict\":\"%s\",\"text\":", verdict_names[f->verdict]);
    mu_text_json_string(t, f->text);
    mu_text_printf(t, ",\"advice\":");
    mu_text_json_string(t, f->advice);
    mu_text_printf(t, "}");
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct doctor *d = values;
    mu_text json = {0};
    int missing = 0;
    mu_text_printf(&json, "[");
    for (size_t i = 0; i < MU_COUNT(checks); i++) {
        if (checks[i].slow && !d->latency) continue;
        finding f = {0};
        checks[i].run(&f);
        missing += f.verdict == MISSING;
        if (a->json) put_json(&json, checks[i].name, &f);
        else printf("%-8s %-9s %s\n", verdict_names[f.verdict], checks[i].name, f.text);
        if (!a->json && f.advice[0]) printf("%18s -> %s\n", "", f.advice);
    }
    mu_status s = MU_OK;
    if (a->json && json.failed) s = MU_FAIL_NOMEM(err, "the report");
    else if (a->json)
        printf("{\"version\":\"%s\",\"missing\":%d,\"checks\":%s]}\n", MU_VERSION, missing, json.s);
    mu_text_fini(&json);
    if (!s && missing) s = MU_FAIL(err, MU_EUNSUPPORTED, "%d check(s) failed", missing);
    return s;
}

static const mu_opt options[] = {
    MU_OPT(struct doctor, latency, "latency", MU_OPT_FLAG, NULL, "also time a round trip between two cores"),
    {0},
};

const mu_verb_class mu_verb_doctor = {
    .name = "doctor", .help = "check libraries, machine, data and folders; say what to install",
    .state_size = sizeof(struct doctor),
    .usage = "[options]",
    .example = "muster doctor",
    .args = {.options = options, .common = MU_COMMON_JSON, .min_words = 0, .max_words = 0},
    .run = run,
};
