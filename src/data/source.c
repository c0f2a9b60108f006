// SPDX-License-Identifier: Apache-2.0
// source.c - the stream of batches; the contract is in source.h.
//
// Everything a batch holds is a function of its sample numbers, so the prefetch thread, the inline
// path and a resumed run give the same bytes. Two cursors: `next` belongs to the caller (start of the
// batch it gets next), `fill_at` to the thread that fills; they differ by what waits in the ring, and
// stopping just forgets the latter. Bad records lie in memory that children of this process share: several
// learners count each of them once, and max_bad is for all of them together.
#include "data/source.h"

#include "base/log.h"
#include "base/rng.h"
#include "data/mean.h"
#include "data/prefetch.h"
#include "data/shard.h"
#include "data/transform.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { RING_BYTES = 1 << 20, RING_MAX = 64, RING_MIN = 4, BAD_LOGGED = 5 };

typedef struct bad_records {    // shared with children that are forked later
    _Atomic int64_t n;
    _Atomic uint8_t bit[];      // (n_records) known bad ones
} bad_records;

struct mu_source {
    mu_source_spec  spec;
    mu_source_opts  o;
    mu_arena        arena;
    mu_reader      *reader;
    int64_t         n_records;                  // after limit, of the part; of all shards
    mu_own_records  own;                        // n > 0: of a shard
    int64_t        *part;                       // [n_records] the reader's numbers; NULL = the same
    int64_t         rows;                       // of one batch of this learner
    mu_data_field   field[MU_MAX_FIELDS];       // after transformation
    mu_transform    transform[MU_MAX_FIELDS];
    mu_mean         mean[MU_MAX_FIELDS];        // as given; transform.mean may be one expanded row of it
    mu_rng_key      shuffle_key;
    mu_streams      streams;                    // n > 0: records continue each other, their order is kept
    int             begin_field;                // that says where; -1 = none
    bool            warming;                    // the evaluation began before record 0
    int64_t         next, fill_at;              // sample numbers of global batch starts
    bad_records    *bad;
    size_t          bad_bytes;
    int64_t         max_bad;
    int             n_slots;
    mu_batch       *slot;
    void           *block;                      // memory of all slots
    mu_prefetch    *prefetch;
    int64_t         read_begin, read_end;       // rows of a batch that are read
    _Atomic int64_t n_read;                     // records; by who fills
    mu_source_lease lease;                      // NULL = one batch after the other
    void           *lease_ctx;
    mu_finished     finished;                   // before this process began
};

// ---- choosing and reading a record ----

static bool is_bad(const mu_source *s, int64_t i) {
    return atomic_load_explicit(&s->bad->bit[i >> 3], memory_order_relaxed) >> (i & 7) & 1;
}

// Counts a bad record and decides whether the stream goes on. The one too many is not noted, so that
// asking again gives the same answer.
static mu_status note_bad(mu_source *s, int64_t index, const mu_err *why, mu_err *err) {
    const uint8_t bit = (uint8_t)(1u << (index & 7));
    if (atomic_fetch_or(&s->bad->bit[index >> 3], bit) & bit) return MU_OK; // another learner was faster
    const int64_t n = atomic_fetch_add(&s->bad->n, 1) + 1;
    if (n > s->max_bad) {
        atomic_fetch_sub(&s->bad->n, 1);
        atomic_fetch_and(&s->bad->bit[index >> 3], (uint8_t)~bit);
        if (err && err->status == MU_OK) *err = *why;
        if (s->streams.n) {
            mu_err_note(err, "records continue each other here: without this one streams would be mixed up");
            mu_err_hint(err, "Repair the data, or take the record's stream out of it.");
        } else {
            mu_err_note(err, "bad record %" PRId64 " of this data set; max_bad allows %" PRId64, n,
                        s->max_bad);
            mu_err_hint(err, "Repair the data, or raise `max_bad` to train without these records.");
        }
        if (err && !err->pos.path) err->pos = s->spec.pos;
        return MU_EDATA;
    }
    if (n <= BAD_LOGGED) mu_warn("skipped a bad record: %s", why->msg);
    if (n == BAD_LOGGED) mu_warn("further bad records are skipped and counted without a line each");
    return MU_OK;
}

