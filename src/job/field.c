// SPDX-License-Identifier: Apache-2.0
// field.c - parsing of single values by field type.
//
// Defaults are written in the tables as the job would write them and take the same road, so a
// default cannot mean something a job could not say.
#include "job/field.h"

#include "job/parse.h"
#include "job/suggest.h"
#include "job/yaml.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <strings.h>

// Of the value, for messages.
typedef struct field_place { mu_binder *b; const mu_field *f; const char *what; } field_place;

const char *mu_field_expects(mu_field_type t) {
    switch (t) {
    case MU_BOOL: return "true or false";
    case MU_INT: return "a whole number";
    case MU_INT_OR_AUTO: return "a whole number or `auto`";
    case MU_FLOAT:
    case MU_DOUBLE: return "a number";
    case MU_STRING: return "a text";
    case MU_PATH: return "a path";
    case MU_ENUM: return "a word";
    case MU_PAIR: return "a whole number or [height, width]";
    case MU_INTS: return "a list of whole numbers";
    case MU_FLOATS: return "a list of numbers";
    case MU_STRINGS: return "a word or a list of words";
    case MU_PATHS: return "a path or a list of paths";
    case MU_DURATION: return "a duration such as 90s, 15m or 2h";
    case MU_INTERVAL: return "an interval such as `1 epoch`, `500 steps`, `10m` or `never`";
    case MU_CLASS: return "a word or a block with `type`";
    case MU_CLASSES: return "a list of blocks";
    case MU_NODE: return "a word or a block";
    }
    return "a value";
}

#define SHOWN 40

// The text as a message shows it: not longer than SHOWN bytes, cut between characters.
static const char *shorten(const char *text, char out[SHOWN + 4]) {
    size_t n = strlen(text);
    if (n <= SHOWN) return text;
    n = SHOWN;
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    memcpy(out, text, n);
    memcpy(out + n, "...", 4);
    return out;
}

static mu_diag *fail_expected(const field_place *p, const mu_node *n) {
    const char *want = mu_field_expects(p->f->type);
    if (n->kind != MU_SCALAR)
        return mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "`%s` in %s must be %s, not a %s", p->f->key,
                            p->what, want, n->kind == MU_LIST ? "list" : "block");
    char shown[SHOWN + 4];
    return mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "`%s` in %s must be %s, found `%s`", p->f->key,
                        p->what, want, shorten(n->text, shown));
}

// The text of a scalar that may be a number or bool, NULL after reporting.
static const char *plain_text(const field_place *p, const mu_node *n) {
    if (n->kind == MU_SCALAR && !n->quoted && !mu_node_is_null(n)) return n->text;
    mu_diag *g = fail_expected(p, n);
    bool one_item = n->kind == MU_LIST && n->n == 1 && n->item[0]->kind == MU_SCALAR;
    if (n->kind == MU_SCALAR && n->quoted) mu_diag_label(p->b->diags, g, "leave the quotes out");
    else if (one_item) mu_diag_label(p->b->diags, g, "leave the brackets out");
    return NULL;
}

static void fail_number(const field_place *p, const mu_node *n, const char *example) {
    mu_diag_label(p->b->diags, fail_expected(p, n), "write digits, such as %s", example);
}

static const char *any_text(const field_place *p, const mu_node *n) {
    if (n->kind == MU_SCALAR) return n->text;
    fail_expected(p, n);
    return NULL;
}

static bool in_range(const field_place *p, const mu_node *n, double v) {
    mu_range r;
    if (!mu_range_parse(p->f->range, &r)) {
        mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "internal: bad range `%s` of `%s`", p->f->range,
                     p->f->key);
        return false;
    }
    if (mu_range_has(&r, v)) return true;
    char rule[112], shown[SHOWN + 4];
    mu_range_describe(&r, rule, sizeof rule);
    mu_diag *g = mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "`%s` in %s is out of range: %s", p->f->key,
                              p->what, shorten(n->text, shown));
    mu_diag_label(p->b->diags, g, "must be %s%s", rule, p->f->type == MU_INT_OR_AUTO ? ", or auto" : "");
    return false;
}

static bool read_int(const field_place *p, const mu_node *n, int64_t *out) {
    const char *text = plain_text(p, n);
    int64_t v;
    if (!text) return false;
    if (!mu_parse_int(text, &v)) {
        fail_number(p, n, "64 or 10k");
        return false;
    }
    if (!in_range(p, n, (double)v)) return false;
    *out = v;
    return true;
}

