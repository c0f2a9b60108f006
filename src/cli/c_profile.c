// SPDX-License-Identifier: Apache-2.0
// c_profile.c - `muster profile`: measures this machine for `muster plan` (plan/profile.h), or completes the
// description of another one. Under mpirun also the network between the ranks; rank 0 speaks and writes.
#include "cli/cli.h"

#include "base/log.h"
#include "cli/term.h"
#include "comm/transport.h"
#include "file/outfile.h"
#include "job/diag.h"
#include "plan/profile.h"

#include <string.h>
#include <unistd.h>

struct profile {
    bool quick;
    const char *out, *describe;
};

static const mu_opt options[] = {
    MU_OPT(struct profile, quick, "quick", MU_OPT_FLAG, NULL,
           "some seconds instead of half a minute, and coarser"),
    MU_OPT(struct profile, out, "out", MU_OPT_FILE, "FILE",
           "write it there; left out: where `muster plan` looks"),
    MU_OPT(struct profile, describe, "describe", MU_OPT_FILE, "FILE",
           "measure nothing: complete the description in FILE; a FILE that is not there is begun"),
    {0},
};

// ---- what people see ----------------------------------------------------------------------------

static void put_second(char *out, size_t size, double s) {
    if (s < 1e-6) snprintf(out, size, "%.0f ns", 1e9 * s);
    else if (s < 1e-3) snprintf(out, size, "%.3g us", 1e6 * s);
    else snprintf(out, size, "%.3g ms", 1e3 * s);
}

static void print_rules(const mu_machine *m) {
    printf("%-12s %14s %14s\n", "update rule", "in cache GB/s", "memory GB/s");
    for (int i = 0; i < m->n_rules; i++)
        printf("%-12s %14.2f %14.2f\n", m->rule[i].name, 1e-9 * m->rule[i].cached_bytes_per_s,
               1e-9 * m->rule[i].bytes_per_s);
}

static void print_table(const mu_machine *m) {
    char a[32], b[32];
    const char *mode = mu_machine_mode(m);
    printf("%s%s%s\n", m->name, m->cpu[0] ? ", " : "", m->cpu);
    printf("%d node%s of %d core%s, %.1f GiB; caches %.0f KiB a core and %.1f MiB\n", m->nodes,
           m->nodes > 1 ? "s" : "", m->cores, m->cores > 1 ? "s" : "", m->memory_bytes / (1 << 30),
           m->cache_bytes / 1024, m->shared_cache_bytes / (1 << 20));
    printf("%-12s %14s %14s\n", "processes", "GFLOP/s each", "GB/s each");
    for (int i = 0; i < m->n_loads; i++)
        printf("%-12d %14.1f %14.2f\n", m->load[i].processes, 1e-9 * m->load[i].flops_per_s,
               1e-9 * m->load[i].bytes_per_s);
    print_rules(m);
    put_second(a, sizeof a, m->lines.round_trip_s);
    printf("between cores: %s there and back%s%s%s, %.2f GB/s of what another core wrote\n", a,
           mode[0] ? " (" : "", mode, mode[0] ? ")" : "", 1e-9 * m->lines.bytes_per_s);
    put_second(a, sizeof a, m->wake_s);
    put_second(b, sizeof b, m->event_s);
    printf("waking a process %s, an event of the protocol core %s\n", a, b);
    if (m->network.bytes_per_s <= 0) return;
    put_second(a, sizeof a, m->network.latency_s);
    put_second(b, sizeof b, m->network.message_s);
    printf("network: %s, %.2f GB/s; of a processor %s a message and %.2f ns a KiB\n", a,
           1e-9 * m->network.bytes_per_s, b, 1e9 * 1024 * m->network.byte_s);
}

static mu_status print_machine(const mu_machine *m, bool json, mu_err *err) {
    mu_text t = {0};
    if (!json) {
        print_table(m);
        return MU_OK;
    }
    mu_machine_write(m, &t);
    const mu_status st = t.failed ? MU_FAIL_NOMEM(err, "a machine") : MU_OK;
    if (st == MU_OK) fputs(t.s, stdout);
    mu_text_fini(&t);
    return st;
}

typedef struct screen {
    bool live, quick;
} screen;

static void tell(void *ctx, const char *what, double done) {
    screen *s = ctx;
    if (s->live && what) fprintf(stderr, "\r%3.0f%% %s\033[K", 100 * done, what);
    else if (s->live) fputs("\r\033[K", stderr);
    else if (what && done <= 0)
        mu_info("measuring this machine: %s", s->quick ? "some seconds" : "about half a minute");
}