// Reads record `index`; *ok = false when it is bad, known or found now.
static mu_status try_record(mu_source *s, int64_t index, mu_record *rec, bool *ok, mu_err *err) {
    *ok = false;
    if (is_bad(s, index)) return MU_OK;
    mu_err why;
    why.status = MU_OK;         // a report fills in all the rest
    atomic_fetch_add_explicit(&s->n_read, 1, memory_order_relaxed);
    mu_status st = mu_reader_read(s->reader, mu_source_record(s, index), rec, &why);
    if (st == MU_OK) *ok = true;
    else if (st == MU_EDATA) return note_bad(s, index, &why, err);
    else return mu_err_pass(st, &why, err);
    return MU_OK;
}

static int64_t own_records(const mu_source *s) { return s->own.n ? s->own.n : s->n_records; }

static int64_t record_at(const mu_source *s, int64_t epoch, int64_t position) {
    if (s->o.phase != MU_TRAIN || !s->o.shuffle || s->streams.n) return position;
    return (int64_t)mu_rng_permute(s->shuffle_key, (uint64_t)epoch, (uint64_t)own_records(s),
                                   (uint64_t)position);
}

static mu_status read_sample(mu_source *s, int64_t sample, mu_record *rec, mu_err *err) {
    int64_t n = own_records(s), epoch = sample / n, position = sample % n;
    if (s->own.n) MU_TRY(mu_shard_place(&s->own, sample, &epoch, &position, err));
    for (int64_t i = 0; i < n; i++) {
        bool ok;
        MU_TRY(try_record(s, record_at(s, epoch, (position + i) % n), rec, &ok, err));
        if (ok) return MU_OK;
    }
    return MU_FAIL_AT(err, MU_EDATA, s->spec.pos, "none of the %" PRId64 " records is good", n);
}

// The record that an evaluation has at a place.
static int64_t record_of(const mu_source *s, int64_t sample) {
    return sample < 0 ? mu_streams_record_before(&s->streams, sample) : sample;
}

// ---- filling a batch ----

static mu_status no_answer(const mu_source *s, int64_t sample, mu_err *err) {
    return mu_err_hinted(MU_FAIL_AT(err, MU_EDATA, s->spec.pos,
                                    "record %" PRId64 " is bad: there is nothing to predict from", sample),
                         err, "The warning above says what is wrong with it; repair it or take it out.");
}

// Which samples a batch holds. False: nothing follows. Batches of the warm-up end at record 0, so the first
// of them may be short.
static bool choose_samples(mu_source *s, int64_t start, int64_t *first, int64_t *n) {
    *first = start + s->o.first_row;
    *n = s->rows;
    if (s->lease) return s->lease(s->lease_ctx, first, n) && *n <= s->rows;
    if (s->o.phase == MU_TRAIN) return true;
    const int64_t before = s->streams.warmup * s->streams.n;
    if (start < 0) {
        const int64_t end = *first + *n;
        if (*first < -before) *first = -before;
        *n = end > *first ? end - *first : 0;
        return true;
    }
    if (s->n_records - *first < *n) *n = s->n_records > *first ? s->n_records - *first : 0;
    return start < s->n_records;
}

// Does a sequence begin with the sample? The reader says so of its record; a stream that was warmed up goes
// on with its first one.
static int32_t begins(const mu_source *s, int64_t sample, int32_t says) {
    if (s->o.phase == MU_TRAIN) return says || mu_streams_reset(&s->streams, sample);
    if (!s->warming) return says;
    if (sample < 0) return sample < (1 - s->streams.warmup) * s->streams.n;
    return sample < s->streams.n ? 0 : says;
}