static void set_int_or_auto(const field_place *p, const mu_node *n, int64_t *out) {
    static const char *const words[] = {"auto"};
    const char *text = any_text(p, n);
    int64_t v;
    if (!text) return;
    if (!strcmp(text, words[0])) *out = MU_AUTO;
    else if (mu_parse_int(text, &v)) {
        if (in_range(p, n, (double)v)) *out = v;
    } else {
        mu_diag *g = fail_expected(p, n);
        if (mu_nearest(text, words, 1)) mu_diag_label(p->b->diags, g, "did you mean `auto`?");
    }
}

static bool read_double(const field_place *p, const mu_node *n, double most, double *out) {
    const char *text = plain_text(p, n);
    double v;
    if (!text) return false;
    if (!mu_parse_double(text, &v)) {
        fail_number(p, n, "10 or 0.01");
        return false;
    }
    if (!in_range(p, n, v)) return false;
    if (fabs(v) > most) {
        mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "`%s` in %s is too large: %s", p->f->key, p->what,
                     text);
        return false;
    }
    *out = v;
    return true;
}

static void set_bool(const field_place *p, const mu_node *n, bool *out) {
    const char *text = plain_text(p, n);
    if (!text) return;
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off"};
    for (size_t i = 0; i < MU_COUNT(words); i++)
        if (!strcasecmp(text, words[i])) {
            *out = i % 2 == 0;
            return;
        }
    mu_diag *g = fail_expected(p, n);
    const char *near = mu_nearest(text, words, MU_COUNT(words));
    const char *number = !strcmp(text, "1") ? "true" : !strcmp(text, "0") ? "false" : NULL;
    if (near || number) mu_diag_label(p->b->diags, g, "did you mean `%s`?", near ? near : number);
}

static void set_enum(const field_place *p, const mu_node *n, int *out) {
    const char *text = any_text(p, n);
    if (!text) return;
    int i = mu_choice_find(p->f->choices, text);
    if (i >= 0) {
        *out = i;
        return;
    }
    char shown[SHOWN + 4];
    mu_diag *g = mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "unknown value `%s` for `%s` in %s",
                              shorten(text, shown), p->f->key, p->what);
    mu_words valid = {0};
    mu_words_add_choices(p->b->diags, &valid, p->f->choices);
    mu_diag_suggest(p->b->diags, g, text, &valid, "values");
}

// Each rank of a training may have files of its own.
static const char *with_rank(const field_place *p, const char *text) {
    static const char mark[] = "{rank}";
    const char *at = strstr(text, mark);
    if (!at) return text;
    const char *own =
        mu_arena_printf(p->b->arena, "%.*s%d%s", (int)(at - text), text, p->b->rank, at + sizeof mark - 1);
    return own ? with_rank(p, own) : text; // without memory the caller fails next, too
}

static const char *resolve(const field_place *p, const char *text) {
    bool path = p->f->type == MU_PATH || p->f->type == MU_PATHS;
    if (path) text = with_rank(p, text);
    const char *folder = p->b->folder;
    bool here = !folder || !*folder || !strcmp(folder, ".");
    char *kept = path && text[0] != '/' && !here ? mu_arena_printf(p->b->arena, "%s/%s", folder, text)
                                                 : mu_arena_strdup(p->b->arena, text);
    if (!kept) mu_diags_no_memory(p->b->diags);
    return kept;
}

static void fail_empty(const field_place *p, const mu_node *n) {
    mu_diag *g =
        mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "`%s` in %s is empty", p->f->key, p->what);
    mu_diag_label(p->b->diags, g, "needs %s", mu_field_expects(p->f->type));
}

// "" takes back an optional text; where one is required it would reach the plug-in as NULL.
static void set_string(const field_place *p, const mu_node *n, const char **out) {
    const char *text = any_text(p, n);
    if (!text) return;
    if (*text) *out = resolve(p, text);
    else if (p->f->def) *out = NULL;
    else fail_empty(p, n);
}

// One element of a list. An empty word may mean something, an empty path cannot.
static const char *read_element(const field_place *p, const mu_node *n) {
    const char *text = any_text(p, n);
    if (!text) return NULL;
    if (*text || p->f->type != MU_PATHS) return resolve(p, text);
    fail_empty(p, n);
    return NULL;
}

