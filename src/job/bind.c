// SPDX-License-Identifier: Apache-2.0
// bind.c - maps and plug-in blocks to structs; single values are in field.c.
//
// A misspelt key is one mistake, so it gives one message: when an unknown key is taken for a required
// one that is missing, the missing one is not reported as well.
#include "job/bind.h"

#include "job/field.h"
#include "job/suggest.h"

#include <string.h>

static const mu_field *find_field(const mu_bind_part *parts, size_t n_parts, const char *key, void **out) {
    for (size_t p = 0; p < n_parts; p++)
        for (const mu_field *f = parts[p].fields; f && f->key; f++)
            if (!strcmp(f->key, key)) {
                *out = parts[p].out;
                return f;
            }
    return NULL;
}

static bool has_word(const char *const *list, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], word)) return true;
    return false;
}

static void set_defaults(mu_binder *b, const char *what, const mu_bind_part *parts, size_t n_parts) {
    for (size_t p = 0; p < n_parts; p++)
        for (const mu_field *f = parts[p].fields; f && f->key; f++)
            if (f->def && !mu_field_set_default(b, f, what, parts[p].out) && !b->diags->no_memory)
                mu_diags_add(b->diags, MU_DIAG_ERROR, MU_NOPOS, "internal: bad default `%s` of `%s` in %s",
                             f->def, f->key, what);
}

// Reports the key; returns the valid key it probably stands for.
static const char *unknown_key(mu_binder *b, const mu_node *item, const char *what, const mu_bind_part *parts,
                               size_t n_parts, const char *const *other_keys, size_t n_other) {
    mu_words valid = {0};
    for (size_t p = 0; p < n_parts; p++)
        for (const mu_field *f = parts[p].fields; f && f->key; f++) mu_words_add(b->diags, &valid, f->key);
    for (size_t i = 0; i < n_other; i++) mu_words_add(b->diags, &valid, other_keys[i]);
    mu_diag *g =
        mu_diags_add(b->diags, MU_DIAG_ERROR, item->key_pos, "unknown key `%s` in %s", item->key, what);
    return mu_diag_suggest(b->diags, g, item->key, &valid, "keys");
}

static void set_item(mu_binder *b, const mu_field *f, const mu_node *item, const char *what, void *out) {
    if (!mu_node_is_null(item)) {
        mu_field_set(b, f, item, what, out);
    } else if (!item->pos.span) {       // nothing at all after the colon; `~` means "as if left out"
        mu_diag *g =
            mu_diags_add(b->diags, MU_DIAG_ERROR, item->key_pos, "`%s` in %s has no value", f->key, what);
        mu_diag_label(b->diags, g, "needs %s", mu_field_expects(f->type));
    } else if (!f->def) {
        mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos, "`%s` in %s must be given", f->key, what);
    }
}

static void report_missing(mu_binder *b, const mu_node *map, mu_srcpos where, const char *what,
                           const mu_bind_part *parts, size_t n_parts, const mu_words *meant) {
    for (size_t p = 0; p < n_parts; p++)
        for (const mu_field *f = parts[p].fields; f && f->key; f++) {
            if (f->def || mu_node_find(map, f->key) || has_word(meant->v, meant->n, f->key)) continue;
            mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, where, "missing key `%s` in %s", f->key, what);
            mu_diag_label(b->diags, g, "add `%s: ...`", f->key);
            mu_diag_hint(b->diags, g, "`%s` is %s: %s.", f->key, mu_field_expects(f->type),
                         f->help ? f->help : "");
        }
}

void mu_bind(mu_binder *b, const mu_node *map, mu_srcpos where, const char *what,
             const mu_bind_part *parts, size_t n_parts, const char *const *other_keys, size_t n_other) {
    set_defaults(b, what, parts, n_parts);
    if (!mu_node_is_null(map) && map->kind != MU_MAP) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, map->pos,
                                  "%s must be a block of `key: value` lines, not a %s", what,
                                  map->kind == MU_LIST ? "list" : "single value");
        if (map->kind == MU_LIST) mu_diag_hint(b->diags, g, "Leave the `- ` before the keys out.");
        return;
    }
    mu_words meant = {0};
    for (size_t i = 0; map && i < map->n; i++) {
        const mu_node *item = map->item[i];
        void *out = NULL;
        const mu_field *f = find_field(parts, n_parts, item->key, &out);
        if (f) {
            set_item(b, f, item, what, out);
        } else if (!has_word(other_keys, n_other, item->key)) {
            const char *key = unknown_key(b, item, what, parts, n_parts, other_keys, n_other);
            if (key) mu_words_add(b->diags, &meant, key);
        }
    }
    report_missing(b, map, where, what, parts, n_parts, &meant);
}

