// SPDX-License-Identifier: Apache-2.0
// doctor.c - findings about a machine from what is known of it; see doctor.h.
#include "run/doctor.h"

#include "base/level.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOW_MEMORY_GIB 1.0
#define LOW_SHM_MIB 256.0
#define LOW_DISK_GIB 0.5
#define SLOW_ROUND_TRIP_NS 1000.0

const char *mu_finding_level_name(mu_finding_level v) {
    static const char *const names[] = {"ok", "note", "missing"};
    return names[v];
}

void mu_finding_set(mu_finding *f, mu_finding_level v, const char *fmt, ...) {
    va_list ap;
    f->level = v;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

void mu_finding_advise(mu_finding *f, const char *text) { snprintf(f->advice, sizeof f->advice, "%s", text); }

static mu_finding_level note_unless(bool good) { return good ? MU_FINDING_OK : MU_FINDING_NOTE; }

void mu_check_cpu(mu_finding *f, const char *name, int cpu, int level, bool asked, const char *arch,
                  const mu_err *problem) {
    if (problem) {
        mu_finding_set(f, MU_FINDING_MISSING, "%s; %s", name, problem->msg);
        mu_finding_advise(f, problem->hint);
    } else if (level == MU_LEVEL_ONLY) {
        mu_finding_set(f, MU_FINDING_OK, "%s; one level of kernels (MUSTER_ARCH=%s)", name, arch);
    } else {
        mu_finding_set(f, note_unless(level == cpu), "%s; has x86-64-v%d, kernels for v%d (%s)", name, cpu,
                       level, asked ? "MUSTER_CPU" : "the best it has");
        if (level < cpu) mu_finding_advise(f, "unset MUSTER_CPU for the faster kernels");
    }
}

void mu_check_images(mu_finding *f, bool png, bool jpeg) {
    mu_finding_set(f, note_unless(png && jpeg), "%s, %s", png ? "PNG" : "no PNG", jpeg ? "JPEG" : "no JPEG");
    if (!png || !jpeg)
        mu_finding_advise(f, "apt-get install libpng-dev libturbojpeg0-dev, then make clean && make");
}

void mu_check_compression(mu_finding *f, bool xz, bool zstd) {
    mu_finding_set(f, note_unless(xz && zstd), "gzip, %s, %s", xz ? "xz" : "no xz",
                   zstd ? "zstd" : "no zstd");
    if (!xz || !zstd)
        mu_finding_advise(f, "apt-get install liblzma-dev libzstd-dev, then make clean && make");
}

void mu_check_memory(mu_finding *f, double total_gib, double free_gib) {
    bool good = free_gib >= LOW_MEMORY_GIB;
    mu_finding_set(f, note_unless(good), "%.1f GiB, %.1f available", total_gib, free_gib);
    if (!good) mu_finding_advise(f, "large nets will not fit; close other programs");
}

void mu_check_shm(mu_finding *f, int error, double free_mib) {
    bool good = !error && free_mib >= LOW_SHM_MIB;
    if (error) mu_finding_set(f, MU_FINDING_NOTE, "/dev/shm: %s", strerror(error));
    else mu_finding_set(f, note_unless(good), "/dev/shm: %.0f MiB free", free_mib);
    if (error) mu_finding_advise(f, "runs with several learners share memory there; mount a tmpfs");
    else if (!good) mu_finding_advise(f, "little for several learners; in a container give --shm-size=1g");
}

void mu_check_data(mu_finding *f, bool there) {
    mu_finding_set(f, note_unless(there), "%s",
                   there ? "Fashion-MNIST" : "no Fashion-MNIST for the examples");
    if (!there) mu_finding_advise(f, "apt-get install dataset-fashion-mnist");
}

void mu_check_folder(mu_finding *f, int error, bool synced, double free_gib) {
    if (error) {
        mu_finding_set(f, MU_FINDING_MISSING, "the current folder cannot be written: %s", strerror(error));
        mu_finding_advise(f, "runs are kept in ./runs; change folder or give --out");
        return;
    }
    bool room = free_gib > LOW_DISK_GIB;
    mu_finding_set(f, note_unless(synced && room), "writable%s, %.1f GiB free", synced ? "" : " (no fsync)",
                   free_gib);
    if (!room) mu_finding_advise(f, "checkpoints need room");
    else if (!synced) mu_finding_advise(f, "a power cut may cost checkpoints here; use a local disk");
}

void mu_check_latency(mu_finding *f, double round_trip_ns, int core_a, int core_b) {
    bool good = round_trip_ns <= SLOW_ROUND_TRIP_NS;
    mu_finding_set(f, note_unless(good), "%.0f ns there and back between cores %d and %d", round_trip_ns,
                   core_a, core_b);
    if (!good)
        mu_finding_advise(f, "cores are far apart or busy: several learners will wait on each other");
}
