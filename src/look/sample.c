// SPDX-License-Identifier: Apache-2.0
// sample.c - see sample.h.
//
// A step of drawing is one pass of the net over one character. The random number of a character depends on
// the seed and its place alone, so a longer text begins as a shorter one does.
#include "look/sample.h"

#include "base/rng.h"
#include "layer/infer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct mu_sampler {
    mu_reader          *reader;         // of the data, where the model does not know its characters
    mu_data_field       chars, begin;   // fields of the data
    char                byte[256][2];   // the model's characters, as texts
    const char         *byte_text[256]; // the same
    const char *const  *names;          // [n_classes] one character each
    int64_t             n_classes;
    mu_net             *net;            // the session's
    const mu_tensor    *scores;         // n_classes values
    int32_t             number[256];    // of each character, -1 = the model does not know it
    double             *p;              // [n_classes]
    int32_t             in[2];          // what the net reads: character, begin
    int                 n_fields;
};

// ---- building ----

static mu_status no_model(const mu_session *s, mu_srcpos pos, const char *why, mu_err *err) {
    MU_FAIL_AT(err, MU_EJOB, pos, "job `%s` is no character model: %s", s->job->name, why);
    mu_err_hint(err, "Sampling needs `reader: chars`, and a `softmax_loss` of scores against `data.next`.");
    return MU_EJOB;
}

static const mu_data_field *find_field(const mu_reader *r, const char *name) {
    for (int i = 0; i < r->n_fields; i++)
        if (!strcmp(r->field[i].name, name)) return &r->field[i];
    return NULL;
}

static const mu_node *data_block(const mu_session *s) {
    static const char *const names[] = {"train", "validation", "test", "predict"};
    const mu_node *block = NULL;
    for (size_t i = 0; !block && i < MU_COUNT(names); i++) block = mu_node_find(s->job->data, names[i]);
    return block;
}

bool mu_sampler_fits(const mu_session *s) {
    const char *reader = mu_node_text(mu_node_find(data_block(s), "reader"));
    return reader && !strcmp(reader, "chars");
}

// The characters that the model was trained on.
static void take_characters(mu_sampler *m, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && m->n_classes < 256; i++) {
        m->byte[m->n_classes][0] = (char)json_integer_value(json_array_get(list, i));
        m->byte_text[m->n_classes] = m->byte[m->n_classes];
        m->n_classes++;
    }
    m->names = m->byte_text;
    m->chars = (mu_data_field){.name = "chars", .store = MU_STORE_I32, .n_classes = m->n_classes,
                               .names = m->names};
    m->begin = (mu_data_field){.name = "begin", .store = MU_STORE_I32, .n_classes = 2};
}

static mu_status read_characters(mu_session *s, mu_sampler *m, const mu_node *block, mu_err *err) {
    mu_source_spec spec;
    MU_TRY(mu_source_bind(&s->binder, block, &spec, err));
    mu_status st = mu_reader_open(spec.reader, spec.reader_state, spec.pos, NULL, &m->reader, err);
    if (st != MU_OK) {
        mu_err_note(err, "the model does not tell its characters; their numbers are those of this file");
        return st;
    }
    m->chars = *find_field(m->reader, "chars");
    m->begin = *find_field(m->reader, "begin");
    m->names = m->chars.names;
    m->n_classes = m->chars.n_classes;
    return MU_OK;
}

static mu_status open_reader(mu_session *s, mu_sampler *m, mu_err *err) {
    const mu_node *block = data_block(s);
    const json_t *known = s->inputs ? json_object_get(s->inputs->learnt, "bytes") : NULL;
    if (!block) return no_model(s, MU_NOPOS, "it has no data", err);
    if (!mu_sampler_fits(s)) return no_model(s, block->pos, "its data is no text of characters", err);
    if (known) take_characters(m, known);
    else MU_TRY(read_characters(s, m, block, err));
    memset(m->number, -1, sizeof m->number);
    for (int64_t i = 0; i < m->n_classes; i++) m->number[(unsigned char)m->names[i][0]] = (int32_t)i;
    m->p = mu_alloc_array((size_t)m->n_classes, sizeof *m->p, "sample");
    return m->p ? MU_OK : MU_FAIL_NOMEM(err, "the scores");
}

// Does the layer go on where the character before left it? Only those do that are told where texts begin.
static bool takes_begin(const mu_layer *l) {
    for (int k = 1; k < l->n_src; k++)
        if (!strcmp(mu_infer_src_name(l, k), "data.begin")) return true;
    return false;
}

