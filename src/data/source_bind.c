// SPDX-License-Identifier: Apache-2.0
// source_bind.c - from a block of `data:` in the job to a mu_source_spec.
//
// The reader's keys and the stream's own keys share one block, so both tables are bound in one go:
// an unknown key is then compared with all the words that would have been right.
#include "data/source.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

const mu_field mu_source_fields[] = {
    MU_FIELD(mu_source_spec, scale, MU_FLOAT, "1", NULL, "every value is multiplied by this, after the mean"),
    MU_FIELD(mu_source_spec, mean, MU_STRINGS, "[]", NULL,
             "subtracted: one number, one per channel, or auto (mean record of the training data)"),
    MU_FIELD(mu_source_spec, mean_file, MU_PATH, "", NULL,
             "subtracted: raw little-endian floats, one per channel or per element (height, width, channel)"),
    MU_FIELD(mu_source_spec, crop, MU_PAIR, "0", "[0,65536]",
             "height and width cut out: random place in training, else centre; 0 = whole image"),
    MU_FIELD(mu_source_spec, shift, MU_PAIR, "0", "[0,1024]",
             "move images at random by up to so many pixels each way, in training; edges are repeated"),
    MU_FIELD(mu_source_spec, mirror, MU_BOOL, "false", NULL,
             "mirror half of the images, chosen at random, in training"),
    MU_FIELD(mu_source_spec, limit, MU_INT, "0", "[0,)", "use only the first so many records; 0 = all"),
    MU_FIELD_ENUM(mu_source_spec, part, "all", MU_SPLIT_PARTS,
                  "which of them: all, or as `validation: {fraction: 0.1}` writes it, those held back or the "
                  "rest"),
    MU_FIELD(mu_source_spec, fraction, MU_FLOAT, MU_SPLIT_FRACTION, "(0,1)",
             "share of the records of every class that is held back"),
    MU_FIELD(mu_source_spec, split_seed, MU_INT, "1", "[0,)", "chooses them"),
    MU_FIELD(mu_source_spec, max_bad, MU_INT, "-1", "[-1,)",
             "bad records skipped before giving up; -1 = a thousandth of all, at least 10"),
    MU_FIELD_ENUM(mu_source_spec, reset, "random", MU_RESET_WORDS,
                  "training begins streams anew, with state zero: at random, or each after a count, in turn"),
    MU_FIELD(mu_source_spec, reset_every, MU_INT, "20", "[1,1000000]",
             "records of a stream from one reset to the next; with random ones on average"),
    MU_FIELD(mu_source_spec, warmup, MU_INT, "4", "[0,1024]",
             "records of each stream that an evaluation reads before those it counts; 0 = begin at zero"),
    {0},
};

// One word of `mean`; false after reporting.
static bool read_mean_word(mu_binder *b, const char *word, mu_srcpos pos, float *out) {
    double v;
    mu_diag *g;
    if (!mu_parse_double(word, &v)) {
        bool is_auto = !strcmp(word, "auto");
        g = mu_diags_add(b->diags, MU_DIAG_ERROR, pos,
                         is_auto ? "`mean`: `%s` stands alone, not in a list"
                                 : "`mean`: `%s` is neither a number nor `auto`", word);
        if (!is_auto && mu_nearest(word, (const char *const[]){"auto"}, 1))
            mu_diag_label(b->diags, g, "did you mean `auto`?");
        return false;
    }
    if (fabs(v) > FLT_MAX) {
        mu_diags_add(b->diags, MU_DIAG_ERROR, pos, "`mean`: `%s` is too large", word);
        return false;
    }
    *out = (float)v;
    return true;
}

static void read_mean(mu_binder *b, const mu_node *block, mu_source_spec *s) {
    const mu_node *node = mu_node_find(block, "mean");
    mu_srcpos pos = node ? node->pos : s->pos;
    if (s->mean.n && s->mean_file && s->mean_file[0])
        mu_diags_add(b->diags, MU_DIAG_ERROR, pos, "`mean` and `mean_file` exclude each other");
    s->mean_auto = s->mean.n == 1 && !strcmp(s->mean.v[0], "auto");
    if (s->mean_auto || !s->mean.n) return;
    float *v = mu_arena_array(b->arena, s->mean.n, sizeof *v);
    if (!v) {
        mu_diags_no_memory(b->diags);
        return;
    }
    for (size_t i = 0; i < s->mean.n; i++) {
        bool listed = node && node->kind == MU_LIST && i < node->n;
        (void)read_mean_word(b, s->mean.v[i], listed ? node->item[i]->pos : pos, &v[i]);
    }
    s->mean_values = (mu_floats){s->mean.n, v};
}