// Row `row` of the batch from the record of a sample. *ok false: an evaluation leaves it out.
static mu_status fill_row(mu_source *s, int64_t sample, mu_batch *b, int64_t row, bool *ok, mu_err *err) {
    mu_record rec = {{0}};
    *ok = true;
    if (s->o.phase == MU_TRAIN) MU_TRY(read_sample(s, sample, &rec, err));
    else MU_TRY(try_record(s, record_of(s, sample), &rec, ok, err));
    if (!*ok) return s->o.phase == MU_PREDICT ? no_answer(s, sample, err) : MU_OK;
    for (int f = 0; f < s->reader->n_fields; f++) {
        const size_t size = (size_t)mu_shape_count(&s->field[f].shape);
        mu_transform_apply(&s->transform[f], rec.field[f], sample, b->field[f].f + (size_t)row * size);
    }
    if (s->begin_field >= 0) {
        int32_t *begin = &b->field[s->begin_field].i[row];
        *begin = begins(s, sample, *begin);
    }
    return MU_OK;
}

static mu_status fill_batch(mu_source *s, int64_t start, mu_batch *b, bool in_thread, bool *end,
                            mu_err *err) {
    int64_t first, n;
    *end = !choose_samples(s, start, &first, &n);
    if (*end) return MU_OK;
    const int64_t begin = s->read_begin < n ? s->read_begin : n, stop = s->read_end < n ? s->read_end : n;
    int64_t row = begin;
    for (int64_t i = begin; i < stop; i++) {
        bool ok;
        if (in_thread && mu_prefetch_stopping(s->prefetch)) return MU_EINTERRUPTED;
        const int64_t sample = mu_finished_sample(&s->finished, first + i); // evaluation has none finished
        MU_TRY(fill_row(s, sample, b, row, &ok, err));
        row += ok; // an evaluation counts what it has seen, nothing twice
    }
    b->first = first;
    b->n = s->o.phase == MU_TRAIN ? n : row;
    b->begin = begin;
    b->end = row;
    return MU_OK;
}

static mu_status fill_slot(void *ctx, int slot, bool *end, mu_err *err) {
    mu_source *s = ctx;
    MU_TRY(fill_batch(s, s->fill_at, &s->slot[slot], true, end, err));
    s->fill_at += s->o.batch;
    return MU_OK;
}

mu_status mu_source_next(mu_source *s, const mu_batch **out, mu_err *err) {
    int slot = 0;
    if (mu_prefetch_running(s->prefetch)) {
        MU_TRY(mu_prefetch_next(s->prefetch, &slot, err));
    } else {
        bool end;
        MU_TRY(fill_batch(s, s->next, &s->slot[0], false, &end, err));
        if (end) slot = -1;
    }
    *out = slot < 0 ? NULL : &s->slot[slot];
    if (slot >= 0) s->next += s->o.batch;
    return MU_OK;
}

mu_status mu_source_seek(mu_source *s, int64_t sample, mu_err *err) {
    if (mu_prefetch_running(s->prefetch)) return MU_FAIL(err, MU_EUSAGE, "cannot seek while prefetching");
    if (sample < 0) return MU_FAIL(err, MU_EUSAGE, "cannot seek to sample %" PRId64, sample);
    s->next = sample;
    s->warming = false;
    return MU_OK;
}

// Batches end at record 0, so that none holds both what counts and what does not.
mu_status mu_source_seek_warmup(mu_source *s, mu_err *err) {
    MU_TRY(mu_source_seek(s, 0, err));
    const int64_t before = s->streams.warmup * s->streams.n, batch = s->o.batch;
    s->warming = before > 0;
    s->next = -((before + batch - 1) / batch) * batch;
    return MU_OK;
}

void mu_source_set_finished(mu_source *s, const mu_finished *f) { s->finished = *f; }
bool mu_source_in_order(const mu_source *s) { return s->streams.n > 0 || s->own.n > 0; }
void mu_source_set_step(mu_source *s, int64_t samples) {
    if (s->own.n) s->own.stripe.width = samples / s->own.stripe.of;
}

int64_t mu_source_begin(const mu_source *s, int64_t cursor) {
    const int64_t step = s->own.stripe.width * s->own.stripe.of;
    return step ? cursor / step * step : cursor;
}

void mu_source_set_lease(mu_source *s, mu_source_lease lease, void *ctx) {
    s->lease = lease;
    s->lease_ctx = ctx;
}

void mu_source_set_rows(mu_source *s, int64_t begin, int64_t end) {
    s->read_begin = begin;
    s->read_end = end;
}

bool mu_source_stopping(const mu_source *s) { return mu_prefetch_stopping(s->prefetch); }