static mu_status check_memory(const mu_net *net, mu_err *err) {
    for (int i = 0; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        const bool loops = l->class->flags & MU_LAYER_LOOPS;
        if ((!loops && !l->left_out) || takes_begin(l)) continue;
        MU_FAIL_AT(err, MU_EJOB, l->pos, "layer `%s` begins anew with every character",
                   l->origin ? l->origin : l->name);
        mu_err_hint(err, loops ? "Add `data.begin` to its sources; a model trained without it fits."
                               : "A cell (gru_cell, ...) goes on with `{layer: data.begin, connect: "
                                 "one_to_all}` as its last source; a model trained without it fits.");
        return MU_EJOB;
    }
    return MU_OK;
}

static mu_status build_net(mu_session *s, mu_sampler *m, mu_err *err) {
    mu_data_field fields[2] = {m->chars, m->begin};
    fields[0].shape = MU_SHAPE(1);
    fields[0].streams = fields[1].streams = 1;
    m->n_fields = MU_COUNT(fields);
    mu_net_opts o = {.net = s->job->net,
                     .fields = fields,
                     .n_fields = m->n_fields,
                     .phase = MU_PREDICT,
                     .batch = 1,
                     .seed = (uint64_t)s->job->seed,
                     .one_step = true,
                     .keep_all = true};
    MU_TRY(mu_net_create(&s->binder, &o, &s->predict.net, err));
    m->net = s->predict.net;
    s->params = m->net->params;
    return check_memory(m->net, err);
}

// An output of a layer by its name in the job: "ip", "lstm.1".
static const mu_blob *find_output(const mu_net *net, const char *name) {
    const mu_layer *l = mu_net_find(net, name);
    if (l) return l->n_out ? &l->out[0] : NULL;
    char stem[200];
    const char *dot = strrchr(name, '.');
    int64_t k;
    if (!dot || (size_t)(dot - name) >= sizeof stem || !mu_parse_int(dot + 1, &k)) return NULL;
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
    l = mu_net_find(net, stem);
    return l && k >= 0 && k < l->n_out ? &l->out[k] : NULL;
}

// The first source of the last softmax_loss, which phase predict itself leaves out.
static mu_status find_scores(mu_session *s, mu_sampler *m, mu_err *err) {
    const mu_node *list = s->job->net, *loss = NULL;
    for (size_t i = 0; i < list->n; i++) {
        const char *type = mu_node_text(mu_node_find(list->item[i], "type"));
        if (type && !strcmp(type, "softmax_loss")) loss = list->item[i];
    }
    if (!loss) return no_model(s, list->pos, "no softmax_loss scores the next character", err);
    const mu_node *src = mu_node_find(loss, "src");
    if (src && src->kind == MU_LIST && src->n) src = src->item[0];
    if (src && src->kind == MU_MAP) src = mu_node_find(src, "layer");
    const char *name = mu_node_text(src);
    const mu_blob *b = name ? find_output(m->net, name) : NULL;
    if (!b) return no_model(s, loss->pos, "the scores of its loss are not in phase predict", err);
    m->scores = &b->value;
    if (m->scores->dtype == MU_F32 && (int64_t)mu_tensor_count(m->scores) == m->n_classes) return MU_OK;
    MU_FAIL_AT(err, MU_EJOB, b->producer->pos, "`%s` gives %zu scores for %" PRId64 " different characters",
               b->name, mu_tensor_count(m->scores), m->n_classes);
    mu_err_hint(err, "Its outputs must be as many as the text has different bytes.");
    return MU_EJOB;
}

static mu_status build(mu_session *s, mu_sampler *m, mu_err *err) {
    if (!s->job->net || s->job->net->kind != MU_LIST) return no_model(s, MU_NOPOS, "it has no net", err);
    MU_TRY(open_reader(s, m, err));
    MU_TRY(build_net(s, m, err));
    return find_scores(s, m, err);
}

mu_status mu_sampler_create(mu_session *s, mu_sampler **out, mu_err *err) {
    mu_sampler *m = mu_alloc(sizeof *m, "sample");
    if (!m) return MU_FAIL_NOMEM(err, "the sampler");
    mu_err own = {0};
    mu_status st = build(s, m, &own);
    if (st == MU_OK) {
        *out = m;
        return MU_OK;
    }
    if (s->job->diags.n_errors) {       // what is listed there says more
        mu_err_clear(&own);
        mu_diags_report(&s->job->diags, &own);
    }
    if (err && err->status == MU_OK) *err = own;
    mu_sampler_destroy(m);
    return st;
}

void mu_sampler_destroy(mu_sampler *m) {
    if (!m) return;
    mu_reader_close(m->reader);
    mu_free(m->p);
    mu_free(m);
}

// ---- drawing ----

// Reads one character; the scores of the next one are then in m->scores.
static mu_status read_one(mu_sampler *m, int64_t number, int32_t c, mu_err *err) {
    mu_tensor input[2] = {{.data = &m->in[0]}, {.data = &m->in[1]}};
    m->in[0] = c;
    m->in[1] = number == 0;
    mu_net_set_input(m->net, input, m->n_fields);
    mu_step step = {.phase = MU_PREDICT, .first_sample = number, .rows = 1, .global_rows = 1};
    MU_TRY(mu_net_forward(m->net, &step, err));
    for (int64_t i = 0; i < m->n_classes; i++)
        if (!isfinite(m->scores->f[i]))
            return MU_FAIL(err, MU_EMODEL, "the model's scores are not finite after %" PRId64 " characters",
                           number + 1);
    return MU_OK;
}

