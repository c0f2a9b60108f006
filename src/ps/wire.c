// SPDX-License-Identifier: Apache-2.0
// wire.c - frames into bytes and back; wire.h has the picture, wire_types.c the tables.
//
// What is packed goes through the same checks as what is unpacked, so both sides agree on what is legal.
#include "ps/wire.h"

#include "comm/transport.h"
#include "ps/wire_inner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers and arrays travel as they lie in memory");

static const char magic[4] = {'M', 'U', 'W', 'F'};
enum { AT_VERSION = 4, AT_TYPE = 6, AT_BYTES = 8, AT_LAYOUT = 16, AT_CHECK = 24, CHECKED = 24 };

// ---- numbers -----------------------------------------------------------------------------------

static int64_t value_of(const mu_wire_field *f, const void *in) {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    const char *at = (const char *)in + f->at;
    if (f->kind == MU_WIRE_I32) return memcpy(&i32, at, 4), i32;
    if (f->kind == MU_WIRE_U32) return memcpy(&u32, at, 4), u32;
    return memcpy(&i64, at, 8), i64;
}

// Printable bytes, a NUL, and nothing but zeroes behind it.
static bool is_text(const char *t, size_t size) {
    const size_t n = strnlen(t, size);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)t[i] < ' ' || t[i] == 0x7f) return false;
    for (size_t i = n; i < size; i++)
        if (t[i]) return false;
    return n < size;
}

static mu_status check_number(const mu_wire_shape *s, const mu_wire_class *c, const mu_wire_field *f,
                              const void *in, mu_status status, mu_err *err) {
    const int64_t most = mu_wire_most(s, f);
    const char *at = (const char *)in + f->at;
    float real;
    switch (f->kind) {
    case MU_WIRE_BITS:
        return MU_OK;
    case MU_WIRE_TEXT:
        return is_text(at, f->size) ? MU_OK : MU_FAIL(err, status, "%s: `%s` is no text", c->name, f->name);
    case MU_WIRE_F32:
        memcpy(&real, at, sizeof real);
        if (real >= (float)f->lo && real <= (float)most) return MU_OK; // not of NaN
        return MU_FAIL(err, status, "%s: `%s` is %g, not within %lld to %lld", c->name, f->name, (double)real,
                       (long long)f->lo, (long long)most);
    default:
        if (value_of(f, in) >= f->lo && value_of(f, in) <= most) return MU_OK;
        return MU_FAIL(err, status, "%s: `%s` is %lld, not within %lld to %lld", c->name, f->name,
                       (long long)value_of(f, in), (long long)f->lo, (long long)most);
    }
}

static mu_status check_numbers(const mu_wire_shape *s, const mu_wire_class *c, const void *in,
                               mu_status status, mu_err *err) {
    for (int i = 0; i < c->n_fields; i++) MU_TRY(check_number(s, c, &c->field[i], in, status, err));
    return MU_OK;
}

static void put_numbers(const mu_wire_class *c, const void *in, unsigned char *to) {
    memset(to, 0, mu_wire_numbers(c));
    for (int i = 0; i < c->n_fields; i++) {
        const mu_wire_field *f = &c->field[i];
        memcpy(to, (const char *)in + f->at, mu_wire_width(f));
        to += mu_wire_width(f);
    }
}

// False: what fills them up is not zero.
static bool get_numbers(const mu_wire_class *c, const unsigned char *from, void *out) {
    const unsigned char *end = from + mu_wire_numbers(c);
    bool zero = true;
    for (int i = 0; i < c->n_fields; i++) {
        const mu_wire_field *f = &c->field[i];
        memcpy((char *)out + f->at, from, mu_wire_width(f));
        from += mu_wire_width(f);
    }
    for (; from < end; from++) zero &= !*from;
    return zero;
}

static mu_status read_numbers(const mu_wire_shape *s, const mu_wire_class *c, const void *from, void *out,
                              mu_err *err) {
    if (!get_numbers(c, from, out))
        return MU_FAIL(err, MU_EDATA, "%s: bytes that are not used are not zero", c->name);
    return check_numbers(s, c, out, MU_EDATA, err);
}

static mu_status check_all(const mu_wire_shape *s, const mu_wire_class *c, const mu_wire *w, mu_status status,
                           mu_err *err) {
    MU_TRY(check_numbers(s, c, &w->hello, status, err));
    const char *wrong = c->wrong ? c->wrong(s, w) : NULL;
    return wrong ? MU_FAIL(err, status, "%s: %s", c->name, wrong) : MU_OK;
}

