// SPDX-License-Identifier: Apache-2.0
// updater.c - the registries of rules and schedules, the `updater:` block, the rate of a moment.
//
// The keys of the block belong to two owners: the rule (momentum, beta1, ...) and this file (rate,
// decay, clipping). Each is bound by its own table; `rate` is bound by hand because a plain number
// stands for a fixed rate. The same split holds inside `rate`.
#include "updater/updater.h"

#define X(name) extern const mu_updater_class mu_updater_##name;
#include "updater_list.inc"
#undef X
#define X(name) extern const mu_schedule_class mu_schedule_##name;
#include "schedule_list.inc"
#undef X

static const mu_plugin *const updater_list[] = {
#define X(name) &mu_updater_##name.plugin,
#include "updater_list.inc"
#undef X
};
static const mu_plugin *const schedule_list[] = {
#define X(name) &mu_schedule_##name.plugin,
#include "schedule_list.inc"
#undef X
};

const mu_registry mu_updaters = { "updater", MU_COUNT(updater_list), updater_list };
const mu_registry mu_schedules = { "schedule", MU_COUNT(schedule_list), schedule_list };

// `rate` stands first: bind_common skips it.
const mu_field mu_updater_fields[] = {
    { "rate", MU_CLASS, offsetof(mu_updater, schedule), NULL, NULL, "schedule",
      "learning rate: a number, or a schedule" },
    { "decay", MU_FLOAT, offsetof(mu_updater, l2), "0", "[0,)", NULL, "L2 weight decay, added to the gradient" },
    { "l1", MU_FLOAT, offsetof(mu_updater, l1), "0", "[0,)", NULL, "L1 weight decay, added to the gradient" },
    { "clip_value", MU_FLOAT, offsetof(mu_updater, clip_value), "0", "[0,)", NULL,
      "largest size of each gradient element; 0 = no limit" },
    { "clip_norm", MU_FLOAT, offsetof(mu_updater, clip_norm), "0", "[0,)", NULL,
      "largest L2 norm of all gradients together; 0 = no limit" },
    {0},
};

const mu_field mu_rate_fields[] = {
    { "base", MU_DOUBLE, offsetof(mu_updater, base), NULL, "[0,)", NULL, "rate that the schedule starts from" },
    { "per", MU_ENUM, offsetof(mu_updater, per), "step", NULL, "step|epoch", "unit of all times of the schedule" },
    { "warmup", MU_DOUBLE, offsetof(mu_updater, warmup), "0", "[0,)", NULL,
      "steps (or epochs) in which the rate rises to the schedule's" },
    { "warmup_from", MU_DOUBLE, offsetof(mu_updater, warmup_from), "0.1", "[0,1]", NULL,
      "share of the schedule's rate at the start of warm-up" },
    {0},
};

enum { MAX_COMMON = 8 };

static size_t field_keys(const mu_field *f, const char *keys[MAX_COMMON]) {
    size_t n = 0;
    for (; f->key && n < MAX_COMMON; f++) keys[n++] = f->key;
    return n;
}

// Binds this file's share of a block whose plug-in share is bound already: every key of the map was
// judged there, so none is unknown here.
static void bind_common(mu_binder *b, const mu_node *node, mu_srcpos where, const char *what,
                        const mu_field *fields, mu_updater *u) {
    const mu_node *map = node && node->kind == MU_MAP ? node : NULL;
    const size_t n = map ? map->n : 0;
    const char **keys = n ? mu_arena_array(b->arena, n, sizeof *keys) : NULL;
    if (n && !keys) {
        mu_diags_no_memory(b->diags);
        return;
    }
    for (size_t i = 0; i < n; i++) keys[i] = map->item[i]->key;
    mu_bind(b, map, where, what, &(mu_bind_part){ fields, u }, 1, keys, n);
}

static void set_schedule(mu_updater *u, mu_class_ref ref) {
    u->schedule = (const mu_schedule_class *)ref.plugin;
    u->schedule_state = ref.state;
}

static void check_schedule(mu_binder *b, const mu_updater *u, mu_srcpos where) {
    const char *problem = u->schedule && u->schedule->check ? u->schedule->check(u->schedule_state) : NULL;
    if (problem) mu_diags_add(b->diags, MU_DIAG_ERROR, where, "%s", problem);
}

static void bind_rate(mu_binder *b, const mu_node *node, mu_srcpos block, mu_updater *u) {
    static const char what[] = "`updater.rate`";
    const char *text = node && !node->quoted ? mu_node_text(node) : NULL;
    const mu_class_ref fixed = { mu_registry_find(&mu_schedules, "fixed"), NULL };
    double number;
    if (mu_node_is_null(node)) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, node ? node->pos : block, "`updater` has no `rate`");
        mu_diag_hint(b->diags, g, "Write a number such as `rate: 0.01`, or a schedule with `type` and `base`.");
    } else if (text && mu_parse_double(text, &number)) {
        set_schedule(u, fixed);
        u->base = number;
        if (number < 0)
            mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "`rate` is %s, must be at least 0", text);
    } else if (node->kind == MU_MAP && !mu_node_find(node, "type")) {
        set_schedule(u, fixed);
        mu_bind(b, node, node->pos, what, &(mu_bind_part){ mu_rate_fields, u }, 1, NULL, 0);
    } else {
        const char *keys[MAX_COMMON];
        size_t n = field_keys(mu_rate_fields, keys), n_errors = b->diags->n_errors;
        set_schedule(u, mu_bind_class(b, node, node->pos, what, &mu_schedules, "type", keys, n));
        if (u->schedule) bind_common(b, node, node->pos, what, mu_rate_fields, u);
        if (b->diags->n_errors == n_errors) check_schedule(b, u, node->pos);
    }
}

mu_updater *mu_updater_bind(mu_binder *b, const mu_node *node) {
    static const char what[] = "`updater`";
    const size_t n_errors = b->diags->n_errors;
    const mu_srcpos where = node ? node->pos : MU_NOPOS;
    mu_updater *u = mu_arena_alloc(b->arena, sizeof *u);
    if (!u) {
        mu_diags_no_memory(b->diags);
        return NULL;
    }
    u->warmup_from = 1;
    const char *keys[MAX_COMMON];
    size_t n = field_keys(mu_updater_fields, keys);
    mu_class_ref rule = mu_bind_class(b, node, where, what, &mu_updaters, "type", keys, n);
    u->class = (const mu_updater_class *)rule.plugin;
    u->state = rule.state;
    bind_common(b, node, where, what, mu_updater_fields + 1, u);
    bind_rate(b, mu_node_find(node, "rate"), where, u);
    return b->diags->n_errors == n_errors && u->class && u->schedule ? u : NULL;
}

double mu_updater_rate(const mu_updater *u, int64_t step, double epoch, double end_steps, double end_epochs) {
    const double t = u->per ? epoch : (double)step, end = u->per ? end_epochs : end_steps;
    double rate = u->schedule->rate(u->schedule_state, u->base, t, end);
    if (t < u->warmup) rate *= u->warmup_from + (1 - u->warmup_from) * t / u->warmup;
    return rate;
}
