// SPDX-License-Identifier: Apache-2.0
// yaml.c - libyaml events to the job tree.
//
// Events rather than libyaml's own documents: we need the place of every key, our own limits while
// reading, and errors in our own words (yaml_error.c). An alias is expanded by copying, because
// --set may edit one use of an anchored block and not the others; copies are counted, so that
// nested aliases cannot blow up. Open maps and lists stand on a stack of fixed depth; nothing here
// recurses deeper than MU_YAML_MAX_DEPTH.
#include "job/yaml.h"

#include "base/plugin.h"
#include "job/yaml_error.h"

#include <string.h>

typedef struct open_node {
    mu_node   *node;            // open list or map
    const char *key;            // map: key read, value pending; NULL otherwise
    mu_srcpos  key_pos;
    bool       skip_value;      // the key was a duplicate: its value is parsed and dropped
    bool       is_merge;        // the key is an unquoted <<
} open_node;

typedef struct anchor {
    const char *name;
    mu_node    *node;
    size_t      open_depth;     // while its list or map is open; 0 = closed
} anchor;

typedef struct builder {
    mu_arena     *arena;
    mu_diags     *diags;
    mu_err       *err;
    mu_srcpos     origin;
    yaml_parser_t parser;
    open_node     stack[MU_YAML_MAX_DEPTH];
    size_t        depth;
    anchor       *anchors;
    size_t        n_anchors, n_copies, n_documents;
    mu_node      *root;
} builder;

static mu_srcpos place(const builder *b, yaml_mark_t m) {
    mu_srcpos p = b->origin;
    p.col = (int)m.column + (m.line ? 1 : b->origin.col);
    p.line += (int)m.line;
    p.span = 0;
    return p;
}

static mu_srcpos place_span(const builder *b, const yaml_event_t *e) {
    mu_srcpos p = place(b, e->start_mark);
    if (e->end_mark.line == e->start_mark.line) p.span = (int)(e->end_mark.column - e->start_mark.column);
    return p;
}

static mu_status refuse(builder *b, mu_srcpos pos, const char *msg, const char *hint) {
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, pos, "%s", msg);
    if (hint) mu_diag_hint(b->diags, g, "%s", hint);
    return MU_FAIL_AT(b->err, MU_EJOB, pos, "%s", msg);
}

// ---- attaching finished nodes ---------------------------------------------------------------------

// Copies a subtree that will stand at `depth`; counts every node.
static mu_status copy_tree(builder *b, const mu_node *from, size_t depth, mu_srcpos user, mu_node **out) {
    if (++b->n_copies > MU_YAML_MAX_COPIES)
        return refuse(b, user, "the aliases of this file expand to more than 100000 values", NULL);
    if (from->kind != MU_SCALAR && depth >= MU_YAML_MAX_DEPTH)
        return refuse(b, user, "lists and blocks are nested more than 32 deep", NULL);
    mu_node *n = mu_node_create(b->arena, from->kind, from->pos);
    if (!n) return MU_FAIL_NOMEM(b->err, "the job tree");
    n->text = from->text;
    n->quoted = from->quoted;
    n->key = from->key;
    n->key_pos = from->key_pos;
    for (size_t i = 0; i < from->n; i++) {
        mu_node *child;
        MU_TRY(copy_tree(b, from->item[i], depth + 1, user, &child));
        MU_TRY(mu_node_append(b->arena, n, child, b->err));
    }
    *out = n;
    return MU_OK;
}

// `<<: base`: the keys of base that the map does not have. A key written after it wins as well: it
// takes the place of the merged one (attach_to_map).
static mu_status merge(builder *b, open_node *f, const mu_node *base) {
    if (base->kind == MU_LIST) {
        for (size_t i = 0; i < base->n; i++) {
            if (base->item[i]->kind == MU_LIST)
                return refuse(b, base->pos, "`<<` takes a block or a list of blocks", NULL);
            MU_TRY(merge(b, f, base->item[i]));
        }
        return MU_OK;
    }
    if (base->kind != MU_MAP)
        return refuse(b, base->pos, "`<<` takes a block or a list of blocks",
                      "Write `<<: *name` with an anchor `&name` on a block.");
    for (size_t i = 0; i < base->n; i++) {
        if (mu_node_find(f->node, base->item[i]->key)) continue;
        if (f->node->n >= MU_YAML_MAX_KEYS)
            return refuse(b, base->pos, "a block has more than 1000 keys", NULL);
        mu_node *child;
        MU_TRY(copy_tree(b, base->item[i], b->depth, f->key_pos, &child));
        child->merged = true;
        MU_TRY(mu_node_append(b->arena, f->node, child, b->err));
    }
    return MU_OK;
}

