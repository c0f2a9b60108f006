// SPDX-License-Identifier: Apache-2.0
// machine_file.c - a machine as text, both ways.
//
// Read as YAML, which has comments and of which JSON is a part; so a profile and a person's description are
// one form with one reader, and a mistake is shown with its line. Field tables hold the ranges. Written as
// JSON.
//
//   {"name": ..., "cores": ...,                                         table `about`
//    "loads": [{"processes": 1, "flops_per_s": ..., "bytes_per_s": ...}, ...],
//    "lines": {...}, "rules": [{"name": "adam", ...}, ...], "network": {...}}
//
// A description without `loads` says what a core is: `core_flops_per_s` or `clock_hz`, `core_bytes_per_s`,
// `node_bytes_per_s` (machine_derive.c).
#include "base/utf8.h"
#include "file/outfile.h"
#include "job/bind.h"
#include "job/suggest.h"
#include "job/yaml.h"
#include "plan/machine_fields.h"
#include "updater/updater.h"

#include <stdio.h>
#include <string.h>

#define BYTES "[1k,1e15]"
#define RATE "[1k,1e15]"
#define SECONDS "[1e-10,10]"

enum { MAX_BYTES = 1 << 20 };

const mu_field mu_machine_about[] = {
    MU_FIELD(mu_machine_about_form, name, MU_STRING, "", NULL, "what to call it"),
    MU_FIELD(mu_machine_about_form, cpu, MU_STRING, "", NULL, "processor; of a profile"),
    MU_FIELD(mu_machine_about_form, level, MU_STRING, "", NULL, "of instructions: v2, v3, v4"),
    MU_FIELD(mu_machine_about_form, made, MU_STRING, "", NULL, "when it was measured; not in a description"),
    MU_FIELD(mu_machine_about_form, nodes, MU_INT, "1", "[1,4096]", "machines of the cluster"),
    MU_FIELD(mu_machine_about_form, cores, MU_INT, NULL, "[1,65536]", "of a node"),
    MU_FIELD(mu_machine_about_form, memory_bytes, MU_DOUBLE, "1G", BYTES, "of a node"),
    MU_FIELD(mu_machine_about_form, cache_bytes, MU_DOUBLE, "1G", BYTES, "second level, of a core"),
    MU_FIELD(mu_machine_about_form, shared_cache_bytes, MU_DOUBLE, "1G", BYTES, "third level, all of a node"),
    MU_FIELD(mu_machine_about_form, core_flops_per_s, MU_DOUBLE, "1G", "[1M,1e16]",
             "single-precision multiplications and additions of a core"),
    MU_FIELD(mu_machine_about_form, clock_hz, MU_DOUBLE, "1G", "[1M,1e11]",
             "clock of a core, in place of its flops: times 16, with level v2 8, with v4 64"),
    MU_FIELD(mu_machine_about_form, core_bytes_per_s, MU_DOUBLE, "1G", RATE,
             "memory bandwidth, read and written, that a core alone gets"),
    MU_FIELD(mu_machine_about_form, node_bytes_per_s, MU_DOUBLE, "1G", RATE,
             "the same of all cores together"),
    MU_FIELD(mu_machine_about_form, wake_s, MU_DOUBLE, "1", SECONDS, "from a ring to who slept"),
    MU_FIELD(mu_machine_about_form, event_s, MU_DOUBLE, "1", SECONDS, "of the protocol core, under its lock"),
    MU_FIELD(mu_machine_about_form, busy, MU_DOUBLE, "1", "[0,1]",
             "share of the cores that other programs took while it was measured"),
    {0},
};

typedef struct load_form {
    int64_t processes;
    double flops_per_s, bytes_per_s;
} load_form;

static const mu_field load_fields[] = {
    MU_FIELD(load_form, processes, MU_INT, NULL, "[1,65536]", "that work at once"),
    MU_FIELD(load_form, flops_per_s, MU_DOUBLE, NULL, "[1M,1e16]", "of each of them"),
    MU_FIELD(load_form, bytes_per_s, MU_DOUBLE, NULL, RATE, "of each of them, read and written"),
    {0},
};

