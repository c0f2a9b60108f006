// SPDX-License-Identifier: Apache-2.0
// machine.c - see machine.h.
#include "simulate/machine.h"

#include "base/alloc.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/smpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECOND_NS 1e9
#define BEGIN_NS INT64_C(1000000000) // the clock when a simulation begins: 0 means "never" elsewhere
#define NAME "muster"

static struct {
    void (*rank)(int rank);
    double *spent_ns; // (ranks)
} machine;

// The first actor has number 1.
int mu_machine_rank(void) { return (int)sg_actor_self_get_pid() - 1; }

void mu_machine_spend(double ns) { machine.spent_ns[mu_machine_rank()] += ns; }

int64_t mu_machine_now_ns(void) {
    double *spent = machine.spent_ns ? &machine.spent_ns[mu_machine_rank()] : NULL;
    if (spent && *spent > 0) {
        const double ns = *spent;
        *spent = 0;
        sg_actor_sleep_for(ns / SECOND_NS);
    }
    return BEGIN_NS + (int64_t)(simgrid_get_clock() * SECOND_NS + 0.5);
}

void mu_machine_sleep_until(int64_t ns) { sg_actor_sleep_until((double)(ns - BEGIN_NS) / SECOND_NS); }

// ---- setting up ----

static void rank_main(int argc, char *argv[]) {
    (void)argc;
    (void)argv;
    machine.rank(mu_machine_rank());
}

mu_status mu_machine_open(const char *platform, const char *const *options, const char *const *more,
                          int ranks, mu_err *err) {
    enum { MOST = 32 };
    char *argv[MOST] = {(char *)(uintptr_t) "muster-simulate"};
    int argc = 1;
    if (access(platform, R_OK) != 0)
        return MU_FAIL(err, MU_ENOTFOUND, "cannot read the platform `%s`", platform);
    for (; *options && argc < MOST - 1; options++) argv[argc++] = (char *)(uintptr_t)*options;
    for (; more && *more && argc < MOST - 1; more++) argv[argc++] = (char *)(uintptr_t)*more;
    simgrid_init(&argc, argv);
    simgrid_load_platform(platform);
    SMPI_init();
    SMPI_app_instance_register(NAME, rank_main, ranks);
    const size_t hosts = sg_host_count();
    if (hosts < (size_t)ranks)
        return MU_FAIL(err, MU_EUSAGE, "`%s` has %zu hosts, fewer than %d ranks", platform, hosts, ranks);
    sg_host_t *host = sg_host_list();
    const double rate = sg_host_get_route_bandwidth(host[0], host[0]);
    free(host);
    if (rate < 0.99e6 || rate > 1.01e6) // timers go that way: network.c
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` has hosts without a loopback of 1 MB/s", platform),
                             err, "Write `loopback_bw=\"1MBps\" loopback_lat=\"0\"` into each <cluster>.");
    machine.spent_ns = mu_alloc_array((size_t)ranks, sizeof *machine.spent_ns, "simulation");
    return machine.spent_ns ? MU_OK : MU_FAIL_NOMEM(err, "the simulated ranks");
}

// n2 before n10.
static int by_name(const void *a, const void *b) {
    const char *x = sg_host_get_name(*(const sg_host_t *)a), *y = sg_host_get_name(*(const sg_host_t *)b);
    const size_t n = strlen(x), m = strlen(y);
    return n != m ? (n < m ? -1 : 1) : strcmp(x, y);
}

static bool write_deployment(FILE *f, int ranks) {
    sg_host_t *host = sg_host_list();
    qsort(host, sg_host_count(), sizeof *host, by_name);
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n",
          f);
    for (int r = 0; r < ranks; r++)
        fprintf(f,
                "<actor host=\"%s\" function=\"" NAME "\"><prop id=\"instance_id\" value=\"" NAME "\"/>"
                "<prop id=\"rank\" value=\"%d\"/></actor>\n",
                sg_host_get_name(host[r]), r);
    fputs("</platform>\n", f);
    free(host);
    return fflush(f) == 0;
}

// SimGrid places processes by a file: this one has no name.
static mu_status deploy(int ranks, mu_err *err) {
    char path[64];
    const int fd = memfd_create("deployment", MFD_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    const bool good = f && write_deployment(f, ranks);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (good) simgrid_load_deployment(path);
    if (f) fclose(f);
    return good ? MU_OK : MU_FAIL(err, MU_EBACKEND, "cannot place the simulated ranks");
}

mu_status mu_machine_run(int ranks, void (*rank)(int rank), mu_err *err) {
    machine.rank = rank;
    MU_TRY(deploy(ranks, err));
    simgrid_run();
    SMPI_finalize();
    return MU_OK;
}