// A key that came in by `<<` gives way to one the map writes itself.
static mu_status attach_to_map(builder *b, open_node *f, mu_node *n) {
    n->key = f->key;
    n->key_pos = f->key_pos;
    for (size_t i = 0; i < f->node->n; i++)
        if (f->node->item[i]->merged && !strcmp(f->node->item[i]->key, n->key)) {
            f->node->item[i] = n;
            return MU_OK;
        }
    return mu_node_append(b->arena, f->node, n, b->err);
}

static mu_status attach(builder *b, mu_node *n) {
    if (!b->depth) {
        b->root = n;
        return MU_OK;
    }
    open_node *f = &b->stack[b->depth - 1];
    if (f->node->kind == MU_LIST) return mu_node_append(b->arena, f->node, n, b->err);
    mu_status s = MU_OK;
    if (f->is_merge) s = merge(b, f, n);
    else if (!f->skip_value) s = attach_to_map(b, f, n);
    f->key = NULL;
    return s;
}

// ---- events ---------------------------------------------------------------------------------------

static mu_status keep_anchor(builder *b, const yaml_char_t *name, mu_node *n, mu_srcpos pos) {
    if (!name) return MU_OK;
    if (!b->anchors) b->anchors = mu_arena_array(b->arena, MU_YAML_MAX_ANCHORS, sizeof *b->anchors);
    if (!b->anchors) return MU_FAIL_NOMEM(b->err, "the job tree");
    if (b->n_anchors == MU_YAML_MAX_ANCHORS)
        return refuse(b, pos, "the file has more than 1000 anchors", NULL);
    anchor *a = &b->anchors[b->n_anchors++];
    a->name = mu_arena_strdup(b->arena, (const char *)name);
    a->node = n;
    a->open_depth = n->kind == MU_SCALAR ? 0 : b->depth + 1;
    return a->name ? MU_OK : MU_FAIL_NOMEM(b->err, "the job tree");
}

static mu_status refuse_tag(builder *b, const yaml_char_t *tag, mu_srcpos pos) {
    if (!tag) return MU_OK;
    return refuse(b, pos, "tags (`!...`) are not used in job files",
                  "Put the text in quotes if it begins with `!`.");
}

static mu_status take_key(builder *b, open_node *f, const yaml_event_t *e, mu_srcpos pos) {
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!n || strlen(text) != n) return refuse(b, pos, "a key is missing before the `:`", NULL);
    if (n > MU_YAML_MAX_KEY_LENGTH) return refuse(b, pos, "a key is longer than 128 bytes", NULL);
    f->is_merge = plain && !strcmp(text, "<<");
    const mu_node *first = mu_node_find(f->node, text);
    f->skip_value = first && !first->merged && !f->is_merge;
    if (f->skip_value) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, pos, "duplicate key `%s`", text);
        mu_diag_label(b->diags, g, "already given in line %d", first->key_pos.line);
    }
    if (f->node->n >= MU_YAML_MAX_KEYS) return refuse(b, pos, "a block has more than 1000 keys", NULL);
    f->key_pos = pos;
    f->key = mu_arena_strndup(b->arena, text, n);
    return f->key ? MU_OK : MU_FAIL_NOMEM(b->err, "the job tree");
}

static bool wants_key(const builder *b) {
    return b->depth && b->stack[b->depth - 1].node->kind == MU_MAP && !b->stack[b->depth - 1].key;
}

static mu_status on_scalar(builder *b, const yaml_event_t *e) {
    mu_srcpos pos = place_span(b, e);
    MU_TRY(refuse_tag(b, e->data.scalar.tag, pos));
    const char *text = (const char *)e->data.scalar.value;
    size_t size = e->data.scalar.length;
    if (wants_key(b)) {
        if (e->data.scalar.anchor)
            return refuse(b, pos, "an anchor cannot stand on a key", "Put `&name` after the `:`.");
        return take_key(b, &b->stack[b->depth - 1], e, pos);
    }
    if (memchr(text, '\0', size)) return refuse(b, pos, "a text contains a zero byte", NULL);
    mu_node *n = mu_node_create(b->arena, MU_SCALAR, pos);
    if (!n) return MU_FAIL_NOMEM(b->err, "the job tree");
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = size ? mu_arena_strndup(b->arena, text, size) : "";
    if (!n->text) return MU_FAIL_NOMEM(b->err, "the job tree");
    if (mu_node_is_null(n)) n->text = "";
    MU_TRY(keep_anchor(b, e->data.scalar.anchor, n, pos));
    return attach(b, n);
}

