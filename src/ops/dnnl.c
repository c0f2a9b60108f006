// SPDX-License-Identifier: Apache-2.0
// dnnl.c - oneDNN behind one file; everything that differs between versions 2 and 3 is between
// `#if V3` here. See dnnl.h for the contract.
//
// The engine is made once for the process (it is immutable and shared freely); streams are not, so each
// primitive has its own. omp_set_num_threads is looked up at run time: libgomp is a dependency of the
// library, not of ours, and another build of oneDNN may use no OpenMP at all.
#include "ops/dnnl.h"

#ifdef MU_HAVE_DNNL

#include "base/level.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define V3 (DNNL_VERSION_MAJOR >= 3)

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_status_t engine_status;
static void (*omp_set_threads)(int);
static atomic_int wanted_threads = 1;
static _Thread_local int thread_has;    // the number last set in this thread, 0 = never

// Before the library's first use: afterwards it no longer listens.
static void cap_instructions(void) {
#ifdef __x86_64__
    if (!mu_level_is_asked()) return;
    if (mu_level() == 2) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
    if (mu_level() == 3) (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
#endif
}

static void prepare(void) {
    cap_instructions();
    void *f = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&omp_set_threads, &f, sizeof f); // ISO C has no cast from an object to a function pointer
}

static void make_engine(void) { engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0); }

void mu_dnnl_set_threads(int n) {
    atomic_store_explicit(&wanted_threads, n > 0 ? n : 1, memory_order_relaxed);
}

void mu_dnnl_enter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int n = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    if (MU_LIKELY(thread_has == n)) return;
    pthread_once(&once, prepare);
    if (omp_set_threads) omp_set_threads(n);
    thread_has = n;
}

static const char *status_text(dnnl_status_t s) {
    switch (s) {
    case dnnl_success: return "success";
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "unimplemented";
    case dnnl_runtime_error: return "runtime error";
    default: return "unknown failure";
    }
}

mu_status mu_dnnl_check(dnnl_status_t s, const char *what, mu_err *err) {
    if (MU_LIKELY(s == dnnl_success)) return MU_OK;
    mu_status status = s == dnnl_out_of_memory   ? MU_ENOMEM
                       : s == dnnl_unimplemented ? MU_EUNSUPPORTED
                                                 : MU_EBACKEND;
    return MU_FAIL(err, status, "oneDNN %d.%d: %s: %s", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, what,
                   status_text(s));
}

// ---- memory descriptors ----

#if V3
#define MD(m) ((m)->d)          // the handle itself
#else
#define MD(m) (&(m)->d)
#endif

mu_status mu_dnnl_md_make(mu_dnnl_md *md, int n_dims, const int64_t *dims, dnnl_format_tag_t tag,
                          mu_err *err) {
    dnnl_dims_t d;
    for (int i = 0; i < n_dims; i++) d[i] = dims[i];
#if V3
    dnnl_status_t s = dnnl_memory_desc_create_with_tag(&md->d, n_dims, d, dnnl_f32, tag);
#else
    dnnl_status_t s = dnnl_memory_desc_init_by_tag(&md->d, n_dims, d, dnnl_f32, tag);
#endif
    md->set = s == dnnl_success;
    return mu_dnnl_check(s, "memory descriptor", err);
}

void mu_dnnl_md_fini(mu_dnnl_md *md) {
#if V3
    if (md->set) dnnl_memory_desc_destroy(md->d);
#endif
    md->set = false;
}

size_t mu_dnnl_md_bytes(const mu_dnnl_md *md) { return md->set ? dnnl_memory_desc_get_size(MD(md)) : 0; }

bool mu_dnnl_md_equal(const mu_dnnl_md *a, const mu_dnnl_md *b) {
    return a->set && b->set && dnnl_memory_desc_equal(MD(a), MD(b));
}

// An owned copy of the descriptor a primitive chose.
static mu_status md_query(mu_dnnl_md *md, const_dnnl_primitive_desc_t pd, dnnl_query_t what, mu_err *err) {
#if V3
    const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(pd, what, 0);
    dnnl_status_t s = d ? dnnl_memory_desc_clone(&md->d, d) : dnnl_invalid_arguments;
#else
    const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(pd, what, 0);
    dnnl_status_t s = d ? dnnl_success : dnnl_invalid_arguments;
    if (d) md->d = *d;
#endif
    md->set = s == dnnl_success;
    return mu_dnnl_check(s, "query of a layout", err);
}

// ---- executable primitives ----

