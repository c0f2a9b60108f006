// SPDX-License-Identifier: Apache-2.0
// config.c - see config.h.
//
// The overlay is read by the reader of job files, so that it has the same limits and its errors the same
// places. Values are written back as they stand, scalars and flow maps of scalars alone.
#include "plan/config.h"

#include "file/fs.h"
#include "file/outfile.h"
#include "job/yaml.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const places[] = {"auto", "beside", "process", "both", "auto"};
static const char *const architectures[] = {"auto", "base", "adv", "adv*"};

static void add(mu_config_edits *e, const char *fmt, ...) MU_PRINTF(2, 3);
static void add(mu_config_edits *e, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->text[e->n++], MU_CONFIG_EDIT, fmt, args);
    va_end(args);
}

void mu_config_as_edits(const mu_config *c, mu_config_edits *out) {
    const bool threads = c->server == MU_SERVER_PROCESS || c->server == MU_SERVER_BOTH;
    *out = (mu_config_edits){.nodes = c->nodes};
    add(out, "cluster.groups=~");
    add(out, "cluster.servers=~");
    add(out, "cluster.learners=%d", c->learners);
    add(out, "cluster.workers=%d", c->workers);
    add(out, "cluster.protocol=%s", c->protocol);
    add(out, "cluster.batch=%" PRId64, c->own_mu ? c->mu : 0);
    add(out, "cluster.server=%s", places[c->server]);
    if (threads) add(out, "cluster.server_threads=%d", c->server_threads);
    else add(out, "cluster.server_threads=~");
    if (c->workers > 1) add(out, "cluster.partition=%s", c->auto_cut ? "auto" : "batch");
    add(out, "cluster.architecture=%s", architectures[c->architecture]);
    const bool merges = c->server_groups > 1 && c->architecture == MU_ARCHITECTURE_AUTO;
    if (merges) add(out, "cluster.server_groups=%d", c->server_groups);
    else add(out, "cluster.server_groups=~");
    if (merges && c->sync_every > 0) add(out, "cluster.sync_every=%" PRId64, c->sync_every);
    else add(out, "cluster.sync_every=~");
    if (merges && *c->merge) add(out, "cluster.merge=%s", c->merge);
    else add(out, "cluster.merge=~");
}

// ---- words ----

typedef struct words { char *out; size_t size, n; } words;

static void say(words *w, const char *fmt, ...) MU_PRINTF(2, 3);
static void say(words *w, const char *fmt, ...) {
    if (w->n >= w->size) return;
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(w->out + w->n, w->size - w->n, fmt, args);
    va_end(args);
    w->n += n > 0 ? (size_t)n : 0;
}

// "{type: softsync, n: 2}" as "softsync n 2".
static void say_protocol(words *w, const char *text) {
    if (*text != '{') {
        say(w, ", %s", text);
        return;
    }
    say(w, ", ");
    const char *at = strstr(text, "type:");
    for (at = at ? at + 5 : text + 1; *at; at++)
        if (!strchr(":,{}", *at) && !(*at == ' ' && (at[1] == ' ' || at[-1] == ':' || at[-1] == ',')))
            say(w, "%c", *at);
        else if (*at == ',' || (*at == ':' && at[1] == ' ')) say(w, " ");
}

void mu_config_text(const mu_config *c, char *out, size_t size) {
    words w = {out, size, 0};
    if (c->nodes > 1) say(&w, "%d nodes, ", c->nodes);
    say(&w, "%d learner%s", c->learners, c->learners == 1 ? "" : "s");
    if (c->workers > 1) say(&w, " of %d workers%s", c->workers, c->auto_cut ? " (auto)" : " by batch");
    if (mu_config_processes(c) > 1) say_protocol(&w, c->protocol);
    if (c->architecture != MU_ARCHITECTURE_AUTO) say(&w, ", %s", architectures[c->architecture]);
    if (c->server_groups > 1 && c->architecture == MU_ARCHITECTURE_AUTO)
        say(&w, ", %d groups merged every %" PRId64, c->server_groups, c->sync_every);
    say(&w, ", mu %" PRId64, c->mu);
    const bool threads = c->server == MU_SERVER_PROCESS || c->server == MU_SERVER_BOTH;
    if (c->server == MU_SERVER_PROCESS) say(&w, ", server process");
    if (c->server == MU_SERVER_BOTH) say(&w, ", server process and learners");
    if (threads && c->server_threads > 1) say(&w, " of %d threads", c->server_threads);
}

