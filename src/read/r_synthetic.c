// SPDX-License-Identifier: Apache-2.0
// r_synthetic.c - data made up from (seed, index): for timing and for tests, no file needed.
//
// The task can be learned: a class is a coarse pattern (GRID x GRID cells per channel, or one level
// per feature) and a record is its class's pattern plus noise of its own. Record i is a pure function
// of (seed, i), so order, sharding and resuming can be checked against it.
//
// With `vocab` records are pieces of texts: some words (each about four times) that repeat for ever, from
// another place on in every text, in which a share `noise` of the words is replaced at random; the label of
// a place is the next word without noise. With `streams` record i continues record i - streams, else every
// record is a text.
// `class` tells in which of `classes` equal parts of the words the record begins.
#include "base/rng.h"
#include "read/reader.h"


enum { GRID = 8, MAX_CHANNELS = 64, MAX_PERIOD = 1024 };

struct synthetic {
    mu_ints  shape;
    int64_t  classes, records, seed, vocab, streams;
    float    noise;
    // private
    mu_rng_key pattern_key, label_key, noise_key;
    size_t     n;               // elements of one record
    int64_t    c, h, w;         // of an image
    uint8_t   *pixels;          // one record, HWC
    uint32_t  *random;          // its noise words, four elements each
    uint8_t   *pattern;         // the class's cells (GRID, GRID, c), or its feature levels (n)
    int32_t    label;
    int32_t   *words, *next, begin;     // of a piece of text
    int32_t    text[MAX_PERIOD];
    int64_t    period;                  // of the text, in words
};

static const mu_field fields[] = {
    MU_FIELD(struct synthetic, shape, MU_INTS, "[3, 32, 32]", "[1,65536]",
             "[channels, height, width] or [features]"),
    MU_FIELD(struct synthetic, classes, MU_INT, "10", "[1,1M]", "number of classes"),
    MU_FIELD(struct synthetic, records, MU_INT, "10000", "[1,)", "number of records"),
    MU_FIELD(struct synthetic, seed, MU_INT, "0", NULL, "another seed is another task"),
    MU_FIELD(struct synthetic, noise, MU_FLOAT, "0.5", "[0,1]",
             "share of noise in a pixel, or of replaced words; 0 shows the bare pattern"),
    MU_FIELD(struct synthetic, vocab, MU_INT, "0", "[0,1M]",
             "records are texts of words below it, `shape` is [words of a record]; 0 = images or features"),
    MU_FIELD(struct synthetic, streams, MU_INT, "0", "[0,1M]",
             "texts read side by side, each record continues one; 0 = every record is a text of its own"),
    {0},
};

static mu_status set_shape(mu_reader *r, struct synthetic *s, mu_err *err) {
    mu_data_field f = {.name = "features", .store = MU_STORE_U8};
    if (s->shape.n == 1) {
        f.shape = MU_SHAPE(s->shape.v[0]);
    } else if (s->shape.n == 3) {
        s->c = s->shape.v[0], s->h = s->shape.v[1], s->w = s->shape.v[2];
        f = (mu_data_field){.name = "image", .store = MU_STORE_U8, .is_image = true,
                            .shape = MU_SHAPE(s->c, s->h, s->w)};
    } else {
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`shape` has %zu numbers, not 1 or 3", s->shape.n);
    }
    s->n = mu_data_field_bytes(&f);
    if (!s->n || s->n > (size_t)1 << 28 || s->c > MAX_CHANNELS)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`shape` is too large for a made-up record");
    r->field[r->n_fields++] = f;
    return MU_OK;
}

// ---- texts ----

// A number below n from 32 random bits.
static int32_t below(uint32_t random, int64_t n) { return (int32_t)(((uint64_t)random * (uint64_t)n) >> 32); }

static mu_status open_text(mu_reader *r, struct synthetic *s, mu_err *err) {
    if (s->shape.n != 1 || s->shape.v[0] < 1)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "with `vocab`, `shape` is one number: the words of a record");
    const mu_shape shape = MU_SHAPE(s->shape.v[0]);
    s->n = (size_t)s->shape.v[0];
    s->words = mu_arena_array(r->arena, s->n, sizeof *s->words);
    s->next = mu_arena_array(r->arena, s->n, sizeof *s->next);
    s->random = mu_arena_array(r->arena, 2 * s->n, sizeof *s->random);
    if (!s->words || !s->next || !s->random) return MU_FAIL_NOMEM(err, "one made-up record");
    uint32_t random[MAX_PERIOD];
    mu_rng_fill_u32(s->pattern_key, 0, 0, random, MAX_PERIOD);
    for (int k = 0; k < MAX_PERIOD; k++) s->text[k] = below(random[k], s->vocab);
    s->period = 4 * s->vocab < MAX_PERIOD ? 4 * s->vocab : MAX_PERIOD;
    r->n_records = s->records;
    r->field[r->n_fields++] = (mu_data_field){
        .name = "words", .store = MU_STORE_I32, .shape = shape, .n_classes = s->vocab, .streams = s->streams};
    r->field[r->n_fields++] =
        (mu_data_field){.name = "label", .store = MU_STORE_I32, .shape = shape, .n_classes = s->vocab};
    r->field[r->n_fields++] =
        (mu_data_field){.name = "begin", .store = MU_STORE_I32, .n_classes = 2, .streams = s->streams,
                        .is_begin = s->streams > 0};
    r->field[r->n_fields] = mu_label_field(s->classes);
    r->field[r->n_fields++].name = "class";
    return MU_OK;
}