const mu_field mu_machine_lines_fields[] = {
    MU_FIELD(mu_machine_lines, round_trip_s, MU_DOUBLE, "1", SECONDS, "of a flag between two cores"),
    MU_FIELD(mu_machine_lines, bytes_per_s, MU_DOUBLE, "1G", RATE,
             "a core reads what another has just written"),
    {0},
};

typedef struct rule_form {
    const char *name;
    double cached_bytes_per_s, bytes_per_s;
} rule_form;

static const mu_field rule_fields[] = {
    MU_FIELD(rule_form, name, MU_STRING, NULL, NULL, "of the update rule"),
    MU_FIELD(rule_form, cached_bytes_per_s, MU_DOUBLE, "1G", RATE,
             "weights, histories and gradient in a cache"),
    MU_FIELD(rule_form, bytes_per_s, MU_DOUBLE, "1G", RATE, "in memory"),
    {0},
};

const mu_field mu_machine_network_fields[] = {
    MU_FIELD(mu_machine_network, latency_s, MU_DOUBLE, "1", SECONDS, "one way, of a message of a few bytes"),
    MU_FIELD(mu_machine_network, bytes_per_s, MU_DOUBLE, NULL, RATE, "of a node, in and out at once"),
    MU_FIELD(mu_machine_network, message_s, MU_DOUBLE, "1", "[1e-12,10]",
             "processor time of a message, each end"),
    MU_FIELD(mu_machine_network, byte_s, MU_DOUBLE, "1e-9", "[1e-18,1e-3]", "the same of each byte"),
    {0},
};

// ---- reading ------------------------------------------------------------------------------------

static void *at(void *form, const mu_field *f) { return (char *)form + f->offset; }

// Numbers that are not given are 0; their defaults only have to be in their ranges.
static void bind_given(mu_binder *b, const mu_node *map, const char *what, const mu_field *fields, void *out,
                       const char *const *other, size_t n_other) {
    const mu_bind_part part = {fields, out};
    mu_bind(b, map, map->pos, what, &part, 1, other, n_other);
    for (const mu_field *f = fields; f->key; f++)
        if (f->type == MU_DOUBLE && mu_node_is_null(mu_node_find(map, f->key))) *(double *)at(out, f) = 0;
}

static mu_diag *wrong(mu_binder *b, const mu_node *map, const char *key, const char *text) {
    const mu_node *n = mu_node_find(map, key);
    return mu_diags_add(b->diags, MU_DIAG_ERROR, n ? n->pos : map->pos, "%s", text);
}

static void take_text(mu_binder *b, const mu_node *map, const char *key, const char *text, char *out,
                      size_t size) {
    char why[80];
    snprintf(out, size, "%s", "");
    if (!text) return;
    if (strlen(text) >= size) snprintf(why, sizeof why, "`%s` is longer than %zu bytes", key, size - 1);
    else if (mu_utf8_has_control(text)) snprintf(why, sizeof why, "`%s` has control characters", key);
    else snprintf(out, size, "%s", text), why[0] = '\0';
    if (why[0]) wrong(b, map, key, why);
}

// The items of a list under a key; n = 0 when there is none.
static const mu_node *find_list(mu_binder *b, const mu_node *map, const char *key, size_t most) {
    static const mu_node none = {.kind = MU_LIST};
    const mu_node *n = mu_node_find(map, key);
    if (mu_node_is_null(n)) return &none;
    if (n->kind != MU_LIST) mu_diags_add(b->diags, MU_DIAG_ERROR, n->pos, "`%s` must be a list", key);
    else if (n->n > most)
        mu_diags_add(b->diags, MU_DIAG_ERROR, n->pos, "`%s` has %zu items, at most %zu", key, n->n, most);
    else return n;
    return &none;
}

