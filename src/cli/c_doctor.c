// SPDX-License-Identifier: Apache-2.0
// c_doctor.c - `muster doctor`: prints what run/doctor.h finds, and whether there is a profile of the machine.
// Only `missing` makes the exit status 1.
#include "cli/cli.h"

#include "file/json.h"
#include "plan/profile.h"
#include "run/doctor.h"

struct doctor { bool latency; };

static void put_json(mu_text *t, const char *name, const mu_finding *f) {
    mu_text_printf(t, "%s{\"check\":", t->n > 1 ? "," : "");
    mu_text_json_string(t, name);
    mu_text_printf(t, ",\"verdict\":\"%s\",\"text\":", mu_finding_level_name(f->level));
    mu_text_json_string(t, f->text);
    mu_text_printf(t, ",\"advice\":");
    mu_text_json_string(t, f->advice);
    mu_text_printf(t, "}");
}

typedef struct report { const mu_args *a; mu_text json; int missing; } report;

static void ask(report *r, const mu_doctor_check *c) {
    mu_finding f = {0};
    c->ask(&f);
    r->missing += f.level == MU_FINDING_MISSING;
    if (r->a->json) put_json(&r->json, c->name, &f);
    else printf("%-8s %-9s %s\n", mu_finding_level_name(f.level), c->name, f.text);
    if (!r->a->json && f.advice[0]) printf("%18s -> %s\n", "", f.advice);
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    static const mu_doctor_check profile = {"profile", mu_profile_check, false};
    const struct doctor *d = values;
    report r = {.a = a};
    mu_text_printf(&r.json, "[");
    for (const mu_doctor_check *c = mu_doctor_checks; c->name; c++)
        if (!c->slow || d->latency) ask(&r, c);
    ask(&r, &profile);
    mu_status s = MU_OK;
    if (a->json && r.json.failed) s = MU_FAIL_NOMEM(err, "the report");
    else if (a->json)
        printf("{\"version\":\"%s\",\"missing\":%d,\"checks\":%s]}\n", MU_VERSION, r.missing, r.json.s);
    mu_text_fini(&r.json);
    if (!s && r.missing) s = MU_FAIL(err, MU_EUNSUPPORTED, "%d check(s) failed", r.missing);
    return s;
}

static const mu_opt options[] = {
    MU_OPT(struct doctor, latency, "latency", MU_OPT_FLAG, NULL, "also time a round trip between two cores"),
    {0},
};

const mu_verb_class mu_verb_doctor = {
    .name = "doctor", .help = "check libraries, machine, data and folders; say what to install",
    .state_size = sizeof(struct doctor),
    .usage = "[options]",
    .example = "muster doctor",
    .args = {.options = options, .common = MU_COMMON_JSON, .min_words = 0, .max_words = 0},
    .run = run,
};
