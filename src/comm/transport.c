// SPDX-License-Identifier: Apache-2.0
// transport.c - finding transports, and what is the same for all of them.
//
// A module holds copies of its own of what it uses of this program (alloc.c, buffers.c, err.c), so it needs
// no symbol of the program, which exports none.
#include "comm/transport.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct known_module {
    const char *name, *packages;
} known_module;

#include "transport_class_list.inc" // the tables of all built-in files, as `list`

const mu_registry mu_transports = {"transport", MU_COUNT(list), list};

static const known_module modules[] = {{"mpi", "libopenmpi-dev and openmpi-bin"}};

enum { PATH_BYTES = 4096, NAP_NS = 200000 };
static const size_t window_bytes = (size_t)32 << 20;

// ---- modules ----

static const known_module *module_find(const char *name) {
    for (size_t i = 0; i < MU_COUNT(modules); i++)
        if (!strcmp(modules[i].name, name)) return &modules[i];
    return NULL;
}

// The folder of the program, with a slash at its end; "" if it is not known.
static void program_folder(char out[PATH_BYTES]) {
    const ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash) slash[1] = '\0';
}

// Where the module lies: beside the program as it is built, or where `make install` puts it.
static bool module_path(const char *name, char out[PATH_BYTES]) {
    static const char *const folders[] = {"", "../" MU_LIBDIR "/muster/"};
    char folder[PATH_BYTES];
    program_folder(folder);
    for (size_t i = 0; i < MU_COUNT(folders); i++) {
        const int n = snprintf(out, PATH_BYTES, "%s%slibmuster-%s.so", folder, folders[i], name);
        if (n > 0 && n < PATH_BYTES && !access(out, R_OK)) return true;
    }
    return false;
}

static mu_status module_open(const known_module *m, const mu_transport_class **out, mu_err *err) {
    char path[PATH_BYTES];
    if (!module_path(m->name, path))
        return mu_err_hinted(MU_FAIL(err, MU_EUNSUPPORTED,
                                     "transport `%s` was not built: libmuster-%s.so is missing", m->name,
                                     m->name),
                             err, "Install %s, then build Muster again.", m->packages);
    void *so = dlopen(path, RTLD_NOW | RTLD_GLOBAL); // MPI opens parts of its own, which look for its symbols
    if (!so)
        return mu_err_hinted(
            MU_FAIL(err, MU_EUNSUPPORTED, "transport `%s` cannot be opened: %s", m->name, dlerror()), err,
            "Install %s.", m->packages);
    const mu_transport_module *found = dlsym(so, "mu_module");
    if (!found || strcmp(found->version, MU_VERSION) != 0 || found->class_bytes != sizeof *found->class) {
        dlclose(so);
        return mu_err_hinted(
            MU_FAIL(err, MU_EUNSUPPORTED, "`%s` is not of this program, %s", path, MU_VERSION), err,
            "Build or install both together.");
    }
    *out = found->class; // stays open: MPI does not survive being closed
    return MU_OK;
}

mu_status mu_transport_find(const char *name, const mu_transport_class **out, mu_err *err) {
    const mu_plugin *p = mu_registry_find(&mu_transports, name);
    const known_module *m = module_find(name);
    if (p) *out = (const mu_transport_class *)(const void *)p; // the head is the first member
    if (p) return MU_OK;
    if (m) return module_open(m, out, err);
    return MU_FAIL(err, MU_ENOTFOUND, "there is no transport `%s`", name);
}

mu_status mu_transport_open(const char *name, const mu_transport_opts *opts, mu_transport **out,
                            mu_err *err) {
    const mu_transport_class *c;
    mu_transport_opts o = *opts;
    if (!o.max_bytes) o.max_bytes = MU_TRANSPORT_MOST;
    if (!o.window_bytes) o.window_bytes = window_bytes;
    if (o.max_bytes > MU_TRANSPORT_MOST)
        return MU_FAIL(err, MU_EUSAGE, "messages of %zu bytes, at most %zu", o.max_bytes, MU_TRANSPORT_MOST);
    MU_TRY(mu_transport_find(name, &c, err));
    MU_TRY(c->open(&o, out, err));
    (*out)->class = c;
    return MU_OK;
}

// ---- the environment ----

// A number of the environment; 0 = not set.
static long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

const char *mu_transport_wanted(void) {
    const long ranks =
        getenv("OMPI_COMM_WORLD_SIZE") ? number("OMPI_COMM_WORLD_SIZE") : number("SLURM_STEP_NUM_TASKS");
    if (ranks > 0) return ranks > 1 ? "mpi" : NULL;
    return getenv("PMIX_RANK") ? "mpi" : NULL; // a launcher that does not say how many
}

// ---- for all ----

static mu_status refuse(mu_err *err, const mu_transport *t, int peer, int n, size_t bytes) {
    if (peer < 0 || peer >= t->n || peer == t->rank)
        return MU_FAIL(err, MU_EUSAGE, "rank %d of %d sends to rank %d", t->rank, t->n, peer);
    if (n < 0 || n > MU_TRANSPORT_PARTS)
        return MU_FAIL(err, MU_EUSAGE, "a message in %d parts, at most %d", n, MU_TRANSPORT_PARTS);
    return MU_FAIL(err, MU_EUSAGE, "a message of %zu bytes, at most %zu", bytes, t->opts.max_bytes);
}

mu_status mu_transport_send(mu_transport *t, int peer, const struct iovec *part, int n, uint64_t token,
                            mu_sending *out, mu_err *err) {
    const bool fits = peer >= 0 && peer < t->n && peer != t->rank && n >= 0 && n <= MU_TRANSPORT_PARTS;
    size_t bytes = 0;
    for (int i = 0; fits && i < n && bytes <= t->opts.max_bytes; i++) {
        const size_t room = t->opts.max_bytes - bytes;
        bytes = part[i].iov_len > room ? t->opts.max_bytes + 1 : bytes + part[i].iov_len;
    }
    if (!fits || bytes > t->opts.max_bytes) return refuse(err, t, peer, n, bytes);
    return t->class->send(t, peer, part, n, token, out, err);
}

bool mu_transport_end(mu_transport *t, int64_t limit_ns) {
    const int64_t until = mu_clock_ns() + limit_ns;
    t->class->leave(t);
    while (!mu_transport_is_over(t) && mu_clock_ns() < until) {
        mu_transport_event e;
        if (t->class->poll(t, &e, NULL) != MU_OK) break;
        if (e.what == MU_TRANSPORT_MESSAGE) t->class->release(t, e.data);
        if (!e.what) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return t->class->close(t);
}
