// SPDX-License-Identifier: Apache-2.0
#include "read/learnt.h"

mu_status mu_learnt_damaged(const char *what, mu_err *err) {
    return MU_FAIL(err, MU_EMODEL, "the description of the inputs is damaged: %s", what);
}

json_t *mu_learnt_put_texts(const char *const *text, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_string(text[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

mu_status mu_learnt_get_texts(const json_t *list, mu_arena *arena, const char *const **out, size_t *n,
                              mu_err *err) {
    if (!json_is_array(list)) return mu_learnt_damaged("a list of texts is missing", err);
    *n = json_array_size(list);
    const char **v = mu_arena_array(arena, *n + 1, sizeof *v);
    if (!v) return MU_FAIL_NOMEM(err, "texts of a model");
    for (size_t i = 0; i < *n; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (!s) return mu_learnt_damaged("something in a list of texts is no text", err);
        if (!(v[i] = mu_arena_strdup(arena, s))) return MU_FAIL_NOMEM(err, "texts of a model");
    }
    *out = v;
    return MU_OK;
}
