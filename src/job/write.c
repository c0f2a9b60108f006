// SPDX-License-Identifier: Apache-2.0
// write.c - the tree back to YAML, and its hash.
//
// Texts are written plain only when every character is on a short list that means nothing to YAML;
// everything else goes in double quotes. A quoted text never becomes a number, bool or null, and no
// text that is one of these needs quotes, so what is read back is what was written.
#include "job/job.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

static bool is_plain(const char *s) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-() ";
    size_t n = strlen(s);
    bool signed_number =
        n > 1 && strchr("-+.", s[0]) && strchr("0123456789.", s[1]) && strncmp(s, "...", 3) != 0;
    if (!n || !(strchr(letters, s[0]) || s[0] == '_' || s[0] == '/' || signed_number)) return false;
    return strspn(s, inside) == n && s[n - 1] != ' ';
}

static void put_quoted(const char *s, FILE *out) {
    fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool next_line = c == 0xc2 && (unsigned char)s[1] < 0xa0;       // C1 controls and NEL
        bool separator = !strncmp(s, "\xe2\x80\xa8", 3) || !strncmp(s, "\xe2\x80\xa9", 3);
        bool bom = !strncmp(s, "\xef\xbb\xbf", 3);
        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) fprintf(out, "\\x%02x", c);
        else if (next_line) fprintf(out, "\\x%02x", (unsigned char)*++s);
        else if (separator) fprintf(out, "\\u20%02x", (unsigned char)s[2] - 0x80u), s += 2;
        else if (bom) fputs("\\ufeff", out), s += 2;
        else fputc(c, out);
    }
    fputc('"', out);
}

void mu_job_put_text(const char *text, FILE *out) { put_quoted(text, out); }

static void put_scalar(const char *text, bool quoted, FILE *out) {
    if (!quoted && is_plain(text)) fputs(text, out);
    else put_quoted(text, out);
}

static bool is_short_list(const mu_node *n) {
    if (n->kind != MU_LIST) return false;
    for (size_t i = 0; i < n->n; i++)
        if (n->item[i]->kind != MU_SCALAR) return false;
    return true;
}

static void put_value(const mu_node *n, FILE *out) {    // on one line
    if (n->kind == MU_SCALAR) {
        if (mu_node_is_null(n)) fputc('~', out);
        else put_scalar(n->text, n->quoted, out);
        return;
    }
    fputc(n->kind == MU_LIST ? '[' : '{', out);
    for (size_t i = 0; i < n->n; i++) {
        if (i) fputs(", ", out);
        put_value(n->item[i], out);
    }
    fputc(n->kind == MU_LIST ? ']' : '}', out);
}

static void indent(int depth, FILE *out) {
    for (int i = 0; i < depth; i++) fputs("  ", out);
}

// Writes a node whose first line begins at the current position; further lines are indented.
static void put_node(const mu_node *n, int depth, FILE *out) {
    if (n->kind == MU_SCALAR || !n->n || is_short_list(n)) {
        put_value(n, out);
        fputc('\n', out);
        return;
    }
    for (size_t i = 0; i < n->n; i++) {
        const mu_node *child = n->item[i];
        bool nested = child->kind != MU_SCALAR && child->n && !is_short_list(child);
        if (i) indent(depth, out);
        if (n->kind == MU_LIST) {
            fputs("- ", out);
        } else {
            put_scalar(child->key, false, out);
            fputs(nested ? ":\n" : ": ", out);
            if (nested) indent(depth + 1, out);
        }
        put_node(child, depth + 1, out);
    }
}

mu_status mu_job_write(const mu_job *job, FILE *out, mu_err *err) {
    if (!job->root) return MU_FAIL(err, MU_EJOB, "there is no job to write");
    put_node(job->root, 0, out);
    if (fflush(out) || ferror(out)) return MU_FAIL(err, MU_EIO, "cannot write the job: %s", strerror(errno));
    return MU_OK;
}

static uint64_t hash_text(uint64_t h, char kind, const char *text) {
    h = XXH3_64bits_withSeed(&kind, 1, h);
    return XXH3_64bits_withSeed(text, strlen(text) + 1, h);
}

static uint64_t hash_node(uint64_t h, const mu_node *n) {
    if (n->key) h = hash_text(h, 'k', n->key);
    if (n->kind == MU_SCALAR) return hash_text(h, mu_node_is_null(n) ? '0' : 's', n->text);
    h = hash_text(h, n->kind == MU_LIST ? '[' : '{', "");
    for (size_t i = 0; i < n->n; i++) h = hash_node(h, n->item[i]);
    return hash_text(h, ']', "");
}

uint64_t mu_node_hash(const mu_node *n) { return n ? hash_node(0, n) : 0; }

// Where the job file lies is not part of what it says.
uint64_t mu_job_hash(const mu_job *job) {
    uint64_t h = 0;
    for (size_t i = 0; job->root && i < job->root->n; i++)
        if (!job->root->item[i]->key || strcmp(job->root->item[i]->key, "folder"))
            h = hash_node(h, job->root->item[i]);
    return h;
}