static void read_loads(mu_binder *b, const mu_node *root, mu_machine *m) {
    const mu_node *list = find_list(b, root, "loads", MU_MACHINE_LOADS);
    for (size_t i = 0; i < list->n; i++) {
        load_form f = {0};
        const size_t before = b->diags->n_errors;
        bind_given(b, list->item[i], "a load", load_fields, &f, NULL, 0);
        if (b->diags->n_errors > before) continue;
        const int last = m->n_loads ? m->load[m->n_loads - 1].processes : 0;
        if (!last && f.processes != 1)
            wrong(b, list->item[i], "processes", "the first load is not of one process");
        else if (f.processes <= last)
            wrong(b, list->item[i], "processes", "loads are not by rising processes");
        else if (m->cores && f.processes > m->cores)
            wrong(b, list->item[i], "processes", "a load of more processes than the node has cores");
        else m->load[m->n_loads++] = (mu_machine_load){(int)f.processes, f.flops_per_s, f.bytes_per_s};
    }
}

static bool knows_rule(const mu_machine *m, const char *name) {
    for (int i = 0; i < m->n_rules; i++)
        if (!strcmp(m->rule[i].name, name)) return true;
    return false;
}

static void read_rules(mu_binder *b, const mu_node *root, mu_machine *m) {
    const mu_node *list = find_list(b, root, "rules", MU_MACHINE_RULES);
    for (size_t i = 0; i < list->n; i++) {
        rule_form f = {0};
        const size_t before = b->diags->n_errors;
        bind_given(b, list->item[i], "a rule", rule_fields, &f, NULL, 0);
        const mu_node *name = mu_node_find(list->item[i], "name");
        if (b->diags->n_errors > before || !f.name) continue;
        if (!mu_registry_find(&mu_updaters, f.name)) {
            mu_words known = {0};
            mu_words_add_registry(b->diags, &known, &mu_updaters);
            mu_diag *g =
                mu_diags_add(b->diags, MU_DIAG_ERROR, name->pos, "unknown update rule `%.60s`", f.name);
            mu_diag_suggest(b->diags, g, f.name, &known, "rules");
        } else if (knows_rule(m, f.name)) {
            mu_diags_add(b->diags, MU_DIAG_ERROR, name->pos, "rule `%s` stands there twice", f.name);
        } else {
            mu_machine_rule *r = &m->rule[m->n_rules++];
            take_text(b, list->item[i], "name", f.name, r->name, sizeof r->name);
            r->cached_bytes_per_s = f.cached_bytes_per_s, r->bytes_per_s = f.bytes_per_s;
        }
    }
}

static void read_blocks(mu_binder *b, const mu_node *root, mu_machine *m) {
    const mu_node *lines = mu_node_find(root, "lines"), *network = mu_node_find(root, "network");
    if (!mu_node_is_null(lines)) bind_given(b, lines, "`lines`", mu_machine_lines_fields, &m->lines, NULL, 0);
    if (!mu_node_is_null(network))
        bind_given(b, network, "`network`", mu_machine_network_fields, &m->network, NULL, 0);
    else if (m->nodes > 1)
        mu_diag_label(b->diags, wrong(b, root, "nodes", "several nodes without a network between them"),
                      "add `network: {bytes_per_s: ...}`");
}

// Multiplications and additions of a core in a tick: one unit of 4 lanes for each of both, two units of 8 (of
// which few programs use more than half), two of 16.
static double flops_of(double hz, const char *level) {
    return hz * (!strcmp(level, "v4") ? 64 : !strcmp(level, "v2") ? 8 : 16);
}