mu_status mu_source_start(mu_source *s, mu_err *err) {
    s->fill_at = s->next;
    return mu_prefetch_start(s->prefetch, err);
}

void mu_source_stop(mu_source *s) { (void)mu_prefetch_stop(s->prefetch); }

// ---- opening: mean ----

static mu_srcpos place_of(const mu_source_spec *spec, const char *key) {
    const mu_node *n = mu_node_find(spec->block, key);
    return n ? n->pos : spec->pos;
}

static int first_float_field(const mu_source *s) {
    for (int f = 0; f < s->reader->n_fields; f++)
        if (s->reader->field[f].store != MU_STORE_I32) return f;
    return -1;
}

static size_t record_elements(const mu_source *s, int f) {
    return (size_t)mu_shape_count(&s->reader->field[f].shape);
}

// One pass over the records. Bad ones are noted as they will be in the stream.
static mu_status mean_of_data(mu_source *s, int f, mu_mean *out, mu_err *err) {
    mu_mean_sum m = {.n = record_elements(s, f)};
    m.sum = mu_alloc_array(m.n, sizeof *m.sum, "data/mean");
    float *v = mu_arena_array(&s->arena, m.n, sizeof *v);
    mu_status st = m.sum && v ? MU_OK : MU_FAIL_NOMEM(err, "the mean");
    for (int64_t i = 0; st == MU_OK && i < s->n_records; i++) {
        mu_record rec = {{0}};
        bool ok;
        st = try_record(s, i, &rec, &ok, err);
        if (st == MU_OK && ok) mu_mean_add(&m, rec.field[f], s->reader->field[f].store);
    }
    if (st == MU_OK) {
        mu_mean_finish(&m, v);
        *out = (mu_mean){v, m.n};
    }
    mu_free(m.sum);
    return st;
}

// The training data's mean, v with n values, as one of this source's own.
static mu_status known_mean(mu_source *s, int f, const float *v, size_t n, mu_mean *out, mu_err *err) {
    if (!v)
        return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, "mean"), "the training data has no mean to take");
    if (n != (size_t)s->transform[f].c && n != record_elements(s, f))
        return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, "mean"),
                          "the training mean has %zu values, a record here %zu", n, record_elements(s, f));
    float *copy = mu_arena_array(&s->arena, n, sizeof *copy);
    if (!copy) return MU_FAIL_NOMEM(err, "the mean");
    memcpy(copy, v, n * sizeof *copy);
    *out = (mu_mean){copy, n};
    return MU_OK;
}

static mu_status auto_mean(mu_source *s, int f, mu_mean *out, mu_err *err) {
    const mu_inputs *in = s->o.inputs && s->o.inputs->mean_field == f ? s->o.inputs : NULL;
    if (in) return known_mean(s, f, in->mean, in->n_mean, out, err);
    if (!s->o.mean_of) return mean_of_data(s, f, out, err);
    size_t n = 0;
    const float *v = mu_source_mean(s->o.mean_of, f, &n);
    return known_mean(s, f, v, n, out, err);
}

static mu_status set_mean(mu_source *s, int f, mu_err *err) {
    const mu_source_spec *spec = &s->spec;
    mu_transform *t = &s->transform[f];
    mu_mean *m = &s->mean[f];
    size_t c = (size_t)t->c, w = (size_t)t->w;
    const bool known = spec->mean_inherited && s->o.inputs && s->o.inputs->mean_field == f;
    if (known && (spec->mean_auto || (spec->mean_file && spec->mean_file[0])))
        MU_TRY(known_mean(s, f, s->o.inputs->mean, s->o.inputs->n_mean, m, err));
    else if (spec->mean_file && spec->mean_file[0])
        MU_TRY(mu_mean_from_file(&s->arena, spec->mean_file, c, record_elements(s, f), m, err));
    else if (spec->mean_auto) MU_TRY(auto_mean(s, f, m, err));
    else if (spec->mean_values.n)
        MU_TRY(mu_mean_from_values(&s->arena, &spec->mean_values, c, place_of(spec, "mean"), m, err));
    if (!m->v) return MU_OK;
    t->mean = m->v;
    t->mean_stride = w * c;
    if (m->n != c || t->h * t->w == 1) return MU_OK;
    float *row = mu_arena_array(&s->arena, w * c, sizeof *row);
    if (!row) return MU_FAIL_NOMEM(err, "the mean");
    for (size_t i = 0; i < w * c; i++) row[i] = m->v[i % c];
    t->mean = row;
    t->mean_stride = 0;
    return MU_OK;
}

