// SPDX-License-Identifier: Apache-2.0
// c_sample.c - `muster sample`: text drawn from a trained character model.
//
// Prints the prime and what follows it, character by character as they are drawn.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "file/json.h"
#include "look/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct sample { const char *model, *prime; int64_t length, warmup, seed; double temperature; bool best; };

enum { WARMUP = 200 };  // characters

static const mu_opt options[] = {
    MU_OPT(struct sample, prime, "prime", MU_OPT_TEXT, "TEXT",
           "what the text begins with, read first; the longer, the better the net knows where it is"),
    MU_OPT(struct sample, length, "length", MU_OPT_INT, "N", "characters drawn; 1000 when not given"),
    MU_OPT(struct sample, warmup, "warmup", MU_OPT_INT, "N",
           "without a prime: characters drawn first and not shown, and on to the end of their line; 200"),
    MU_OPT(struct sample, temperature, "temperature", MU_OPT_NUMBER, "T",
           "below 1 more certain, above more daring, 0 = the best only; 1"),
    MU_OPT(struct sample, seed, "seed", MU_OPT_INT, "N", "another number, another text; 1 when not given"),
    MU_OPT_MODEL(struct sample),
    MU_OPT_BEST(struct sample),
    {0},
};

typedef struct text_writer {
    FILE       *out;            // NULL: only gathered
    const char *prime;          // still to be printed, once the options have proved good; NULL = done
    mu_text     text;
} text_writer;

static void print_prime(text_writer *w) {
    if (w->out && w->prime) fputs(w->prime, w->out);
    w->prime = NULL;
}

static mu_status take(void *ctx, char c, mu_err *err) {
    text_writer *w = ctx;
    print_prime(w);
    if (!w->out) mu_text_put(&w->text, &c, 1);
    else if (fputc(c, w->out) == EOF)
        return MU_FAIL(err, MU_EIO, "cannot write the text: %s", strerror(errno));
    return w->text.failed ? MU_FAIL_NOMEM(err, "the text") : MU_OK;
}

// JSON is UTF-8; a model may draw bytes that are none.
static void put_utf8(mu_text *to, const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t len = mu_utf8_sequence(s + i, n - i);
        if (len) mu_text_put(to, s + i, len);
        else mu_text_put(to, "\xef\xbf\xbd", 3);
        i += len ? len : 1;
    }
}

static void print_json(const text_writer *w, const mu_sample_opts *o, double nats) {
    mu_text prime = {0}, text = {0};
    put_utf8(&prime, o->prime, strlen(o->prime));
    if (w->text.s) put_utf8(&text, w->text.s, w->text.n);
    json_t *j = json_object();
    json_object_set_new(j, "prime", json_string(prime.s ? prime.s : ""));
    json_object_set_new(j, "text", json_string(text.s ? text.s : ""));
    json_object_set_new(j, "length", json_integer(o->length));
    json_object_set_new(j, "temperature", mu_json_number(o->temperature));
    json_object_set_new(j, "seed", json_integer((json_int_t)o->seed));
    json_object_set_new(j, "nats_per_char", mu_json_number(nats));
    mu_cli_print_json(j);
    mu_text_fini(&prime);
    mu_text_fini(&text);
}

static mu_status draw(const mu_args *a, mu_sampler *m, const mu_sample_opts *o, mu_err *err) {
    text_writer w = {.out = a->json ? NULL : stdout, .prime = o->prime};
    double nats, start = mu_clock_s();
    mu_status st = mu_sampler_draw(m, o, take, &w, &nats, err);
    if (st == MU_OK) print_prime(&w);
    if (st == MU_OK && a->json) print_json(&w, o, nats);
    else if (st == MU_OK) fputc('\n', w.out);
    if (st == MU_OK && fflush(stdout))
        st = MU_FAIL(err, MU_EIO, "cannot write the text: %s", strerror(errno));
    double s = mu_clock_s() - start;
    if (st == MU_OK && !a->quiet)
        fprintf(stderr, "%" PRId64 " characters in %.2f s (%.0f/s), %.3f nats each\n", o->length, s,
                (double)o->length / s, nats);
    mu_text_fini(&w.text);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct sample *v = values;
    mu_cli_model c;
    mu_sampler *m = NULL;
    mu_sample_opts o = {.prime = v->prime ? v->prime : "", .length = v->length, .warmup = v->warmup,
                        .temperature = v->temperature, .seed = (uint64_t)v->seed};
    if (!mu_args_given(a, "length")) o.length = 1000;
    if (!mu_args_given(a, "warmup")) o.warmup = WARMUP;
    if (!mu_args_given(a, "temperature")) o.temperature = 1;
    if (!mu_args_given(a, "seed")) o.seed = 1;
    mu_status st = mu_cli_open_model(a, a->word[0], v->model, v->best, &(mu_session_opts){0}, &c, err);
    if (st == MU_OK) st = mu_sampler_create(c.session, &m, err);
    if (st == MU_OK) st = mu_cli_take_params(&c, err);
    if (st == MU_OK) st = draw(a, m, &o, err);
    mu_sampler_destroy(m);
    mu_cli_close_model(&c, err);
    return st;
}

const mu_verb_class mu_verb_sample = {
    .name = "sample",
    .help = "draw text from a trained character model",
    .state_size = sizeof(struct sample),
    .usage = "RUN|MODEL|JOB [options]",
    .example = "muster sample runs/char-rnn-0abc12 --prime 'static int ' --temperature 0.5",
    .about =
        "Writes the prime and as many characters after it as --length says. Without a prime the model reads "
        "a new line and a text that it draws for itself (--warmup): it knows texts under way. The text is "
        "a function of the model and the options. The model knows its characters, so no file is needed.",
    .args = {.options = options, MU_ARGS_ONE_WORD("a run folder, a model file or a job file")},
    .run = run,
};
