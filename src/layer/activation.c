// SPDX-License-Identifier: Apache-2.0
// activation.c - element-wise layers over MU_PRIM_ACTIVATION.
#include "layer/activation.h"

#include "layer/infer.h"

mu_status mu_activation_infer(mu_layer *l, mu_err *err) {
    MU_TRY(mu_infer_float(l, 0, err));
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

mu_status mu_activation_setup(mu_layer *l, mu_act_kind kind, float slope, mu_err *err) {
    mu_act_desc d = {.count = mu_shape_count(mu_layer_src_shape(l, 0)), .kind = kind, .slope = slope};
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_ACTIVATION, .act = d}, err);
}
