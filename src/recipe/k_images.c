// SPDX-License-Identifier: Apache-2.0
// k_images.c - folders of images, one a class: a convolutional net of as many stages as their size allows.
//
//     FOLDER/CAT/1.jpg  FOLDER/DOG/7.png                          validation is split off
//     FOLDER/train/CAT/1.jpg ...  FOLDER/test/CAT/9.jpg ...       the same, with test data beside it
//
// Images are brought to one size: their own where that is small, else one that trains in minutes. Those of
// colour are taken for photographs, of which a mirrored one is as good; grey ones may be letters, and are not
// mirrored. Each stage halves the picture; the last one's mean goes to the classes, so large pictures cost no
// more weights than small ones.
#include "recipe/recipe.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/image.h"
#include "file/infile.h"
#include "job/job.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TRIED_PER_CLASS = 8, TRIED = 400, OWN_SIZE = 64, LARGE_SIZE = 64, MOST_BYTES = 64 << 20 };

typedef struct look {
    int64_t n_classes, n_images, least, most; // least, most: images of a class
    int64_t n_tried, n_bad;
    bool colour;
    double height[TRIED], width[TRIED];
    mu_image_decoder decoder;
} look;

typedef struct size {
    int64_t height, width;
} size;

// ---- looking ----

static bool is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return name[0] != '.' && dot &&
           (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

// Decodes one image; a bad one is counted, not an error.
static mu_status try_image(look *k, const char *path, mu_err *err) {
    mu_infile f = {0};
    mu_err own = {0};
    mu_status st = mu_infile_open(&f, path, &own);
    if (st == MU_OK && f.size <= MOST_BYTES) st = mu_infile_load(&f, &own);
    if (st == MU_OK)
        st = f.mem ? mu_image_decode(&k->decoder, f.mem, (size_t)f.size, 3, path, &own) : MU_EDATA;
    mu_infile_close(&f);
    if (st == MU_EUNSUPPORTED || st == MU_ENOMEM) return mu_err_pass(st, &own, err);
    if (st != MU_OK) {
        k->n_bad++;
        return MU_OK;
    }
    const mu_image_decoder *d = &k->decoder;
    int64_t other = 0; // compression leaves a little colour in grey pictures
    for (int64_t i = 0; i < d->h * d->w; i++) {
        const uint8_t *p = d->pixels + 3 * i;
        other += abs(p[0] - p[1]) > 16 || abs(p[1] - p[2]) > 16;
    }
    k->colour |= 50 * other > d->h * d->w;
    k->height[k->n_tried] = (double)d->h;
    k->width[k->n_tried++] = (double)d->w;
    return MU_OK;
}

// Counts the images of a class and tries some of them.
static mu_status look_at_class(look *k, const char *folder, mu_err *err) {
    DIR *dir = opendir(folder);
    if (!dir) return mu_fs_fail(err, "read", folder);
    mu_status st = MU_OK;
    int64_t n = 0, tried = 0;
    for (const struct dirent *e; st == MU_OK && (e = readdir(dir));) {
        if (!is_image_name(e->d_name)) continue;
        n++;
        char path[MU_FS_PATH];
        if (tried++ >= TRIED_PER_CLASS || k->n_tried >= TRIED) continue;
        st = mu_fs_join(path, folder, e->d_name, err);
        if (st == MU_OK) st = try_image(k, path, err);
    }
    closedir(dir);
    if (!n) return st;
    k->least = !k->n_classes || n < k->least ? n : k->least;
    k->most = n > k->most ? n : k->most;
    k->n_classes++;
    k->n_images += n;
    return st;
}

static mu_status look_at(look *k, const char *root, mu_err *err) {
    DIR *dir = opendir(root);
    if (!dir) return mu_fs_fail(err, "read", root);
    mu_status st = MU_OK;
    for (const struct dirent *e; st == MU_OK && (e = readdir(dir));) {
        char path[MU_FS_PATH];
        if (e->d_name[0] == '.') continue;
        st = mu_fs_join(path, root, e->d_name, err);
        if (st == MU_OK && mu_fs_is_folder(path)) st = look_at_class(k, path, err);
    }
    closedir(dir);
    return st;
}

static mu_status check_found(const look *k, const char *root, mu_err *err) {
    if (k->n_classes >= 2 && k->n_tried) return MU_OK;
    MU_FAIL(err, MU_EDATA,
            k->n_classes && !k->n_tried ? "no image in `%s` can be read"
            : k->n_classes              ? "`%s` has one folder of images: there is nothing to tell apart"
                                        : "`%s` has no folders of PNG or JPEG images",
            root);
    return mu_err_hinted(MU_EDATA, err, "One folder for each class: `%s/cat/1.jpg`, `%s/dog/1.jpg`.",
                         "FOLDER", "FOLDER");
}

// ---- deciding ----

static int by_number(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int64_t n) {
    qsort(v, (size_t)n, sizeof *v, by_number);
    return v[n / 2];
}

// The usual size of the images; large ones get LARGE_SIZE^2 pixels in their own proportions.
static size choose_size(look *k) {
    double h = median(k->height, k->n_tried), w = median(k->width, k->n_tried);
    const double longest = h > w ? h : w;
    if (longest > OWN_SIZE) {
        double ratio = sqrt(h / w);
        ratio = ratio > 2 ? 2 : ratio < 0.5 ? 0.5 : ratio;
        if (ratio > 0.9 && ratio < 1.1) ratio = 1;
        h = 8 * nearbyint(LARGE_SIZE * ratio / 8), w = 8 * nearbyint(LARGE_SIZE / ratio / 8);
    }
    return (size){(int64_t)(h < 8 ? 8 : h), (int64_t)(w < 8 ? 8 : w)};
}

// ---- writing ----

static void put_source(const char *phase, const char *root, const look *k, size s, bool train, FILE *out) {
    fprintf(out, "  %s:\n    reader: image_folder\n    root: ", phase);
    mu_job_put_text(root, out);
    fprintf(out,
            "\n    height: %" PRId64 "                          # every image is brought to this size\n"
            "    width: %" PRId64 "\n    channels: %d\n    mean: auto\n    scale: 0.0157\n",
            s.height, s.width, k->colour ? 3 : 1);
    const int64_t least = s.height < s.width ? s.height : s.width;
    if (train)
        fprintf(out, "    shift: %" PRId64 "                            # in training only\n", least / 10);
    if (train && k->colour) fputs("    mirror: true\n", out);
}

// Stages until the shorter side has 4 to 7 pixels.
static void put_net(const look *k, size s, FILE *out) {
    int64_t filters = k->n_images < 1000 ? 16 : 32;
    fputs("\nnet:\n", out);
    for (int i = 1;; i++) {
        fprintf(out,
                "  - {name: conv%d, type: convolution, %sfilters: %" PRId64
                ", kernel: 3, pad: 1, bias_term: false, "
                "init: msra}\n  - {name: norm%d, type: batch_norm}\n  - {name: relu%d, type: relu}\n",
                i, i == 1 ? "src: data.image, " : "", filters, i, i);
        const int64_t least = s.height < s.width ? s.height : s.width;
        if (least < 8) break;
        fprintf(out, "  - {name: pool%d, type: pooling, kernel: 2}\n", i);
        s = (size){(s.height + 1) / 2, (s.width + 1) / 2};
        if (filters < 128) filters *= 2;
    }
    fprintf(out,
            "  - {name: mean, type: pooling, method: average, kernel: [%" PRId64 ", %" PRId64 "]}\n"
            "  - {name: drop, type: dropout, ratio: %s}\n"
            "  - {name: scores, type: inner_product, outputs: auto}\n"
            "  - {name: loss, type: softmax_loss, src: [scores, data.label]}\n",
            s.height, s.width, k->n_images < 5000 ? "0.3" : "0.1");
}

static void write_job(const mu_recipe_ask *a, look *k, const char *root, const char *test, FILE *out) {
    const size s = choose_size(k);
    const int64_t n = k->n_images, batch = n < 500 ? 16 : n < 2000 ? 32 : 64;
    const int64_t passes = 300000 / n, epochs = passes < 10 ? 10 : passes > 60 ? 60 : passes;
    fprintf(out,
            "# A convolutional net for %" PRId64 " images in %" PRId64 " classes, one folder each.\n#\n"
            "# command   muster train JOB\n#           muster predict RUN photo.jpg\nname: ",
            n, k->n_classes);
    mu_job_put_text(a->name, out);
    fputs("\nseed: 1\n\ndata:\n", out);
    put_source("train", root, k, s, true, out);
    fputs("  validation: {fraction: 0.1, seed: 1}  # split off the training data, of every class\n", out);
    if (test) put_source("test", test, k, s, false, out);
    put_net(k, s, out);
    fprintf(
        out,
        "\ntrain: {batch: %" PRId64 ", epochs: %" PRId64 "}\n"
        "updater: {type: adam, decay: 0.0001, rate: {type: cosine, base: 0.003}}\ntest: {every: 1 epoch}\n",
        batch, epochs);
}

// FOLDER/train and FOLDER/test, where there are both; else FOLDER itself. path: of what; file: as the job
// calls it.
static mu_status find_parts(const mu_recipe_ask *a, char path[MU_FS_PATH], char root[MU_FS_PATH],
                            char test[MU_FS_PATH], mu_err *err) {
    char other[MU_FS_PATH];
    MU_TRY(mu_fs_join(path, a->path, "train", err));
    MU_TRY(mu_fs_join(other, a->path, "test", err));
    const bool both = mu_fs_is_folder(path) && mu_fs_is_folder(other);
    test[0] = '\0';
    if (both) {
        MU_TRY(mu_fs_join(root, a->file, "train", err));
        MU_TRY(mu_fs_join(test, a->file, "test", err));
    } else {
        snprintf(path, MU_FS_PATH, "%s", a->path);
        snprintf(root, MU_FS_PATH, "%s", a->file);
    }
    if (a->test_file) snprintf(test, MU_FS_PATH, "%s", a->test_file);
    return MU_OK;
}

static mu_status make_images(const mu_recipe_ask *a, FILE *out, char *found, size_t found_size, mu_err *err) {
    if (a->label) return MU_FAIL(err, MU_EUSAGE, "images have no columns: `--label` is for tables");
    if (!mu_fs_is_folder(a->path))
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is no folder", a->path), err,
                             "Images stand in one folder for each class.");
    char path[MU_FS_PATH], root[MU_FS_PATH], test[MU_FS_PATH];
    MU_TRY(find_parts(a, path, root, test, err));
    look *k = mu_alloc_array(1, sizeof *k, "recipe/images");
    if (!k) return MU_FAIL_NOMEM(err, a->path);
    mu_status st = look_at(k, path, err);
    if (st == MU_OK) st = check_found(k, path, err);
    if (st == MU_OK) {
        write_job(a, k, root, test[0] ? test : NULL, out);
        snprintf(found, found_size,
                 "%" PRId64 " images in %" PRId64 " classes (%" PRId64 " to %" PRId64 " each), "
                 "%s, %.0fx%.0f%s",
                 k->n_images, k->n_classes, k->least, k->most, k->colour ? "colour" : "grey",
                 median(k->height, k->n_tried), median(k->width, k->n_tried),
                 k->n_bad ? "; some cannot be read" : "");
    }
    mu_image_decoder_fini(&k->decoder);
    mu_free(k);
    return st;
}

const mu_recipe_class mu_recipe_images = {
    .name = "images",
    .help = "convolutional net on your own folders of images, one a class",
    .write = make_images,
};