// ---- frames ------------------------------------------------------------------------------------

uint64_t mu_wire_layout_hash(const mu_wire_shape *s) {
    const int64_t words[] = {MU_WIRE_VERSION, s->count, s->blocks, s->workers, s->channels, s->half};
    uint64_t h = XXH64(words, sizeof words, 0);
    for (int i = 0; i < s->workers; i++) {
        const uint64_t share = mu_message_layout_hash(s->share[i].params, s->share[i].message);
        h = XXH64(&share, sizeof share, h);
    }
    return s->channels ? XXH64(s->channel_bytes, (size_t)s->channels * sizeof *s->channel_bytes, h) : h;
}

// Spans and bytes that travel of a message at most.
static int most_spans(const mu_wire_share *s, size_t *bytes) {
    static const int spans[] = {
        [MU_GRAD_DENSE] = 1, [MU_GRAD_ROWS] = 2, [MU_GRAD_FACTORS] = 2, [MU_GRAD_GATHERED] = 3};
    const mu_message_layout *l = s->message;
    int n = 0;
    *bytes = 0;
    for (int i = 0; i < l->n; i++) {
        if (s->apart && s->apart[i]) continue;
        n += spans[l->part[i].form];
        *bytes += l->part[i].bytes;
    }
    return n;
}

mu_status mu_wire_frame_init(const mu_wire_shape *s, mu_wire_frame *out, mu_err *err) {
    size_t numbers = 0, table = MU_WIRE_IDS * mu_wire_numbers(&mu_wire_part_class);
    mu_wire_frame f = {.cap = 2};
    for (uint32_t t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t++) {
        const size_t bytes = mu_wire_numbers(mu_wire_class_of(t));
        if (bytes > numbers) numbers = bytes;
    }
    for (int i = 0; i < s->workers; i++) {
        const mu_message_layout *l = s->share[i].message;
        const size_t uses = (size_t)l->n * mu_wire_numbers(&mu_wire_use_class);
        size_t bytes;
        const int parts = 1 + most_spans(&s->share[i], &bytes);
        if (uses > table) table = uses;
        if (parts > f.cap) f.cap = parts;
        if (parts > MU_TRANSPORT_PARTS || bytes + uses > MU_WIRE_MOST - MU_WIRE_HEAD - numbers)
            return MU_FAIL(err, MU_EUNSUPPORTED,
                           "a gradient of %d parameters and %zu bytes does not fit into a frame", l->n,
                           bytes);
    }
    f.head_room = MU_WIRE_HEAD + numbers + table;
    f.head = mu_alloc(f.head_room, "frame");
    f.part = mu_alloc_array((size_t)f.cap, sizeof *f.part, "frame");
    if (!f.head || !f.part) {
        mu_wire_frame_fini(&f);
        return MU_FAIL_NOMEM(err, "frames to other nodes");
    }
    *out = f;
    return MU_OK;
}

void mu_wire_frame_fini(mu_wire_frame *f) {
    mu_free(f->head);
    mu_free(f->part);
    *f = (mu_wire_frame){0};
}

// ---- packing -----------------------------------------------------------------------------------

// Grows the head of the frame; it has room for that.
static unsigned char *more_head(mu_wire_frame *f, size_t bytes) {
    unsigned char *at = f->head + f->part[0].iov_len;
    f->part[0].iov_len += bytes;
    return at;
}

static void add_array(mu_wire_frame *f, const void *data, size_t bytes) {
    if (bytes) f->part[f->n++] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
}

// Where the part of a parameter has what travels in a PUSH.
static int spans_of(const mu_wire_share *share, int i, const mu_message_use *use,
                    mu_message_span span[MU_MESSAGE_SPANS]) {
    if (share->apart && share->apart[i]) return 0;
    return mu_message_spans(share->message, i, share->params->list[i], use, span);
}

static mu_status pack_push(const mu_wire_shape *s, const mu_wire_push *p, mu_wire_frame *f) {
    const mu_wire_share *share = &s->share[p->worker];
    for (int i = 0; i < p->params; i++) {
        const mu_message_use use = mu_message_used(share->message, p->slot, i);
        mu_message_span span[MU_MESSAGE_SPANS];
        const int n = spans_of(share, i, &use, span);
        put_numbers(&mu_wire_use_class, &use, more_head(f, mu_wire_numbers(&mu_wire_use_class)));
        for (int k = 0; k < n; k++) add_array(f, p->slot + span[k].offset, span[k].bytes);
    }
    return MU_OK;
}

