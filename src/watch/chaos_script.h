// SPDX-License-Identifier: Apache-2.0
// chaos_script.h - the little language of `muster chaos --do`: who is hit, how, and when.
//
//     schedule = rule { ";" rule }
//     rule     = "kill" target { clause }                   SIGKILL
//              | "stop" target { clause }                   SIGSTOP; SIGCONT after `for`
//              | "slow" learners "by" time { clause }       sleeps that long in every step; ends after `for`
//     target   = learners | "server" | "evaluator"          also known as the statistics process
//     learners = "learner" ( number | "random" ) | "all-learners"
//     clause   = "at" time          first shot; not given: at once, with `every` after one gap
//              | "every" ["~"] time gap between shots; ~ draws each gap from an exponential distribution
//              | "times" number     shots; 1 when not given, no end with `every`
//              | "until" time       no shot later than this
//              | "for" time         how long a stop or slowness lasts; until the end when not given
//     time     = 20ms, 1.5s, 2m, ...
//
//     kill learner random every ~1s times 1000; stop learner 2 for 15s at 5s; slow learner 1 by 20ms for 10s
#ifndef MU_WATCH_CHAOS_SCRIPT_H
#define MU_WATCH_CHAOS_SCRIPT_H

#include "base/err.h"

#include <stdint.h>

enum { MU_CHAOS_RULES = 32 };

typedef enum mu_chaos_act { MU_CHAOS_KILL, MU_CHAOS_STOP, MU_CHAOS_SLOW } mu_chaos_act;
typedef enum mu_chaos_target {
    MU_CHAOS_LEARNER, MU_CHAOS_RANDOM, MU_CHAOS_ALL_LEARNERS, MU_CHAOS_SERVER, MU_CHAOS_EVALUATOR
} mu_chaos_target;

typedef struct mu_chaos_rule {
    mu_chaos_act    act;
    mu_chaos_target target;
    int             learner;    // MU_CHAOS_LEARNER
    double          by_s;       // SLOW
    double          for_s;      // -1 = to the end
    double          at_s;       // -1 = not given
    double          every_s;    // 0 = once
    bool            random_gap;
    double          until_s;    // -1 = no limit
    int64_t         times;      // 0 = no end
} mu_chaos_rule;

typedef struct mu_chaos_script { int n; mu_chaos_rule rule[MU_CHAOS_RULES]; } mu_chaos_script;

// Adds the rules of `text` to the script, or none. MU_EUSAGE names the column and what was meant.
MU_MUST_CHECK mu_status mu_chaos_parse(const char *text, mu_chaos_script *script, mu_err *err);
// The rule in the words of the language; parsing it gives the same rule. At most 200 bytes.
void mu_chaos_rule_text(const mu_chaos_rule *r, char *out, size_t size);
const char *mu_chaos_act_name(mu_chaos_act act);        // "kill", ...

#endif