static void read_text(struct synthetic *s, int64_t index, mu_record *out) {
    const int64_t text = s->streams ? index % s->streams : index, piece = s->streams ? index / s->streams : 0;
    uint32_t start[4];
    mu_rng_block(s->label_key, 0, (uint64_t)text, start);
    const int64_t at = below(start[0], s->period) + piece * (int64_t)s->n;
    mu_rng_fill_u32(s->noise_key, (uint64_t)index, 0, s->random, 2 * s->n);
    for (size_t k = 0; k < s->n; k++) {
        const bool spoilt = mu_rng_to_uniform(s->random[2 * k]) < s->noise;
        s->words[k] = spoilt ? below(s->random[2 * k + 1], s->vocab) : s->text[(at + (int64_t)k) % s->period];
        s->next[k] = s->text[(at + (int64_t)k + 1) % s->period];
    }
    s->begin = piece == 0;
    out->field[0] = s->words;
    out->field[1] = s->next;
    out->field[2] = &s->begin;
    s->label = (int32_t)(at % s->period * s->classes / s->period);
    out->field[3] = &s->label;
}

// ---- images and features ----

static mu_status open_synthetic(mu_reader *r, mu_err *err) {
    struct synthetic *s = r->state;
    s->pattern_key = mu_rng_key_make((uint64_t)s->seed, "synthetic/pattern");
    s->label_key = mu_rng_key_make((uint64_t)s->seed, "synthetic/label");
    s->noise_key = mu_rng_key_make((uint64_t)s->seed, "synthetic/noise");
    if (s->vocab) return open_text(r, s, err);
    MU_TRY(set_shape(r, s, err));
    size_t n_words = (s->n + 3) / 4, cells = s->c ? (size_t)(GRID * GRID * s->c) : s->n;
    s->pixels = mu_arena_alloc(r->arena, n_words * 4);
    s->random = mu_arena_array(r->arena, n_words, sizeof *s->random);
    s->pattern = mu_arena_alloc(r->arena, (cells + 3) / 4 * 4);
    if (!s->pixels || !s->random || !s->pattern) return MU_FAIL_NOMEM(err, "one made-up record");
    r->n_records = s->records;
    r->field[r->n_fields++] = mu_label_field(s->classes);
    return MU_OK;
}

// The class's cells stretched over the image, written to pixels.
static void draw_image(struct synthetic *s) {
    uint8_t *to = s->pixels;
    for (int64_t y = 0; y < s->h; y++) {
        const uint8_t *row = s->pattern + y * GRID / s->h * GRID * s->c;
        for (int64_t x = 0; x < s->w; x++) {
            const uint8_t *cell = row + x * GRID / s->w * s->c;
            for (int64_t c = 0; c < s->c; c++) *to++ = cell[c];
        }
    }
}

static mu_status read_synthetic(mu_reader *r, int64_t index, mu_record *out, MU_UNUSED mu_err *err) {
    struct synthetic *s = r->state;
    if (s->vocab) {
        read_text(s, index, out);
        return MU_OK;
    }
    uint32_t u[4];
    mu_rng_block(s->label_key, 0, (uint64_t)index, u);
    s->label = (int32_t)(((uint64_t)u[0] * (uint64_t)s->classes) >> 32);
    size_t cells = s->c ? (size_t)(GRID * GRID * s->c) : s->n;
    uint8_t *base = s->c ? s->pattern : s->pixels;
    mu_rng_fill_u32(s->pattern_key, (uint64_t)s->label, 0, (uint32_t *)(void *)base, (cells + 3) / 4);
    if (s->c) draw_image(s);
    mu_rng_fill_u32(s->noise_key, (uint64_t)index, 0, s->random, (s->n + 3) / 4);
    const uint8_t *restrict noise = (const uint8_t *)s->random;
    uint8_t *restrict px = s->pixels;
    unsigned share = (unsigned)(s->noise * 256.0f + 0.5f);
    for (size_t i = 0; i < s->n; i++)
        px[i] = (uint8_t)((px[i] * (256u - share) + noise[i] * share) >> 8);
    out->field[0] = s->pixels;
    out->field[1] = &s->label;
    return MU_OK;
}

static void close_synthetic(mu_reader *r) { (void)r; }  // everything is in the arena

const mu_reader_class mu_reader_synthetic = {
    .name = "synthetic",
    .help = "made-up records that can be learned; fields: image (or features, or words, begin, class), label",
    .fields = fields, .state_size = sizeof(struct synthetic),
    .open = open_synthetic, .read = read_synthetic, .close = close_synthetic,
};
