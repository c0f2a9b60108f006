// SPDX-License-Identifier: Apache-2.0
// doctor_checks.c - the questions to this machine; what makes an answer ok, a note or missing is in doctor.c.
//
// A question that cannot be asked here (no /proc, no second core) is an answer too, never an error.
#include "run/doctor.h"

#include "base/level.h"
#include "comm/cores.h"
#include "device/device.h"
#include "file/fs.h"
#include "file/unpack.h"
#include "ops/dnnl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#ifdef MU_HAVE_BLAS
#include <cblas.h>
#endif

#ifndef MU_ARCH
#define MU_ARCH "unknown"
#endif

// ---- libraries ----------------------------------------------------------------------------------

static void check_onednn(mu_finding *f) {
#ifdef MU_HAVE_DNNL
    const dnnl_version_t *v = dnnl_version();
    mu_finding_set(f, MU_FINDING_OK, "%d.%d.%d", v->major, v->minor, v->patch);
#else
    mu_finding_set(f, MU_FINDING_NOTE, "not built in; convolutions use the slower matrix-product path");
    mu_finding_advise(f, "apt-get install libdnnl-dev, then make clean && make");
#endif
}

static void check_openblas(mu_finding *f) {
#ifdef MU_HAVE_BLAS
    const char *config = openblas_get_config(); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    char version[64] = "?";
    sscanf(config, "OpenBLAS %63s", version);
    mu_finding_set(f, MU_FINDING_OK, "%s, kernels for %s", version, openblas_get_corename());
#else
    mu_finding_set(f, MU_FINDING_NOTE, "not built in");
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
    mu_check_images(f, png, jpeg);
}

static void check_compression(mu_finding *f) {
    mu_check_compression(f, mu_unpack_xz.start, mu_unpack_zstd.start);
}

// ---- machine ------------------------------------------------------------------------------------

static mu_device_props device_props(void) {
    mu_device_props p;
    mu_device_cpu()->class->props(mu_device_cpu(), &p);
    return p;
}

static void check_cpu(mu_finding *f) {
    const mu_device_props p = device_props();
    mu_err problem = {0};
    const bool bad = mu_device_check_build(&problem) != MU_OK;
    mu_check_cpu(f, p.model, mu_level_of_cpu(), mu_level(), mu_level_is_asked(), MU_ARCH,
                 bad ? &problem : NULL);
}

static void check_cores(mu_finding *f) {
    mu_finding_set(f, MU_FINDING_OK, "%d usable of %ld", device_props().n_cores,
                   sysconf(_SC_NPROCESSORS_ONLN));
}

static void check_memory(mu_finding *f) {
    double unit = (double)sysconf(_SC_PAGESIZE) / (1 << 30);
    double total = (double)sysconf(_SC_PHYS_PAGES) * unit, free_now = 0, kib;
    FILE *m = fopen("/proc/meminfo", "re");
    char line[128];
    while (m && fgets(line, sizeof line, m))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) free_now = kib / (1 << 20);
    if (m) fclose(m);
    mu_check_memory(f, total, free_now);
}

static void check_shm(mu_finding *f) {
    struct statvfs s = {0};
    int error = statvfs("/dev/shm", &s) ? errno : 0;
    mu_check_shm(f, error, (double)s.f_bavail * (double)s.f_frsize / (1 << 20));
}

// ---- data and folders ---------------------------------------------------------------------------

static void check_data(mu_finding *f) {
    const char *file = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";
    mu_check_data(f, !access(file, R_OK));
}

static void check_folder(mu_finding *f) {
    char name[64];
    snprintf(name, sizeof name, "muster-doctor-%ld", (long)getpid());
    int fd = mu_fs()->open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        mu_check_folder(f, errno, false, 0);
        return;
    }
    bool synced = !mu_fs()->fsync(fd);
    mu_fs()->close(fd);
    mu_fs_remove_file(name);
    struct statvfs s = {0};
    double gib = statvfs(".", &s) ? 0 : (double)s.f_bavail * (double)s.f_frsize / (1 << 30);
    mu_check_folder(f, 0, synced, gib);
}

static void check_latency(mu_finding *f) {
    double ns = mu_cores_count() < 2 ? -1 : mu_cores_round_trip_ns(0, 1);
    if (mu_cores_count() < 2) mu_finding_set(f, MU_FINDING_NOTE, "one core only, no way between two");
    else if (ns < 0) mu_finding_set(f, MU_FINDING_NOTE, "two threads could not be pinned to two cores");
    else mu_check_latency(f, ns, 0, 1);
}

const mu_doctor_check mu_doctor_checks[] = {
    {"onednn", check_onednn, false}, {"openblas", check_openblas, false}, {"images", check_images, false},
    {"cpu", check_cpu, false},       {"cores", check_cores, false},       {"memory", check_memory, false},
    {"shm", check_shm, false},       {"data", check_data, false},         {"folder", check_folder, false},
    {"compression", check_compression, false}, {"latency", check_latency, true}, {0},
};
