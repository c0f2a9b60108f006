// SPDX-License-Identifier: Apache-2.0
// updater.c - the registries of rules and schedules, the `updater:` block, the rate of a moment.
//
// The keys of the block belong to two owners: the rule (momentum, beta1, ...) and this file (rate,
// decay, clipping). `rate` is bound by hand because a plain number stands for a fixed rate; inside it
// the schedule and this file share the keys in the same way.
#include "updater/updater.h"

#include "base/level.h"
#include "base/log.h"

#define X(name) MU_AT_LEVELS(extern const mu_updater_class, mu_updater_##name, );
#include "updater_list.inc"
#undef X
#define X(name) extern const mu_schedule_class mu_schedule_##name;
#include "schedule_list.inc"
#undef X

static const mu_plugin *const updater_list[] = {
#define X(name) &MU_LEVEL_LOWEST(mu_updater_##name).plugin,
#include "updater_list.inc"
#undef X
};
// The same at every level of instructions.
static const mu_updater_class *const updater_classes[][MU_LEVEL_COUNT] = {
#define X(name) {MU_LEVEL_ADDRESSES(mu_updater_##name)},
#include "updater_list.inc"
#undef X
};
static const mu_plugin *const schedule_list[] = {
#define X(name) &mu_schedule_##name.plugin,
#include "schedule_list.inc"
#undef X
};

const mu_registry mu_updaters = {"updater", MU_COUNT(updater_list), updater_list};
const mu_registry mu_schedules = {"schedule", MU_COUNT(schedule_list), schedule_list};

// `rate` stands first: mu_updater_bind skips it.
const mu_field mu_updater_fields[] = {
    {"rate", MU_CLASS, offsetof(mu_updater, schedule), NULL, NULL, "schedule",
     "learning rate: a number, or a schedule"},
    {"decay", MU_FLOAT, offsetof(mu_updater, l2), "0", "[0,)", NULL,
     "L2 weight decay, added to the gradient"},
    {"l1", MU_FLOAT, offsetof(mu_updater, l1), "0", "[0,)", NULL, "L1 weight decay, added to the gradient"},
    {"clip_value", MU_FLOAT, offsetof(mu_updater, clip_value), "0", "[0,)", NULL,
     "largest size of each gradient element; 0 = no limit"},
    {"clip_norm", MU_FLOAT, offsetof(mu_updater, clip_norm), "0", "[0,)", NULL,
     "largest L2 norm of all gradients together; 0 = no limit"},
    {0},
};

const mu_field mu_rate_fields[] = {
    {"base", MU_DOUBLE, offsetof(mu_updater, base), NULL, "[0,)", NULL, "rate that the schedule starts from"},
    {"per", MU_ENUM, offsetof(mu_updater, per), "step", NULL, "step|epoch",
     "unit of all times of the schedule"},
    {"warmup", MU_DOUBLE, offsetof(mu_updater, warmup), "0", "[0,)", NULL,
     "steps (or epochs) in which the rate rises to the schedule's"},
    {"warmup_from", MU_DOUBLE, offsetof(mu_updater, warmup_from), "0.1", "[0,1]", NULL,
     "share of the schedule's rate at the start of warm-up"},
    {0},
};

// Binds a plug-in block whose keys belong to the plug-in and to this file, in one go, so that a misspelt
// key is judged against all of them. NULL plug-in after reporting an unknown or missing type.
static mu_class_ref bind_block(mu_binder *b, const mu_node *node, mu_srcpos where, const char *what,
                               const mu_registry *reg, const mu_field *own, mu_updater *u) {
    static const char *const keys[] = {"type", "rate"}; // `rate` is bound by hand; no schedule has it
    const mu_node *map = node && node->kind == MU_MAP ? node : NULL;
    const char *type = mu_node_text(map ? mu_node_find(map, "type") : node);
    const mu_plugin *plugin = type ? mu_registry_find(reg, type) : NULL;
    if (!plugin) return mu_bind_class(b, node, where, what, reg, "type", NULL, 0);
    void *state = mu_arena_alloc(b->arena, plugin->state_size ? plugin->state_size : 1);
    if (!state) {
        mu_diags_no_memory(b->diags);
        return (mu_class_ref){0};
    }
    const mu_bind_part parts[] = {{plugin->fields, state}, {own, u}};
    mu_bind(b, map, where, what, parts, MU_COUNT(parts), keys, reg == &mu_updaters ? 2 : 1);
    return (mu_class_ref){plugin, state};
}

// A misspelt `rate` has been reported as an unknown key.
static bool is_rate_misspelt(const mu_node *map) {
    static const char *const rate[] = {"rate"};
    for (size_t i = 0; map && map->kind == MU_MAP && i < map->n; i++)
        if (mu_nearest(map->item[i]->key, rate, 1)) return true;
    return false;
}