// ---- opening: fields and memory ----

static mu_status check_crop(const mu_source *s, const mu_data_field *d, mu_err *err) {
    const int64_t *crop = s->spec.crop;
    if (crop[0] <= d->shape.d[1] && crop[1] <= d->shape.d[2]) return MU_OK;
    return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, "crop"),
                      "`crop` %" PRId64 " x %" PRId64 " is larger than the images, %" PRId64 " x %" PRId64,
                      crop[0], crop[1], d->shape.d[1], d->shape.d[2]);
}

static mu_status set_field(mu_source *s, int f, mu_err *err) {
    const mu_data_field *in = &s->reader->field[f];
    mu_data_field *d = &s->field[f];
    mu_transform *t = &s->transform[f];
    bool train = s->o.phase == MU_TRAIN;
    *d = *in;
    *t = (mu_transform){.store = in->store, .h = 1, .w = 1, .c = mu_shape_count(&in->shape),
                        .scale = s->spec.scale, .key = mu_rng_key_make(s->o.seed, "augment")};
    d->store = in->store == MU_STORE_I32 ? MU_STORE_I32 : MU_STORE_F32;
    if (in->is_image) {
        t->c = in->shape.d[0], t->h = in->shape.d[1], t->w = in->shape.d[2];
        t->random_crop = train;
        t->mirror = train && s->spec.mirror;
        t->shift_h = train ? s->spec.shift[0] : 0, t->shift_w = train ? s->spec.shift[1] : 0;
        if (s->spec.crop[0] > 0 && s->spec.crop[1] > 0) {
            MU_TRY(check_crop(s, in, err));
            d->shape.d[1] = s->spec.crop[0], d->shape.d[2] = s->spec.crop[1];
        }
    }
    t->out_h = in->is_image ? d->shape.d[1] : 1;
    t->out_w = in->is_image ? d->shape.d[2] : 1;
    return f == first_float_field(s) ? set_mean(s, f, err) : MU_OK;
}

// Bytes of one slot; fields start on cache lines. False on overflow.
static bool slot_bytes(const mu_source *s, size_t offset[MU_MAX_FIELDS], size_t *out) {
    size_t at = 0, n;
    for (int f = 0; f < s->reader->n_fields; f++) {
        offset[f] = at;
        if (__builtin_mul_overflow(mu_data_field_bytes(&s->field[f]), (size_t)s->rows, &n)) return false;
        if (__builtin_add_overflow(n, MU_CACHE_LINE - 1u, &n)) return false;
        if (__builtin_add_overflow(at, n & ~(size_t)(MU_CACHE_LINE - 1), &at)) return false;
    }
    *out = at;
    return true;
}

static mu_status make_slots(mu_source *s, mu_err *err) {
    size_t offset[MU_MAX_FIELDS], bytes, total;
    if (!slot_bytes(s, offset, &bytes)) return MU_FAIL_NOMEM(err, "a batch of this size");
    size_t n = RING_BYTES / (bytes ? bytes : 1);
    s->n_slots = n > RING_MAX ? RING_MAX : n < RING_MIN ? RING_MIN : (int)n;
    if (__builtin_mul_overflow(bytes, (size_t)s->n_slots, &total)) return MU_FAIL_NOMEM(err, "the batches");
    s->slot = mu_arena_array(&s->arena, (size_t)s->n_slots, sizeof *s->slot);
    s->block = mu_alloc_block(total, "data/batches");
    if (!s->slot || !s->block) return MU_FAIL_NOMEM(err, "the batches");
    for (int i = 0; i < s->n_slots; i++)
        for (int f = 0; f < s->reader->n_fields; f++) {
            mu_tensor *t = &s->slot[i].field[f];
            t->data = (char *)s->block + (size_t)i * bytes + offset[f];
            t->shape = mu_shape_prepend(s->rows, &s->field[f].shape);
            t->dtype = s->field[f].store == MU_STORE_I32 ? MU_I32 : MU_F32;
        }
    return mu_prefetch_create(s->n_slots, fill_slot, s, &s->prefetch, err);
}

