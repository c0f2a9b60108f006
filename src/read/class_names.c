// SPDX-License-Identifier: Apache-2.0
// class_names.c - see class_names.h.
#include "read/class_names.h"

#include "read/labels.h"
#include "file/infile.h"
#include "file/lines.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_MAX_BYTES = 200 };

static mu_status bad_line(const char *path, int64_t line, const char *what, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 " %s", path, line, what);
}

static mu_status add_line(mu_labels *names, const char *path, int64_t number, const char *line, size_t size,
                          mu_err *err) {
    int32_t id;
    const mu_line_fault fault = mu_line_check(line, size);
    if (fault != MU_LINE_GOOD) return bad_line(path, number, mu_line_fault_text(fault), err);
    if (size > NAME_MAX_BYTES)
        return bad_line(path, number, "is longer than the name of a class may be", err);
    if (mu_labels_find(names, line, size) >= 0)
        return bad_line(path, number, "repeats the name of a class", err);
    return mu_labels_add(names, line, size, &id, err);
}

static mu_status parse(mu_labels *names, const mu_infile *in, mu_err *err) {
    mu_lines lines;
    const char *line;
    size_t size;
    int64_t empty = 0;          // the first empty line, 0 = none
    mu_lines_init(&lines, in->mem, (size_t)in->size);
    while (mu_lines_next(&lines, &line, &size)) {
        while (size && strchr(" \t", line[size - 1])) size--;
        if (!size && !empty) empty = lines.number;
        if (!size) continue;
        if (empty) return bad_line(in->path, empty, "is empty, but names follow", err);
        MU_TRY(add_line(names, in->path, lines.number, line, size, err));
    }
    return names->n ? MU_OK : MU_FAIL(err, MU_EDATA, "`%s` names no classes", in->path);
}

static mu_status load(mu_reader *r, const char *path, mu_err *err) {
    mu_infile in = {0};
    mu_labels names;
    mu_labels_init(&names, r->arena);
    mu_status st = mu_infile_open(&in, path, err);
    if (st == MU_OK) st = mu_infile_load(&in, err);
    if (st == MU_OK) st = parse(&names, &in, err);
    if (st == MU_OK) st = mu_reader_keep_names(r, names.text, names.n, err);
    mu_labels_fini(&names);
    mu_infile_close(&in);
    return st;
}

mu_status mu_class_names_open(mu_reader *r, const char *path, int64_t *classes, mu_err *err) {
    if (r->known && r->known->labels)
        MU_TRY(mu_reader_keep_names(r, r->known->labels, (size_t)r->known->n_labels, err));
    else if (path && path[0]) MU_TRY(load(r, path, err));
    else return MU_OK;
    if (*classes && *classes != r->n_labels)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`classes` is %" PRId64 ", but %s names %" PRId64, *classes,
                          r->known && r->known->labels ? "the model" : "the file of `class_names`",
                          r->n_labels);
    *classes = r->n_labels;
    return MU_OK;
}

mu_status mu_class_names_beyond(const mu_reader *r, const char *path, int64_t index, int32_t label,
                                int64_t n_classes, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "`%s` record %" PRId64 ": label %" PRId32 " is outside 0..%" PRId64 "%s",
                   path, index, label, n_classes - 1, r->label_names ? ", the classes that have names" : "");
}
