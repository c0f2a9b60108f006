// SPDX-License-Identifier: Apache-2.0
// queue.c - events by time: a 4-ary heap.
#include "sim/sim.h"

#include "base/alloc.h"

static void sift_up(sim_event *q, int64_t i, sim_event e) {
    for (; i > 0 && q[(i - 1) / 4].key > e.key; i = (i - 1) / 4) q[i] = q[(i - 1) / 4];
    q[i] = e;
}

sim_event sim_queue_take(sim_queue *queue) {
    sim_event *q = queue->event;
    const sim_event top = q[0], e = q[--queue->n];
    int64_t i = 0;
    for (int64_t child; (child = 4 * i + 1) < queue->n;) {
        int64_t least = child, end = child + 4 < queue->n ? child + 4 : queue->n;
        for (int64_t k = child + 1; k < end; k++)
            if (q[k].key < q[least].key) least = k;
        if (q[least].key >= e.key) break;
        q[i] = q[least];
        i = least;
    }
    q[i] = e;
    return top;
}

bool sim_queue_put(sim_queue *q, int64_t time, int kind, int whom, uint32_t mark) {
    if (q->n == q->room) return false;
    const uint64_t key = (uint64_t)time << 20 | (q->number++ & 0xFFFFF);
    sift_up(q->event, q->n++, (sim_event){key, mark, (uint16_t)whom, (uint16_t)kind});
    return true;
}

void sim_queue_clear(sim_queue *q) { q->n = 0, q->number = 0; }

bool sim_queue_create(sim_queue *q, int64_t room) {
    *q = (sim_queue){.room = room, .event = mu_alloc_array((size_t)room, sizeof *q->event, "sim")};
    return q->event != NULL;
}

void sim_queue_destroy(sim_queue *q) {
    mu_free(q->event);
    *q = (sim_queue){0};
}