static mu_status check_opts(const mu_source_opts *o, mu_err *err) {
    bool rows_ok = o->first_row >= 0 && o->n_rows >= 0 && o->first_row <= o->batch
                   && o->n_rows <= o->batch - o->first_row;
    if (o->batch >= 1 && rows_ok) return MU_OK;
    return MU_FAIL(err, MU_EUSAGE, "rows %" PRId64 "+%" PRId64 " of a batch of %" PRId64, o->first_row,
                   o->n_rows, o->batch);
}

// Records that continue each other: their order is kept, and all streams end together.
static void keep_streams(mu_source *s, const mu_data_field *d, int field) {
    const int64_t streams = d->streams;
    if (streams <= 0) return;
    s->streams.n = streams;
    if (s->n_records > streams) s->n_records -= s->n_records % streams;
    s->streams.per_stream = s->n_records / streams;
    if (!d->is_begin) return;
    s->begin_field = field;
    s->streams.warmup = d->one_text && s->o.phase != MU_TRAIN ? s->spec.warmup : 0;
    if (s->streams.warmup > s->streams.per_stream) s->streams.warmup = s->streams.per_stream;
}

static mu_status set_streams(mu_source *s, mu_err *err) {
    static const char *const keys[] = {"reset", "reset_every", "warmup"};
    s->begin_field = -1;
    s->streams = (mu_streams){.reset = (mu_reset)s->spec.reset, .every = s->spec.reset_every,
                              .key = mu_rng_key_make(s->o.seed, "reset")};
    for (int f = 0; f < s->reader->n_fields; f++) keep_streams(s, &s->reader->field[f], f);
    for (size_t i = 0; !s->streams.n && i < MU_COUNT(keys); i++)
        if (mu_node_find(s->spec.block, keys[i]))
            return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, keys[i]),
                              "`%s` needs records that continue each other, and here they do not", keys[i]);
    if (s->streams.n && s->spec.max_bad > 0)
        return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, "max_bad"),
                          "`max_bad` must be 0 here: the records continue each other, none can be left out");
    return MU_OK;
}

static mu_status make_bad_records(mu_source *s, mu_err *err) {
    s->bad_bytes = sizeof *s->bad + (size_t)(s->n_records / 8 + 1);
    void *p = mmap(NULL, s->bad_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return MU_FAIL_NOMEM(err, "the list of bad records");
    s->bad = p;
    return MU_OK;
}

static mu_status set_part(mu_source *s, mu_err *err) {
    const mu_source_spec *spec = &s->spec;
    if (spec->part == MU_PART_ALL) return MU_OK;
    if (s->streams.n)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, place_of(spec, "part"),
                                        "the records continue each other: none can be held back"),
                             err, "Give validation data of its own.");
    return mu_split_choose(s->reader, s->n_records, (mu_split_part)spec->part, (double)spec->fraction,
                           (uint64_t)spec->split_seed, &s->arena, &s->part, &s->n_records, err);
}