static mu_status exec_add(mu_dnnl_exec *e, int arg, const mu_dnnl_md *md, mu_err *err) {
    dnnl_exec_arg_t *a = &e->arg[e->n_args];
    MU_TRY(mu_dnnl_check(dnnl_memory_create(&a->memory, MD(md), engine, DNNL_MEMORY_NONE), "memory object",
                         err));
    a->arg = arg;
    e->n_args++;
    return MU_OK;
}


// Makes the primitive of pd, its stream and its scratchpad argument, which is the last one.
static mu_status exec_finish(mu_dnnl_exec *e, const_dnnl_primitive_desc_t pd, mu_err *err) {
    const char *impl = "";
    MU_TRY(mu_dnnl_check(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl), "query", err));
    snprintf(e->impl, sizeof e->impl, "%s", impl);
    mu_dnnl_md pad = {0};
    MU_TRY(md_query(&pad, pd, dnnl_query_scratchpad_md, err));
    e->scratch_bytes = mu_dnnl_md_bytes(&pad);
    mu_status s = exec_add(e, DNNL_ARG_SCRATCHPAD, &pad, err);
    mu_dnnl_md_fini(&pad);
    MU_TRY(s);
    MU_TRY(mu_dnnl_check(dnnl_primitive_create(&e->prim, pd), "primitive", err));
    return mu_dnnl_check(dnnl_stream_create(&e->stream, engine, dnnl_stream_default_flags), "stream", err);
}

mu_status mu_dnnl_exec_run(mu_dnnl_exec *e, const void *const *data, mu_err *err) {
    mu_dnnl_enter();
    for (int i = 0; i < e->n_args; i++) {
        void *p;
        memcpy(&p, &data[i], sizeof p); // the library takes inputs and outputs alike as void *
        dnnl_status_t s = dnnl_memory_set_data_handle(e->arg[i].memory, p);
        if (MU_UNLIKELY(s != dnnl_success)) return mu_dnnl_check(s, "argument", err);
    }
    dnnl_status_t s = dnnl_primitive_execute(e->prim, e->stream, e->n_args, e->arg);
    if (MU_LIKELY(s == dnnl_success)) s = dnnl_stream_wait(e->stream);
    return mu_dnnl_check(s, e->impl, err);
}

void mu_dnnl_exec_fini(mu_dnnl_exec *e) {
    if (e->prim) dnnl_primitive_destroy(e->prim);
    if (e->stream) dnnl_stream_destroy(e->stream);
    for (int i = 0; i < e->n_args; i++) dnnl_memory_destroy(e->arg[i].memory);
    memset(e, 0, sizeof *e);
}

static mu_status attr_make(dnnl_primitive_attr_t *attr, mu_err *err) {
    MU_TRY(mu_dnnl_check(dnnl_primitive_attr_create(attr), "attributes", err));
    dnnl_status_t s = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (s != dnnl_success) dnnl_primitive_attr_destroy(*attr);
    return mu_dnnl_check(s, "attributes", err);
}

static mu_status begin(mu_dnnl_exec *e, mu_err *err) {
    memset(e, 0, sizeof *e);
    mu_dnnl_enter();    // the number of threads goes into the primitive when it is made
    pthread_once(&engine_once, make_engine);
    return mu_dnnl_check(engine_status, "CPU engine", err);
}

// ---- convolution ----

typedef struct conv_mds { mu_dnnl_md src, weight, bias, dst; } conv_mds;

static void conv_mds_fini(conv_mds *m) {
    mu_dnnl_md_fini(&m->src);
    mu_dnnl_md_fini(&m->weight);
    mu_dnnl_md_fini(&m->bias);
    mu_dnnl_md_fini(&m->dst);
}

static int weight_dims(const mu_conv_desc *c, int64_t d[MU_DNNL_MAX_DIMS]) {
    int n = 0;
    if (c->groups > 1) d[n++] = c->groups;
    d[n++] = c->o / c->groups;
    d[n++] = c->c / c->groups;
    d[n++] = c->kh;
    d[n++] = c->kw;
    return n;
}

mu_status mu_dnnl_conv_plain_weight(const mu_conv_desc *c, mu_dnnl_md *md, mu_err *err) {
    int64_t d[MU_DNNL_MAX_DIMS];
    int n = weight_dims(c, d);
    return mu_dnnl_md_make(md, n, d, n == 5 ? dnnl_goihw : dnnl_oihw, err);
}

static mu_status conv_mds_make(conv_mds *m, const mu_conv_desc *c, dnnl_format_tag_t weight_tag,
                               mu_err *err) {
    int64_t w[MU_DNNL_MAX_DIMS];
    int n_w = weight_dims(c, w);
    MU_TRY(mu_dnnl_md_make(&m->src, 4, (int64_t[]){c->n, c->c, c->h, c->w}, dnnl_nhwc, err));
    MU_TRY(mu_dnnl_md_make(&m->dst, 4, (int64_t[]){c->n, c->o, c->oh, c->ow}, dnnl_nhwc, err));
    MU_TRY(mu_dnnl_md_make(&m->weight, n_w, w, weight_tag, err));
    return c->bias ? mu_dnnl_md_make(&m->bias, 1, &c->o, dnnl_x, err) : MU_OK;
}

