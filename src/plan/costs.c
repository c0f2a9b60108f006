// SPDX-License-Identifier: Apache-2.0
// costs.c - see costs.h. Numbers between sizes, and where costs are kept.
#include "plan/costs.h"

#include "base/alloc.h"
#include "file/outfile.h"
#include "plan/machine.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 16 << 20 };

void mu_costs_fini(mu_costs *c) {
    mu_free(c->layer);
    mu_free(c->param);
    *c = (mu_costs){0};
}

double mu_cost_at(const mu_costs *c, const double *v, double samples) {
    const int n = c->n_sizes;
    if (n == 0 || samples <= 0) return 0;
    if (n == 1) return v[0] * samples / (double)c->size[0];
    int i = 0;
    while (i + 2 < n && samples > (double)c->size[i + 1]) i++;
    const double a = (double)c->size[i], b = (double)c->size[i + 1];
    const double at = v[i] + (v[i + 1] - v[i]) * (samples - a) / (b - a);
    // Noise of a measurement must not make a line that falls below nothing.
    const double least = samples < a ? v[0] * samples / (double)c->size[0] : 0;
    if (samples > b) return at > v[i + 1] ? at : v[i + 1];
    return at > least ? at : least;
}

const mu_cost_split *mu_costs_split(const mu_costs *c, int workers, bool auto_cut) {
    for (int i = 0; i < c->n_splits; i++)
        if (c->split[i].workers == workers && c->split[i].auto_cut == auto_cut) return &c->split[i];
    return NULL;
}

// ---- kept ----

mu_status mu_costs_folder(char out[MU_FS_PATH], mu_err *err) {
    MU_TRY(mu_machine_path(out, err)); // beside the machine's profile
    *strrchr(out, '/') = '\0';
    return MU_OK;
}

static void name_file(uint64_t job, const char *machine, const char *level, char out[64]) {
    uint64_t h = XXH3_64bits_withSeed(machine, strlen(machine), job);
    h = XXH3_64bits_withSeed(level, strlen(level), h);
    snprintf(out, 64, "costs-%016" PRIx64 ".json", h);
}

mu_status mu_costs_find(uint64_t job, const char *machine, const char *level, mu_costs *out, mu_err *err) {
    char folder[MU_FS_PATH], path[MU_FS_PATH], name[64];
    MU_TRY(mu_costs_folder(folder, err));
    name_file(job, machine, level, name);
    MU_TRY(mu_fs_join(path, folder, name, err));
    MU_TRY(mu_costs_load_file(path, out, err));
    if (out->job == job && !strcmp(out->machine, machine) && !strcmp(out->level, level)) return MU_OK;
    mu_costs_fini(out);
    return MU_FAIL(err, MU_ENOTFOUND, "`%s` has the costs of another job", path);
}

mu_status mu_costs_keep(const mu_costs *c, mu_err *err) {
    char folder[MU_FS_PATH], path[MU_FS_PATH], name[64];
    MU_TRY(mu_costs_folder(folder, err));
    MU_TRY(mu_fs_mkdirs(folder, err));
    name_file(c->job, c->machine, c->level, name);
    MU_TRY(mu_fs_join(path, folder, name, err));
    return mu_costs_save_file(c, path, err);
}

mu_status mu_costs_load_file(const char *path, mu_costs *out, mu_err *err) {
    char *text;
    size_t size;
    MU_TRY(mu_fs_read(path, MAX_FILE, &text, &size, err));
    const mu_status st = mu_costs_parse(text, size, path, out, err);
    mu_free(text);
    return st;
}

mu_status mu_costs_save_file(const mu_costs *c, const char *path, mu_err *err) {
    mu_outfile *f;
    char *text = mu_costs_write(c);
    if (!text) return MU_FAIL_NOMEM(err, "the costs");
    mu_status st = mu_outfile_create(path, &f, err);
    if (st == MU_OK) {
        mu_outfile_write(f, text, strlen(text));
        st = mu_outfile_commit(f, err);
    }
    mu_free(text);
    return st;
}
