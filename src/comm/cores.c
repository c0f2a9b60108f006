// SPDX-License-Identifier: Apache-2.0
// cores.c - see cores.h.
//
// The list of cores is made once, by the first call, from the affinity the process has then: later a thread's
// own mask may be the one core it was pinned to. Children inherit the list through fork.
#include "comm/cores.h"

#include "base/alloc.h"
#include "comm/futex.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef MU_HAVE_HWLOC
#include <hwloc.h>
#endif

enum { MAX_CPUS = 8192, SETS = MAX_CPUS / CPU_SETSIZE };

typedef struct cpu_mask { cpu_set_t set[SETS]; } cpu_mask;      // the kernel's mask may exceed one set

static int cpu_list[MAX_CPUS];          // first the first processor of every core, then the second ones, ...
static int n_cores, n_cpus;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// ---- the list ----

#ifdef MU_HAVE_HWLOC
// The nth allowed processor of every core that has so many; how many there were.
static int list_nth(hwloc_topology_t t, const cpu_mask *mask, int nth) {
    int found = 0;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, core)) && n_cpus < MAX_CPUS) {
        int cpu = hwloc_bitmap_first(core->cpuset);
        for (int left = nth; cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu))
            if (cpu < MAX_CPUS && CPU_ISSET_S((size_t)cpu, sizeof *mask, mask->set) && left-- == 0) break;
        if (cpu < 0) continue;
        cpu_list[n_cpus++] = cpu;
        found++;
    }
    return found;
}

static void list_by_hwloc(const cpu_mask *mask) {
    hwloc_topology_t t;
    // Without it, in a bare container, hwloc finds nothing and says so on stderr.
    if (access("/sys/devices/system/cpu", R_OK) || hwloc_topology_init(&t)) return;
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    // HWLOC_XMLFILE may describe another machine.
    if (!hwloc_topology_load(t) && hwloc_topology_is_thissystem(t)) {
        for (int nth = 0, found = 1; found; nth++, n_cores = n_cores ? n_cores : n_cpus)
            found = list_nth(t, mask, nth);
    }
    hwloc_topology_destroy(t);
}
#else
static void list_by_hwloc(const cpu_mask *mask) { (void)mask; }
#endif

static void make_list(void) {
    cpu_mask mask;
    if (sched_getaffinity(0, sizeof mask, mask.set)) CPU_ZERO_S(sizeof mask, mask.set);
    list_by_hwloc(&mask);
    if (!n_cores) {
        for (int i = 0; i < MAX_CPUS; i++) {
            if (CPU_ISSET_S((size_t)i, sizeof mask, mask.set)) cpu_list[n_cpus++] = i;
        }
        n_cores = n_cpus;
    }
    if (!n_cores) n_cores = n_cpus = 1; // no list at all: processor 0
}

int mu_cores_count(void) {
    pthread_once(&once, make_list);
    return n_cores;
}

bool mu_cores_pin(int i) {
    cpu_mask mask;
    (void)mu_cores_count();
    CPU_ZERO_S(sizeof mask, mask.set);
    CPU_SET_S((size_t)cpu_list[(i % n_cpus + n_cpus) % n_cpus], sizeof mask, mask.set);
    return sched_setaffinity(0, sizeof mask, mask.set) == 0;
}

// ---- the way between two cores ----
//
// Two threads hand one flag to and fro: odd values are one side's, even ones the other's. A window is many
// round trips between two looks at the clock; the median of the windows drops those in which a thread was
// taken off its core. Both give up at the deadline.

enum { WINDOWS = 9, TRIPS = 220, WARM_UP = 2 };
static const int64_t probe_limit_ns = 45000000;

typedef struct probe {
    _Alignas(MU_CACHE_LINE) _Atomic uint32_t flag;
    _Alignas(MU_CACHE_LINE) _Atomic uint32_t n_ready, failed;
    int     core[2];
    int64_t until_ns;
    double  trip_ns[WINDOWS];
    int     n_windows;
} probe;

static bool await(probe *p, _Atomic uint32_t *word, uint32_t value) {
    for (unsigned looks = 1; atomic_load_explicit(word, memory_order_acquire) != value; looks++) {
        if (looks % 256) continue;
        if (atomic_load(&p->failed) || mu_clock_ns() > p->until_ns) return false;
        mu_pause();
    }
    return true;
}

static bool get_ready(probe *p, int side) {
    if (!mu_cores_pin(p->core[side])) atomic_store(&p->failed, 1);
    atomic_fetch_add(&p->n_ready, 1);
    return await(p, &p->n_ready, 2) && !atomic_load(&p->failed);
}

static void *answer(void *arg) {
    probe *p = arg;
    if (!get_ready(p, 1)) return NULL;
    for (uint32_t k = 1; k < 2 * TRIPS * (WARM_UP + WINDOWS); k += 2) {
        if (!await(p, &p->flag, k)) break;
        atomic_store_explicit(&p->flag, k + 1, memory_order_release);
    }
    return NULL;
}

static void *ask(void *arg) {
    probe *p = arg;
    uint32_t k = 0;
    if (!get_ready(p, 0)) return NULL;
    for (int w = -WARM_UP; w < WINDOWS; w++) {
        int64_t begin = mu_clock_ns();
        for (int i = 0; i < TRIPS; i++, k += 2) {
            atomic_store_explicit(&p->flag, k + 1, memory_order_release);
            if (!await(p, &p->flag, k + 2)) return NULL;
        }
        if (w >= 0) p->trip_ns[p->n_windows++] = (double)(mu_clock_ns() - begin) / TRIPS;
    }
    return NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mu_cores_round_trip_ns(int a, int b) {
    pthread_t thread[2];
    int n = mu_cores_count();
    if ((a - b) % n == 0) return -1;
    probe p = { .core = { a, b }, .until_ns = mu_deadline_ns(probe_limit_ns) };
    if (pthread_create(&thread[0], NULL, ask, &p)) return -1;
    bool both = !pthread_create(&thread[1], NULL, answer, &p);
    if (!both) atomic_store(&p.failed, 1);
    pthread_join(thread[0], NULL);
    if (both) pthread_join(thread[1], NULL);
    if (!p.n_windows || atomic_load(&p.failed)) return -1;
    qsort(p.trip_ns, (size_t)p.n_windows, sizeof p.trip_ns[0], ascending);
    return p.trip_ns[p.n_windows / 2];
}
