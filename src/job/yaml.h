// SPDX-License-Identifier: Apache-2.0
// yaml.h - text to tree, with limits that keep a hostile file cheap.
#ifndef MU_JOB_YAML_H
#define MU_JOB_YAML_H

#include "job/diag.h"
#include "job/node.h"

#define MU_YAML_MAX_SIZE ((size_t)1 << 20)      // bytes of text
#define MU_YAML_MAX_DEPTH 32                    // nested lists and maps, aliases expanded
#define MU_YAML_MAX_COPIES 100000               // nodes made by expanding aliases and merge keys
#define MU_YAML_MAX_KEYS 1000                   // in one map
#define MU_YAML_MAX_ANCHORS 1000
#define MU_YAML_MAX_KEY_LENGTH 128              // bytes

// Parses one document of UTF-8 text (no BOM) whose first character stands at `origin` (path, line,
// col). An alias becomes a copy of what it names; `<<: *base` adds the keys of `base` that the map
// does not have itself. *out is NULL for an empty document. Problems of the text are added to diags
// and give MU_EJOB; err is then filled too. Duplicate keys are reported but do not stop the parse
// (the first one stays).
mu_status mu_yaml_parse(mu_arena *arena, mu_diags *diags, mu_srcpos origin, const char *text, size_t size,
                        mu_node **out, mu_err *err);

#endif