// A description says what a core is, or what the loads are.
static void check_speed(mu_binder *b, const mu_node *root, mu_machine *m, mu_machine_about_form *f) {
    static const char *const of_core[] = {"core_flops_per_s", "clock_hz", "core_bytes_per_s",
                                          "node_bytes_per_s"};
    for (size_t i = 0; m->n_loads && i < MU_COUNT(of_core); i++)
        if (mu_node_find(root, of_core[i]))
            wrong(b, root, of_core[i], "`loads` says this, too: one of both must go");
    if (f->core_flops_per_s > 0 && f->clock_hz > 0)
        wrong(b, root, "clock_hz", "`core_flops_per_s` says this, too: one of both must go");
    if (f->core_bytes_per_s > 0 && f->node_bytes_per_s > 0 && f->node_bytes_per_s < f->core_bytes_per_s)
        wrong(b, root, "node_bytes_per_s", "all cores together get less than one alone");
    if (f->core_flops_per_s <= 0) f->core_flops_per_s = flops_of(f->clock_hz, m->level);
    if (!m->n_loads && f->core_flops_per_s <= 0 && !b->diags->n_errors)
        mu_diag_label(b->diags, wrong(b, root, "cores", "nothing says how fast a core is"),
                      "add `core_flops_per_s: ...` or `clock_hz: ...`");
}

static void read_machine(mu_binder *b, const mu_node *root, mu_machine *m) {
    static const char *const blocks[] = {"loads", "lines", "rules", "network"};
    mu_machine_about_form f = {0};
    bind_given(b, root, "a machine", mu_machine_about, &f, blocks, MU_COUNT(blocks));
    if (root->kind != MU_MAP) return;
    take_text(b, root, "name", f.name, m->name, sizeof m->name);
    take_text(b, root, "cpu", f.cpu, m->cpu, sizeof m->cpu);
    take_text(b, root, "level", f.level, m->level, sizeof m->level);
    take_text(b, root, "made", f.made, m->made, sizeof m->made);
    m->nodes = (int)f.nodes, m->cores = (int)f.cores;
    m->memory_bytes = f.memory_bytes, m->cache_bytes = f.cache_bytes;
    m->shared_cache_bytes = f.shared_cache_bytes;
    m->wake_s = f.wake_s, m->event_s = f.event_s, m->busy = f.busy;
    read_loads(b, root, m);
    read_rules(b, root, m);
    read_blocks(b, root, m);
    check_speed(b, root, m, &f);
    const mu_machine_load core = {1, f.core_flops_per_s, f.core_bytes_per_s};
    if (!b->diags->n_errors) mu_machine_derive(m, &core, f.node_bytes_per_s);
}

// What is wrong with the text is about a job elsewhere; here it is data.
static mu_status refuse(mu_status st, const mu_err *own, mu_err *err) {
    if (st == MU_ENOMEM) return mu_err_pass(st, own, err);
    mu_err_report(err, MU_EDATA, own->file, own->line, own->pos, "%s", own->msg);
    if (own->hint[0]) mu_err_hint(err, "%s", own->hint);
    return MU_EDATA;
}

mu_status mu_machine_parse(const char *text, size_t size, const char *path, mu_machine *out, mu_err *err) {
    mu_arena arena;
    mu_diags diags;
    mu_node *root = NULL;
    mu_machine m = {0};
    mu_err own = {0};
    mu_arena_init(&arena, "machine");
    mu_diags_init(&diags, &arena);
    const mu_srcpos origin = {.path = path, .line = 1, .col = 1};
    mu_binder b = {.arena = &arena, .diags = &diags, .folder = "."};
    mu_status st = mu_yaml_parse(&arena, &diags, origin, text, size, &root, &own);
    if (st == MU_OK && root) read_machine(&b, root, &m);
    else if (st == MU_OK) st = MU_FAIL_AT(&own, MU_EDATA, origin, "`%s` describes no machine", path);
    if (st == MU_OK && diags.no_memory) st = MU_FAIL_NOMEM(&own, "a machine");
    if (st == MU_OK) st = mu_diags_report(&diags, &own);
    if (st == MU_OK) *out = m;
    else st = refuse(st, &own, err);
    mu_arena_fini(&arena);
    return st;
}

mu_status mu_machine_load_file(const char *path, mu_machine *out, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    mu_err own = {0};
    mu_status st = mu_fs_read(path, MAX_BYTES, &text, &size, &own);
    if (st == MU_EMODEL)
        return MU_FAIL(err, MU_EDATA, "`%s` is no description of a machine: it is too long", path);
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    st = mu_machine_parse(text, size, path, out, err);
    mu_free(text);
    return st;
}