static void set_pair(const field_place *p, const mu_node *n, int64_t *out) {
    int64_t v[2];
    if (n->kind == MU_LIST) {
        if (n->n != 2) {
            mu_diag *g = mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos,
                                      "`%s` in %s must be %s, found %zu number%s", p->f->key, p->what,
                                      mu_field_expects(MU_PAIR), n->n, n->n == 1 ? "" : "s");
            mu_diag_label(p->b->diags, g, "write one number or two");
            return;
        }
        bool first = read_int(p, n->item[0], &v[0]);
        if (!read_int(p, n->item[1], &v[1]) || !first) return;
    } else {
        if (!read_int(p, n, &v[0])) return;
        v[1] = v[0];
    }
    memcpy(out, v, sizeof v);
}

// A list, or one value that stands for a list of one. The elements are read into an array of the
// arena; nothing is set when one of them is wrong.
static void set_list(const field_place *p, const mu_node *n, void *out) {
    size_t count = n->kind == MU_LIST ? n->n : 1;
    bool good = true;
    int64_t *ints = NULL;
    float *floats = NULL;
    const char **strings = NULL;
    bool is_ints = p->f->type == MU_INTS, is_floats = p->f->type == MU_FLOATS;
    void *v = mu_arena_array(p->b->arena, count ? count : 1, 8);
    if (!v) {
        mu_diags_no_memory(p->b->diags);
        return;
    }
    if (is_ints) ints = v;
    else if (is_floats) floats = v;
    else strings = v;
    for (size_t i = 0; i < count; i++) {
        const mu_node *e = n->kind == MU_LIST ? n->item[i] : n;
        double d = 0;
        if (is_ints) good = read_int(p, e, &ints[i]) && good;
        else if (is_floats) {
            good = read_double(p, e, FLT_MAX, &d) && good;
            floats[i] = (float)d;
        } else {
            strings[i] = read_element(p, e);
            good = strings[i] && good;
        }
    }
    if (!good) return;
    if (is_ints) *(mu_ints *)out = (mu_ints){count, ints};
    else if (is_floats) *(mu_floats *)out = (mu_floats){count, floats};
    else *(mu_strings *)out = (mu_strings){count, strings};
}

// "5 epoks": the number stays, the unit is replaced by the nearest one.
static void suggest_unit(const field_place *p, mu_diag *g, const char *text, const char *const *units,
                         size_t n_units) {
    const char *word = text + strspn(text, "0123456789.kM ");
    const char *near = *word ? mu_nearest(word, units, n_units) : NULL;
    if (near) mu_diag_label(p->b->diags, g, "did you mean `%.*s%s`?", (int)(word - text), text, near);
}

static void set_duration(const field_place *p, const mu_node *n, double *out) {
    static const char *const units[] = {"seconds", "minutes", "hours", "days", "hour", "day", "min"};
    const char *text = any_text(p, n);
    double v;
    if (!text) return;
    if (!mu_parse_duration(text, &v)) suggest_unit(p, fail_expected(p, n), text, units, MU_COUNT(units));
    else if (in_range(p, n, v)) *out = v;
}

static void set_interval(const field_place *p, const mu_node *n, mu_interval *out) {
    static const char *const units[] = {"epoch", "epochs", "step", "steps", "never", "minutes", "hours"};
    const char *text = any_text(p, n);
    if (!text || mu_parse_interval(text, out)) return;
    if (!strcmp(text, "auto") && p->f->def && !strcmp(p->f->def, "auto")) {
        *out = (mu_interval){MU_EVERY_AUTO, 0};
        return;
    }
    suggest_unit(p, fail_expected(p, n), text, units, MU_COUNT(units));
}

static bool read_class(const field_place *p, const mu_node *n, mu_class_ref *out) {
    const mu_registry *reg = NULL;
    for (size_t i = 0; p->b->registries && p->b->registries[i]; i++)
        if (!strcmp(p->b->registries[i]->kind, p->f->choices)) reg = p->b->registries[i];
    if (!reg) {
        mu_diags_add(p->b->diags, MU_DIAG_ERROR, n->pos, "internal: no registry of `%s` for `%s`",
                     p->f->choices, p->f->key);
        return false;
    }
    char *what = mu_arena_printf(p->b->arena, "`%s` in %s", p->f->key, p->what);
    if (!what) mu_diags_no_memory(p->b->diags);
    // blocks of data say `reader: idx` wherever they stand
    const char *type_key = strcmp(reg->kind, "reader") ? "type" : "reader";
    mu_class_ref ref = mu_bind_class(p->b, n, n->pos, what ? what : p->f->key, reg, type_key, NULL, 0);
    if (ref.plugin) *out = ref;
    return ref.plugin != NULL;
}

