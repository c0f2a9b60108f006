/* SPDX-License-Identifier: Apache-2.0
 *
 * muster.h - train, evaluate and use deep networks from a program. The only installed header.
 *
 *     muster_error e;
 *     muster_job *job;
 *     muster_run *run;
 *     muster_result r;
 *     if (muster_job_load("lenet.yaml", NULL, 0, &job, &e)) return report(&e);
 *     if (muster_run_create(job, "runs/first", &run, &e)) return report(&e);
 *     if (muster_run_train(run, NULL, NULL, &r, &e)) return report(&e);
 *     printf("test accuracy %g\n", r.test_accuracy);
 *     muster_run_destroy(run);
 *     muster_job_destroy(job);
 *
 * Every function that can fail returns a status and fills the caller's muster_error (which may be
 * NULL); outputs are written only on success, and a failed call leaves a run as it was unless said
 * otherwise. NULL where something is needed gives MUSTER_USAGE with a message, never a crash. The
 * library never prints, never ends the process and installs no signal handlers. What create or load
 * gave, destroy takes back; all other pointers are borrowed for the call.
 *
 * Threads: a job may be used by several at once. A run belongs to one thread at a time, except
 * muster_run_stop. Runs in different threads do not disturb each other, but where several train in
 * different folders at once, their log.txt may hold each other's lines.
 *
 * Processes: one learner trains in your process, and nothing is forked. Several learners (`cluster.learners`,
 * or `cluster.server: process`) train in processes of their own: muster_run_train starts the program `muster`
 * of the same version and waits. Your threads, children and signal dispositions do not matter to it and are
 * not touched; the library waits for its own child by pid only. The program is the one that the environment
 * variable MUSTER_PROGRAM names, else that of the installation, else the one in PATH. It ends at once when
 * the thread that waits ends. It opens the job's data again and holds one more copy of the parameters.
 *
 * Signals: a handler of your program that may interrupt a thread inside the library needs a stack of its own
 * (sigaltstack, SA_ONSTACK): oneDNN's kernels borrow the stack pointer, and a handler would write there.
 *
 * Compatibility: functions, enum values and struct members are added, never renamed or moved.
 * Compile and link with `pkg-config --cflags --libs muster`.
 */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MU_API __attribute__((visibility("default")))
#else
#define MU_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The values are also the exit codes of the program `muster`. */
typedef enum muster_status {
    MUSTER_OK = 0,
    MUSTER_FAILURE = 1,         /* memory, files, libraries, devices */
    MUSTER_USAGE = 2,           /* a call that makes no sense, e.g. an unknown output */
    MUSTER_BAD_INPUT = 3,       /* job file, data or model is wrong */
    MUSTER_DIVERGED = 4,        /* loss or gradients stopped being numbers */
    MUSTER_NOT_FOUND = 6,       /* no such model, checkpoint or run */
    MUSTER_STOPPED = 130        /* muster_run_stop or the callback asked for it; the state was saved */
} muster_status;

typedef struct muster_error {
    muster_status status;
    int  line, column;          /* place in the job file, from 1; 0 = none */
    char path[1024];            /* file of that place; "" = none */
    char message[640];          /* one line, no final period */
    char hint[320];             /* a sentence on what to do; "" = none */
} muster_error;

MU_API const char *muster_version(void);        /* "0.1.0" */

/* ---- jobs ---- */

typedef struct muster_job muster_job;

/* Loads a job file and checks all that can be checked without opening data files; creating a run
 * checks the rest. edits: "train.batch=32", ... as --set of the program; NULL with n_edits 0 for none.
 * When there are several problems the error holds the first and the number of the others;
 * `muster check` prints them all. */
MU_API muster_status muster_job_load(const char *path, const char *const *edits, size_t n_edits,
                                     muster_job **out, muster_error *err);
/* The same from text in memory. `name` stands for the file in messages, and relative paths in the job
 * begin in its folder: "job.yaml" means the current folder. */
MU_API muster_status muster_job_parse(const char *name, const char *text, size_t size,
                                      const char *const *edits, size_t n_edits, muster_job **out,
                                      muster_error *err);
MU_API void muster_job_destroy(muster_job *job);        /* NULL is fine; its runs live on */

/* ---- runs: a net with its parameters ---- */

typedef struct muster_run muster_run;

