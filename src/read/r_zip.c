// SPDX-License-Identifier: Apache-2.0
// r_zip.c - several readers side by side: record i has the fields of record i of each.
//
// What belongs together is often stored apart: images in one file, their tags in a second one, labels in a
// third. All parts have equally many records. A bad record of one part is a bad record of the whole, so
// the parts never slip against each other. Names that two parts share are given anew by `names`.
#include "read/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct zip {
    mu_class_refs parts;
    mu_strings    names;
    // private
    mu_reader   **part;         // [parts.n], in the arena; NULL = not open
    struct { int part, field; } from[MU_MAX_FIELDS];    // of each field of ours
};

#define LEFT_OUT "_"

static const mu_field fields[] = {
    MU_FIELD_CLASSES(struct zip, parts, NULL, "reader", "blocks of readers with equally many records"),
    MU_FIELD(struct zip, names, MU_STRINGS, "[]", NULL,
             "new names of all fields in their order, _ leaves one out; not given: as in the parts"),
    {0},
};

static mu_status double_name(const mu_reader *r, const char *name, mu_err *err) {
    const struct zip *s = r->state;
    MU_FAIL_AT(err, MU_EJOB, r->pos, "two fields are called `%s`", name);
    if (s->names.n) mu_err_hint(err, "Each name in `names` stands once.");
    else mu_err_hint(err, "Name the fields of all parts in their order with `names: [...]`.");
    return MU_EJOB;
}

static mu_status add_field(mu_reader *r, int part, int field, const char *name, mu_err *err) {
    struct zip *s = r->state;
    for (int i = 0; i < r->n_fields; i++)
        if (!strcmp(r->field[i].name, name)) return double_name(r, name, err);
    if (r->n_fields == MU_MAX_FIELDS)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "the parts have more than %d fields", MU_MAX_FIELDS);
    r->field[r->n_fields] = s->part[part]->field[field];
    r->field[r->n_fields].name = name;
    s->from[r->n_fields].part = part;
    s->from[r->n_fields++].field = field;
    return MU_OK;
}

static mu_status collect_fields(mu_reader *r, mu_err *err) {
    struct zip *s = r->state;
    size_t n = 0;
    for (size_t p = 0; p < s->parts.n; p++)
        for (int f = 0; f < s->part[p]->n_fields; f++, n++) {
            const char *name = s->part[p]->field[f].name;
            if (s->names.n) name = n < s->names.n ? s->names.v[n] : LEFT_OUT;
            if (!strcmp(name, LEFT_OUT)) continue;
            MU_TRY(add_field(r, (int)p, f, name, err));
        }
    if (s->names.n && s->names.n != n)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`names` has %zu names for the %zu fields of the parts",
                          s->names.n, n);
    if (!r->n_fields) return MU_FAIL_AT(err, MU_EJOB, r->pos, "no field of the parts is left");
    return MU_OK;
}

// The names of classes, for answers: those of the first part whose label is kept, else of the first part
// that knows names though its records have no label (data to be answered).
static void take_label_names(mu_reader *r) {
    const struct zip *s = r->state;
    for (size_t p = 0; p < s->parts.n; p++) {
        const mu_reader *part = s->part[p];
        bool has_label = false, kept = false;
        if (!part->label_names) continue;
        for (int f = 0; f < part->n_fields; f++) has_label |= !strcmp(part->field[f].name, "label");
        for (int f = 0; f < r->n_fields; f++)
            kept |= s->from[f].part == (int)p && !strcmp(part->field[s->from[f].field].name, "label");
        if (!kept && (has_label || r->label_names)) continue;
        r->label_names = part->label_names;
        r->n_labels = part->n_labels;
        if (kept) return;
    }
}

static mu_known known_of_part(const mu_reader *r, size_t i) {
    if (!r->known) return (mu_known){0};
    return (mu_known){.learnt = json_array_get(json_object_get(r->known->learnt, "parts"), i),
                      .labels = r->known->labels,
                      .n_labels = r->known->n_labels};
}

static mu_status open_zip(mu_reader *r, mu_err *err) {
    struct zip *s = r->state;
    if (!s->parts.n) return MU_FAIL_AT(err, MU_EJOB, r->pos, "`parts` is empty");
    s->part = mu_arena_array(r->arena, s->parts.n, sizeof *s->part);
    if (!s->part) return MU_FAIL_NOMEM(err, "the parts of a reader");
    for (size_t i = 0; i < s->parts.n; i++) {
        const mu_class_ref *c = &s->parts.v[i];
        const mu_reader_class *class = (const mu_reader_class *)(const void *)c->plugin; // its first member
        const mu_known of_part = known_of_part(r, i);
        MU_TRY(
            mu_reader_open(class, c->state, s->parts.pos[i], r->known ? &of_part : NULL, &s->part[i], err));
        if (s->part[i]->shard.of)
            return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, s->parts.pos[i],
                                            "part %zu, `%s`, is shard %d of %d", i + 1, class->name,
                                            s->part[i]->shard.index,
                                            s->part[i]->shard.of),
                                 err, "Put the parts together first: `muster data shard` of this block.");
        if (s->part[i]->n_records != s->part[0]->n_records)
            return MU_FAIL_AT(err, MU_EDATA, s->parts.pos[i],
                              "part %zu, `%s`, has %" PRId64 " records, part 1, `%s`, %" PRId64, i + 1,
                              class->name, s->part[i]->n_records, s->part[0]->class->name,
                              s->part[0]->n_records);
    }
    r->n_records = s->part[0]->n_records;
    MU_TRY(collect_fields(r, err));
    take_label_names(r);
    return MU_OK;
}

static mu_status read_zip(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct zip *s = r->state;
    for (size_t i = 0; i < s->parts.n; i++) {
        mu_record rec = {{0}};
        MU_TRY(mu_reader_read(s->part[i], index, &rec, err));
        for (int f = 0; f < r->n_fields; f++)
            if (s->from[f].part == (int)i) out->field[f] = rec.field[s->from[f].field];
    }
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct zip *s = r->state;
    mu_reader_describe(s->part[0], index, out, size);
}

static void close_zip(mu_reader *r) {
    struct zip *s = r->state;
    for (size_t i = 0; s->part && i < s->parts.n; i++) mu_reader_close(s->part[i]);
}

static mu_status tell(const mu_reader *r, json_t *out, mu_err *err) {
    const struct zip *s = r->state;
    json_t *list = json_array();
    if (!list || json_object_set_new(out, "parts", list)) return MU_FAIL_NOMEM(err, "what the parts learnt");
    for (size_t i = 0; i < s->parts.n; i++) {
        json_t *one = json_object();
        if (!one || json_array_append_new(list, one)) return MU_FAIL_NOMEM(err, "what the parts learnt");
        if (s->part[i]->class->tell) MU_TRY(s->part[i]->class->tell(s->part[i], one, err));
    }
    return MU_OK;
}

const mu_reader_class mu_reader_zip = {
    .name = "zip", .help = "the fields of several readers side by side",
    .fields = fields, .state_size = sizeof(struct zip),
    .open = open_zip, .read = read_zip, .describe = describe, .close = close_zip, .tell = tell,
};
