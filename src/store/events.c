// SPDX-License-Identifier: Apache-2.0
// events.c - see events.h. The few protobuf messages are written by hand: a length-delimited field needs
// the size of what follows, so sizes are computed first and every byte is written once, in order.
#include "store/events.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "file/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TAG "events"
#define RECORD_BYTES 8192u
#define FRAME_BYTES 16u         // length, two checksums
#define VERSION "brain.Event:2"

struct mu_events {
    int  fd;
    char path[MU_FS_PATH];
};

// ---- CRC-32C (Castagnoli), reflected polynomial, one table ----

static uint32_t crc_table[256];

static void fill_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
        crc_table[i] = c;
    }
}

uint32_t mu_crc32c(const void *data, size_t size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_crc_table);
    const unsigned char *p = data;
    uint32_t c = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) c = c >> 8 ^ crc_table[(c ^ p[i]) & 0xFF];
    return ~c;
}

// The format stores CRCs of data that may itself hold CRCs; rotating and adding keeps the two apart.
uint32_t mu_crc32c_masked(const void *data, size_t size) {
    uint32_t c = mu_crc32c(data, size);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

// ---- encoding ----

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct out { unsigned char *p; } out;

static size_t varint_size(uint64_t v) {
    size_t n = 1;
    for (; v >= 0x80; v >>= 7) n++;
    return n;
}

static void put_le(out *o, uint64_t v, int n) {
    for (int i = 0; i < n; i++) *o->p++ = (unsigned char)(v >> (8 * i));
}

static void put_varint(out *o, uint64_t v) {
    for (; v >= 0x80; v >>= 7) *o->p++ = (unsigned char)(v | 0x80);
    *o->p++ = (unsigned char)v;
}

static void put_tag(out *o, unsigned field, unsigned wire) { *o->p++ = (unsigned char)(field << 3 | wire); }

static void put_double(out *o, unsigned field, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_tag(o, field, WIRE_64);
    put_le(o, bits, 8);
}

static void put_float(out *o, unsigned field, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_tag(o, field, WIRE_32);
    put_le(o, bits, 4);
}

static void put_bytes(out *o, unsigned field, const char *s, size_t n) {
    put_tag(o, field, WIRE_BYTES);
    put_varint(o, n);
    memcpy(o->p, s, n);
    o->p += n;
}

// Frames the n bytes of data that stand at record + 12; returns the record's size.
static size_t frame(unsigned char *record, size_t n) {
    out o = {record};
    put_le(&o, n, 8);
    put_le(&o, mu_crc32c_masked(record, 8), 4);
    o.p += n;
    put_le(&o, mu_crc32c_masked(record + 12, n), 4);
    return n + FRAME_BYTES;
}

size_t mu_events_encode_header(double wall_s, void *record, size_t cap) {
    size_t n = 9 + 2 + strlen(VERSION);
    if (n + FRAME_BYTES > cap) return 0;
    out o = {(unsigned char *)record + 12};
    put_double(&o, 1, wall_s);
    put_bytes(&o, 3, VERSION, strlen(VERSION));
    return frame(record, n);
}

static size_t value_size(const mu_scalar *s) {          // Value: tag, simple_value
    size_t tag = strlen(s->tag);
    return 1 + varint_size(tag) + tag + 5;
}

size_t mu_events_encode(double wall_s, int64_t step, const mu_scalar *scalars, size_t n, void *record,
                        size_t cap) {
    size_t summary = 0;
    for (size_t i = 0; i < n; i++) {
        if (strlen(scalars[i].tag) > cap) return 0; // keeps the sums below from wrapping
        summary += 1 + varint_size(value_size(&scalars[i])) + value_size(&scalars[i]);
        if (summary > cap) return 0;
    }
    size_t size = 9 + 1 + varint_size((uint64_t)step) + 1 + varint_size(summary) + summary;
    if (size + FRAME_BYTES > cap) return 0;
    out o = {(unsigned char *)record + 12};
    put_double(&o, 1, wall_s);
    put_tag(&o, 2, WIRE_VARINT);
    put_varint(&o, (uint64_t)step);
    put_tag(&o, 5, WIRE_BYTES);
    put_varint(&o, summary);
    for (size_t i = 0; i < n; i++) {
        put_tag(&o, 1, WIRE_BYTES);
        put_varint(&o, value_size(&scalars[i]));
        put_bytes(&o, 1, scalars[i].tag, strlen(scalars[i].tag));
        put_float(&o, 2, scalars[i].value);
    }
    return frame(record, size);
}

// ---- files ----

static mu_status open_new(mu_events *e, const char *dir, mu_err *err) {
    char host[65] = "", leaf[200];
    if (gethostname(host, sizeof host - 1) || !host[0]) snprintf(host, sizeof host, "localhost");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '-';
    for (int k = 0; k < 1000; k++) {
        snprintf(leaf, sizeof leaf, "events.out.tfevents.%lld.%s.%ld.%d", (long long)mu_clock_wall_s(), host,
                 (long)getpid(), k);
        MU_TRY(mu_fs_join(e->path, dir, leaf, err));
        e->fd = mu_fs()->open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (e->fd >= 0) return MU_OK;
        if (errno != EEXIST) break;
    }
    return mu_fs_fail(err, "create", e->path);
}

mu_status mu_events_open(const char *dir, mu_events **result, mu_err *err) {
    unsigned char record[64];
    MU_TRY(mu_fs_mkdirs(dir, err));
    mu_events *e = mu_alloc(sizeof *e, TAG);
    if (!e) return MU_FAIL_NOMEM(err, "event files");
    e->fd = -1;
    mu_status status = open_new(e, dir, err);
    size_t n = mu_events_encode_header(mu_clock_wall_s(), record, sizeof record);
    if (status == MU_OK) status = mu_fs_write_all(e->fd, record, n, e->path, err);
    if (status == MU_OK) *result = e;
    else mu_events_close(e);
    return status;
}

mu_status mu_events_write(mu_events *e, int64_t step, const mu_scalar *scalars, size_t n, mu_err *err) {
    unsigned char record[RECORD_BYTES];
    size_t size = mu_events_encode(mu_clock_wall_s(), step, scalars, n, record, sizeof record);
    if (!size) return MU_FAIL(err, MU_EUSAGE, "an event is longer than %u bytes", RECORD_BYTES);
    return mu_fs_write_all(e->fd, record, size, e->path, err);
}

void mu_events_close(mu_events *e) {
    if (!e) return;
    if (e->fd >= 0) mu_fs()->close(e->fd);
    mu_free(e);
}