// Bottom and right padding that makes the window arithmetic come out at `out` exactly.
static int64_t pad_after(int64_t in, int64_t out, int64_t k, int64_t stride, int64_t dil, int64_t pad) {
    int64_t reach = dil * (k - 1) + 1;
    if ((in - reach + 2 * pad) / stride + 1 == out) return pad;
    return (out - 1) * stride + reach - in - pad;
}

static dnnl_status_t conv_pd(dnnl_primitive_desc_t *pd, const mu_conv_desc *c, mu_dnnl_dir dir,
                             const conv_mds *m, const_dnnl_primitive_attr_t attr,
                             const_dnnl_primitive_desc_t hint) {
    const dnnl_dims_t stride = {c->stride_h, c->stride_w}, dil = {c->dil_h - 1, c->dil_w - 1};
    const dnnl_dims_t lo = {c->pad_h, c->pad_w};
    const dnnl_dims_t hi = {pad_after(c->h, c->oh, c->kh, c->stride_h, c->dil_h, c->pad_h),
                            pad_after(c->w, c->ow, c->kw, c->stride_w, c->dil_w, c->pad_w)};
    const dnnl_alg_kind_t alg = dnnl_convolution_direct;
#if V3
    dnnl_memory_desc_t bias = c->bias ? m->bias.d : NULL;
    switch (dir) {
    case MU_DNNL_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training, alg,
                                                              MD(&m->src), MD(&m->weight), bias, MD(&m->dst),
                                                              stride, dil, lo, hi, attr);
    case MU_DNNL_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, alg, MD(&m->src), MD(&m->weight), MD(&m->dst), stride, dil, lo, hi, hint, attr);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(pd, engine, alg, MD(&m->src),
                   MD(&m->weight), bias, MD(&m->dst), stride, dil, lo, hi, hint, attr);
    }
#else
    const dnnl_memory_desc_t *bias = c->bias ? &m->bias.d : NULL;
    dnnl_convolution_desc_t d;
    dnnl_status_t s;
    switch (dir) {
    case MU_DNNL_FORWARD:
        s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, alg, MD(&m->src),
                                                       MD(&m->weight), bias, MD(&m->dst), stride, dil, lo,
                                                       hi);
        break;
    case MU_DNNL_BACKWARD_DATA:
        s = dnnl_dilated_convolution_backward_data_desc_init(&d, alg, MD(&m->src), MD(&m->weight),
                                                             MD(&m->dst), stride, dil, lo, hi);
        break;
    default:
        s = dnnl_dilated_convolution_backward_weights_desc_init(&d, alg, MD(&m->src), MD(&m->weight), bias,
                                                                MD(&m->dst), stride, dil, lo, hi);
    }
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &d, attr, engine, hint) : s;
#endif
}

static mu_status conv_args(mu_dnnl_exec *e, const mu_conv_desc *c, mu_dnnl_dir dir, const conv_mds *m,
                           const mu_dnnl_md *weight, mu_err *err) {
    switch (dir) {
    case MU_DNNL_FORWARD:
        MU_TRY(exec_add(e, DNNL_ARG_SRC, &m->src, err));
        MU_TRY(exec_add(e, DNNL_ARG_WEIGHTS, weight, err));
        if (c->bias) MU_TRY(exec_add(e, DNNL_ARG_BIAS, &m->bias, err));
        return exec_add(e, DNNL_ARG_DST, &m->dst, err);
    case MU_DNNL_BACKWARD_DATA:
        MU_TRY(exec_add(e, DNNL_ARG_DIFF_DST, &m->dst, err));
        MU_TRY(exec_add(e, DNNL_ARG_WEIGHTS, weight, err));
        return exec_add(e, DNNL_ARG_DIFF_SRC, &m->src, err);
    default:
        MU_TRY(exec_add(e, DNNL_ARG_SRC, &m->src, err));
        MU_TRY(exec_add(e, DNNL_ARG_DIFF_DST, &m->dst, err));
        MU_TRY(exec_add(e, DNNL_ARG_DIFF_WEIGHTS, weight, err));
        return c->bias ? exec_add(e, DNNL_ARG_DIFF_BIAS, &m->bias, err) : MU_OK;
    }
}

static bool is_reference(const char *impl) { return !strncmp(impl, "ref", 3); }