static void set_classes(const field_place *p, const mu_node *n, mu_class_refs *out) {
    size_t count = n->kind == MU_LIST ? n->n : 1;
    bool good = true;
    mu_class_ref *v = mu_arena_array(p->b->arena, count + 1, sizeof *v);
    mu_srcpos *pos = mu_arena_array(p->b->arena, count + 1, sizeof *pos);
    if (!v || !pos) {
        mu_diags_no_memory(p->b->diags);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const mu_node *e = n->kind == MU_LIST ? n->item[i] : n;
        pos[i] = e->pos;
        good = read_class(p, e, &v[i]) && good;
    }
    if (good) *out = (mu_class_refs){count, v, pos};
}

void mu_field_set(mu_binder *b, const mu_field *f, const mu_node *n, const char *what, void *out) {
    field_place p = {b, f, what};
    void *slot = (char *)out + f->offset;
    double d;
    switch (f->type) {
    case MU_BOOL: set_bool(&p, n, slot); break;
    case MU_INT: read_int(&p, n, slot); break;
    case MU_INT_OR_AUTO: set_int_or_auto(&p, n, slot); break;
    case MU_FLOAT:
        if (read_double(&p, n, FLT_MAX, &d)) *(float *)slot = (float)d;
        break;
    case MU_DOUBLE: read_double(&p, n, DBL_MAX, slot); break;
    case MU_STRING:
    case MU_PATH: set_string(&p, n, slot); break;
    case MU_ENUM: set_enum(&p, n, slot); break;
    case MU_PAIR: set_pair(&p, n, slot); break;
    case MU_INTS:
    case MU_FLOATS:
    case MU_STRINGS:
    case MU_PATHS: set_list(&p, n, slot); break;
    case MU_DURATION: set_duration(&p, n, slot); break;
    case MU_INTERVAL: set_interval(&p, n, slot); break;
    case MU_CLASS: (void)read_class(&p, n, slot); break;
    case MU_CLASSES: set_classes(&p, n, slot); break;
    case MU_NODE: *(const mu_node **)slot = n; break;
    }
}

// What "" or "[]" as default leaves: no text, no items, no plug-in. False for types that need a value.
static bool set_nothing(const mu_field *f, void *slot) {
    switch (f->type) {
    case MU_STRING:
    case MU_PATH: *(const char **)slot = NULL; return true;
    case MU_INTS: *(mu_ints *)slot = (mu_ints){0}; return true;
    case MU_FLOATS: *(mu_floats *)slot = (mu_floats){0}; return true;
    case MU_STRINGS:
    case MU_PATHS: *(mu_strings *)slot = (mu_strings){0}; return true;
    case MU_CLASS: *(mu_class_ref *)slot = (mu_class_ref){0}; return true;
    case MU_CLASSES: *(mu_class_refs *)slot = (mu_class_refs){0}; return true;
    case MU_NODE: *(const mu_node **)slot = NULL; return true;
    default: return false;
    }
}

bool mu_field_set_default(mu_binder *b, const mu_field *f, const char *what, void *out) {
    if (!f->def) return false;
    bool empty = !*f->def || !strcmp(f->def, "[]");
    if (empty && set_nothing(f, (char *)out + f->offset)) return true;
    size_t before = b->diags->n_errors;
    mu_node scalar = {.kind = MU_SCALAR, .text = f->def}, *node = &scalar;
    if (strchr("[{", f->def[0])) {
        mu_err err = {0};
        mu_srcpos origin = {.path = "default", .line = 1, .col = 1};
        if (mu_yaml_parse(b->arena, b->diags, origin, f->def, strlen(f->def), &node, &err) == MU_ENOMEM)
            mu_diags_no_memory(b->diags);
    }
    if (b->diags->n_errors == before) mu_field_set(b, f, node, what, out);
    return b->diags->n_errors == before;
}