static mu_status set_up(mu_source *s, mu_err *err) {
    const mu_inputs *in = s->o.inputs;
    const bool same = in && !strcmp(in->reader, s->spec.reader->name);
    const mu_known known = {same ? in->learnt : NULL, in ? in->labels : NULL, in ? in->n_labels : 0,
                            in ? in->reader : NULL, in ? in->learnt : NULL};
    MU_TRY(mu_reader_open(s->spec.reader, s->spec.reader_state, s->spec.pos, in ? &known : NULL, &s->reader,
                          err));
    MU_TRY(mu_shard_open(&s->spec, &s->o, s->reader, &s->own, err));
    s->n_records = s->own.n ? s->reader->shard.records : s->reader->n_records;
    if (!s->n_records && s->o.phase != MU_PREDICT)
        return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, "reader"),
                          "reader `%s` has no records of its own: it serves only `data.predict`",
                          s->spec.reader->name);
    if (s->spec.limit > 0 && s->spec.limit < s->n_records) s->n_records = s->spec.limit;
    MU_TRY(set_streams(s, err));
    MU_TRY(set_part(s, err));
    const int64_t thousandth = own_records(s) / 1000;
    s->max_bad = s->spec.max_bad >= 0 ? s->spec.max_bad : thousandth > 10 ? thousandth : 10;
    if (s->streams.n) s->max_bad = 0;
    MU_TRY(make_bad_records(s, err));
    bool has_image = false;
    for (int f = 0; f < s->reader->n_fields; f++) has_image |= s->reader->field[f].is_image;
    const char *of_images = s->spec.mirror ? "mirror" : s->spec.crop[0] > 0 ? "crop" :
                            s->spec.shift[0] + s->spec.shift[1] > 0 ? "shift" : NULL;
    if (!has_image && of_images)
        return MU_FAIL_AT(err, MU_EJOB, place_of(&s->spec, of_images),
                          "`%s` needs images, and this reader gives none", of_images);
    for (int f = 0; f < s->reader->n_fields; f++) MU_TRY(set_field(s, f, err));
    return make_slots(s, err);
}

mu_status mu_source_open_spec(const mu_source_spec *spec, const mu_source_opts *o, mu_source **out,
                              mu_err *err) {
    MU_TRY(check_opts(o, err));
    mu_source *s = mu_alloc(sizeof *s, "data/source");
    if (!s) return MU_FAIL_NOMEM(err, "a data source");
    s->spec = *spec;
    s->o = *o;
    s->rows = o->n_rows ? o->n_rows : o->batch - o->first_row;
    s->read_end = s->rows;
    s->shuffle_key = mu_rng_key_make(o->seed, "shuffle");
    mu_arena_init(&s->arena, "data/source");
    mu_status st = set_up(s, err);
    s->o.mean_of = NULL;        // were borrowed for opening only
    s->o.inputs = NULL;
    if (st != MU_OK) {
        mu_source_close(s);
        return st;
    }
    *out = s;
    return MU_OK;
}

mu_status mu_source_open(mu_binder *b, const mu_node *block, const mu_source_opts *o, mu_source **out,
                         mu_err *err) {
    mu_source_spec spec;
    MU_TRY(mu_source_bind(b, block, &spec, err));
    if (o->like && o->like != block) mu_source_inherit(b, o->like, &spec);
    return mu_source_open_spec(&spec, o, out, err);
}

void mu_source_close(mu_source *s) {
    if (!s || !mu_prefetch_destroy(s->prefetch)) return; // a stuck thread still uses the rest
    mu_reader_close(s->reader);
    if (s->bad) munmap(s->bad, s->bad_bytes);
    mu_free(s->block);
    mu_arena_fini(&s->arena);
    mu_free(s);
}

// ---- asking ----

const mu_reader *mu_source_reader(const mu_source *s) { return s->reader; }
int mu_source_n_fields(const mu_source *s) { return s->reader->n_fields; }
const mu_data_field *mu_source_field(const mu_source *s, int i) { return &s->field[i]; }
int64_t mu_source_n_records(const mu_source *s) { return s->n_records; }
int64_t mu_source_record(const mu_source *s, int64_t i) { return s->part ? s->part[i] : i; }

void mu_source_transform(const mu_source *s, int i, const float *record, void *dst) {
    mu_transform t = s->transform[i];
    if (t.store == MU_STORE_I32) {
        size_t n = record_elements(s, i);
        for (size_t k = 0; k < n; k++) ((int32_t *)dst)[k] = (int32_t)lrintf(record[k]);
        return;
    }
    t.store = MU_STORE_F32;
    t.random_crop = t.mirror = false;
    mu_transform_apply(&t, record, 0, dst);
}

const float *mu_source_mean(const mu_source *s, int i, size_t *n) {
    *n = s->mean[i].n;
    return s->mean[i].v;
}

mu_source_stats mu_source_get_stats(const mu_source *s) {
    return (mu_source_stats){.n_bad = atomic_load(&s->bad->n),
                             .n_read = atomic_load_explicit(&s->n_read, memory_order_relaxed),
                             .wait_s = mu_prefetch_wait_s(s->prefetch)};
}