static mu_status conv_finish(mu_dnnl_exec *e, const mu_conv_desc *c, mu_dnnl_dir dir, const conv_mds *m,
                             const_dnnl_primitive_desc_t pd, mu_dnnl_md *weight, mu_err *err) {
    dnnl_query_t what = dir == MU_DNNL_BACKWARD_WEIGHT ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    MU_TRY(md_query(weight, pd, what, err));
    MU_TRY(conv_args(e, c, dir, m, weight, err));
    MU_TRY(exec_finish(e, pd, err));
    if (is_reference(e->impl))
        return MU_FAIL(err, MU_EUNSUPPORTED, "oneDNN has only `%s` for this convolution", e->impl);
    return MU_OK;
}

// The primitive descriptor of one direction; backward ones want the forward one as a hint.
static mu_status conv_pd_make(dnnl_primitive_desc_t *out, const mu_conv_desc *c, mu_dnnl_dir dir,
                              const conv_mds *m, mu_err *err) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL;
    *out = NULL;
    MU_TRY(attr_make(&attr, err));
    mu_status s = mu_dnnl_check(conv_pd(&hint, c, MU_DNNL_FORWARD, m, attr, NULL), "convolution", err);
    if (s == MU_OK && dir == MU_DNNL_FORWARD) {
        *out = hint;
    } else if (s == MU_OK) {
        s = mu_dnnl_check(conv_pd(out, c, dir, m, attr, hint), "convolution gradient", err);
        dnnl_primitive_desc_destroy(hint);
    }
    dnnl_primitive_attr_destroy(attr);
    return s;
}

static mu_status conv_make_with(mu_dnnl_exec *e, const mu_conv_desc *c, mu_dnnl_dir dir,
                                dnnl_format_tag_t tag, mu_dnnl_md *weight, mu_err *err) {
    MU_TRY(begin(e, err));
    weight->set = false;
    conv_mds m = {0};
    dnnl_primitive_desc_t pd = NULL;
    mu_status s = conv_mds_make(&m, c, tag, err);
    if (s == MU_OK) s = conv_pd_make(&pd, c, dir, &m, err);
    if (s == MU_OK) s = conv_finish(e, c, dir, &m, pd, weight, err);
    if (pd) dnnl_primitive_desc_destroy(pd);
    conv_mds_fini(&m);
    return s;
}

// Left alone, the library takes a forward kernel whose weights take three times as long to pack. With few
// weights that decides, and the older kernel for this layout is as fast.
static bool packing_counts(const mu_conv_desc *c) {
    return c->groups == 1 && c->c % 16 == 0 && c->o % 16 == 0 && c->c * c->o * c->kh * c->kw <= 100000;
}

mu_status mu_dnnl_conv_make(mu_dnnl_exec *e, const mu_conv_desc *c, mu_dnnl_dir dir, mu_dnnl_md *weight,
                            mu_err *err) {
    if (dir == MU_DNNL_FORWARD && packing_counts(c)) {
        if (conv_make_with(e, c, dir, dnnl_OIhw16i16o, weight, NULL) == MU_OK) return MU_OK;
        mu_dnnl_exec_fini(e);
        mu_dnnl_md_fini(weight);
    }
    return conv_make_with(e, c, dir, dnnl_format_tag_any, weight, err);
}

bool mu_dnnl_conv_possible(const mu_conv_desc *c, mu_dnnl_dir dir) {
    mu_dnnl_exec e;
    conv_mds m = {0};
    dnnl_primitive_desc_t pd = NULL;
    const char *impl = "ref";
    if (begin(&e, NULL) == MU_OK && conv_mds_make(&m, c, dnnl_format_tag_any, NULL) == MU_OK
        && conv_pd_make(&pd, c, dir, &m, NULL) == MU_OK
        && dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl) != dnnl_success)
        impl = "ref";
    bool ok = !is_reference(impl);
    if (pd) dnnl_primitive_desc_destroy(pd);
    conv_mds_fini(&m);
    return ok;
}

// ---- reorder ----

mu_status mu_dnnl_reorder_make(mu_dnnl_exec *e, const mu_dnnl_md *from, const mu_dnnl_md *to, mu_err *err) {
    MU_TRY(begin(e, err));
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    MU_TRY(attr_make(&attr, err));
    mu_status s =
        mu_dnnl_check(dnnl_reorder_primitive_desc_create(&pd, MD(from), engine, MD(to), engine, attr),
                      "reorder of weights", err);
    if (s == MU_OK) s = exec_add(e, DNNL_ARG_FROM, from, err);
    if (s == MU_OK) s = exec_add(e, DNNL_ARG_TO, to, err);
    if (s == MU_OK) s = exec_finish(e, pd, err);
    if (pd) dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

#endif