static void check_part(mu_binder *b, const mu_node *block, const mu_source_spec *s) {
    const mu_node *n = mu_node_find(block, "fraction");
    if (s->part != MU_PART_ALL || !n) return;
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, n->key_pos,
                              "`fraction` of a block with its own `reader`");
    mu_diag_hint(b->diags, g,
                 "`validation: {fraction: 0.1}`, without a reader, is split off the training data.");
}

static void check_crop(mu_binder *b, const mu_node *block, const mu_source_spec *s) {
    if ((s->crop[0] > 0) == (s->crop[1] > 0)) return;
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, mu_node_find(block, "crop")->pos,
                              "`crop` is %" PRId64 " x %" PRId64 ": one side has no pixels", s->crop[0],
                              s->crop[1]);
    mu_diag_hint(b->diags, g, "Give both sides; to keep one whole, write the image's own size. 0 = no crop.");
}

mu_status mu_source_bind(mu_binder *b, const mu_node *block, mu_source_spec *out, mu_err *err) {
    size_t errors_before = b->diags->n_errors;
    const char *what = block && block->key ? mu_arena_printf(b->arena, "data `%s`", block->key) : "data";
    if (!what) return MU_FAIL_NOMEM(err, "the job");
    mu_source_spec s = {.block = block, .pos = block ? block->pos : MU_NOPOS};
    const char *word = mu_node_text(mu_node_find(block, "reader"));
    const mu_plugin *plugin = word ? mu_registry_find(&mu_readers, word) : NULL;
    if (plugin) {
        s.reader = (const mu_reader_class *)(const void *)plugin;       // plugin is its first member
        void *state = mu_arena_alloc(b->arena, plugin->state_size + 1);
        if (!state) return MU_FAIL_NOMEM(err, "a reader");
        s.reader_state = state;
        mu_bind_part parts[] = {{plugin->fields, state}, {mu_source_fields, &s}};
        mu_bind(b, block, s.pos, what, parts, MU_COUNT(parts), (const char *const[]){"reader"}, 1);
        read_mean(b, block, &s);
        check_crop(b, block, &s);
        check_part(b, block, &s);
    } else {
        const char *keys[MU_COUNT(mu_source_fields)];   // the missing or unknown word is reported in there
        size_t n = 0;
        for (const mu_field *f = mu_source_fields; f->key; f++) keys[n++] = f->key;
        (void)mu_bind_class(b, block, s.pos, what, &mu_readers, "reader", keys, n);
    }
    if (b->diags->no_memory) return MU_FAIL_NOMEM(err, "the job");
    if (b->diags->n_errors > errors_before || !s.reader)
        return MU_FAIL_AT(err, MU_EJOB, s.pos, "%s has problems", what);
    *out = s;
    return MU_OK;
}

static bool says(const mu_source_spec *s, const char *key) {
    return !mu_node_is_null(mu_node_find(s->block, key));
}

void mu_source_inherit(mu_binder *b, const mu_node *like, mu_source_spec *spec) {
    mu_diags unheard, *heard = b->diags;
    mu_source_spec other;
    mu_err own = {0};
    mu_diags_init(&unheard, b->arena);
    b->diags = &unheard;
    const mu_status st = mu_source_bind(b, like, &other, &own);
    b->diags = heard;
    if (st != MU_OK) return;
    if (!says(spec, "scale")) spec->scale = other.scale;
    if (!says(spec, "crop")) memcpy(spec->crop, other.crop, sizeof spec->crop);
    if (says(spec, "mean") || says(spec, "mean_file")) return;
    spec->mean = other.mean, spec->mean_auto = other.mean_auto;
    spec->mean_values = other.mean_values, spec->mean_file = other.mean_file;
    spec->mean_inherited = true;
}
