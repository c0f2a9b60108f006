// SPDX-License-Identifier: Apache-2.0
// stream.c - see stream.h. The widest store of the level; whole cache lines, because a
// line written in parts may leave the write-combining buffers in parts.
#include "comm/stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#define HAVE_STREAM 1
#endif

#ifdef HAVE_STREAM

enum { LINE = 64, SMALL = 4096 };       // below SMALL the fence costs more than the caches do

static inline void stream_line(char *to, const char *from) {    // to: aligned to a line
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)to, _mm512_loadu_si512((const void *)from));
#elif defined(__AVX__)
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));
    _mm256_stream_si256((__m256i *)(void *)to, a);
    _mm256_stream_si256((__m256i *)(void *)(to + 32), b);
#else
    for (int i = 0; i < LINE; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm_stream_si128((__m128i *)(void *)(to + i), a);
    }
#endif
}

void mu_stream_copy(void *restrict to, const void *restrict from, size_t bytes) {
    char *t = to;
    const char *f = from;
    if (bytes < SMALL) {
        if (bytes) memcpy(t, f, bytes);
        return;
    }
    size_t head = (LINE - (uintptr_t)t % LINE) % LINE;
    memcpy(t, f, head);
    t += head, f += head, bytes -= head;
    for (; bytes >= LINE; bytes -= LINE, t += LINE, f += LINE) stream_line(t, f);
    _mm_sfence();                       // the stores above are not ordered by the caller's release without it
    if (bytes) memcpy(t, f, bytes);
}

#else

void mu_stream_copy(void *restrict to, const void *restrict from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
}

#endif