bool mu_config_same(const mu_config *a, const mu_config *b) {
    return a->nodes == b->nodes && a->learners == b->learners && a->workers == b->workers &&
           a->server_groups == b->server_groups && a->sync_every == b->sync_every &&
           a->architecture == b->architecture && a->mu == b->mu && a->own_mu == b->own_mu &&
           a->server == b->server && a->server_threads == b->server_threads && a->auto_cut == b->auto_cut &&
           !strcmp(a->merge, b->merge) && !strcmp(a->protocol, b->protocol);
}

// ---- protocols ----

mu_status mu_config_bind_protocol(mu_arena *a, const char *text, mu_class_ref *out, mu_err *err) {
    static const mu_registry *const registries[] = {&mu_protocols, NULL};
    const mu_srcpos place = {.path = "protocol", .line = 1, .col = 1};
    mu_diags diags;
    mu_node *node = NULL;
    mu_err own = {0};
    mu_diags_init(&diags, a);
    mu_binder b = {.arena = a, .diags = &diags, .folder = ".", .registries = registries};
    if (mu_yaml_parse(a, &diags, place, text, strlen(text), &node, &own) == MU_OK && node)
        *out = mu_bind_class(&b, node, node->pos, "the protocol", &mu_protocols, "type", NULL, 0);
    if (out->plugin && !diags.n_errors) return MU_OK;
    const mu_diag *first = mu_diags_first_error(&diags);
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%.60s` is no protocol: %s", text,
                                 first ? first->msg : "it is empty"),
                         err, "`muster help protocol` lists them.");
}

// ---- the overlay file ----

// Comments need no quoting; a new line begins another one.
static void put_comment(FILE *f, const char *about) {
    for (const char *at = about; at && *at;) {
        const size_t n = strcspn(at, "\n");
        fprintf(f, "# %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

mu_status mu_config_save(const mu_config *c, const char *about, const char *path, mu_err *err) {
    mu_config_edits e;
    mu_outfile *out;
    mu_config_as_edits(c, &e);
    MU_TRY(mu_outfile_create(path, &out, err));
    FILE *f = mu_outfile_stream(out);
    if (!f) {
        mu_outfile_abandon(out);
        return MU_FAIL_NOMEM(err, "the plan");
    }
    fprintf(f, "# A plan: `muster train JOB --plan FILE` trains the job so.\n");
    put_comment(f, about);
    fprintf(f, "plan:\n  nodes: %d\nset:\n", e.nodes);
    for (int i = 0; i < e.n; i++) {
        const char *equals = strchr(e.text[i], '=');
        fprintf(f, "  %.*s: %s\n", (int)(equals - e.text[i]), e.text[i], equals + 1);
    }
    fclose(f);
    return mu_outfile_commit(out, err);
}

static bool is_plain(const char *s) {
    return *s && !s[strcspn(s, "=\n\r{}[],:#'\"")] && strlen(s) < MU_CONFIG_EDIT / 2;
}

bool mu_config_write_value(const mu_node *v, char *out, size_t size) {
    words w = {out, size, 0};
    *out = '\0';
    if (mu_node_is_null(v)) say(&w, "~");
    else if (v->kind == MU_SCALAR && is_plain(v->text)) say(&w, "%s", v->text);
    else if (v->kind != MU_MAP || !v->n) return false;
    for (size_t i = 0; v->kind == MU_MAP && i < v->n; i++) {
        const char *text = mu_node_text(v->item[i]);
        if (!text || !is_plain(text) || !is_plain(v->item[i]->key)) return false;
        say(&w, "%s%s: %s%s", i ? ", " : "{", v->item[i]->key, text, i + 1 == v->n ? "}" : "");
    }
    return w.n < size;
}

static mu_status take_edit(const mu_node *v, mu_config_edits *out, mu_err *err) {
    char value[MU_CONFIG_EDIT];
    if (strncmp(v->key, "cluster.", 8) || !v->key[8] || strlen(v->key) > MU_CONFIG_EDIT / 3)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, v->key_pos, "`%.60s` is no key that a plan may set", v->key),
                             err, "A plan sets keys of `cluster`, such as `cluster.learners: 4`; set others with --set.");
    if (!mu_config_write_value(v, value, sizeof value))
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, v->pos, "`%.60s` has a value that a plan cannot have", v->key),
                             err, "Write a word, a number, or one block of these: {type: softsync, n: 2}.");
    if (out->n == MU_CONFIG_EDITS)
        return MU_FAIL_AT(err, MU_EJOB, v->key_pos, "a plan sets at most %d keys", MU_CONFIG_EDITS);
    const int n = snprintf(out->text[out->n], MU_CONFIG_EDIT, "%s=%s", v->key, value);
    if (n >= MU_CONFIG_EDIT) return MU_FAIL_AT(err, MU_EJOB, v->pos, "the value of `%.60s` is too long", v->key);
    out->n++;
    return MU_OK;
}

static mu_status take_plan(const mu_node *plan, mu_config_edits *out, mu_err *err) {
    int64_t nodes = 1;
    for (size_t i = 0; plan && i < plan->n; i++) {
        const mu_node *v = plan->item[i];
        if (strcmp(v->key, "nodes"))
            return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, v->key_pos, "unknown key `%.60s` in `plan`", v->key), err,
                                 "It has `nodes` alone.");
        const char *text = mu_node_text(v);
        if (!text || !mu_parse_int(text, &nodes) || nodes < 1 || nodes > 1024)
            return MU_FAIL_AT(err, MU_EJOB, v->pos, "`nodes` is a whole number from 1 to 1024");
    }
    out->nodes = (int)nodes;
    return MU_OK;
}

static mu_status take_all(const mu_node *root, const char *path, mu_config_edits *out, mu_err *err) {
    const mu_srcpos top = {.path = path, .line = 1, .col = 1};
    if (!root || root->kind != MU_MAP)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, root ? root->pos : top, "this is no plan"), err,
                             "`muster plan JOB --out FILE` writes one.");
    const mu_node *plan = mu_node_find(root, "plan"), *set = mu_node_find(root, "set");
    for (size_t i = 0; i < root->n; i++)
        if (root->item[i] != plan && root->item[i] != set)
            return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, root->item[i]->key_pos,
                                            "unknown key `%.60s` in a plan", root->item[i]->key),
                                 err, "A plan has `plan` and `set`; `muster plan JOB --out FILE` writes one.");
    if (plan && plan->kind != MU_MAP && !mu_node_is_null(plan))
        return MU_FAIL_AT(err, MU_EJOB, plan->pos, "`plan` is a block with the key `nodes`");
    if (!set || set->kind != MU_MAP || !set->n)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, set ? set->pos : top, "a plan needs the block `set`"), err,
                             "Below it stand keys of the job, such as `cluster.learners: 4`.");
    MU_TRY(take_plan(plan, out, err));
    for (size_t i = 0; i < set->n; i++) MU_TRY(take_edit(set->item[i], out, err));
    return MU_OK;
}

mu_status mu_config_parse(const char *path, const char *text, size_t size, mu_config_edits *out, mu_err *err) {
    mu_arena arena;
    mu_diags diags;
    mu_node *root = NULL;
    *out = (mu_config_edits){.nodes = 1};
    mu_arena_init(&arena, "plan");
    mu_diags_init(&diags, &arena);
    mu_err own = {0};
    mu_status st = mu_yaml_parse(&arena, &diags, (mu_srcpos){.path = path, .line = 1, .col = 1}, text, size,
                                 &root, &own);
    if (st == MU_EJOB && diags.n_errors) {
        mu_err_clear(&own);
        st = mu_diags_report(&diags, &own);
    }
    if (st == MU_OK && diags.n_errors) st = mu_diags_report(&diags, &own);
    if (st == MU_OK) st = take_all(root, path, out, &own);
    if (st != MU_OK) {
        own.pos.path = path; // the tree's copy of it ends here
        (void)mu_err_pass(st, &own, err);
    }
    mu_arena_fini(&arena);
    return st;
}

mu_status mu_config_load(const char *path, mu_config_edits *out, mu_err *err) {
    char *text;
    size_t size;
    mu_err own = {0};
    mu_status st = mu_fs_read(path, MU_YAML_MAX_SIZE, &text, &size, &own);
    if (st == MU_ENOTFOUND)
        return mu_err_hinted(MU_FAIL(err, MU_EJOB, "no plan `%s`", path), err,
                             "`muster plan JOB --out %s` writes one.", path);
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    st = mu_config_parse(path, text, size, out, err);
    mu_free(text);
    return st;
}