static mu_status wrong_part(const mu_wire_sum *sum, const mu_wire_part *p, mu_status status, mu_err *err) {
    return p->id.version <= sum->version ? MU_OK
                                         : MU_FAIL(err, status, "SUM: a gradient of later weights than all");
}

static mu_status pack_sum(const mu_wire_shape *s, const mu_wire_sum *sum, mu_wire_frame *f, mu_err *err) {
    for (int i = 0; i < sum->parts; i++) {
        MU_TRY(check_numbers(s, &mu_wire_part_class, &sum->part[i], MU_EUSAGE, err));
        MU_TRY(wrong_part(sum, &sum->part[i], MU_EUSAGE, err));
        put_numbers(&mu_wire_part_class, &sum->part[i], more_head(f, mu_wire_numbers(&mu_wire_part_class)));
    }
    return MU_OK;
}

static size_t floats_bytes(int64_t begin, int64_t end) { return (size_t)(end - begin) * sizeof(float); }

// The array of the types that have one, and its bytes.
static size_t array_of(const mu_wire_shape *s, const mu_wire *w, const void **data) {
    switch (w->type) {
    case MU_WIRE_SUM:
        *data = w->sum.floats;
        return (size_t)(w->sum.end - w->sum.begin) * mu_half_width(s->half);
    case MU_WIRE_WEIGHTS:
        *data = w->weights.floats;
        return floats_bytes(w->weights.begin, w->weights.end);
    case MU_WIRE_EXCHANGE:
        *data = w->exchange.floats;
        return floats_bytes(w->exchange.begin, w->exchange.end);
    case MU_WIRE_BRIDGE:
        *data = w->bridge.message;
        return (size_t)s->channel_bytes[w->bridge.channel];
    case MU_WIRE_START:
        *data = w->start.range;
        return (size_t)w->start.ranges * sizeof(mu_range);
    case MU_WIRE_POINT:
        *data = w->point.range;
        return (size_t)w->point.ranges * sizeof(mu_range);
    case MU_WIRE_COUNTS:
        *data = w->counts.bins;
        return MU_WIRE_BINS * sizeof(int64_t);
    default:
        *data = NULL;
        return 0;
    }
}

static void put_head(const mu_wire_shape *s, mu_wire_type type, mu_wire_frame *f) {
    const uint16_t words[] = {MU_WIRE_VERSION, (uint16_t)type};
    const uint64_t sizes[] = {f->bytes - MU_WIRE_HEAD, s->layout};
    memcpy(f->head, magic, sizeof magic);
    memcpy(f->head + AT_VERSION, words, sizeof words);
    memcpy(f->head + AT_BYTES, sizes, sizeof sizes);
    XXH3_state_t x;
    XXH3_64bits_reset(&x);
    XXH3_64bits_update(&x, f->head, CHECKED);
    XXH3_64bits_update(&x, f->head + MU_WIRE_HEAD, f->part[0].iov_len - MU_WIRE_HEAD);
    for (int i = 1; i < f->n; i++) XXH3_64bits_update(&x, f->part[i].iov_base, f->part[i].iov_len);
    const uint64_t check = XXH3_64bits_digest(&x);
    memcpy(f->head + AT_CHECK, &check, sizeof check);
}

mu_status mu_wire_pack(const mu_wire_shape *s, const mu_wire *w, mu_wire_frame *f, mu_err *err) {
    const mu_wire_class *c = mu_wire_class_of((uint32_t)w->type);
    const void *array;
    if (!c) return MU_FAIL(err, MU_EUSAGE, "there is no frame of type %d", (int)w->type);
    MU_TRY(check_all(s, c, w, MU_EUSAGE, err));
    f->n = 1;
    f->part[0] = (struct iovec){.iov_base = f->head, .iov_len = MU_WIRE_HEAD};
    put_numbers(c, &w->hello, more_head(f, mu_wire_numbers(c)));
    if (w->type == MU_WIRE_PUSH) MU_TRY(pack_push(s, &w->push, f));
    if (w->type == MU_WIRE_SUM) MU_TRY(pack_sum(s, &w->sum, f, err));
    const size_t bytes = array_of(s, w, &array);
    add_array(f, array, bytes);
    f->bytes = mu_parts_bytes(f->part, f->n);
    if (bytes > MU_WIRE_MOST || f->bytes > MU_WIRE_MOST)
        return MU_FAIL(err, MU_EUSAGE, "%s: %zu bytes, at most %llu", c->name, f->bytes,
                       (unsigned long long)MU_WIRE_MOST);
    put_head(s, w->type, f);
    return MU_OK;
}

