// SPDX-License-Identifier: Apache-2.0
// machine_kept.c - the profile of this machine, in a folder of the user's.
//
// A home may lie on several machines, and MUSTER_CPU and the allowed cores make one machine several: each of
// them has a file of its own, named after a sum over what tells them apart.
#include "plan/machine.h"

#include "file/digest.h"
#include "file/outfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A relative one is not obeyed (the specification of these folders says so).
static mu_status cache_folder(char out[MU_FS_PATH], mu_err *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char own[MU_FS_PATH];
    if (cache && cache[0] == '/') return mu_fs_join(out, cache, "muster", err);
    if (!home || home[0] != '/')
        return mu_err_hinted(MU_FAIL(err, MU_ENOTFOUND, "there is no folder for a profile: HOME is not set"),
                             err, "Set HOME or XDG_CACHE_HOME, or name a file (--out, --machine).");
    MU_TRY(mu_fs_join(own, home, ".cache", err));
    return mu_fs_join(out, own, "muster", err);
}

static void file_name(char *out, size_t size) {
    mu_machine here;
    char key[160];
    uint64_t sum[2];
    mu_machine_describe_here(&here);
    snprintf(key, sizeof key, "%s\n%s\n%d", here.cpu, here.level, here.cores);
    mu_digest_bytes(key, strlen(key), sum);
    snprintf(out, size, "machine-%016" PRIx64 ".json", sum[0]);
}

mu_status mu_machine_path(char out[MU_FS_PATH], mu_err *err) {
    char folder[MU_FS_PATH], name[48];
    file_name(name, sizeof name);
    MU_TRY(cache_folder(folder, err));
    return mu_fs_join(out, folder, name, err);
}

mu_status mu_machine_find(mu_machine *out, mu_err *err) {
    static _Thread_local char path[MU_FS_PATH]; // err->pos points to it
    mu_err own = {0};
    MU_TRY(mu_machine_path(path, err));
    const mu_status st = mu_machine_load_file(path, out, &own);
    if (st == MU_ENOTFOUND)
        return mu_err_hinted(MU_FAIL(err, st, "there is no profile of this machine"), err,
                             "`muster profile` makes one in about half a minute.");
    if (st != MU_OK) mu_err_hint(&own, "`muster profile` makes it anew.");
    return st == MU_OK ? MU_OK : mu_err_pass(st, &own, err);
}

mu_status mu_machine_keep(const mu_machine *m, mu_err *err) {
    char folder[MU_FS_PATH], name[48];
    mu_text t = {0};
    file_name(name, sizeof name);
    MU_TRY(cache_folder(folder, err));
    MU_TRY(mu_fs_mkdirs(folder, err));
    mu_machine_write(m, &t);
    const mu_status st =
        t.failed ? MU_FAIL_NOMEM(err, "a profile") : mu_outfile_replace(folder, name, t.s, t.n, err);
    mu_text_fini(&t);
    return st;
}