// p = exp((x - max) / temperature), not yet divided by its sum, which comes back.
static double weigh(const float *x, int64_t n, double temperature, double *p) {
    double top = (double)x[0], sum = 0;
    for (int64_t i = 1; i < n; i++) top = fmax(top, (double)x[i]);
    for (int64_t i = 0; i < n; i++) sum += p[i] = exp(((double)x[i] - top) / temperature);
    return sum;
}

// The character for a uniform number u in [0, 1); temperature 0: the best, the first of equals.
static int32_t choose(mu_sampler *m, double temperature, double u) {
    const float *x = m->scores->f;
    int64_t best = 0;
    for (int64_t i = 1; i < m->n_classes; i++)
        if (x[i] > x[best]) best = i;
    if (temperature <= 0) return (int32_t)best;
    double rest = u * weigh(x, m->n_classes, temperature, m->p);
    for (int64_t i = 0; i < m->n_classes; i++) {
        rest -= m->p[i];
        if (rest < 0) return (int32_t)i;
    }
    return (int32_t)best;       // rounding left something over
}

static mu_status check_opts(const mu_sampler *m, const mu_sample_opts *o, const char *prime, mu_err *err) {
    size_t n = strlen(prime);
    if (o->length < 0 || n >= MU_SAMPLE_MAX || o->length > MU_SAMPLE_MAX - (int64_t)n)
        return MU_FAIL(err, MU_EUSAGE, "a text of %" PRId64 " characters is not possible, at most %d",
                       o->length, MU_SAMPLE_MAX);
    if (o->warmup < 0 || o->warmup > MU_SAMPLE_MAX)
        return MU_FAIL(err, MU_EUSAGE, "a warm-up of %" PRId64 " characters is not possible, at most %d",
                       o->warmup, MU_SAMPLE_MAX);
    if (!(o->temperature >= 0) || !isfinite(o->temperature))
        return MU_FAIL(err, MU_EUSAGE, "temperature %g is not possible: 0 or more", o->temperature);
    for (const char *c = prime; *c; c++)
        if (m->number[(unsigned char)*c] < 0)
            return mu_err_hinted(
                MU_FAIL(err, MU_EUSAGE, "the model does not know byte 0x%02x at place %td of the prime",
                        (unsigned char)*c, c - prime),
                err, "It knows the %" PRId64 " characters of its training text.", m->n_classes);
    return MU_OK;
}

static double uniform(mu_rng_key key, int64_t number) {
    uint32_t u[4];
    mu_rng_block(key, 0, (uint64_t)number, u);
    return ((double)u[0] + (double)u[1] * 0x1p-32) * 0x1p-32;
}

// Reads what stands before the text; *at counts the characters.
static mu_status read_before(mu_sampler *m, const mu_sample_opts *o, const char *prime, int64_t *at,
                             mu_err *err) {
    for (const char *c = prime; *c; c++)
        MU_TRY(read_one(m, (*at)++, m->number[(unsigned char)*c], err));
    if (*prime) return MU_OK;
    const int32_t line = m->number['\n'];
    const mu_rng_key key = mu_rng_key_make(o->seed, "sample/warmup");
    MU_TRY(read_one(m, (*at)++, line >= 0 ? line : 0, err));
    for (int64_t i = 0; o->warmup && i < 2 * o->warmup; i++) {
        const int32_t c = choose(m, 1, uniform(key, i));
        MU_TRY(read_one(m, (*at)++, c, err));
        if (i + 1 >= o->warmup && c == line) break;
    }
    return MU_OK;
}

mu_status mu_sampler_draw(mu_sampler *m, const mu_sample_opts *o, mu_sample_sink sink, void *ctx,
                          double *nats, mu_err *err) {
    const char *prime = o->prime ? o->prime : "";
    MU_TRY(check_opts(m, o, prime, err));
    int64_t at = 0;
    MU_TRY(read_before(m, o, prime, &at, err));
    const mu_rng_key key = mu_rng_key_make(o->seed, "sample");
    double sum = 0;
    for (int64_t i = 0; i < o->length; i++) {
        const int32_t c = choose(m, o->temperature, uniform(key, i));
        double all = weigh(m->scores->f, m->n_classes, 1, m->p);
        sum -= log(m->p[c] / all);
        MU_TRY(sink(ctx, m->names[c][0], err));
        if (i + 1 < o->length) MU_TRY(read_one(m, at++, c, err));
    }
    if (nats) *nats = o->length ? sum / (double)o->length : 0;
    return MU_OK;
}