// ---- unpacking ---------------------------------------------------------------------------------

typedef struct reading { // the rest of a frame
    const unsigned char *at;
    size_t left;
    const char *name; // of the type
} reading;

static const void *take(reading *r, size_t bytes) {
    const unsigned char *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

static mu_status need(const reading *r, size_t bytes, mu_err *err) {
    return r->left >= bytes
               ? MU_OK
               : MU_FAIL(err, MU_EDATA, "%s: it ends %zu bytes too early", r->name, bytes - r->left);
}

static uint16_t u16_at(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint64_t u64_at(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

uint64_t mu_wire_check(const void *frame, size_t size) {
    XXH3_state_t x;
    XXH3_64bits_reset(&x);
    XXH3_64bits_update(&x, frame, CHECKED);
    XXH3_64bits_update(&x, (const char *)frame + MU_WIRE_HEAD, size - MU_WIRE_HEAD);
    return XXH3_64bits_digest(&x);
}

static mu_status read_head(const unsigned char *p, size_t size, mu_err *err) {
    if (size < MU_WIRE_HEAD) return MU_FAIL(err, MU_EDATA, "%zu bytes are no frame", size);
    if (memcmp(p, magic, sizeof magic) != 0) return MU_FAIL(err, MU_EDATA, "this is no frame of Muster");
    if (u16_at(p + AT_VERSION) != MU_WIRE_VERSION)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "a frame of version %d, this program speaks version %d",
                                     u16_at(p + AT_VERSION), MU_WIRE_VERSION),
                             err, "Run the same version of Muster on all nodes.");
    if (size > MU_WIRE_MOST || u64_at(p + AT_BYTES) != size - MU_WIRE_HEAD)
        return MU_FAIL(err, MU_EDATA, "a frame says that %llu bytes follow its head, and %zu do",
                       (unsigned long long)u64_at(p + AT_BYTES), size - MU_WIRE_HEAD);
    if (mu_wire_check(p, size) != u64_at(p + AT_CHECK))
        return MU_FAIL(err, MU_EDATA, "a frame has changed on its way: its check is wrong");
    return MU_OK;
}

static mu_status check_row_ids(const reading *r, const mu_param *p, int64_t n, mu_err *err) {
    for (int64_t i = 0; i < n; i++) {
        int32_t id;
        memcpy(&id, r->at + i * (int64_t)sizeof id, sizeof id);
        if (id < 0 || id >= mu_param_rows(p))
            return MU_FAIL(err, MU_EDATA, "PUSH: row %d of `%s`, which has %lld", id, p->name,
                           (long long)mu_param_rows(p));
    }
    return MU_OK;
}

// A parameter's use, from its place in the table.
static mu_message_use use_at(const void *data, int i) {
    mu_message_use use;
    get_numbers(&mu_wire_use_class,
                (const unsigned char *)data + (size_t)i * mu_wire_numbers(&mu_wire_use_class), &use);
    return use;
}

static mu_status read_push(const mu_wire_shape *s, mu_wire_push *p, reading *r, mu_err *err) {
    const mu_wire_share *share = &s->share[p->worker];
    const size_t width = mu_wire_numbers(&mu_wire_use_class);
    p->data = r->at;
    MU_TRY(need(r, (size_t)p->params * width, err));
    take(r, (size_t)p->params * width);
    for (int i = 0; i < p->params; i++) {
        const mu_param *param = share->params->list[i];
        mu_message_span span[MU_MESSAGE_SPANS];
        mu_message_use use = {0};
        MU_TRY(read_numbers(s, &mu_wire_use_class, (const char *)p->data + (size_t)i * width, &use, err));
        if (!mu_message_has_room(share->message, i, &use))
            return MU_FAIL(err, MU_EDATA, "PUSH: `%s` has no room for form %d with %lld and %lld rows",
                           param->name, (int)use.form, (long long)use.n, (long long)use.n_x);
        const int n = spans_of(share, i, &use, span);
        for (int k = 0; k < n; k++) {
            MU_TRY(need(r, span[k].bytes, err));
            if (use.form == MU_GRAD_ROWS && k == 0) MU_TRY(check_row_ids(r, param, use.n, err));
            take(r, span[k].bytes);
        }
    }
    return MU_OK;
}

static mu_status read_sum(const mu_wire_shape *s, mu_wire_sum *sum, reading *r, mu_err *err) {
    const size_t width = mu_wire_numbers(&mu_wire_part_class);
    sum->ids = r->at;
    for (int i = 0; i < sum->parts; i++) {
        mu_wire_part p = {0};
        MU_TRY(need(r, width, err));
        MU_TRY(read_numbers(s, &mu_wire_part_class, take(r, width), &p, err));
        MU_TRY(wrong_part(sum, &p, MU_EDATA, err));
    }
    return MU_OK;
}

static mu_status read_array(const mu_wire_shape *s, mu_wire *w, reading *r, mu_err *err) {
    const void *unused;
    const size_t bytes = array_of(s, w, &unused);
    MU_TRY(need(r, bytes, err));
    const void *data = take(r, bytes);
    if (w->type == MU_WIRE_SUM) w->sum.floats = data;
    if (w->type == MU_WIRE_WEIGHTS) w->weights.floats = data;
    if (w->type == MU_WIRE_EXCHANGE) w->exchange.floats = data;
    if (w->type == MU_WIRE_BRIDGE) w->bridge.message = data;
    if (w->type == MU_WIRE_START) w->start.range = data;
    if (w->type == MU_WIRE_POINT) w->point.range = data;
    if (w->type == MU_WIRE_COUNTS) w->counts.bins = data;
    return r->left ? MU_FAIL(err, MU_EDATA, "%s: %zu bytes too many", r->name, r->left) : MU_OK;
}

mu_status mu_wire_unpack(const mu_wire_shape *s, const void *data, size_t size, mu_wire *out, mu_err *err) {
    const unsigned char *p = data;
    mu_wire w = {0};
    MU_TRY(read_head(p, size, err));
    const mu_wire_class *c = mu_wire_class_of(u16_at(p + AT_TYPE));
    if (!c) return MU_FAIL(err, MU_EDATA, "a frame of type %d, which there is not", u16_at(p + AT_TYPE));
    w.type = (mu_wire_type)u16_at(p + AT_TYPE);
    w.layout = u64_at(p + AT_LAYOUT);
    if (w.layout != s->layout && !c->any_layout)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "%s: of a net with other parameters than this one", c->name), err,
            "Start all nodes with the same job.");
    reading r = {p + MU_WIRE_HEAD, size - MU_WIRE_HEAD, c->name};
    MU_TRY(need(&r, mu_wire_numbers(c), err));
    if (!get_numbers(c, take(&r, mu_wire_numbers(c)), &w.hello))
        return MU_FAIL(err, MU_EDATA, "%s: bytes that are not used are not zero", c->name);
    MU_TRY(check_all(s, c, &w, MU_EDATA, err));
    if (w.type == MU_WIRE_PUSH) MU_TRY(read_push(s, &w.push, &r, err));
    if (w.type == MU_WIRE_SUM) MU_TRY(read_sum(s, &w.sum, &r, err));
    MU_TRY(read_array(s, &w, &r, err));
    *out = w;
    return MU_OK;
}

void mu_wire_put_message(const mu_wire_shape *s, const mu_wire_push *p, char *slot) {
    const mu_wire_share *share = &s->share[p->worker];
    const char *at = (const char *)p->data + (size_t)p->params * mu_wire_numbers(&mu_wire_use_class);
    for (int i = 0; i < p->params; i++) {
        const mu_message_use use = use_at(p->data, i);
        mu_message_span span[MU_MESSAGE_SPANS];
        const int n = spans_of(share, i, &use, span);
        for (int k = 0; k < n; k++) {
            memcpy(slot + span[k].offset, at, span[k].bytes);
            at += span[k].bytes;
        }
        mu_message_mark(share->message, slot, i, &use);
    }
}

mu_wire_part mu_wire_sum_part(const mu_wire_sum *sum, int i) {
    mu_wire_part p = {0};
    get_numbers(&mu_wire_part_class,
                (const unsigned char *)sum->ids + (size_t)i * mu_wire_numbers(&mu_wire_part_class), &p);
    return p;
}
