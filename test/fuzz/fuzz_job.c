// SPDX-License-Identifier: Apache-2.0
// fuzz_job.c - libFuzzer target: any bytes as a job file, printed, written and read again.
//
//   fuzz_job -dict=test/fuzz/job.dict -max_len=4096 scratch test/fuzz/corpus/job
//
// Beyond not crashing: what mu_job_write writes must read back as the same tree.
#include "job/job.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const mu_job *job, FILE *sink) {
    char *text = NULL;
    size_t size = 0;
    mu_err err = {0};
    FILE *f = open_memstream(&text, &size);
    if (!f) return;
    mu_status s = mu_job_write(job, f, &err);
    fclose(f);
    bool too_large = size > (1u << 20); // escapes make a text longer
    mu_job *again = NULL;
    if (s == MU_OK && !too_large) {
        s = mu_job_parse("again.yaml", text, size, NULL, 0, &again, &err);
        if (!again || !again->root || mu_job_hash(again) != mu_job_hash(job)) {
            fprintf(stderr, "written job differs:\n%s\n", text);
            mu_err_print(&err, stderr, false);
            abort();
        }
        mu_diags_print_json(&again->diags, sink);
    }
    mu_job_destroy(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *sink;
    if (!sink) sink = fopen("/dev/null", "w");
    if (!sink) return 0;
    mu_job *job = NULL;
    mu_err err = {0};
    mu_status s = mu_job_parse("fuzz.yaml", (const char *)data, size, NULL, 0, &job, &err);
    if (job) mu_diags_print(&job->diags, sink, s != MU_OK);
    if (job && job->root) check_round_trip(job, sink);
    mu_job_destroy(job);
    return 0;
}
