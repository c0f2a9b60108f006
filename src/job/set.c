// SPDX-License-Identifier: Apache-2.0
// set.c - --set edits; see set.h.
//
// Missing map keys are made without asking whether they are valid: binding finds that out later, with
// the same messages and suggestions as for the file, pointing into the --set text.
#include "job/set.h"

#include "base/plugin.h"
#include "job/yaml.h"

#include <stdlib.h>
#include <string.h>

static const char source_path[] = "--set";

typedef struct edit {
    mu_arena   *arena;
    mu_diags   *diags;
    mu_err     *err;
    const char *text;           // "net.conv1.filters=64"
    int         line;           // in the --set source
    int         depth;          // keys of the path taken
} edit;

static mu_srcpos place(const edit *e, const char *at, size_t n) {
    int col = 1;
    for (const char *p = e->text; p < at; p++) col += ((unsigned char)*p & 0xc0) != 0x80;
    return (mu_srcpos){.path = source_path, .line = e->line, .col = col, .span = (int)n};
}

// The item of a list by the `name` it carries, or by its index; NULL after reporting.
static mu_node *list_item(edit *e, const mu_node *list, const char *word, const char *at) {
    const char *names[256];
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const char *name = mu_node_text(mu_node_find(list->item[i], "name"));
        if (!name) continue;
        if (!strcmp(name, word)) return list->item[i];
        if (n < MU_COUNT(names)) names[n++] = name;
    }
    size_t digits = strspn(word, "0123456789");
    if (*word && !word[digits] && digits < 9) {
        size_t i = (size_t)atol(word);
        if (i < list->n) return list->item[i];
    }
    mu_diag *g = mu_diags_add(e->diags, MU_DIAG_ERROR, place(e, at, strlen(word)),
                              "`--set %s`: no item `%s` in the list%s%s%s", e->text, word,
                              list->key ? " `" : "", list->key ? list->key : "", list->key ? "`" : "");
    const char *near = mu_nearest(word, names, n);
    if (near) mu_diag_label(e->diags, g, "did you mean `%s`?", near);
    else mu_diag_hint(e->diags, g, "Name an item by its `name` or by its index from 0 to %zu.",
                      list->n ? list->n - 1 : 0);
    return NULL;
}

static mu_node *fail_at(edit *e, const char *at, size_t n, const char *msg) {
    mu_diag *g = mu_diags_add(e->diags, MU_DIAG_ERROR, place(e, at, n), "`--set %s`: %s", e->text, msg);
    mu_diag_hint(e->diags, g, "Write `--set key.path=value`, for example `--set train.batch=32`.");
    return NULL;
}

// The child of `parent` that `word` names; makes a missing map key. NULL after reporting.
static mu_node *step(edit *e, mu_node *parent, const char *word, const char *at) {
    if (parent->kind == MU_LIST) return list_item(e, parent, word, at);
    if (mu_node_is_null(parent)) parent->kind = MU_MAP, parent->text = NULL;
    if (parent->kind != MU_MAP)
        return fail_at(e, at, strlen(word), "the key before this one holds a single value, not a block");
    mu_node *child = mu_node_find(parent, word);
    if (child) return child;
    child = mu_node_create(e->arena, MU_SCALAR, place(e, at, 0));
    if (child) {
        child->key = word;
        child->key_pos = place(e, at, strlen(word));
    }
    if (!child || mu_node_append(e->arena, parent, child, e->err) != MU_OK) {
        mu_diags_no_memory(e->diags);
        return NULL;
    }
    return child;
}

static mu_status set_value(edit *e, mu_node *target, mu_srcpos key_pos, const char *value) {
    mu_srcpos at = place(e, value, 0);
    mu_node *n = NULL;
    mu_err ignored = {0};       // problems of the value's text are in the diags
    mu_status s = mu_yaml_parse(e->arena, e->diags, at, value, strlen(value), &n, &ignored);
    if (s == MU_ENOMEM) return MU_FAIL_NOMEM(e->err, "a --set value");
    if (s != MU_OK) {
        target->pos.span = 1;   // a value was there: "has no value" would be a second message
        return MU_OK;
    }
    target->kind = n ? n->kind : MU_SCALAR;
    target->pos = n ? n->pos : at;
    target->text = n ? n->text : "";
    target->quoted = n && n->quoted;
    target->item = n ? n->item : NULL;
    target->n = n ? n->n : 0;
    target->cap = n ? n->cap : 0;
    if (target->key) target->key_pos = key_pos;
    return MU_OK;
}

static mu_status apply_one(edit *e, mu_node *root) {
    const char *equals = strchr(e->text, '=');
    if (!equals || equals == e->text) {
        fail_at(e, e->text, strlen(e->text),
                equals ? "there is no key before the `=`" : "there is no `=` in it");
        return MU_OK;
    }
    mu_node *node = root;
    mu_srcpos key_pos = MU_NOPOS;
    for (const char *p = e->text; p < equals;) {
        size_t n = strcspn(p, ".=");
        if (!n || p + n + 1 == equals) {
            fail_at(e, n ? p + n : p, 1, "a key of the path is empty");
            return MU_OK;
        }
        if (n > MU_YAML_MAX_KEY_LENGTH) {
            fail_at(e, p, n, "a key of the path is longer than 128 bytes");
            return MU_OK;
        }
        key_pos = place(e, p, n);
        const char *word = mu_arena_strndup(e->arena, p, n);
        if (!word) return MU_FAIL_NOMEM(e->err, "a --set path");
        node = ++e->depth > MU_YAML_MAX_DEPTH ? fail_at(e, p, n, "the path is deeper than 32 keys")
                                              : step(e, node, word, p);
        if (!node) return e->diags->no_memory ? MU_FAIL_NOMEM(e->err, "a --set path") : MU_OK;
        p += n + 1;
    }
    return set_value(e, node, key_pos, equals + 1);
}

// All edits joined by newlines; a newline inside an edit would shift the lines and becomes a space.
static char *join(mu_arena *arena, const char *const *sets, size_t n_sets) {
    size_t size = 1;
    for (size_t i = 0; i < n_sets; i++) size += strlen(sets[i]) + 1;
    char *all = mu_arena_alloc(arena, size), *p = all;
    for (size_t i = 0; all && i < n_sets; i++) {
        for (const char *s = sets[i]; *s; s++) *p++ = *s == '\n' || *s == '\r' ? ' ' : *s;
        *p++ = '\n';
    }
    return all;
}

mu_status mu_set_apply(mu_arena *arena, mu_diags *diags, mu_node *root, const char *const *sets,
                       size_t n_sets, mu_err *err) {
    if (!n_sets) return MU_OK;
    char *all = join(arena, sets, n_sets);
    if (!all) return MU_FAIL_NOMEM(err, "--set edits");
    mu_diags_add_source(diags, source_path, all);
    const char *p = all;
    for (size_t i = 0; i < n_sets; i++) {
        size_t n = strcspn(p, "\n");
        char *text = mu_arena_strndup(arena, p, n);
        if (!text) return MU_FAIL_NOMEM(err, "--set edits");
        edit e = {.arena = arena, .diags = diags, .err = err, .text = text, .line = (int)i + 1};
        MU_TRY(apply_one(&e, root));
        p += n + 1;
    }
    return MU_OK;
}