// ---- descriptions -------------------------------------------------------------------------------

static mu_status begin_description(const char *path, mu_err *err) {
    mu_text t = {0};
    mu_outfile *f = NULL;
    mu_machine_template(&t);
    mu_status st = t.failed ? MU_FAIL_NOMEM(err, "a description") : mu_outfile_create(path, &f, err);
    if (st == MU_OK) {
        mu_outfile_write(f, t.s, t.n);
        st = mu_outfile_commit(f, err);
    }
    if (st == MU_OK)
        mu_info("`%s` is a description to be filled in; then the same command completes it", path);
    mu_text_fini(&t);
    return st;
}

// Completed it is JSON, as the result of measuring is.
static mu_status describe(const struct profile *o, mu_err *err) {
    mu_machine m;
    mu_err own = {0};
    const mu_status st = mu_machine_load_file(o->describe, &m, &own);
    if (st == MU_ENOTFOUND && !o->out) return begin_description(o->describe, err);
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    if (!o->out) return print_machine(&m, true, err);
    if (!strcmp(o->out, o->describe))
        return MU_FAIL(err, MU_EUSAGE, "`%s` would lose its comments; give another --out", o->out);
    return mu_machine_save_file(&m, o->out, err);
}

// ---- measuring ----------------------------------------------------------------------------------

// A profile made by one rank keeps what it does not measure: the network that is known already.
static void keep_network(mu_machine *m) {
    mu_machine old;
    const char *why;
    if (m->network.bytes_per_s > 0 || mu_machine_find(&old, NULL) != MU_OK) return;
    if (!mu_machine_is_here(&old, &why)) return;
    m->nodes = old.nodes;
    m->network = old.network;
}

static mu_status store(const struct profile *o, mu_machine *m, mu_err *err) {
    char path[MU_FS_PATH];
    if (o->out) return mu_machine_save_file(m, o->out, err);
    MU_TRY(mu_machine_path(path, err));
    keep_network(m);
    MU_TRY(mu_machine_keep(m, err));
    mu_info("kept in `%s`", path);
    return MU_OK;
}

static mu_status finish(const mu_args *a, const struct profile *o, mu_profile_result *r, mu_err *err) {
    if (r->elsewhere) return MU_OK;
    MU_TRY(store(o, &r->machine, err));
    if (r->machine.busy > 0.1)
        mu_warn("other programs took %.0f%% of the cores meanwhile: again in peace it would be more exact",
                100 * r->machine.busy);
    return a->quiet && !a->json ? MU_OK : print_machine(&r->machine, a->json, err);
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct profile *o = values;
    char path[MU_FS_PATH];
    if (o->describe && o->quick)
        return MU_FAIL(err, MU_EUSAGE, "--describe measures nothing, so there is no --quick");
    if (o->describe) return describe(o, err);
    if (!o->out) MU_TRY(mu_machine_path(path, err)); // before time is spent
    screen s = {.live = !a->quiet && mu_term_live(stderr), .quick = o->quick};
    mu_profile_result r;
    const mu_profile_opts opts = {o->quick, mu_transport_wanted(), tell, &s};
    mu_status st = mu_profile_make(&opts, &r, err);
    if (st != MU_OK && s.live) tell(&s, NULL, 1);
    if (st == MU_OK) st = finish(a, o, &r, err);
    if (!r.unclean) return st;
    if (st != MU_OK) mu_err_print(err, stderr, mu_term_colour(stderr));
    fflush(NULL);
    _exit(mu_status_exit_code(st));
}

const mu_verb_class mu_verb_profile = {
    .name = "profile",
    .help = "measure this machine, or describe another one, for `muster plan`",
    .state_size = sizeof(struct profile),
    .usage = "[options]",
    .example = "muster profile\nmpirun -n 2 muster profile\nmuster profile --describe rack.yaml",
    .about =
        "What a process gets of arithmetic and memory while others work, what cores cost each other, how "
        "fast update rules are and, between ranks, the network. The profile is kept for this processor and "
        "number of cores. The machine should have nothing else to do.\n"
        "A description of another cluster has the same keys, as YAML or JSON; what it leaves out is derived "
        "from the rest, and printed with --describe.",
    .args = {.options = options, .common = MU_COMMON_JSON, .min_words = 0, .max_words = 0},
    .run = run,
};