// ---- plug-in blocks -------------------------------------------------------------------------------

// Known words as a hint; also the answer to a block that names none.
static void missing_type(mu_binder *b, const mu_node *node, mu_srcpos where, const char *what,
                         const mu_registry *reg, const char *type_key) {
    mu_words want = {0}, known = {0};
    mu_words_add(b->diags, &want, type_key);
    for (size_t i = 0; node && node->kind == MU_MAP && i < node->n; i++) {
        if (!mu_suggest(node->item[i]->key, &want)) continue;
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, node->item[i]->key_pos, "unknown key `%s` in %s",
                                  node->item[i]->key, what);
        mu_diag_label(b->diags, g, "did you mean `%s`?", type_key);
        return;
    }
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, where, "missing key `%s` in %s", type_key, what);
    mu_diag_label(b->diags, g, "add `%s: ...`", type_key);
    mu_words_add_registry(b->diags, &known, reg);
    char plural[64];
    snprintf(plural, sizeof plural, "%ss", reg->kind);
    mu_diag_list(b->diags, g, &known, plural);
}

static const mu_plugin *find_plugin(mu_binder *b, const mu_node *word, const char *what,
                                    const mu_registry *reg, const char *type_key) {
    const mu_plugin *found = mu_registry_find(reg, word->text);
    if (found) return found;
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, word->pos, "unknown %s%s `%.60s` in %s", reg->kind,
                              strcmp(type_key, "type") ? "" : " type", word->text, what);
    mu_words known = {0};
    mu_words_add_registry(b->diags, &known, reg);
    char plural[64];
    snprintf(plural, sizeof plural, "%ss", reg->kind);
    mu_diag_suggest(b->diags, g, word->text, &known, plural);
    return NULL;
}

mu_class_ref mu_bind_class(mu_binder *b, const mu_node *node, mu_srcpos where, const char *what,
                           const mu_registry *reg, const char *type_key,
                           const char *const *other_keys, size_t n_other) {
    const mu_class_ref none = {0};
    if (node && node->kind == MU_LIST) {
        mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "%s must be a word or a block with `%s`, not a list",
                     what, type_key);
        return none;
    }
    const mu_node *word = node && node->kind == MU_MAP ? mu_node_find(node, type_key) : node;
    if (mu_node_is_null(word)) {
        missing_type(b, node, word ? (word->key ? word->key_pos : word->pos) : where, what, reg, type_key);
        return none;
    }
    if (word->kind != MU_SCALAR) {
        mu_diags_add(b->diags, MU_DIAG_ERROR, word->pos, "`%s` in %s must be a word", type_key, what);
        return none;
    }
    const mu_plugin *plugin = find_plugin(b, word, what, reg, type_key);
    if (!plugin) return none;
    void *state = mu_arena_alloc(b->arena, plugin->state_size ? plugin->state_size : 1);
    const char **keys = mu_arena_array(b->arena, n_other + 1, sizeof *keys);
    if (!state || !keys) {
        mu_diags_no_memory(b->diags);
        return none;
    }
    if (n_other) memcpy(keys, other_keys, n_other * sizeof *keys);
    keys[n_other] = type_key;
    mu_bind_part part = {plugin->fields, state};
    mu_bind(b, node->kind == MU_MAP ? node : NULL, where, what, &part, 1, keys, n_other + 1);
    return (mu_class_ref){plugin, state};
}

bool mu_bind_defaults(mu_arena *arena, const mu_field *fields, void *out,
                      const mu_registry *const *registries) {
    mu_diags diags;
    mu_diags_init(&diags, arena);
    mu_binder b = {.arena = arena, .diags = &diags, .folder = ".", .registries = registries};
    bool good = true;
    for (const mu_field *f = fields; f && f->key; f++)
        good = mu_field_set_default(&b, f, "the table", out) && good;
    return good;
}
