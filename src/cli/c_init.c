// SPDX-License-Identifier: Apache-2.0
// c_init.c - `muster init`: writes one of the repository's own example jobs, carried in the program.
#include "cli/cli.h"

#include "base/log.h"
#include "cli/term.h"
#include "file/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

// What a person types, which file of examples/ it is, and what it is for.
static const struct kind { const char *word, *example, *help; } kinds[] = {
    {"lenet", "lenet-fashion", "convolutional net on Fashion-MNIST"},
    {"mlp", "mlp-fashion", "fully connected net on Fashion-MNIST"},
    {"cifar10", "cifar10_quick", "convolutional net on CIFAR-10"},
    {"csv", "csv", "fully connected net on your own CSV table"},
    {"images", "images", "convolutional net on your own folders of images"},
};

typedef struct example { const char *name; const unsigned char *bytes; size_t n; } example;
#define EMBED(name, ...)                                                                           \
    {name, (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})},
static const example texts[] = {
#include "example_list.inc"
};

static const struct kind *find_kind(const char *word) {
    for (size_t i = 0; i < MU_COUNT(kinds); i++)
        if (!strcmp(kinds[i].word, word)) return &kinds[i];
    return NULL;
}

static const example *find_text(const char *name) {
    for (size_t i = 0; i < MU_COUNT(texts); i++)
        if (!strcmp(texts[i].name, name)) return &texts[i];
    return NULL;
}

static mu_status unknown_kind(const char *word, mu_err *err) {
    const char *words[MU_COUNT(kinds)];
    for (size_t i = 0; i < MU_COUNT(kinds); i++) words[i] = kinds[i].word;
    MU_FAIL(err, MU_EUSAGE, "no example `%s`; there are lenet, mlp, cifar10, csv and images", word);
    return mu_err_suggest(MU_EUSAGE, err, "muster init ", mu_nearest(word, words, MU_COUNT(kinds)));
}

// The files of examples/ speak of themselves and of the data folder beside them; the copy speaks of its
// own name and of a data folder in its own.
static void write_text(FILE *f, const example *t, const char *path) {
    char self[80];
    int n_self = snprintf(self, sizeof self, "examples/%s.yaml", t->name);
    const char *p = (const char *)t->bytes, *end = p + t->n;
    while (p < end) {
        if (end - p >= n_self && !memcmp(p, self, (size_t)n_self)) fputs(path, f), p += n_self;
        else if (end - p >= 8 && !memcmp(p, "../data/", 8)) p += 3;
        else fputc(*p++, f);
    }
}

// O_EXCL: an existing file is never touched, not even in a race.
static mu_status write_new(const struct kind *k, const example *t, const char *path, mu_err *err) {
    int fd = mu_fs()->open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` exists and is not overwritten", path), err,
                             "Give another name: `muster init %s other.yaml`, or `-` for standard output.",
                             k->word);
    if (fd < 0) return mu_fs_fail(err, "create", path);
    char *content = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&content, &size);
    if (f) write_text(f, t, path);
    mu_status st = !f || fclose(f) ? MU_FAIL_NOMEM(err, path) : mu_fs_write_all(fd, content, size, path, err);
    free(content);
    if (mu_fs()->close(fd) && st == MU_OK) st = mu_fs_fail(err, "close", path);
    if (st != MU_OK) mu_fs_remove_file(path);
    return st;
}

static mu_status run(mu_args *a, MU_UNUSED void *values, mu_err *err) {
    if (a->n_words == 0) {
        for (size_t i = 0; i < MU_COUNT(kinds); i++) printf("%-10s %s\n", kinds[i].word, kinds[i].help);
        return MU_OK;
    }
    const struct kind *k = find_kind(a->word[0]);
    if (!k) return unknown_kind(a->word[0], err);
    const example *t = find_text(k->example);
    if (!t) return MU_FAIL(err, MU_ENOTFOUND, "this build carries no example `%s`", k->example);
    char name[64];
    snprintf(name, sizeof name, "%s.yaml", k->word);
    const char *path = a->n_words > 1 ? a->word[1] : name;
    if (!strcmp(path, "-")) {
        write_text(stdout, t, name);
        return MU_OK;
    }
    MU_TRY(write_new(k, t, path, err));
    mu_info("wrote %s: %s\nnext: muster train %s", path, k->help, path);
    return MU_OK;
}

const mu_verb_class mu_verb_init = {
    .name = "init", .help = "write a commented example job",
    .usage = "[lenet|mlp|cifar10|csv|images] [FILE]",
    .example = "muster init lenet\nmuster init csv my.yaml",
    .about = "Writes a commented job file to start from (KIND.yaml when no FILE is given, standard output "
             "for `-`). Without words it lists the kinds. An existing file is never overwritten.",
    .args = {.min_words = 0, .max_words = 2},
    .run = run,
};