static mu_status on_open(builder *b, const yaml_event_t *e, mu_node_kind kind) {
    mu_srcpos pos = place(b, e->start_mark);
    const yaml_char_t *tag = kind == MU_MAP ? e->data.mapping_start.tag : e->data.sequence_start.tag;
    const yaml_char_t *name = kind == MU_MAP ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
    MU_TRY(refuse_tag(b, tag, pos));
    if (wants_key(b)) return refuse(b, pos, "a key must be a word, not a list or block", NULL);
    if (b->depth == MU_YAML_MAX_DEPTH)
        return refuse(b, pos, "lists and blocks are nested more than 32 deep", NULL);
    mu_node *n = mu_node_create(b->arena, kind, pos);
    if (!n) return MU_FAIL_NOMEM(b->err, "the job tree");
    MU_TRY(keep_anchor(b, name, n, pos));
    b->stack[b->depth++] = (open_node){.node = n};
    return MU_OK;
}

static mu_status on_close(builder *b) {
    for (size_t i = 0; i < b->n_anchors; i++)
        if (b->anchors[i].open_depth == b->depth) b->anchors[i].open_depth = 0;
    return attach(b, b->stack[--b->depth].node);
}

static mu_status on_alias(builder *b, const yaml_event_t *e) {
    const char *name = (const char *)e->data.alias.anchor;
    mu_srcpos pos = place_span(b, e);
    if (wants_key(b))
        return refuse(b, pos, "an alias cannot be a key", "Write `<<: *name` to take over a block.");
    const anchor *a = NULL;
    for (size_t i = b->n_anchors; i > 0 && !a; i--)     // the latest definition counts
        if (!strcmp(b->anchors[i - 1].name, name)) a = &b->anchors[i - 1];
    if (!a || a->open_depth) {
        const char *what = a ? "refers to the block it stands in" : "has no anchor before it";
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, pos, "alias `*%s` %s", name, what);
        if (!a) {
            const char *known[32];
            size_t n = 0;
            for (; n < b->n_anchors && n < MU_COUNT(known); n++) known[n] = b->anchors[n].name;
            const char *near = mu_nearest(name, known, n);
            if (near) mu_diag_label(b->diags, g, "did you mean `*%s`?", near);
        }
        return MU_FAIL_AT(b->err, MU_EJOB, pos, "alias `*%s` %s", name, what);
    }
    mu_node *n;
    MU_TRY(copy_tree(b, a->node, b->depth, pos, &n));
    n->key = NULL;              // that of the anchored node; this one may stand in a list
    n->key_pos = MU_NOPOS;
    return attach(b, n);
}

static mu_status on_event(builder *b, const yaml_event_t *e) {
    switch (e->type) {
    case YAML_SCALAR_EVENT: return on_scalar(b, e);
    case YAML_SEQUENCE_START_EVENT: return on_open(b, e, MU_LIST);
    case YAML_MAPPING_START_EVENT: return on_open(b, e, MU_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return on_close(b);
    case YAML_ALIAS_EVENT: return on_alias(b, e);
    case YAML_DOCUMENT_START_EVENT:
        if (b->n_documents++)
            return refuse(b, place(b, e->start_mark), "a second document begins here (`---`)",
                          "A job file holds one document.");
        return MU_OK;
    default: return MU_OK;
    }
}

mu_status mu_yaml_parse(mu_arena *arena, mu_diags *diags, mu_srcpos origin, const char *text, size_t size,
                        mu_node **out, mu_err *err) {
    builder b = {.arena = arena, .diags = diags, .err = err, .origin = origin};
    mu_srcpos whole = {.path = origin.path};
    if (size > MU_YAML_MAX_SIZE) return refuse(&b, whole, "the file is larger than 1 MiB", NULL);
    if (!yaml_parser_initialize(&b.parser)) return MU_FAIL_NOMEM(err, "the YAML parser");
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, size);
    mu_status s = MU_OK;
    for (bool done = false; s == MU_OK && !done;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&b.parser, &e)) {
            s = mu_yaml_explain(&b.parser, diags, origin, text, size, err);
            break;
        }
        s = on_event(&b, &e);
        done = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&b.parser);
    if (s == MU_OK) *out = b.root;
    return s;
}
