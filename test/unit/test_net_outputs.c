// SPDX-License-Identifier: Apache-2.0
// `outputs: auto` becomes the number that the loss below needs, or an error with a place.
#include "net/outputs.h"

#include "job/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const mu_data_field fields[] = {
    {.name = "image", .shape = {3, {3, 8, 8}}, .store = MU_STORE_F32},
    {.name = "label", .store = MU_STORE_I32, .n_classes = 7},
    {.name = "pair", .store = MU_STORE_I32, .n_classes = 2},
    {.name = "uncounted", .store = MU_STORE_I32},
    {.name = "target", .shape = {1, {4}}, .store = MU_STORE_F32},
};

// The text of layer `last`'s outputs afterwards; *message: the first problem, "" = none.
static void fill(const char *layers, char out[32], char message[256]) {
    char text[2048];
    mu_err err = {0};
    mu_job *job = NULL;
    snprintf(text, sizeof text,
             "data: {train: {reader: synthetic}}\nupdater: {type: sgd, rate: 1}\n"
             "train: {batch: 1, steps: 1}\nnet:\n%s",
             layers);
    assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, &err), MU_OK);
    assert_int_equal(mu_outputs_fill(&job->arena, &job->diags, job->net, fields, 5, &err), MU_OK);
    const mu_diag *first = mu_diags_first_error(&job->diags);
    snprintf(message, 256, "%s", first ? first->msg : "");
    if (first) assert_true(first->pos.line > 3);
    for (size_t i = 0; i < job->net->n; i++)
        if (!strcmp(mu_node_text(mu_node_find(job->net->item[i], "name")), "last"))
            snprintf(out, 32, "%s", mu_node_text(mu_node_find(job->net->item[i], "outputs")));
    mu_job_destroy(job);
}

#define LAST "  - {name: last, type: inner_product, src: data.image, outputs: auto}\n"
static const struct {
    const char *layers, *outputs, *message;
} cases[] = {
    {LAST "  - {name: loss, type: softmax_loss, src: [last, data.label]}\n", "7", ""},
    {LAST "  - {name: acc, type: accuracy, src: [last, data.label]}\n", "7", ""},
    {LAST "  - {name: p, type: softmax}\n  - {name: d, type: dropout}\n"
          "  - {name: loss, type: euclidean_loss, src: [d, data.target]}\n",
     "4", ""},
    {LAST "  - {name: loss, type: sigmoid_loss, src: [last, data.pair]}\n", "1", ""},
    {LAST "  - {name: loss, type: sigmoid_loss, src: [last, data.label]}\n", "7", ""},
    {LAST "  - {name: other, type: inner_product, outputs: 3}\n"
          "  - {name: loss, type: softmax_loss, src: [other, data.label]}\n",
     "auto", "no loss below"},
    {LAST "  - {name: loss, type: softmax_loss, src: [last, data.uncounted]}\n", "auto", "how many classes"},
    // the first that knows counts, also where another one does not
    {LAST "  - {name: l1, type: softmax_loss, src: [last, data.uncounted]}\n"
          "  - {name: l2, type: softmax_loss, src: [last, data.label]}\n",
     "7", ""},
    {LAST "  - {name: loss, type: euclidean_loss, src: [last, other]}\n", "auto", "no loss below"},
    {LAST, "auto", "no loss below"},
    {"  - {name: last, type: inner_product, src: data.image, outputs: 12}\n"
     "  - {name: loss, type: softmax_loss, src: [last, data.label]}\n",
     "12", ""},
};

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        char outputs[32] = "", message[256];
        fill(cases[i].layers, outputs, message);
        const bool told = cases[i].message[0] ? strstr(message, cases[i].message) != NULL : !message[0];
        if (strcmp(outputs, cases[i].outputs) || !told)
            fail_msg("case %zu: outputs %s, expected %s; message `%s`", i, outputs, cases[i].outputs,
                     message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
