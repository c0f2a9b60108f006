// SPDX-License-Identifier: Apache-2.0
// yaml_error.h - a libyaml syntax error in our words.
#ifndef MU_JOB_YAML_ERROR_H
#define MU_JOB_YAML_ERROR_H

#include "job/diag.h"

#include <yaml.h>

// Adds the parser's error to diags with the most useful place and a way out; fills err. Gives MU_EJOB,
// or MU_ENOMEM when the parser ran out of memory.
mu_status mu_yaml_explain(const yaml_parser_t *p, mu_diags *diags, mu_srcpos origin, const char *text,
                          size_t size, mu_err *err);

#endif