/* Opens the data of the job and builds the net with initial values (`train.init_from` included).
 * folder: where checkpoints, metrics and the log of training go (made by train if absent);
 * NULL = nothing is written, and muster_run_save is the only way to keep the model. */
MU_API muster_status muster_run_create(const muster_job *job, const char *folder, muster_run **out,
                                       muster_error *err);
/* A run that only predicts. No training data is needed: the input is what `data.predict` describes, and
 *     data: {predict: {reader: array, shape: [1, 28, 28], scale: 0.00390625}}
 * describes it without any file; a job without that block needs the files of `data.test`. model: as for
 * muster_run_load; NULL = it is loaded later. */
MU_API muster_status muster_run_create_predictor(const muster_job *job, const char *model, muster_run **out,
                                                 muster_error *err);
/* The same from a model that stands alone, as Muster saves them: a .safetensors file, a checkpoint or a run
 * folder. Nothing else is needed, neither job nor data: the input is as that of the training data. Word
 * numbers and other whole numbers are handed over as floats. */
MU_API muster_status muster_run_create_from_model(const char *model, muster_run **out, muster_error *err);
MU_API void muster_run_destroy(muster_run *run);        /* NULL is fine */

/* Names of the classes, in the order of the last layer's outputs; *n = 0 where the model has none. They live
 * as long as the run. */
MU_API muster_status muster_run_class_names(muster_run *run, const char *const **names, size_t *n,
                                            muster_error *err);

typedef struct muster_progress {
    int64_t step, steps;        /* updates done, and planned; 0 = open end */
    double  epoch, epochs;      /* passes over the data done, and planned; 0 = open end */
    double  loss;               /* mean training loss since the last line of metrics (`log.every`) */
    double  rate;               /* learning rate */
    double  samples_per_s;
    double  test_accuracy;      /* of the last evaluation; NaN = none yet */
    double  elapsed_s;          /* of training, earlier calls and resumed runs included */
} muster_progress;

/* Called on the training thread a few times a second and after each evaluation. Not 0 = save and stop. */
typedef int (*muster_progress_fn)(void *ctx, const muster_progress *progress);

typedef struct muster_result {
    int64_t steps;
    double  epochs, wall_s, samples_per_s;
    double  train_loss;
    double  test_loss, test_accuracy;           /* NaN = no such data or layer, or stopped before */
    char    checkpoint[4096], model[4096];      /* paths; "" = nothing was written */
} muster_result;

/* Trains as the job says, from the present parameters and position; called again after a stop it goes on.
 * A folder that already holds a run is refused unless that run is resumed. progress and out may be NULL;
 * *out is filled for MUSTER_STOPPED too. After another failure the parameters are those of the last step, or,
 * where the process that trains was killed, those of before the call. */
MU_API muster_status muster_run_train(muster_run *run, muster_progress_fn progress, void *ctx,
                                      muster_result *out, muster_error *err);
/* Asks a training in another thread (or below a signal handler) to save and return MUSTER_STOPPED after
 * the step or evaluation at hand. When none is running, the next one stops before its first step. */
MU_API void muster_run_stop(muster_run *run);

typedef struct muster_metric {
    char   name[32];            /* "loss", "accuracy", ... */
    double value;
} muster_metric;

/* Runs the data block `split`, "test" or "validation", once and gives up to `size` metrics; *n is the
 * number there are (n may be NULL). */
MU_API muster_status muster_run_evaluate(muster_run *run, const char *split, muster_metric *metrics,
                                         size_t size, size_t *n, muster_error *err);

/* ---- prediction on arrays ---- */

/* Floats per sample of the input, which is the first field of `data.predict` (else of the test, validation
 * or training data), and of a layer's output (NULL = the last layer that is neither loss nor metric: scores
 * before softmax unless the net has a softmax layer). */
MU_API muster_status muster_run_input_size(muster_run *run, size_t *out, muster_error *err);
MU_API muster_status muster_run_output_size(muster_run *run, const char *layer, size_t *out,
                                            muster_error *err);

/* input: n_samples x input size floats; images in the order channel, height, width, values as in the data
 * files (centre crop, mean and scale of the data block are applied here). output: n_samples x output size
 * floats, images again as channel, height, width. The net always computes `test.batch` samples (without that
 * key `train.batch`); the edit "test.batch=1" suits single questions. */
MU_API muster_status muster_run_predict(muster_run *run, const float *input, size_t n_samples,
                                        const char *layer, float *output, muster_error *err);