static void set_schedule(mu_updater *u, mu_class_ref ref) {
    u->schedule = (const mu_schedule_class *)ref.plugin;
    u->schedule_state = ref.state;
}

static void check_schedule(mu_binder *b, const mu_updater *u, mu_srcpos where) {
    const char *problem = u->schedule && u->schedule->check ? u->schedule->check(u->schedule_state) : NULL;
    if (problem) mu_diags_add(b->diags, MU_DIAG_ERROR, where, "%s", problem);
}

static void bind_rate(mu_binder *b, const mu_node *node, mu_updater *u) {
    static const char what[] = "`updater.rate`";
    const char *text = node->quoted ? NULL : mu_node_text(node);
    const mu_class_ref fixed = {mu_registry_find(&mu_schedules, "fixed"), NULL};
    const size_t n_errors = b->diags->n_errors;
    double number;
    if (text && mu_parse_double(text, &number)) {
        set_schedule(u, fixed);
        u->base = number;
        if (number < 0)
            mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "`rate` is %s, must be at least 0", text);
    } else if (node->kind == MU_MAP && !mu_node_find(node, "type")) {
        set_schedule(u, fixed);
        mu_bind(b, node, node->pos, what, &(mu_bind_part){mu_rate_fields, u}, 1, NULL, 0);
    } else {
        set_schedule(u, bind_block(b, node, node->pos, what, &mu_schedules, mu_rate_fields, u));
        if (b->diags->n_errors == n_errors) check_schedule(b, u, node->pos);
    }
}

static const mu_updater_class *class_of(const mu_plugin *rule) {
    for (size_t i = 0; i < MU_COUNT(updater_list); i++)
        if (updater_list[i] == rule) return updater_classes[i][mu_level_index()];
    return NULL;
}

mu_updater *mu_updater_bind(mu_binder *b, const mu_node *node) {
    const size_t n_errors = b->diags->n_errors;
    const mu_srcpos where = node ? node->pos : MU_NOPOS;
    mu_updater *u = mu_arena_alloc(b->arena, sizeof *u);
    if (!u) {
        mu_diags_no_memory(b->diags);
        return NULL;
    }
    mu_class_ref rule = bind_block(b, node, where, "`updater`", &mu_updaters, mu_updater_fields + 1, u);
    u->class = class_of(rule.plugin);
    if (u->class) mu_debug("updater: %s%s", u->class->name, mu_level_suffix());
    u->state = rule.state;
    const char *problem = u->class && u->class->check && b->diags->n_errors == n_errors
                              ? u->class->check(u->state) : NULL;
    if (problem) mu_diags_add(b->diags, MU_DIAG_ERROR, where, "%s", problem);
    const mu_node *rate = mu_node_find(node, "rate");
    if (!mu_node_is_null(rate)) bind_rate(b, rate, u);
    else if (rate || !is_rate_misspelt(node)) {
        mu_diag *g =
            mu_diags_add(b->diags, MU_DIAG_ERROR, rate ? rate->key_pos : where, "`updater` has no `rate`");
        mu_diag_hint(b->diags, g,
                     "Write a number such as `rate: 0.01`, or a schedule with `type` and `base`.");
    }
    return b->diags->n_errors == n_errors && u->class && u->schedule ? u : NULL;
}

bool mu_updater_is_young(const mu_updater *u, int64_t step, double epoch) {
    return u->class->is_young && u->class->is_young(u->state, step, epoch);
}

double mu_updater_momentum(const mu_updater *u, bool young) {
    return u->class->momentum ? u->class->momentum(u->state, young) : 0;
}

double mu_updater_rate_ends(const mu_updater *u, double end_steps, double end_epochs) {
    return u->schedule->ends ? u->schedule->ends(u->schedule_state, u->per ? end_epochs : end_steps) : 0;
}

double mu_updater_rate(const mu_updater *u, int64_t step, double epoch, double end_steps, double end_epochs,
                       double time_share) {
    const double t = u->per ? epoch : (double)step;
    double end = u->per ? end_epochs : end_steps, at = t;
    if (time_share > 0 && u->schedule->follows_time) {
        double length = u->schedule->ends(u->schedule_state, end);
        if (length <= 0) end = length = 1, at = 0; // nothing but the time ends this training
        if (at < time_share * length) at = time_share * length;
    }
    double rate = u->schedule->rate(u->schedule_state, u->base, at, end);
    if (t < u->warmup) rate *= u->warmup_from + (1 - u->warmup_from) * t / u->warmup;
    return rate;
}
