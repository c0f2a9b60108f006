// SPDX-License-Identifier: Apache-2.0
// c_doctor.c - `muster doctor`: is this machine ready, and if not, what to install or change.
//
// Each check is one function that asks the machine and fills one finding; what makes a finding ok, a note or
// missing is in doctor.c. Only `missing` makes the exit status 1.
#include "cli/cli.h"

#include "base/clock.h"
#include "base/level.h"
#include "cli/doctor.h"
#include "device/device.h"
#include "ops/dnnl.h"
#include "run/json.h"

#include <errno.h>
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

struct doctor { bool latency; };

// ---- libraries ----------------------------------------------------------------------------------

static void check_onednn(mu_finding *f) {
#ifdef MU_HAVE_DNNL
    const dnnl_version_t *v = dnnl_version();
    mu_finding_set(f, MU_VERDICT_OK, "%d.%d.%d", v->major, v->minor, v->patch);
#else
    mu_finding_set(f, MU_VERDICT_NOTE, "not built in; convolutions use the slower matrix-product path");
    mu_finding_advise(f, "apt-get install libdnnl-dev, then make clean && make");
#endif
}

static void check_openblas(mu_finding *f) {
#ifdef MU_HAVE_BLAS
    const char *config = openblas_get_config(); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    char version[64] = "?";
    sscanf(config, "OpenBLAS %63s", version);
    mu_finding_set(f, MU_VERDICT_OK, "%s, kernels for %s", version, openblas_get_corename());
#else
    mu_finding_set(f, MU_VERDICT_NOTE, "not built in");
    mu_finding_advise(f, "apt-get install libopenblas-dev, then make clean && make");
#endif
}

static void check_images(mu_finding *f) {
    bool png = false, jpeg = false;
#ifdef MU_HAVE_PNG
    png = true;
#endif
#ifdef MU_HAVE_TURBOJPEG
    jpeg = true;
#endif
    mu_judge_images(f, png, jpeg);
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

static void check_cpu(mu_finding *f) {
    char name[100];
    cpu_name(name, sizeof name);
    mu_err problem;
    mu_err_clear(&problem);
    const bool bad = mu_device_check_build(&problem) != MU_OK;
    mu_judge_cpu(f, name, mu_level_of_cpu(), mu_level(), mu_level_is_asked(), MU_ARCH, bad ? &problem : NULL);
}

static void check_cores(mu_finding *f) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set);
    mu_finding_set(f, MU_VERDICT_OK, "%d usable of %ld", usable, online);
}

static void check_memory(mu_finding *f) {
    double unit = (double)sysconf(_SC_PAGESIZE) / (1 << 30);
    double total = (double)sysconf(_SC_PHYS_PAGES) * unit, free_now = 0, kib;
    FILE *m = fopen("/proc/meminfo", "re");
    char line[128];
    while (m && fgets(line, sizeof line, m))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) free_now = kib / (1 << 20);
    if (m) fclose(m);
    mu_judge_memory(f, total, free_now);
}

static void check_shm(mu_finding *f) {
    struct statvfs s = {0};
    int error = statvfs("/dev/shm", &s) ? errno : 0;
    mu_judge_shm(f, error, (double)s.f_bavail * (double)s.f_frsize / (1 << 20));
}

// ---- data and folders ---------------------------------------------------------------------------

static void check_data(mu_finding *f) {
    const char *file = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";
    mu_judge_data(f, !access(file, R_OK));
}

static void check_folder(mu_finding *f) {
    char name[] = "muster-doctor-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) {
        mu_judge_folder(f, errno, false, 0);
        return;
    }
    bool synced = !fsync(fd);
    close(fd);
    unlink(name);
    struct statvfs s = {0};
    double gib = statvfs(".", &s) ? 0 : (double)s.f_bavail * (double)s.f_frsize / (1 << 30);
    mu_judge_folder(f, 0, synced, gib);
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

static void check_latency(mu_finding *f) {
    cpu_set_t old;
    int core[2];
    pthread_t t;
    if (sched_getaffinity(0, sizeof old, &old) || two_cores(&old, core) < 2) {
        mu_finding_set(f, MU_VERDICT_NOTE, "one core only: no second one to speak with");
        return;
    }
    atomic_store(&ball, 0);
    if (pthread_create(&t, NULL, partner, &core[1])) {
        mu_finding_set(f, MU_VERDICT_NOTE, "no thread could be started");
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
    mu_judge_latency(f, ns, core[0], core[1]);
}

// ---- report -------------------------------------------------------------------------------------

static const struct check { const char *name; void (*run)(mu_finding *); bool slow; } checks[] = {
    {"onednn", check_onednn, false}, {"openblas", check_openblas, false}, {"images", check_images, false},
    {"cpu", check_cpu, false},       {"cores", check_cores, false},       {"memory", check_memory, false},
    {"shm", check_shm, false},       {"data", check_data, false},         {"folder", check_folder, false},
    {"latency", check_latency, true},
};

static void put_json(mu_text *t, const char *name, const mu_finding *f) {
    mu_text_printf(t, "%s{\"check\":", t->n > 1 ? "," : "");
    mu_text_json_string(t, name);
    mu_text_printf(t, ",\"verdict\":\"%s\",\"text\":", mu_verdict_name(f->verdict));
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
        mu_finding f = {0};
        checks[i].run(&f);
        missing += f.verdict == MU_VERDICT_MISSING;
        if (a->json) put_json(&json, checks[i].name, &f);
        else printf("%-8s %-9s %s\n", mu_verdict_name(f.verdict), checks[i].name, f.text);
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