/* ---- parameters and checkpoints ---- */

/* Takes parameters by name from a .safetensors file, a checkpoint or a run folder; every parameter of the
 * net must be there with its shape. Training then starts at step 0. */
MU_API muster_status muster_run_load(muster_run *run, const char *path, muster_error *err);
/* Takes parameters, updater state and position from a checkpoint of this job or from the newest in a run
 * folder, so that training goes on exactly where it stopped. NULL = the run's own folder. */
MU_API muster_status muster_run_resume(muster_run *run, const char *path, muster_error *err);
/* Writes the parameters as one .safetensors file, under another name first and then renamed. */
MU_API muster_status muster_run_save(muster_run *run, const char *path, muster_error *err);

/* ---- parameters by name ---- */

#define MUSTER_DIMS 8

typedef struct muster_param {
    const char *name;           /* "conv1.weight"; lives as long as the run */
    size_t      n_dims;
    int64_t     shape[MUSTER_DIMS];     /* as saved: PyTorch's order, e.g. (outputs, inputs) */
    size_t      count;          /* values: the product of the shape */
    int         trained;        /* 0 = a running statistic, which no gradient changes */
} muster_param;

/* Parameters are numbered from 0 in the order of the net. What a layer remembers between batches is none. */
MU_API muster_status muster_run_param_count(muster_run *run, size_t *n, muster_error *err);
MU_API muster_status muster_run_param_at(muster_run *run, size_t index, muster_param *out, muster_error *err);
MU_API muster_status muster_run_param_find(muster_run *run, const char *name, muster_param *out,
                                           muster_error *err);
/* Copies all values of a parameter out, or in. `count` must be the parameter's. New values count from the
 * next prediction, evaluation or step on, also where several learners train; position and history of the
 * updater stay. Values that are not finite are MUSTER_BAD_INPUT. Not while the run trains. */
MU_API muster_status muster_run_param_get(muster_run *run, const char *name, float *values, size_t count,
                                          muster_error *err);
MU_API muster_status muster_run_param_set(muster_run *run, const char *name, const float *values,
                                          size_t count, muster_error *err);

/* ---- layers ---- */

typedef struct muster_layer {
    const char *name;           /* as `layer` of the other functions; lives as long as the run */
    const char *type;           /* "convolution", ... */
    size_t      n_dims;
    int64_t     shape[MUSTER_DIMS];     /* of its output for one sample; images as channel, height, width */
    size_t      count;          /* floats of a sample, as muster_run_output_size says; 0 = none per sample */
    size_t      n_outputs;      /* further ones are asked for as `name.1`, `name.2`, ... */
} muster_layer;

/* The layers of the net that predicts, in order: without losses and metrics. */
MU_API muster_status muster_run_layer_count(muster_run *run, size_t *n, muster_error *err);
MU_API muster_status muster_run_layer_at(muster_run *run, size_t index, muster_layer *out, muster_error *err);
/* As muster_run_predict, for several layers by one pass: outputs[i] takes what layers[i] gives. */
MU_API muster_status muster_run_predict_layers(muster_run *run, const float *input, size_t n_samples,
                                               const char *const *layers, size_t n_layers,
                                               float *const *outputs, muster_error *err);

/* ---- answers ---- */

typedef struct muster_answer {
    size_t      number;         /* of the class */
    double      probability;
    const char *name;           /* NULL = the classes have none; lives as long as the run */
} muster_answer;

/* The `top` most probable classes of each sample, in falling order: answers holds n_samples x top. Where
 * there are fewer classes, number of the rest is SIZE_MAX and their probability 0. A net that gives values
 * and no classes, or an answer for each step of a sequence, is MUSTER_USAGE. */
MU_API muster_status muster_run_classify(muster_run *run, const float *input, size_t n_samples, size_t top,
                                         muster_answer *answers, muster_error *err);

/* The same for texts as a person types them, where the model was trained on sentences: each is one line of
 * UTF-8, cut into words and numbered as the training data was. A model of anything else is MUSTER_USAGE. */
MU_API muster_status muster_run_predict_texts(muster_run *run, const char *const *texts, size_t n_texts,
                                              const char *layer, float *output, muster_error *err);
MU_API muster_status muster_run_classify_texts(muster_run *run, const char *const *texts, size_t n_texts,
                                               size_t top, muster_answer *answers, muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
