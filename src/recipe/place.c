// SPDX-License-Identifier: Apache-2.0
#include "recipe/place.h"

#include "base/utf8.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

// The folder of a path, links resolved; the path's own for a folder.
static mu_status real_folder(const char *path, bool parent, char out[PATH_MAX], mu_err *err) {
    char folder[MU_FS_PATH];
    const char *slash = strrchr(path, '/');
    const size_t n = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (parent) snprintf(folder, sizeof folder, "%.*s", (int)n, slash ? path : ".");
    else snprintf(folder, sizeof folder, "%s", path);
    return realpath(folder, out) ? MU_OK : mu_fs_fail(err, "find", folder);
}

// out = the way from folder `from` to `to`, both absolute and without links.
static mu_status find_way(const char *from, const char *to, char out[MU_FS_PATH], mu_err *err) {
    size_t same = 0, used = 0;
    for (size_t i = 0;; i++) {
        const bool ends = (from[i] == '/' || !from[i]) && (to[i] == '/' || !to[i]);
        if (ends) same = i;
        if (!from[i] || from[i] != to[i]) break;
    }
    const char *rest = to[same] == '/' ? to + same + 1 : to + same;
    out[0] = '\0';
    for (const char *p = from + same; *p; p++)
        if (*p == '/' && p[1] && used < MU_FS_PATH - 4) used += (size_t)sprintf(out + used, "../");
    if (used + strlen(rest) >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "the path of `%s` is too long", to);
    snprintf(out + used, MU_FS_PATH - used, "%s", rest);
    if (!out[0]) snprintf(out, MU_FS_PATH, ".");
    return MU_OK;
}

mu_status mu_recipe_place(const char *file, const char *job, char out[MU_FS_PATH], mu_err *err) {
    if (!mu_utf8_valid(file, strlen(file)))
        return mu_err_hinted(
            MU_FAIL(err, MU_EUSAGE, "the name `%s` is not UTF-8, as a job file must be", file), err,
            "Rename it, or make a link with another name.");
    size_t n = strlen(file);
    while (n > 1 && file[n - 1] == '/') n--;
    if (n >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "the path of `%s` is too long", file);
    snprintf(out, MU_FS_PATH, "%.*s", (int)n, file);
    if (file[0] == '/' || !strchr(job, '/')) return MU_OK;
    char from[PATH_MAX], to[PATH_MAX], whole[MU_FS_PATH];
    const char *leaf = strrchr(out, '/') ? strrchr(out, '/') + 1 : out;
    const bool by_name = strcmp(leaf, ".") && strcmp(leaf, "..");
    MU_TRY(real_folder(out, by_name, to, err));
    MU_TRY(real_folder(job, true, from, err));
    if (by_name) MU_TRY(mu_fs_join(whole, strcmp(to, "/") ? to : "", leaf, err));
    else snprintf(whole, sizeof whole, "%s", to);
    if (job[0] != '/') return find_way(strcmp(from, "/") ? from : "", whole, out, err);
    memcpy(out, whole, sizeof whole);
    return MU_OK;
}

bool mu_recipe_name_fits(const char *name) {
    const size_t n = strlen(name);
    return n && n < MU_RECIPE_NAME && name[0] != '.' && name[0] != '-' && strspn(name, in_names) == n;
}

void mu_recipe_name(const char *job, char out[MU_RECIPE_NAME]) {
    const char *slash = strrchr(job, '/'), *leaf = slash ? slash + 1 : job;
    const char *dot = strrchr(leaf, '.');
    const bool ending = dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
    const size_t end = ending ? (size_t)(dot - leaf) : strlen(leaf);
    size_t n = 0;
    for (size_t i = 0; i < end && n < MU_RECIPE_NAME - 1; i++) {
        const bool fits = strchr(in_names, leaf[i]) && (n || (leaf[i] != '.' && leaf[i] != '-'));
        if (fits) out[n++] = leaf[i];
        else if (n && out[n - 1] != '-') out[n++] = '-';
    }
    while (n && out[n - 1] == '-') n--;
    out[n] = '\0';
    if (!n) snprintf(out, MU_RECIPE_NAME, "job");
}