// ---- writing ------------------------------------------------------------------------------------

// Five digits: more is noise.
static void put(mu_text *t, const char *key, double value, const char *end) {
    mu_text_printf(t, "\"%s\": %.5g%s", key, value, end);
}

static void put_text(mu_text *t, const char *key, const char *value) {
    if (!value[0]) return;
    mu_text_printf(t, "  \"%s\": ", key);
    mu_text_json_string(t, value);
    mu_text_printf(t, ",\n");
}

static void put_line(mu_text *t, const char *key, double value) {
    mu_text_printf(t, "  ");
    put(t, key, value, ",\n");
}

static void put_loads(mu_text *t, const mu_machine *m) {
    mu_text_printf(t, "  \"loads\": [\n");
    for (int i = 0; i < m->n_loads; i++) {
        mu_text_printf(t, "    {\"processes\": %d, ", m->load[i].processes);
        put(t, "flops_per_s", m->load[i].flops_per_s, ", ");
        put(t, "bytes_per_s", m->load[i].bytes_per_s, i + 1 < m->n_loads ? "},\n" : "}\n");
    }
    mu_text_printf(t, "  ],\n");
}

static void put_rules(mu_text *t, const mu_machine *m) {
    mu_text_printf(t, "  \"rules\": [\n");
    for (int i = 0; i < m->n_rules; i++) {
        mu_text_printf(t, "    {\"name\": \"%s\", ", m->rule[i].name);
        put(t, "cached_bytes_per_s", m->rule[i].cached_bytes_per_s, ", ");
        put(t, "bytes_per_s", m->rule[i].bytes_per_s, i + 1 < m->n_rules ? "},\n" : "}\n");
    }
    mu_text_printf(t, "  ]");
}

static void put_network(mu_text *t, const mu_machine_network *n) {
    if (n->bytes_per_s <= 0) return;
    mu_text_printf(t, ",\n  \"network\": {");
    put(t, "latency_s", n->latency_s, ", ");
    put(t, "bytes_per_s", n->bytes_per_s, ",\n              ");
    put(t, "message_s", n->message_s, ", ");
    put(t, "byte_s", n->byte_s, "}");
}

void mu_machine_write(const mu_machine *m, mu_text *t) {
    mu_text_printf(t, "{\n");
    put_text(t, "name", m->name);
    put_text(t, "cpu", m->cpu);
    put_text(t, "level", m->level);
    put_text(t, "made", m->made);
    mu_text_printf(t, "  \"nodes\": %d,\n  \"cores\": %d,\n", m->nodes, m->cores);
    put_line(t, "memory_bytes", m->memory_bytes);
    put_line(t, "cache_bytes", m->cache_bytes);
    put_line(t, "shared_cache_bytes", m->shared_cache_bytes);
    put_loads(t, m);
    mu_text_printf(t, "  \"lines\": {");
    put(t, "round_trip_s", m->lines.round_trip_s, ", ");
    put(t, "bytes_per_s", m->lines.bytes_per_s, "},\n");
    put_line(t, "wake_s", m->wake_s);
    put_line(t, "event_s", m->event_s);
    if (m->made[0]) put_line(t, "busy", m->busy);
    put_rules(t, m);
    put_network(t, &m->network);
    mu_text_printf(t, "\n}\n");
}

mu_status mu_machine_save_file(const mu_machine *m, const char *path, mu_err *err) {
    mu_text t = {0};
    mu_outfile *f = NULL;
    mu_machine_write(m, &t);
    mu_status st = t.failed ? MU_FAIL_NOMEM(err, "a machine") : mu_outfile_create(path, &f, err);
    if (st == MU_OK) {
        mu_outfile_write(f, t.s, t.n);
        st = mu_outfile_commit(f, err);
    }
    mu_text_fini(&t);
    return st;
}
